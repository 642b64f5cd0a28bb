"""Tables and figures as pages that travel as one file: ours large, intervals small, published figures in italics."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict

from p3iv.experiments.built import Block, Built, Cell, filled_of, published_number
from p3iv.experiments.declared import PAPER_DATASETS
from p3iv.experiments.drawings import Drawn
from p3iv.experiments.gathering import Gatherer
from p3iv.experiments.lettering import NOTE, arrow, metric_in, published_in, range_in, released_in, seeds_in, value_in
from p3iv.experiments.parts import Part
from p3iv.experiments.provenance import Provenance, run_rows
from p3iv.report.cells import strip
from p3iv.report.inputs import Leaf
from p3iv.report.markup import Markup, join, tag
from p3iv.report.page import document, notices

LEGEND = (
    "Large: ours. Slanted: published, the upright tick on the line. Dot and bar: ours and its interval; hollow: as the "
    "released code would score our plans. Each line begins at 0."
)
_STRIP = 92.0
_STYLE = """
main { max-width: 1180px; }
a { color: inherit; text-underline-offset: 3px; }
.cells { min-width: 55%; margin-bottom: 6px; }
.cells th, .cells td { padding: 6px 0 6px 22px; vertical-align: top; }
.cells th:first-child { padding-left: 0; min-width: 11em; max-width: 18em; }
.cells thead th { padding-bottom: 4px; }
.cells thead tr:last-child { border-bottom: 1px solid var(--ink); }
.cells .groups th { color: var(--ink); font-weight: 600; padding-bottom: 0; }
.cells tbody tr + tr { border-top: 1px solid var(--rule); }
.cells tbody + tbody { border-top: 1px solid var(--ink); }
.cells .group th { padding: 9px 0 2px; color: var(--faint); font: italic 15px var(--serif); }
.cells .group + tr { border-top: 0; }
.cells .both { display: flex; gap: 10px; align-items: baseline; white-space: nowrap; }
.cells .value { font-size: 16px; }
.cells .paper { font-style: italic; color: var(--reference); }
.cells .interval { display: block; margin-top: 2px; }
.cells .released { display: block; color: var(--faint); font-size: 12.5px; }
.cells .missing { color: var(--reference); font-weight: 600; }
.cells td.text { font-style: italic; color: var(--reference); }
.tick-published { stroke: var(--reference); stroke-width: 2; }
h3.data { margin: 26px 0 10px; font-size: 19px; }
.summary { width: 100%; }
.summary th, .summary td { padding: 5px 16px 5px 0; vertical-align: top; text-align: left; }
.summary thead tr { border-bottom: 1px solid var(--ink); }
.summary tbody tr { border-bottom: 1px solid var(--rule); }
.summary .figure, .runs .figure { text-align: right; }
.runs th, .runs td { padding: 3px 16px 3px 0; font-size: 13px; text-align: left; }
.key { font: 12.5px ui-monospace, monospace; color: var(--faint); }
"""


def table_page(built: Built, provenance: Provenance, gatherer: Gatherer) -> str:
    """One table with its provenance."""
    return document(
        _titled(built.title, provenance.data),
        tag("header", tag("h1", built.title, tag("small", "; ".join(provenance.data))), *map(notices, provenance.data)),
        _table_section(built, gatherer, with_heading=False),
        _how_to_read(),
        _provenance(provenance),
        style=_STYLE,
    )


def table_part(built: Built, provenance: Provenance, gatherer: Gatherer) -> Part:
    """A table as the index shows it."""
    orders = [order for block in built.blocks for _, order in block.orders]
    counts = [sum(getattr(order, name) for order in orders) for name in ("same", "reversed", "undecided")]
    row = tag(
        "tr",
        tag("td", built.table.place),
        tag("td", tag("a", built.table.title, href=f"#{built.table.name}")),
        tag("td", filled_of([built]), class_="figure"),
        *(tag("td", str(count) if orders else "", class_="figure") for count in counts),
    )
    section = join(_table_section(built, gatherer, with_heading=True), _origin(provenance))
    return Part(built.table.name, built.table.name, row, section, asdict(provenance))


def figure_part(drawn: Drawn) -> Part:
    """A figure as the index shows it."""
    link = tag("a", drawn.figure.title, href=f"#{drawn.anchor}") if drawn.path else drawn.figure.title
    about = drawn.about if not drawn.path else drawn.source.label
    row = tag("tr", tag("td", drawn.figure.place), tag("td", link), tag("td", about, colspan=4))
    section = _figure_section(drawn) if drawn.path else join()
    return Part(drawn.figure.name, drawn.anchor, row, section, asdict(drawn.provenance))


def index_page(parts: Sequence[Part]) -> str:
    """All parts, one after another, after a list of them."""
    name = "P3IV (CVPR 2022), regenerated"
    data = list(dict.fromkeys(label for part in parts for label in part.provenance["data"]))
    return document(
        _titled(name, data),
        tag("header", tag("h1", name, tag("small", "; ".join(data))), *map(notices, data)),
        _summary(parts),
        _how_to_read(),
        *(Markup(part.section) for part in parts),
        style=_STYLE,
    )


def _titled(title: str, data: Sequence[str]) -> str:
    return f"{title}, on {'; '.join(data)}"


def _summary(parts: Sequence[Part]) -> Markup:
    heads = ("", "", "cells filled", "rows as in the paper", "the other way round", "undecided")
    rows = [Markup(part.row) for part in parts]
    head = tag("thead", tag("tr", *(tag("th", name, scope="col", class_="figure" if name else None) for name in heads)))
    note = (
        "Pairs of rows of one column: the 95 % interval of their difference on our data says whether they stand as in "
        "the paper, the other way round, or whether our windows cannot tell."
    )
    return tag("section", tag("table", head, tag("tbody", *rows), class_="summary"), tag("p", note, class_="footnote"))


def _table_section(built: Built, gatherer: Gatherer, *, with_heading: bool) -> Markup:
    heading = tag("h2", built.title, id=built.table.name) if with_heading else join()
    parts = [_block(built, block) for block in built.blocks]
    notes = [tag("p", built.table.note, class_="footnote")] if built.table.note else []
    notes += [tag("p", f"Missing: {problem}", class_="footnote") for problem in built.problems]
    return tag("section", heading, *parts, *notes, _runs(built, gatherer))


def _block(built: Built, block: Block) -> Markup:
    columns = built.table.columns
    groups = [column.group for column in columns]
    spans = [tag("td")] + [
        tag("th", group, colspan=groups.count(group), scope="colgroup") if group else tag("td")
        for place, group in enumerate(groups)
        if not group or groups.index(group) == place
    ]
    heads = [tag("td")] + [
        tag("th", column.label, _common_arrow([row[place] for row in block.cells]), scope="col")
        for place, column in enumerate(columns)
    ]
    head = tag("thead", *([tag("tr", *spans, class_="groups")] if any(groups) else []), tag("tr", *heads))
    tops = [_top([row[place] for row in block.cells]) for place in range(len(columns))]
    bodies = [
        tag(
            "tbody",
            *([_group_row(group, rows[0], len(columns))] if group else []),
            *(tag("tr", tag("th", _label(row[0].row.label), scope="row"), *map(_cell, row, tops)) for row in rows),
        )
        for group, rows in _grouped(block)
    ]
    theirs = f" beside {PAPER_DATASETS[block.paper_name]} as published" if block.paper_name else ""
    title = f"{block.source.label}{theirs}" if block.source else f"{theirs[8:]}; no such dataset was given"
    table = tag("table", head, *bodies, class_="cells")
    return join(tag("h3", title, class_="data"), tag("div", table, class_="scroll"), _orders(block))


def _label(text: str) -> Markup:
    """A label with the losses as the paper writes them."""
    parts = re.split(r"L_(\w+)", text)
    return join(*(join("L", tag("sub", part)) if place % 2 else part for place, part in enumerate(parts)))


def _orders(block: Block) -> Markup:
    if not block.orders:
        return join()
    names = [
        f"{' '.join(part for part in (column.group, column.label) if part)}: {order.same} as in the paper, "
        f"{order.reversed} the other way round, {order.undecided} undecided"
        for column, order in block.orders
    ]
    return tag("p", f"Pairs of rows, by the interval of their difference: {'; '.join(names)}.", class_="footnote")


def _grouped(block: Block) -> list[tuple[str, list[tuple[Cell, ...]]]]:
    groups: dict[str, list[tuple[Cell, ...]]] = {}
    for row in block.cells:
        groups.setdefault(row[0].row.group, []).append(row)
    return list(groups.items())


def _group_row(group: str, row: tuple[Cell, ...], num_columns: int) -> Markup:
    mark = arrow(metric_in(row[0])) if "metric" in row[0].row.says else ""
    return tag("tr", tag("th", f"{group}{mark}", colspan=num_columns + 1, scope="rowgroup"), class_="group")


def _common_arrow(column: Sequence[Cell]) -> str:
    return arrow(metric_in(column[0])) if column and "metric" in column[0].column.says else ""


def _cell(cell: Cell, top: float) -> Markup:
    published = published_in(cell)
    if metric_in(cell) is None:
        return tag("td", published, class_="text")
    theirs = tag("span", published, class_="paper") if published else join()
    found = cell.found
    if found is None:
        return tag("td", theirs)
    ours = tag("span", value_in(cell), class_="missing" if found.is_empty else "value", title=found.why or None)
    released = tag("span", f"† {released_in(cell)}", class_="released") if released_in(cell) else join()
    return tag(
        "td",
        tag("div", ours, theirs, class_="both"),
        _strip(cell, top),
        tag("span", range_in(cell), class_="interval"),
        tag("span", seeds_in(cell), class_="missing") if seeds_in(cell) else join(),
        released,
    )


def _strip(cell: Cell, top: float) -> Markup:
    """Our dot and interval, hollow what released code would print, the published figure as a tick; all from 0."""
    metric, found, theirs = metric_in(cell), cell.found, published_number(cell.published)
    if metric is None or found is None or found.is_empty or not top:
        return join()
    value, *ends = (metric.scale * end for end in (found.value, found.low, found.high))
    low, high = (None if math.isnan(end) else end for end in ends)
    return strip(
        Leaf(value, low, high),
        top,
        width=_STRIP,
        label=f"ours {value_in(cell)}, published {cell.published}",
        hollows=[metric.scale * value for value in (found.as_released,) if not math.isnan(value)],
        ticks=[value for value in (theirs,) if not math.isnan(value)],
    )


def _top(column: Sequence[Cell]) -> float:
    ends = [published_number(cell.published) for cell in column]
    for cell in column:
        metric = metric_in(cell)
        if metric and cell.found and not cell.found.is_empty:
            ends += [metric.scale * end for end in (cell.found.value, cell.found.high, cell.found.as_released)]
    return max((end for end in ends if not math.isnan(end)), default=0.0)


def _runs(built: Built, gatherer: Gatherer) -> Markup:
    if not built.runs:
        return join()
    heads = ("run", "epochs", "best epoch", "CPU s", "status", "folder")
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in heads)))
    rows = [
        tag(
            "tr",
            tag("td", str(run)),
            *(tag("td", row[name], class_="figure") for name in ("epochs", "best_epoch", "cpu_s")),
            tag("td", row["status"]),
            tag("td", f"runs/{run.key}", class_="key"),
        )
        for run, row in zip(built.runs, run_rows(built.runs, gatherer), strict=True)
    ]
    label = f"The {len(built.runs)} runs behind it, with epochs and CPU seconds"
    return tag("details", tag("summary", label), tag("table", head, tag("tbody", *rows), class_="runs"))


def _how_to_read() -> Markup:
    return tag("section", tag("h2", "How to read it"), tag("p", LEGEND), tag("p", NOTE))


def _provenance(provenance: Provenance) -> Markup:
    entries = [tag("div", tag("dt", name), tag("dd", what)) for name, what in provenance.lines if what]
    return tag("section", tag("h2", "Where the figures come from"), tag("dl", *entries))


def _figure_section(drawn: Drawn) -> Markup:
    title = tag("h2", f"{drawn.figure.place}: {drawn.figure.title}", id=drawn.anchor)
    return tag("section", title, drawn.content, tag("p", drawn.about, class_="footnote"), _origin(drawn.provenance))


def _origin(provenance: Provenance) -> Markup:
    return tag("p", f"{provenance.sentence}.", class_="footnote")
