"""Tables and figures as HTML pages of one file each: ours large, intervals small, published figures in italics."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from p3iv.drawing.html import document, join, notices, scrolling, tag
from p3iv.errors import ConfigError
from p3iv.experiments.cells import FinishedRuns
from p3iv.experiments.declarations import PAPER_DATASETS, Column, Table, declarations, published_number
from p3iv.experiments.filled import OWN_NOTE, Block, Cell, FilledTable, best_of, filled_text, note_of
from p3iv.experiments.provenance import Provenance, run_rows
from p3iv.experiments.runs import MAKE_AGAIN
from p3iv.files import write_text
from p3iv.metrics.intervals import Interval
from p3iv.report.charts import strip
from p3iv.validation import read_model

PAPER_LEGEND = (
    "Large: ours. Italic: published, the upright tick on the line. Dot and bar: ours and its interval; hollow dot: as "
    "the released code would score our plans. Each line begins at 0."
)
OWN_LEGEND = (
    "Each line begins at 0 and ends at the largest figure of its column; the dot is the value, the bar its interval. "
    "Bold: the best of a column. Another row cannot be distinguished from it if the 95 % interval of their difference, "
    "window by window, contains 0."
)
NO_BREAK = "\N{NO-BREAK SPACE}"
MAX_COLUMNS = 8  # of a table with wide cells
_STRIP, _NARROW_STRIP = 92.0, 70.0
_STYLE = """
main { max-width: 1240px; }
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
.cells .value { font-size: 16px; font-weight: 400; }
.cells .best { font-weight: 700; }
.cells .paper { font-style: italic; color: var(--reference); }
.cells .interval { display: block; margin-top: 2px; }
.cells .released { display: block; color: var(--faint); font-size: 12.5px; }
.cells .missing { color: var(--reference); font-weight: 600; }
.cells td.text { font-style: italic; color: var(--reference); }
.cells.narrow th, .cells.narrow td { padding-left: 13px; }
.cells.narrow th:first-child { padding-left: 0; min-width: 7em; }
.cells.narrow .value { font-size: 15px; }
.cells.narrow .interval { font-size: 11.5px; }
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


@dataclass(frozen=True)
class Section:
    """One table, or one figure on one dataset, as the index shows it."""

    entry: str  # the name of its declaration
    anchor: str  # its place in the index
    row: str  # of the list at the top, as HTML
    body: str
    has_published: bool
    provenance: Mapping[str, Any]


def table_page(filled: FilledTable, provenance: Provenance, finished: FinishedRuns) -> str:
    """One table with its provenance."""
    return document(
        _titled(filled.title, provenance.data),
        tag(
            "header", tag("h1", filled.title, tag("small", "; ".join(provenance.data))), *map(notices, provenance.data)
        ),
        _table_body(filled, finished, with_heading=False),
        _how_to_read([filled.note]),
        _provenance(provenance),
        style=_STYLE,
    )


def table_section(filled: FilledTable, provenance: Provenance, finished: FinishedRuns) -> Section:
    """A table as the index shows it."""
    table, orders = filled.table, [order for block in filled.blocks for _, order in block.orders]
    counts = [sum(getattr(order, name) for order in orders) for name in ("same", "reversed", "undecided")]
    row = tag(
        "tr",
        tag("td", table.place),
        tag("td", tag("a", table.title, href=f"#{table.name}")),
        tag("td", filled_text([filled]), class_="figure"),
        *(tag("td", str(count) if orders else "", class_="figure") for count in counts),
    )
    body = join(_table_body(filled, finished, with_heading=True), origin_note(provenance))
    return Section(table.name, table.name, row, body, bool(table.datasets), asdict(provenance))


def write_index(out: Path, sections: Iterable[Section], title: str) -> None:
    """Write OUT/index.html and OUT/provenance.json, on these sections and on those of earlier calls."""
    kept = _keep(out, sections)
    write_text(out / "index.html", _index_page(kept, title))
    origins = {section.anchor: section.provenance for section in kept}
    write_text(out / "provenance.json", json.dumps(origins, indent=2) + "\n")


def _keep(out: Path, sections: Iterable[Section]) -> list[Section]:
    """Write OUT/parts/ANCHOR.json of each; returns all that are there, in the order of the paper, then ours."""
    for section in sections:
        write_text(out / "parts" / f"{section.anchor}.json", json.dumps(asdict(section), indent=2) + "\n")
    order = list(declarations())
    paths = sorted((out / "parts").glob("*.json"))
    kept = [read_model(path, Section, error=ConfigError, advice=MAKE_AGAIN) for path in paths]
    return sorted(kept, key=lambda section: order.index(section.entry) if section.entry in order else len(order))


