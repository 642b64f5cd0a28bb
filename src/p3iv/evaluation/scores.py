"""The one place that computes scores to report: predictions under every definition in use, with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from torch import Tensor

from p3iv.errors import PlanError
from p3iv.evaluation.predictions import Predictions
from p3iv.metrics.bootstrap import (
    NUM_RESAMPLES,
    Interval,
    Resamples,
    bootstrap_macro_precision,
    bootstrap_means,
    draw_resamples,
)
from p3iv.metrics.distributions import distribution_values
from p3iv.metrics.plans import accuracies, ious, successes
from p3iv.metrics.published import BATCH_SIZE, batch_ious, bitwise_ious, marginal_divergences
from p3iv.metrics.references import ReferencePlans, references_of
from p3iv.plans.distribution import PlanCounts
from p3iv.types import counted


@dataclass(frozen=True)
class Scores:
    """Scores by name, shares from 0 to 1 unless they are in nats or count plans."""

    num_windows: int
    num_videos: int | None  # None where the videos are not known
    num_actions: int
    batch_size: int  # of batch_iou
    plans: dict[str, Interval]
    distribution: dict[str, Interval] | None  # None without samples
    published: dict[str, Interval]
    notes: tuple[str, ...]  # what a reader of the figures should know

    def to_dict(self) -> dict[str, object]:
        """For JSON, which has no nan: None where a score or an end of an interval is not defined."""
        content: dict[str, object] = asdict(self)
        for group in ("plans", "distribution", "published"):
            table = getattr(self, group)
            content[group] = table and {name: interval.to_dict() for name, interval in table.items()}
        return content


def score(
    predictions: Predictions,
    num_actions: int,
    *,
    batch_size: int = BATCH_SIZE,
    num_resamples: int = NUM_RESAMPLES,
) -> Scores:
    """Everything that can be said about one set of predictions.

    Args:
        predictions: plans, references and perhaps samples.
        num_actions: A, the size of the vocabulary; ids are 0 to A - 1.
        batch_size: of `batch_iou`.
        num_resamples: of the bootstrap over videos, or over windows where videos are not known.

    Raises:
        PlanError: for an action outside the vocabulary.
    """
    _check_actions(predictions, num_actions)
    plans, references, samples = predictions.predictions, predictions.references, predictions.samples
    resamples = draw_resamples(predictions.videos or range(len(plans)), num_resamples)
    decoded = score_decoded(plans, references, resamples)
    distribution, published = None, score_published(plans, references, resamples, batch_size=batch_size)
    if samples is not None:
        right = references_of(references)
        distribution = score_distribution(samples, right, num_actions, resamples)
        published |= score_marginals(samples, right, num_actions, resamples)
    return Scores(
        num_windows=len(plans),
        num_videos=len(set(predictions.videos)) if predictions.videos else None,
        num_actions=num_actions,
        batch_size=batch_size,
        plans=decoded,
        distribution=distribution,
        published=published,
        notes=tuple(_notes(predictions, decoded | published)),
    )


def score_decoded(plans: Tensor, references: Tensor, resamples: Resamples) -> dict[str, Interval]:
    """Success rate, mean accuracy and mean IoU of one plan per window (N, T)."""
    return bootstrap_means(plan_values(plans, references), resamples)


def plan_values(plans: Tensor, references: Tensor) -> dict[str, Tensor]:
    """The three scores of every window, (N,) each."""
    return {
        "success_rate": successes(plans, references),
        "mean_accuracy": accuracies(plans, references),
        "mean_iou": ious(plans, references),
    }


def score_published(
    plans: Tensor, references: Tensor, resamples: Resamples, *, batch_size: int = BATCH_SIZE
) -> dict[str, Interval]:
    """The same plans as released code scores them.

    Batches are resampled as they stand. To form them anew from resampled videos would put copies of a window beside
    each other, which makes the sets of a batch smaller: in a trial with videos ordered by task, no such interval held
    the score of other videos of the same kind (0 of 40), where resampled batches did in 36.
    """
    batches = draw_resamples([number // batch_size for number in range(len(plans))], len(resamples.draws))
    return {
        **bootstrap_means({"bitwise_iou": bitwise_ious(plans, references)}, resamples),
        "macro_precision": bootstrap_macro_precision(plans, references, resamples),
        **bootstrap_means({"batch_iou": batch_ious(plans, references, batch_size)}, batches),
    }


def score_distribution(
    samples: PlanCounts, references: ReferencePlans, num_actions: int, resamples: Resamples
) -> dict[str, Interval]:
    """Samples of every window against its right plans, be they those of a test set or known ones."""
    return bootstrap_means(vars(distribution_values(samples, references, num_actions)), resamples)


def score_marginals(
    samples: PlanCounts, references: ReferencePlans, num_actions: int, resamples: Resamples
) -> dict[str, Interval]:
    """PDPP's KL and NLL of single positions."""
    divergences = marginal_divergences(samples, references, num_actions)
    return bootstrap_means({"marginal_kl": divergences.kl, "marginal_nll": divergences.nll}, resamples)


def _check_actions(predictions: Predictions, num_actions: int) -> None:
    tables: Mapping[str, Tensor] = {"prediction": predictions.predictions, "reference": predictions.references}
    if predictions.samples is not None:
        tables = {**tables, "sample": predictions.samples.plans}
    for name, plans in tables.items():
        low, high = (int(end) for end in plans.aminmax())
        if low < 0 or high >= num_actions:
            wrong = low if low < 0 else high
            raise PlanError(f"A {name} names action {wrong}, but ids are 0 to {num_actions - 1}.")


def _notes(predictions: Predictions, intervals: Mapping[str, Interval]) -> Iterator[str]:
    if predictions.videos is None:
        yield "no `video` is given: every window is resampled on its own, and the intervals may be too narrow"
    if math.isnan(intervals["success_rate"].low):
        yield "no intervals: they need at least two videos"
    elif math.isnan(intervals["batch_iou"].low):
        yield "no interval for batch_iou: it needs at least two batches"
    num_single = 0 if predictions.samples is None else int((predictions.samples.totals < 2).sum())
    if num_single:
        yield f"cosine_distance leaves out {counted(num_single, 'window')} with one sample"
