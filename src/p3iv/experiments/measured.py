"""The metrics that a table may ask for: how each is printed, and where its values come from."""

from __future__ import annotations

from dataclasses import dataclass

from p3iv.errors import ConfigError


@dataclass(frozen=True)
class Metric:
    """One metric as tables show it."""

    source: str  # plans (of a decoder), samples, run (timed), or data (counted in the windows, no planner)
    unit: str
    scale: float = 1.0
    digits: int = 2
    higher_is_better: bool | None = True  # None where neither is better
    as_released: str | None = None  # what the paper's released code computes under the name of this one


def _percent(source: str, as_released: str | None = None) -> Metric:
    return Metric(source, "%", scale=100.0, digits=1, as_released=as_released)


METRICS = {
    "success_rate": _percent("plans"),
    "mean_accuracy": _percent("plans", as_released="macro_precision"),
    "mean_iou": _percent("plans", as_released="bitwise_iou"),
    "kl": Metric("samples", "nats", higher_is_better=False),
    "nll": Metric("samples", "nats", higher_is_better=False),
    "exact_kl": Metric("samples", "nats", higher_is_better=False),  # of the chain that decodes
    "exact_nll": Metric("samples", "nats", higher_is_better=False),
    "mode_precision": _percent("samples"),
    "mode_recall": _percent("samples"),
    "cosine_distance": Metric("samples", "share", digits=3),
    "milliseconds_per_plan": Metric("run", "ms", higher_is_better=False),
    "plans_per_pair": Metric("data", "plans", higher_is_better=None),
    "plans_per_window": Metric("data", "plans", higher_is_better=None),
}


def metric_of(name: str) -> Metric:
    """The metric of a name.

    Raises:
        ConfigError: naming those that there are.
    """
    if name not in METRICS:
        raise ConfigError(f"metric={name!r}, but it must be one of {', '.join(METRICS)}.")
    return METRICS[name]


def show(metric: Metric, value: float) -> str:
    """A value as a table prints it, without its unit."""
    return f"{metric.scale * value:.{metric.digits}f}"