def _index_page(sections: Sequence[Section], title: str) -> str:
    """All sections, one after another, after a list of them."""
    data = list(dict.fromkeys(label for section in sections for label in section.provenance["data"]))
    return document(
        _titled(title, data),
        tag("header", tag("h1", title, tag("small", "; ".join(data))), *map(notices, data)),
        _summary(sections),
        _how_to_read(map(_note_of, sections)),
        *(Markup(section.body) for section in sections),  # noqa: S704 - made by this module
        style=_STYLE,
    )


def _titled(title: str, data: Sequence[str]) -> str:
    return f"{title}, on {'; '.join(data)}"


def _summary(sections: Sequence[Section]) -> Markup:
    if not any(section.has_published for section in sections):
        return join()
    heads = ("", "", "cells filled", "pairs as in the paper", "reversed", "undecided")
    rows = [Markup(section.row) for section in sections]  # noqa: S704 - made by this module
    head = tag("thead", tag("tr", *(tag("th", name, scope="col", class_="figure" if name else None) for name in heads)))
    note = (
        "Pairs of rows of one column: the 95 % interval of their difference on our data says whether their order is "
        "that of the paper, the reverse, or undecided on our windows."
    )
    table = tag("table", head, tag("tbody", *rows), class_="summary")
    return tag("section", scrolling(table, "Table: all tables and figures"), tag("p", note, class_="footnote"))


def _table_body(filled: FilledTable, finished: FinishedRuns, *, with_heading: bool) -> Markup:
    heading = tag("h2", filled.title, id=filled.table.name) if with_heading else join()
    parts = [_block(filled, block) for block in filled.blocks]
    notes = [tag("p", _label(filled.table.note), class_="footnote")] if filled.table.note else []
    notes += [tag("p", f"Missing: {problem}", class_="footnote") for problem in filled.problems]
    return tag("section", heading, *parts, *notes, _runs(filled, finished))


def _block(filled: FilledTable, block: Block) -> Markup:
    columns = filled.table.columns
    tops = [_top([row[place] for row in block.cells]) for place in range(len(columns))]
    bodies = [
        tag(
            "tbody",
            *([_group_row(group, rows[0], len(columns))] if group else []),
            *(_row(row, tops, bests) for row in rows),
        )
        for group, rows in _grouped(block)
        for bests in [_bests(rows) if not block.paper_name else ()]
    ]
    kind = "cells narrow" if len(columns) > MAX_COLUMNS else "cells"
    table = tag("table", _head(columns, block), *bodies, class_=kind)
    title = _block_title(block)
    return join(tag("h3", title, class_="data"), scrolling(table, f"Table: {title}"), _notes(block))


def _block_title(block: Block) -> str:
    published = f"{PAPER_DATASETS[block.paper_name]} as published" if block.paper_name else ""
    if block.source is None:
        return f"{published}; no such dataset was given"
    return f"{block.source.label} beside {published}" if published else block.source.label


def _head(columns: Sequence[Column], block: Block) -> Markup:
    """The labels of the columns, below those of their groups."""
    groups = [column.group for column in columns]
    spans = [tag("td")] + [
        tag("th", group, colspan=groups.count(group), scope="colgroup") if group else tag("td")
        for place, group in enumerate(groups)
        if not group or groups.index(group) == place
    ]
    labels = [tag("td")] + [
        tag("th", column.label, _common_arrow([row[place] for row in block.cells]).replace(" ", NO_BREAK), scope="col")
        for place, column in enumerate(columns)
    ]
    return tag("thead", *([tag("tr", *spans, class_="groups")] if any(groups) else []), tag("tr", *labels))


def _row(row: Sequence[Cell], tops: Sequence[float], bests: Sequence[Cell]) -> Markup:
    width = _NARROW_STRIP if len(row) > MAX_COLUMNS else _STRIP
    cells = [
        _cell(cell, _strip(cell, top, width), is_best=any(cell is best for best in bests))
        for cell, top in zip(row, tops, strict=True)
    ]
    return tag("tr", tag("th", _label(row[0].row.label), scope="row"), *cells)


def _bests(rows: Sequence[Sequence[Cell]]) -> list[Cell]:
    """The best cell of every column of scores."""
    bests = [best_of(column) for column in zip(*rows, strict=True)]
    return [best for best in bests if best and best.metric and best.metric.group != "cost"]


def _label(text: str) -> Markup:
    """A label with the losses as the paper writes them."""
    parts = re.split(r"L_(\w+)", text)
    return join(*(join("L", tag("sub", part)) if place % 2 else part for place, part in enumerate(parts)))


def _notes(block: Block) -> Markup:
    """How the rows compare, with their order in the paper or with the best row, and what the intervals leave out."""
    orders = [
        f"{column.title}: {order.same} as in the paper, {order.reversed} reversed, {order.undecided} undecided"
        for column, order in block.orders
    ]
    notes = [f"Pairs of rows, by the interval of their difference: {'; '.join(orders)}."] if orders else []
    notes += block.ranking_notes + block.interval_notes
    return join(*(tag("p", note, class_="footnote") for note in notes))


