"""Scores of a prediction file under every definition in use, with intervals: `p3iv score`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict
from torch import Tensor

from p3iv.errors import PlanError
from p3iv.evaluation.predictions import Predictions
from p3iv.metrics.distributions import distribution_values
from p3iv.metrics.intervals import Clusters, Interval, mean_intervals
from p3iv.metrics.plans import plan_values
from p3iv.metrics.references import references_of
from p3iv.metrics.released import BATCH_SIZE, marginal_values, score_released
from p3iv.types import counted


class PredictionScores(BaseModel):
    """Scores by metric: shares from 0 to 1, nats, or numbers of plans."""

    model_config = ConfigDict(frozen=True)

    num_windows: int
    num_videos: int | None  # None where the videos are not known
    num_actions: int
    batch_size: int  # of batch_iou
    plans: dict[str, Interval]
    distribution: dict[str, Interval] | None  # None without samples
    released: dict[str, Interval]
    notes: tuple[str, ...]  # what a reader of the scores should know

    def to_dict(self) -> dict[str, Any]:
        """For JSON, which has no nan: None where a score or an end of an interval is not defined."""
        return self.model_dump(mode="json")


def score(
    predictions: Predictions,
    num_actions: int,
    *,
    batch_size: int = BATCH_SIZE,
) -> PredictionScores:
    """Score one set of predictions by every metric.

    Args:
        predictions: plans, references and, where there are some, samples.
        num_actions: A, the size of the vocabulary; ids are 0 to A - 1.
        batch_size: of `batch_iou`.

    Raises:
        PlanError: for an action outside the vocabulary.
    """
    _check_actions(predictions, num_actions)
    plans, references, samples = predictions.plans, predictions.references, predictions.samples
    clusters = Clusters.of(predictions.videos or range(len(plans)))
    scores = mean_intervals(plan_values(plans, references), clusters)
    distribution, released = None, score_released(plans, references, clusters, batch_size=batch_size)
    if samples is not None:
        right = references_of(references)
        distribution = mean_intervals(vars(distribution_values(samples, right, num_actions)), clusters)
        released |= mean_intervals(marginal_values(samples, right, num_actions), clusters)
    return PredictionScores(
        num_windows=len(plans),
        num_videos=len(set(predictions.videos)) if predictions.videos else None,
        num_actions=num_actions,
        batch_size=batch_size,
        plans=scores,
        distribution=distribution,
        released=released,
        notes=tuple(_notes(predictions, clusters, released)),
    )


def _check_actions(predictions: Predictions, num_actions: int) -> None:
    tables: Mapping[str, Tensor] = {"plan": predictions.plans, "reference": predictions.references}
    if predictions.samples is not None:
        tables = {**tables, "sample": predictions.samples.plans}
    for name, plans in tables.items():
        low, high = (int(end) for end in plans.aminmax())
        if low < 0 or high >= num_actions:
            wrong = low if low < 0 else high
            raise PlanError(f"A {name} has action {wrong}, but ids are 0 to {num_actions - 1}.")


def _notes(predictions: Predictions, clusters: Clusters, released: Mapping[str, Interval]) -> Iterator[str]:
    if predictions.videos is None:
        yield "no `video` is given: every window counts as a video of its own, and the intervals may be too narrow"
    yield from clusters.notes
    if len(clusters) > 1 and not released["batch_iou"].has_ends:
        yield "no interval for batch_iou: it needs at least two batches"
    num_single = 0 if predictions.samples is None else int((predictions.samples.totals < 2).sum())
    if num_single:
        yield f"cosine_distance leaves out {counted(num_single, 'window')} with one sample"
