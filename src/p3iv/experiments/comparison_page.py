"""A comparison as a page that travels as one file: a figure, a dot on a line and an interval per planner and metric."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from p3iv.experiments.lettering import arrow
from p3iv.experiments.measured import METRICS
from p3iv.experiments.rows import DISTRIBUTION, PLANS, Row
from p3iv.metrics.bootstrap import Interval
from p3iv.report.cells import strip
from p3iv.report.inputs import Leaf
from p3iv.report.markup import Markup, join, tag
from p3iv.report.page import document, notices

TITLE = "Planners compared"
HOW_TO_READ = (
    "Each line begins at 0 and ends at the largest figure of its column; the bar is the interval. Bold: the best of a "
    "column, which need not be better beyond chance; where two bars overlap widely, these windows cannot tell."
)
NO_BREAK = "\N{NO-BREAK SPACE}"
_STRIP = 74.0
_SCORES = (*PLANS, *DISTRIBUTION)
_NEITHER = ("cosine_distance",)  # neither more nor less is better: random plans are the most diverse
_STYLE = """
main { max-width: 1240px; }
.compared { margin-bottom: 8px; }
.compared th, .compared td { padding: 5px 0 5px 16px; vertical-align: top; }
.compared th:first-child { padding-left: 0; white-space: nowrap; }
.compared th small { display: block; color: var(--faint); font-size: 12.5px; }
.compared thead th { vertical-align: bottom; }
.compared thead tr { border-bottom: 1px solid var(--ink); }
.compared tbody tr + tr { border-top: 1px solid var(--rule); }
.compared .cost { text-align: right; white-space: nowrap; }
.compared .interval { display: block; margin-top: 2px; font-size: 11.5px; }
.compared .value { font-weight: 400; font-size: 15px; }
.compared .first { font-weight: 700; }
"""

Texts = Callable[[Row], Sequence[tuple[str, str]]]  # the cells of a row: planner, scores, costs, each with its interval


def comparison_page(
    rows: Sequence[Row],
    failures: Mapping[str, str],
    labels: Mapping[int, str],
    *,
    about: str,
    headers: Sequence[str],
    texts: Texts,
) -> str:
    """The page; `labels` tells for every horizon which data and how many windows."""
    data = ", ".join(dict.fromkeys(label.partition(",")[0] for label in labels.values()))
    parts = [
        tag("header", tag("h1", TITLE, tag("small", data)), notices(data), tag("p", about), tag("p", HOW_TO_READ)),
        *(
            tag("section", tag("h2", f"T = {horizon}, {label}"), _table(shown, headers, texts))
            for horizon, label in labels.items()
            if (shown := [row for row in rows if row.horizon == horizon])
        ),
    ]
    if failures:
        lines = [tag("li", f"{cell}: {why}") for cell, why in failures.items()]
        parts.append(tag("section", tag("h2", "Failed"), tag("ul", *lines)))
    return document(f"{TITLE}, on {data}", *parts, style=_STYLE)


def _table(rows: Sequence[Row], headers: Sequence[str], texts: Texts) -> Markup:
    marks = ["", *("" if name in _NEITHER else arrow(METRICS[name]).replace(" ", NO_BREAK) for name in _SCORES)]
    heads = [
        tag("th", header, marks[place] if place < len(marks) else "", scope="col", class_=_kind(place))
        for place, header in enumerate(headers)
    ]
    tops = {name: _top([row.scores[name] for row in rows]) for name in _SCORES}
    firsts = {name: _best(name, [row.scores[name].value for row in rows]) for name in _SCORES}
    body = [_row(row, texts(row), tops, firsts) for row in rows]
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *body), class_="compared")
    return tag("div", table, class_="scroll")


def _row(
    row: Row, cells: Sequence[tuple[str, str]], tops: Mapping[str, float], firsts: Mapping[str, float | None]
) -> Markup:
    (planner, seeds), scores, costs = cells[0], cells[1 : 1 + len(_SCORES)], cells[1 + len(_SCORES) :]
    shown = []
    for name, (value, interval) in zip(_SCORES, scores, strict=True):
        is_first = firsts[name] is not None and row.scores[name].value == firsts[name]
        shown.append(
            tag(
                "td",
                tag("span", value, class_="value first" if is_first else "value"),
                _strip(row.scores[name], tops[name], label=f"{value}, {interval}"),
                tag("span", interval, class_="interval") if interval else join(),
            )
        )
    return tag(
        "tr",
        tag("th", planner, tag("small", seeds), scope="row"),
        *shown,
        *(tag("td", value, class_="cost") for value, _ in costs),
    )


def _kind(place: int) -> str | None:
    return "cost" if place > len(_SCORES) else None


def _strip(score: Interval, top: float, *, label: str) -> Markup:
    if math.isnan(score.value) or not top:
        return join()
    low, high = (None if math.isnan(end) else end for end in (score.low, score.high))
    return strip(Leaf(score.value, low, high), top, width=_STRIP, label=label)


def _top(scores: Sequence[Interval]) -> float:
    ends = [end for score in scores for end in (score.value, score.high) if not math.isnan(end)]
    return max(ends, default=0.0)


def _best(name: str, values: Sequence[float]) -> float | None:
    """The best of a column, where one of several is."""
    higher, found = METRICS[name].higher_is_better, [value for value in values if not math.isnan(value)]
    if name in _NEITHER or len(set(found)) < 2:
        return None
    return max(found) if higher else min(found)