def _grouped(block: Block) -> list[tuple[str, list[tuple[Cell, ...]]]]:
    groups: dict[str, list[tuple[Cell, ...]]] = {}
    for row in block.cells:
        groups.setdefault(row[0].row.group, []).append(row)
    return list(groups.items())


def _group_row(group: str, row: tuple[Cell, ...], num_columns: int) -> Markup:
    mark = row[0].arrow if "metric" in row[0].row.spec else ""
    return tag("tr", tag("th", f"{group}{mark}", colspan=num_columns + 1, scope="rowgroup"), class_="group")


def _common_arrow(column: Sequence[Cell]) -> str:
    return column[0].arrow if column and "metric" in column[0].column.spec else ""


def _cell(cell: Cell, line: Markup, *, is_best: bool) -> Markup:
    published, value = cell.published_text, cell.value
    if cell.metric is None:
        return tag("td", published, class_="text")
    theirs = tag("span", published, class_="paper") if published else join()
    if value is None:
        return tag("td", theirs)
    kind = "missing" if value.is_empty else "value best" if is_best else "value"
    ours = tag("span", cell.text, class_=kind, title=value.problem or None)
    released = tag("span", f"† {cell.released_text}", class_="released") if cell.released_text else join()
    return tag(
        "td",
        tag("div", ours, theirs, class_="both"),
        line,
        tag("span", cell.range_text, class_="interval"),
        tag("span", cell.seeds_text, class_="missing") if cell.seeds_text else join(),
        released,
    )


def _strip(cell: Cell, top: float, width: float) -> Markup:
    """A line from 0: our dot and interval, a hollow dot for the released metric, a tick for the published figure."""
    metric, found, theirs = cell.metric, cell.value, published_number(cell.published)
    if metric is None or found is None or found.is_empty or not top:
        return join()
    if cell.is_difference or (metric.group == "cost" and math.isnan(theirs)):
        return join()  # a difference may be negative; a cost has nothing to compare it with
    return strip(
        Interval(*(metric.scale * end for end in (found.value, found.low, found.high))),
        top,
        width=width,
        label=f"ours {cell.text}" + (f", published {cell.published}" if cell.published else ""),
        hollows=[metric.scale * value for value in (cell.released,) if not math.isnan(value)],
        ticks=[value for value in (theirs,) if not math.isnan(value)],
    )


def _top(column: Sequence[Cell]) -> float:
    ends = [published_number(cell.published) for cell in column]
    for cell in column:
        if cell.metric and cell.value and not cell.value.is_empty and not cell.is_difference:
            ends += [cell.metric.scale * end for end in (cell.value.value, cell.value.high, cell.released)]
    return max((end for end in ends if not math.isnan(end)), default=0.0)


def _runs(filled: FilledTable, finished: FinishedRuns) -> Markup:
    if not filled.runs:
        return join()
    heads = ("run", "epochs", "best epoch", "CPU s", "status", "folder")
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in heads)))
    rows = [
        tag(
            "tr",
            tag("td", str(run)),
            *(tag("td", row[name], class_="figure") for name in ("epochs", "best_epoch", "training_cpu_s")),
            tag("td", row["status"]),
            tag("td", f"runs/{run.key}", class_="key"),
        )
        for run, row in zip(filled.runs, run_rows(filled.runs, finished), strict=True)
    ]
    label = f"The {len(filled.runs)} runs behind it, with epochs and CPU seconds"
    table = tag("table", head, tag("tbody", *rows), class_="runs")
    return tag("details", tag("summary", label), scrolling(table, f"Table: {label}"))


def _note_of(section: Section) -> str:
    table = declarations().get(section.entry)
    return note_of(table) if section.has_published and isinstance(table, Table) else OWN_NOTE


def _how_to_read(notes: Iterable[str]) -> Markup:
    """The legend, for tables with published figures, without, or both."""
    kinds = list(dict.fromkeys(notes))
    published = [note for note in kinds if note != OWN_NOTE]
    texts = [PAPER_LEGEND, *published] if published else []
    texts += [OWN_LEGEND, OWN_NOTE] if OWN_NOTE in kinds else []
    return tag("section", tag("h2", "How to read it"), *(tag("p", text) for text in texts))


def _provenance(provenance: Provenance) -> Markup:
    entries = [tag("div", tag("dt", name), tag("dd", what)) for name, what in provenance.lines if what]
    return tag("section", tag("h2", "Where the figures come from"), tag("dl", *entries))


def origin_note(provenance: Provenance) -> Markup:
    """The provenance of a table or figure, below it."""
    return tag("p", f"{provenance.sentence}.", class_="footnote")
