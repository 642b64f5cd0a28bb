"""Metrics that mean what they say, and in a room of their own those that do not."""

from p3iv.metrics.bootstrap import (
    Interval,
    Resamples,
    bootstrap_differences,
    bootstrap_macro_precision,
    bootstrap_means,
    draw_resamples,
)
from p3iv.metrics.distributions import (
    DistributionValues,
    Divergences,
    cosine_distances,
    distribution_values,
    exact_divergences,
)
from p3iv.metrics.plans import PlanScores, accuracies, ious, score_plans, successes
from p3iv.metrics.published import batch_ious, bitwise_ious, macro_precision, marginal_divergences
from p3iv.metrics.references import ReferencePlans, known_references, references_of

__all__ = [
    "DistributionValues",
    "Divergences",
    "Interval",
    "PlanScores",
    "ReferencePlans",
    "Resamples",
    "accuracies",
    "batch_ious",
    "bitwise_ious",
    "bootstrap_differences",
    "bootstrap_macro_precision",
    "bootstrap_means",
    "cosine_distances",
    "distribution_values",
    "draw_resamples",
    "exact_divergences",
    "ious",
    "known_references",
    "macro_precision",
    "marginal_divergences",
    "references_of",
    "score_plans",
    "successes",
]
