"""What stands in a cell, as text: our figure, its interval, the published one."""

from __future__ import annotations

import math

from p3iv.experiments.built import Cell
from p3iv.experiments.measured import METRICS, Metric, show

NOTE = (
    "Ours with its 95 % interval, resampled by video; several seeds are averaged window by window. Published figures "
    "stand as printed. † The paper's mAcc is a macro precision and its mIoU a bitwise one of action ids; what its "
    "released code would print for our plans follows the dagger. Success rates mean the same on both sides."
)


def metric_in(cell: Cell) -> Metric | None:
    """The metric of a cell; None for text."""
    return METRICS[cell.ask.metric] if cell.ask and cell.ask.metric else None


def value_in(cell: Cell) -> str:
    """Our figure, or one word for why there is none."""
    metric = metric_in(cell)
    if metric is None:
        return ""
    if cell.found is None:
        return ""
    if cell.found.is_empty:
        return next((word for word in ("failed", "impossible") if word in cell.found.why), "not run")
    return show(metric, cell.found.value)


def range_in(cell: Cell) -> str:
    """The interval of our figure, or its deviation over sets of latents; empty where it has none."""
    metric, found = metric_in(cell), cell.found
    if metric is None or found is None:
        return ""
    if not math.isnan(found.deviation):
        return f"± {show(metric, found.deviation)}"
    if math.isnan(found.low):
        return ""
    return f"{show(metric, found.low)} to {show(metric, found.high)}"


def seeds_in(cell: Cell) -> str:
    """How many seeds a figure is made of, where some of them are missing; else empty."""
    found = cell.found
    return f"{len(found.runs)} of {found.num_asked} seeds" if found and found.is_partial else ""


def released_in(cell: Cell) -> str:
    """What released code would print; empty where it means what we mean."""
    metric, found = metric_in(cell), cell.found
    return "" if metric is None or found is None or math.isnan(found.as_released) else show(metric, found.as_released)


def published_in(cell: Cell) -> str:
    """The paper's figure as printed; empty where it has no such cell."""
    return cell.published or ""


def arrow(metric: Metric | None) -> str:
    """Which way is better."""
    if metric is None or metric.higher_is_better is None:
        return ""
    return " ↑" if metric.higher_is_better else " ↓"
