"""The scores of a cross-validation (cross_validation.json): the test windows of all folds as one set."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field

from p3iv.catalogue import ALL_VIDEOS, BASELINES, metrics_of
from p3iv.errors import PlanError
from p3iv.evaluation.predictions import NamedLine, read_lines
from p3iv.evaluation.result import Evaluation, Scores, TaskScores
from p3iv.files import write_text
from p3iv.metrics.intervals import Clusters, Interval, mean_intervals
from p3iv.planners.header import BEST, read_header
from p3iv.types import counted
from p3iv.validation import read_model

CROSS_VALIDATION_FILE: Final = "cross_validation.json"
WHAT_INTERVALS_COVER: Final = (
    "In brackets: where the score of a planner that is fitted to all these videos probably is on other videos of the "
    "same kind. The intervals (95 %) are for other videos, not for other procedures or other seeds of the training."
)
FOLDS_FOLDER: Final = "folds"  # of a run: its sub-folders 1, 2, ... are runs


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class FoldScores(_Part):
    """One fold: a planner that was trained without its test videos."""

    number: int = Field(ge=1)  # its run is folds/NUMBER
    num_windows: int = Field(ge=1)  # of its test videos
    num_videos: int
    best_epoch: int
    scheduled_epochs: int
    plans: dict[str, float]  # means of its test windows by metric


class VideoScores(_Part):
    """The windows of one video, by the planner that was trained without it."""

    video: str
    task: str
    fold: int
    num_windows: int = Field(ge=1)
    success_rate: float


class CrossValidation(_Part):
    """Scores by metric, shares from 0 to 1; the intervals are for a planner that is trained on all these videos."""

    format: Literal[1] = 1
    data: str  # label of the dataset
    feature_fingerprint: str = ""
    planner: str
    preset: str
    seed: int
    horizon: int | None = Field(ge=1)  # None where the number of steps is unknown
    num_folds: int = Field(ge=2)
    num_windows: int = Field(ge=1)
    num_videos: int = Field(ge=2)
    plans: Scores  # of the recommended plans of all windows
    baselines: dict[str, Scores]  # means of all windows, without intervals
    tasks: tuple[TaskScores, ...]
    folds: tuple[FoldScores, ...]
    videos: tuple[VideoScores, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON, which has no nan."""
        return self.model_dump(mode="json")


@dataclass(frozen=True)
class TestedFold:
    """A fold that was trained and evaluated."""

    number: int
    evaluation: Evaluation
    predictions: Path
    best_epoch: int
    scheduled_epochs: int


def pool_folds(folds: Sequence[TestedFold], *, feature_fingerprint: str, notes: Sequence[str]) -> CrossValidation:
    """Score the test windows of all folds as one set.

    The values of a window are those in the prediction file of its fold, so that nothing is computed a second time.
    """
    lines = [(fold.number, line) for fold in folds for _, line in read_lines(fold.predictions, NamedLine)]
    names = [metric.name for metric in (*metrics_of("plans"), *metrics_of("lengths"))]
    names = [name for name in names if all(line.scores.get(name) is not None for _, line in lines)]
    values = {name: torch.tensor([line.scores[name] for _, line in lines], dtype=torch.float64) for name in names}
    videos, tasks = [str(line.video) for _, line in lines], [line.task for _, line in lines]
    first = folds[0].evaluation
    num_videos = len(set(videos))
    if num_videos < 2:
        raise PlanError("A cross-validation needs windows of at least two videos.")
    return CrossValidation(
        data=first.data,
        feature_fingerprint=feature_fingerprint,
        planner=first.planner,
        preset=first.preset,
        seed=first.seed,
        horizon=first.horizon,
        num_folds=len(folds),
        num_windows=len(lines),
        num_videos=num_videos,
        plans=mean_intervals(values, Clusters.of(videos)),
        baselines={name: _pooled_baseline(folds, name, names) for name in BASELINES if name in first.baselines},
        tasks=tuple(_task_scores(values, tasks, videos)),
        folds=tuple(_fold_scores(fold) for fold in folds),
        videos=tuple(_video_scores(lines)),
        notes=tuple(notes),
    )


def _pooled_baseline(folds: Sequence[TestedFold], baseline: str, names: Sequence[str]) -> Scores:
    total = sum(fold.evaluation.num_windows for fold in folds)

    def mean(name: str) -> float:
        return sum(f.evaluation.num_windows * f.evaluation.baselines[baseline][name].value for f in folds) / total

    known = folds[0].evaluation.baselines[baseline]
    return {name: Interval(mean(name)) for name in names if name in known}


def _task_scores(
    values: Mapping[str, torch.Tensor], tasks: Sequence[str], videos: Sequence[str]
) -> Iterator[TaskScores]:
    for task in sorted(set(tasks)):
        rows = [row for row, other in enumerate(tasks) if other == task]
        own = {name: column[rows] for name, column in values.items()}
        scores = mean_intervals(own, Clusters.of([videos[row] for row in rows]))
        yield TaskScores(task=task, num_windows=len(rows), scores=scores)


def _fold_scores(fold: TestedFold) -> FoldScores:
    found = fold.evaluation
    return FoldScores(
        number=fold.number,
        num_windows=found.num_windows,
        num_videos=found.num_videos,
        best_epoch=fold.best_epoch,
        scheduled_epochs=fold.scheduled_epochs,
        plans={name: score.value for name, score in found.plan_scores.items()},
    )


def _video_scores(lines: Sequence[tuple[int, NamedLine]]) -> Iterator[VideoScores]:
    by_video: dict[str, list[tuple[int, NamedLine]]] = {}
    for fold, line in lines:
        by_video.setdefault(str(line.video), []).append((fold, line))
    for video, own in sorted(by_video.items()):
        fold, first = own[0]
        right = sum(line.is_right for _, line in own) / len(own)
        yield VideoScores(video=video, task=first.task, fold=fold, num_windows=len(own), success_rate=right)


def write_cross_validation(path: Path, found: CrossValidation) -> None:
    """Write cross_validation.json."""
    write_text(path, json.dumps(found.to_dict(), ensure_ascii=False, indent=2) + "\n")


def read_cross_validation(path: Path) -> CrossValidation:
    """Read cross_validation.json.

    Raises:
        PlanError: the file is damaged, or was written by another version.
    """
    advice = "Make it again: the command that trained this run, with --resume."
    return read_model(path, CrossValidation, error=PlanError, advice=advice)


def find_cross_validation(run: Path) -> CrossValidation | None:
    """The cross-validation of a run, if it has one."""
    path = run / CROSS_VALIDATION_FILE
    return read_cross_validation(path) if path.is_file() else None


def find_only_scores(run: Path) -> CrossValidation | None:
    """The cross-validation of a run whose planner was fitted to all videos, or that has no planner; else None."""
    is_tested = (run / BEST).is_file() and read_header(run / BEST).config.data.split != ALL_VIDEOS
    return None if is_tested else find_cross_validation(run)


def describe_amounts(found: CrossValidation) -> str:
    """One line: how many windows of how many videos, in how many folds."""
    windows, videos = counted(found.num_windows, "window"), counted(found.num_videos, "video")
    unknown = "; the number of steps is unknown" if found.horizon is None else ""
    return (
        f"{windows} of {videos}, each planned by the one of {found.num_folds} planners that has not seen its "
        f"video{unknown}"
    )
