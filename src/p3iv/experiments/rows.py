"""The runs of one planner as one row: means over seeds, with intervals resampled by video."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from p3iv.errors import DatasetError
from p3iv.evaluation.predictions import read_actions, read_predictions
from p3iv.metrics.bootstrap import Interval, bootstrap_means, draw_resamples
from p3iv.metrics.distributions import distribution_values
from p3iv.metrics.plans import accuracies, ious, successes
from p3iv.metrics.references import references_of

PLANS = ("success_rate", "mean_accuracy", "mean_iou")
DISTRIBUTION = ("kl", "nll", "mode_precision", "mode_recall", "cosine_distance")


@dataclass(frozen=True)
class Row:
    """One planner at one horizon."""

    horizon: int
    planner: str
    seeds: tuple[int, ...]
    scores: dict[str, Interval]  # PLANS and DISTRIBUTION: a window's value is its mean over seeds
    spread: float  # standard deviation of the success rate over seeds; nan for one
    parameters: int
    training_s: float  # CPU seconds, mean over seeds
    milliseconds_per_plan: float  # median over seeds


def summarise(horizon: int, planner: str, seeds: Sequence[int], runs: Sequence[Path]) -> Row:
    """Read what the runs of one planner left."""
    values = [_read_values(run, (run / "predictions.jsonl").stat().st_mtime_ns) for run in runs]
    videos = values[0][0]
    if any(other != videos for other, _ in values):
        raise DatasetError(f"The runs of {planner} at T={horizon} were evaluated on different windows.")
    columns = {name: torch.stack([table[name] for _, table in values]).mean(dim=0) for name in values[0][1]}
    about = [json.loads((run / "comparison.json").read_text(encoding="utf-8")) for run in runs]
    rates = [float(table["success_rate"].mean()) for _, table in values]
    return Row(
        horizon=horizon,
        planner=planner,
        seeds=tuple(sorted(seeds)),
        scores=bootstrap_means(columns, draw_resamples(videos)),
        spread=statistics.stdev(rates) if len(rates) > 1 else float("nan"),
        parameters=about[0]["parameters"],
        training_s=statistics.mean(one["training_s"] for one in about),
        milliseconds_per_plan=statistics.median(one["milliseconds_per_plan"] for one in about),
    )


@lru_cache(maxsize=4096)
def _read_values(run: Path, written_at: int) -> tuple[tuple[str, ...], dict[str, Tensor]]:  # noqa: ARG001 - a cache key
    """The videos of a run's windows, and every metric of every window: (N,) each."""
    actions = read_actions(str(run / "actions.json"))
    found = read_predictions(run / "predictions.jsonl", actions)
    if found.videos is None or found.samples is None:
        raise DatasetError(f"{run}/predictions.jsonl lacks videos or samples; delete the folder and compare again.")
    values = {
        "success_rate": successes(found.predictions, found.references),
        "mean_accuracy": accuracies(found.predictions, found.references),
        "mean_iou": ious(found.predictions, found.references),
    }
    sampled = vars(distribution_values(found.samples, references_of(found.references), actions.number))
    values |= {name: sampled[name] for name in DISTRIBUTION}
    return found.videos, {name: value.double() for name, value in values.items()}
