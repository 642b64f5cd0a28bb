"""Scores of a prediction file under every definition in use, with intervals: `p3iv score`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from p3iv.catalogue import METRICS, metrics_of
from p3iv.data.padding import PAD, plan_lengths
from p3iv.errors import PlanError
from p3iv.evaluation.predictions import Predictions
from p3iv.metrics.distributions import distribution_values
from p3iv.metrics.intervals import Clusters, Interval, mean_intervals
from p3iv.metrics.plans import length_values, plan_values
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
    released: dict[str, Interval]  # empty where plans have several lengths
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
    """Score one set of predictions by every metric; plans of several lengths, by every metric that is defined for them.

    Args:
        predictions: plans, references and, where there are some, samples.
        num_actions: A, the size of the vocabulary; ids are 0 to A - 1.
        batch_size: of `batch_iou`.

    Raises:
        PlanError: for an action outside the vocabulary.
    """
    _check_actions(predictions, num_actions)
    clusters = Clusters.of(predictions.videos or range(len(predictions.plans)))
    values = plan_values if predictions.has_one_length else length_values
    scores = mean_intervals(values(predictions.plans, predictions.references), clusters)
    distribution = _score_samples(predictions, num_actions, clusters)
    released = _score_as_released(predictions, num_actions, clusters, batch_size)
    return PredictionScores(
        num_windows=len(predictions.plans),
        num_videos=len(set(predictions.videos)) if predictions.videos else None,
        num_actions=num_actions,
        batch_size=batch_size,
        plans=scores,
        distribution=distribution,
        released=released,
        notes=tuple(_notes(predictions, clusters, released)),
    )


def _score_samples(predictions: Predictions, num_actions: int, clusters: Clusters) -> dict[str, Interval] | None:
    if predictions.samples is None:
        return None
    found = vars(distribution_values(predictions.samples, references_of(predictions.references), num_actions))
    defined = {name: each for name, each in found.items() if predictions.has_one_length or METRICS[name].any_length}
    return mean_intervals(defined, clusters)


def _score_as_released(
    predictions: Predictions, num_actions: int, clusters: Clusters, batch_size: int
) -> dict[str, Interval]:
    if not predictions.has_one_length:
        return {}
    released = score_released(predictions.plans, predictions.references, clusters, batch_size=batch_size)
    if predictions.samples is not None:
        right = references_of(predictions.references)
        released |= mean_intervals(marginal_values(predictions.samples, right, num_actions), clusters)
    return released


def _check_actions(predictions: Predictions, num_actions: int) -> None:
    for name, plans in predictions.tables.items():
        low, high = (int(end) for end in plans.aminmax())
        is_padded = not ((plans[:, :-1] == PAD) & (plans[:, 1:] != PAD)).any()  # no action after the end of a plan
        is_low = low < PAD or not is_padded
        if is_low or high >= num_actions:
            raise PlanError(f"A {name} has action {low if is_low else high}, but ids are 0 to {num_actions - 1}.")
        if (plans[:, 0] == PAD).any():
            raise PlanError(f"A {name} is empty; expected at least one action.")


def _notes(predictions: Predictions, clusters: Clusters, released: Mapping[str, Interval]) -> Iterator[str]:
    if predictions.videos is None:
        yield "no `video` is given: every window counts as a video of its own, and the intervals may be too narrow"
    yield from clusters.notes
    if not predictions.has_one_length:
        yield _left_out(predictions)
        return
    if len(clusters) > 1 and not released["batch_iou"].has_ends:
        yield "no interval for batch_iou: it needs at least two batches"
    num_single = 0 if predictions.samples is None else int((predictions.samples.totals < 2).sum())
    if num_single:
        yield f"cosine_distance leaves out {counted(num_single, 'window')} with one sample"


def _left_out(predictions: Predictions) -> str:
    """Says which metrics are not defined for these plans."""
    has_samples = predictions.samples is not None
    shown = (*metrics_of("plans"), *(metrics_of("samples") if has_samples else ()), *metrics_of("released"))
    names = [metric.name for metric in shown if not metric.any_length]
    lengths = [int(end) for table in predictions.tables.values() for end in plan_lengths(table).aminmax()]
    what = "plans, references and samples" if has_samples else "plans and references"
    return (
        f"{what} have {min(lengths)} to {max(lengths)} actions; left out, because they are defined for one length: "
        f"{', '.join(names)}"
    )
