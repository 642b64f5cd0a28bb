"""A comparison as CSV, Markdown and a page; what a terminal shows is made of the same cells."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from p3iv.experiments.comparison_page import comparison_page
from p3iv.experiments.rows import DISTRIBUTION, PLANS, Row
from p3iv.files import write_text
from p3iv.metrics.bootstrap import Interval

HEADERS = (
    "planner",
    "success rate",
    "mean accuracy",
    "mean IoU",
    "KL",
    "NLL",
    "mode precision",
    "mode recall",
    "cosine distance",
    "parameters",
    "training, CPU s",
    "ms per plan",
)
IN_NATS = ("kl", "nll")
ABOUT = (
    "Success rate, accuracy, IoU, mode precision and recall and cosine distance in per cent, KL and NLL in nats; each "
    "is the mean over seeds, with the 95 % interval resampled by video. Samples are each planner's own; one "
    "that has none repeats the plan that it follows. ms per plan: processor time of one plan without samples, pair by "
    "pair; P3IV's is timed at noise 0, while the plan that is scored is decoded from its K samples."
)


def cells_of(row: Row) -> list[tuple[str, str]]:
    """A row as texts, each with its interval where it has one, in the order of HEADERS."""
    figures = [(row.planner, f"{len(row.seeds)} seed{'s' * (len(row.seeds) > 1)}")]
    for name in (*PLANS, *DISTRIBUTION):
        figures.append(_figure(row.scores[name], in_nats=name in IN_NATS))
    figures += [(f"{row.parameters:,}", ""), (f"{row.training_s:.0f}", ""), (f"{row.milliseconds_per_plan:.1f}", "")]
    return figures


def write_tables(out: Path, rows: Sequence[Row], failures: Mapping[str, str], labels: Mapping[int, str]) -> None:
    """Write comparison.csv, comparison.md and comparison.html into OUT."""
    write_text(out / "comparison.csv", _csv(rows))
    write_text(out / "comparison.md", _markdown(rows, failures, labels))
    page = comparison_page(rows, failures, labels, about=ABOUT, headers=HEADERS, texts=cells_of)
    write_text(out / "comparison.html", page)


def _figure(score: Interval, *, in_nats: bool) -> tuple[str, str]:
    scale, digits = (1, 2) if in_nats else (100, 1)
    if math.isnan(score.value):
        return "-", ""
    value = f"{scale * score.value:.{digits}f}"
    if math.isnan(score.low):
        return value, ""
    return value, f"{scale * score.low:.{digits}f} to {scale * score.high:.{digits}f}"


def _csv(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [f"{name}{end}" for name in (*PLANS, *DISTRIBUTION) for end in ("", "_low", "_high")]
    spread = "success_rate_sd_over_seeds"
    writer.writerow(
        ["horizon", "planner", "seeds", *names, spread, "parameters", "training_cpu_s", "milliseconds_per_plan"]
    )
    for row in rows:
        ends = [getattr(row.scores[name], end) for name in (*PLANS, *DISTRIBUTION) for end in ("value", "low", "high")]
        figures = [*ends, row.spread]
        writer.writerow(
            [
                row.horizon,
                row.planner,
                " ".join(map(str, row.seeds)),
                *("" if math.isnan(figure) else f"{figure:.6f}" for figure in figures),
                row.parameters,
                f"{row.training_s:.1f}",
                f"{row.milliseconds_per_plan:.3f}",
            ]
        )
    return text.getvalue()


def _markdown(rows: Sequence[Row], failures: Mapping[str, str], labels: Mapping[int, str]) -> str:
    lines = ["# Planners compared", "", ABOUT, ""]
    for horizon, label in labels.items():
        lines += [f"## T = {horizon}, {label}", "", f"| {' | '.join(HEADERS)} |"]
        lines.append(f"|{'|'.join([' --- ', *[' ---: '] * (len(HEADERS) - 1)])}|")
        for row in rows:
            if row.horizon == horizon:
                texts = [f"{value} [{range_}]" if range_ else value for value, range_ in cells_of(row)]
                lines.append(f"| {' | '.join([row.planner, *texts[1:]])} |")
        lines.append("")
    lines += [f"- failed: {cell}: {' '.join(why.split())}" for cell, why in failures.items()]
    return "\n".join(lines).rstrip() + "\n"
