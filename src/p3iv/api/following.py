"""Score from Python how a planner follows videos."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from p3iv.api.threads import torch_unchanged
from p3iv.errors import warn_caller
from p3iv.types import OnProgress, Side

if TYPE_CHECKING:
    from p3iv.evaluation.following import FollowEvaluation
    from p3iv.moments import OnNote


def evaluate_following(
    run: str | Path,
    *,
    data: str | Path | None = None,
    side: Side = "test",
    device: str = "auto",
    threads: int | None = None,
    progress: OnProgress | None = None,
    on_note: OnNote = warn_caller,
) -> FollowEvaluation:
    """Score how a planner follows whole videos, and write follow.json.

    What it says about the step under way, the steps done and the steps left is scored as a function of the share of the
    video that was seen, with and without the name of the procedure, and compared with what it says about every moment
    alone.

    Args:
        run: a run folder of `train`.
        data: the dataset folder, if it has moved since training.
        side: which part of the split to score: train, val or test.
        device: auto, cpu, cuda or mps.
        threads: CPU threads of torch during the evaluation; None leaves them as they are.
        progress: is called after every video.
        on_note: is called with what the user should know about the data.

    Raises:
        ConfigError: the planner cannot follow videos.
        DatasetError: the dataset has moved, or no video of the side has features and times of its steps.

    Example:
        >>> found = p3iv.evaluate_following("runs/any", side="val")
        >>> 0 <= found.mixes[0].scores["next_accuracy"].value <= 1
        True
    """
    from p3iv.evaluation.following import evaluate_following as score
    from p3iv.planners.checkpoint import load_planner
    from p3iv.planners.header import BEST
    from p3iv.planners.layers import choose_device
    from p3iv.planners.matching import check_features
    from p3iv.training.run_folder import dataset_of

    with torch_unchanged(threads):
        trained = load_planner(Path(run) / BEST, device=str(choose_device(device)))
        dataset = dataset_of(Path(run), None if data is None else Path(data))
        for note in check_features(trained.header, dataset):
            on_note(note)
        found = score(trained, dataset, side, Path(run), progress or (lambda _: None))
    for note in found.notes:
        on_note(note)
    return found
