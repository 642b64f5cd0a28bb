"""A comparison as CSV, Markdown and a page; what a terminal shows is made of the same cells."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from p3iv.atomic import write_text
from p3iv.experiments.rows import DISTRIBUTION, PLANS, Row
from p3iv.metrics import Interval
from p3iv.report.markup import Markup, tag

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
    "is the mean over seeds, in brackets the 95 % interval resampled by video. Samples are each planner's own; one "
    "that has none repeats the plan that it follows. ms per plan: processor time of one plan to follow, pair by pair."
)
_STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:80em;padding:0 1em;color:#1b1b1b}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    "th,td{padding:.35em .8em .35em 0;text-align:right;border-top:1px solid #d8d8d3;white-space:nowrap}"
    "thead th{border-top:0;font-weight:600;white-space:normal;vertical-align:bottom}"
    "th:first-child,td:first-child{text-align:left}small{display:block;color:#63635f}div{overflow-x:auto}"
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
    write_text(out / "comparison.html", _page(rows, failures, labels))


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


def _page(rows: Sequence[Row], failures: Mapping[str, str], labels: Mapping[int, str]) -> str:
    parts = [tag("h1", "Planners compared"), tag("p", ABOUT)]
    for horizon, label in labels.items():
        head = tag("thead", tag("tr", *(tag("th", header, scope="col") for header in HEADERS)))
        body = [tag("tr", *map(_cell, cells_of(row))) for row in rows if row.horizon == horizon]
        parts += [tag("h2", f"T = {horizon}, {label}"), tag("div", tag("table", head, tag("tbody", *body)))]
    if failures:
        parts += [tag("h2", "Failed"), tag("ul", *(tag("li", f"{cell}: {why}") for cell, why in failures.items()))]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", "Planners compared"),
        tag("style", Markup(_STYLE)),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, tag('body', *parts), lang='en')}\n"


def _cell(figure: tuple[str, str]) -> Markup:
    value, range_ = figure
    return tag("td", value, tag("small", range_)) if range_ else tag("td", value)
