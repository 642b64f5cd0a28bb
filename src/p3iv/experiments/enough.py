"""`p3iv data enough`: cross-validated scores at a quarter, a half and all of the videos.

The folds are those of a cross-validation, so that every video is planned at every point by a planner that has not seen
it; only the number of videos that the planner has learned from differs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from p3iv.data.windows import cut_windows
from p3iv.evaluation.cross_validated import pool_folds
from p3iv.evaluation.learning_curve import (
    DRAWING_FILE,
    ENOUGH_FILE,
    LearningCurve,
    check_amounts,
    make_curve,
    write_curve,
)
from p3iv.experiments.cross_validate import Parts, make_folds, num_parts
from p3iv.files import exclusive, remove_leftovers, write_text
from p3iv.report.few_videos import learning_curve_file
from p3iv.training.loop import TrainRequest

SHARES = {"quarter": 2, "half": 1, "all": 0}  # folder -> how often the training videos are halved


@dataclass(frozen=True)
class EnoughRequest:
    """Which planner is trained on which videos; `training.run` is the folder of everything that is written."""

    training: TrainRequest
    num_folds: int


@dataclass(frozen=True)
class EnoughResult:
    """What was found; no curve where there is too little to try."""

    curve: LearningCurve | None
    too_few: str | None
    cpu_s: float


def measure_enough(request: EnoughRequest) -> EnoughResult:
    """Make the curve, as far as it is not made, and draw it."""
    training, folder = request.training, request.training.run
    videos = training.dataset.videos
    windows = cut_windows(videos, training.dataset.vocabulary, training.config.data)
    if why := check_amounts(len({window.video for window in windows}), len(windows)):
        return EnoughResult(None, why, 0.0)
    with exclusive(folder, doing=f"is measuring in {folder}"):
        remove_leftovers(folder)
        for name in (ENOUGH_FILE, DRAWING_FILE):
            remove_leftovers(folder / name)
        parts = Parts(training.on_progress, len(SHARES) * num_parts(training.config, request.num_folds))
        found, total_s = [], 0.0
        for name, num_halvings in SHARES.items():
            own = replace(training, run=folder / name)
            folds, cpu_s = make_folds(own, folder / name, request.num_folds, parts, num_halvings=num_halvings)
            total_s += cpu_s
            scores = pool_folds([f.tested for f in folds], feature_fingerprint=folds[0].feature_fingerprint, notes=())
            share = (1 - 1 / request.num_folds) / 2**num_halvings
            found.append((share * len(videos), scores))
        curve = make_curve(found)
        write_text(folder / DRAWING_FILE, learning_curve_file(curve))
        write_curve(folder / ENOUGH_FILE, curve)
    return EnoughResult(curve, curve.too_few, total_s)
