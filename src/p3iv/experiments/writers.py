"""A filled table as CSV, Markdown, LaTeX and HTML files."""

from __future__ import annotations

import csv
import io
import math
import re
from pathlib import Path

from p3iv.experiments.cells import FinishedRuns
from p3iv.experiments.declarations import PAPER_DATASETS
from p3iv.experiments.filled import Block, Cell, FilledTable
from p3iv.experiments.pages import Section, table_page, table_section
from p3iv.experiments.provenance import Provenance, plain_cell, run_rows
from p3iv.experiments.runs import Run
from p3iv.files import write_text
from p3iv.types import UNFIT

CSV_COLUMNS = (
    *("table", "place", "data", "published_on", "row_group", "row", "column_group", "column", "metric", "unit"),
    *("decoder", "ours", "low", "high", "sd_over_seeds", "deviation", "as_released", "published"),
    *("seeds", "by_seed", "runs", "why"),
)
_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "^": r"\textasciicircum{}",  # TeX reads ^^5c as a backslash
    "~": r"\textasciitilde{}",
    **{
        "±": r"$\pm$",
        "<": "$<$",
        ">": "$>$",
        "\N{GREEK SMALL LETTER SIGMA}": r"$\sigma$",
        "↑": r"$\uparrow$",
        "↓": r"$\downarrow$",
        "†": r"$\dagger$",
    },
    "\\": r"\textbackslash{}",
}


def write_table(out: Path, filled: FilledTable, provenance: Provenance, finished: FinishedRuns) -> Section:
    """Write OUT/tables/NAME.csv, .md, .tex and .html; returns its section of the index."""
    place = out / "tables" / filled.table.name
    write_text(place.with_suffix(".csv"), table_csv(filled))
    write_text(place.with_suffix(".md"), table_markdown(filled, provenance, finished))
    write_text(place.with_suffix(".tex"), table_latex(filled, provenance, finished))
    write_text(place.with_suffix(".html"), table_page(filled, provenance, finished))
    return table_section(filled, provenance, finished)


def table_csv(filled: FilledTable) -> str:
    """One line per cell, figures in the units that the paper prints."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for block in filled.blocks:
        for row in block.cells:
            writer.writerows(_csv_line(filled, block, cell) for cell in row if cell.spec or cell.column.is_text)
    return text.getvalue()


def _csv_line(filled: FilledTable, block: Block, cell: Cell) -> dict[str, str]:
    metric, value = cell.metric, cell.value
    line = {
        "table": filled.table.name,
        "place": filled.table.place,
        "data": plain_cell(block.source.label) if block.source else "",
        "published_on": PAPER_DATASETS[block.paper_name] if block.paper_name else "",
        "row_group": cell.row.group,
        "row": cell.row.label,
        "column_group": cell.column.group,
        "column": cell.column.label,
        "published": cell.published_text,
    }
    if metric is None or cell.spec is None:
        return line
    line |= {
        "metric": str(cell.spec.metric),
        "unit": metric.unit,
        "decoder": cell.spec.decoder if metric.group == "plans" else "",
    }
    if value is None:
        return line | {"why": "no such dataset given" if block.source is None else "not asked for"}
    figures = {
        "ours": value.value,
        "low": value.low,
        "high": value.high,
        "sd_over_seeds": value.spread,
        "deviation": value.deviation,
        "as_released": value.as_released,
    }
    return (
        line
        | {name: "" if math.isnan(figure) else f"{metric.scale * figure:.4f}" for name, figure in figures.items()}
        | {"seeds": " ".join(map(str, value.seeds)), "runs": " ".join(value.runs), "why": plain_cell(value.problem)}
        | {"by_seed": " ".join(f"{metric.scale * figure:.4f}" for figure in value.by_seed)}
    )


def cell_text(cell: Cell) -> str:
    """Our value, its seeds if some are missing, its interval, and what released code would print."""
    value, seeds, range_, released = cell.text, cell.seeds_text, cell.range_text, cell.released_text
    inside = range_ if range_.startswith("±") else f"[{range_}]" if range_ else ""
    parts = (value, f"({seeds})" if seeds else "", inside, f"†{released}" if released else "")
    return " ".join(part for part in parts if part)


def headers(filled: FilledTable) -> list[str]:
    """The title of every column, with an arrow towards the better values."""
    names = []
    for place, column in enumerate(filled.table.columns):
        directions = {row[place].arrow for block in filled.blocks for row in block.cells if row[place].metric}
        names.append(column.title + (directions.pop() if len(directions) == 1 else ""))
    return names


def row_label(cell: Cell, *, with_group: bool = True) -> str:
    """A row with its group and, if the row has its own metric, an arrow towards the better values."""
    row = cell.row
    own = cell.arrow if "metric" in row.spec else ""
    return f"{row.group}{own}: {row.label}" if row.group and with_group else f"{row.label}{own}"


def table_markdown(filled: FilledTable, provenance: Provenance, finished: FinishedRuns) -> str:
    """One table per dataset; beside each of our columns the published one, if there is one."""
    lines = [f"# {filled.title}", "", filled.note, ""]
    lines += [filled.table.note, ""] if filled.table.note else []
    for block in filled.blocks:
        lines += [f"## {block.title}", ""]
        heads = [name for header in headers(filled) for name in _heads(block, header)]
        lines += [f"| | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
        for row in block.cells:
            texts = [text for cell in row for text in _two(block, cell_text(cell), cell.published_text)]
            lines.append(f"| {row_label(row[0])} | {' | '.join(texts)} |")
        lines += ["", *(f"- {note}" for note in block_notes(block)), ""]
    lines += [f"- missing: {_one_line(problem)}" for problem in filled.problems]
    lines += ["", f"{provenance.sentence}.", "", "| run | epochs | best | CPU s |", "|---|---:|---:|---:|"]
    for run, facts in _with_rows(filled, finished):
        figures = (facts[name] for name in ("epochs", "best_epoch", "training_cpu_s"))
        lines.append(f"| {run} (runs/{run.key}) | {' | '.join(figures)} |")
    return "\n".join(lines).rstrip() + "\n"


def block_notes(block: Block) -> list[str]:
    """How the rows compare, with their order in the paper or with the best row, and what the intervals leave out."""
    orders = [
        f"rows of {column.title}: of {order.total} pairs, {order.same} are ordered as in the paper, {order.reversed} "
        f"are reversed, {order.undecided} undecided"
        for column, order in block.orders
    ]
    return [*orders, *block.ranking_notes, *block.interval_notes]


def table_latex(filled: FilledTable, provenance: Provenance, finished: FinishedRuns) -> str:
    """A `table*` that needs booktabs: ours first, published in italics, runs and missing values as comments."""
    parts = [f"% {_one_line(provenance.sentence)}"]
    parts += [
        f"% runs/{row['run']}: {_one_line(str(run))}, {row['status']}" for run, row in _with_rows(filled, finished)
    ]
    parts += [f"% missing: {_one_line(problem)}" for problem in filled.problems]
    notes = escape_latex(" ".join(note for note in (_one_line(filled.table.note), filled.note) if note))
    for block in filled.blocks:
        names = [escape_latex(name) for name in headers(filled)]
        theirs = [r"\emph{publ.}" if block.source else rf"\emph{{{name}}}" for name in names]
        heads = [head for both in zip(names, theirs, strict=True) for head in _two(block, *both)]
        parts += [
            r"\begin{table*}\centering\small",
            rf"\caption{{{escape_latex(f'{filled.title}. {block.title}.')}}}",
            rf"\begin{{tabular}}{{l{'r' * len(heads)}}}\toprule",
            f"& {' & '.join(heads)} \\\\ \\midrule",
        ]
        for row in block.cells:
            texts = [
                text
                for cell in row
                for text in _two(block, escape_latex(cell_text(cell)), rf"\emph{{{escape_latex(cell.published_text)}}}")
            ]
            parts.append(f"{escape_latex(row_label(row[0]))} & {' & '.join(texts)} \\\\")
        parts += [r"\bottomrule\end{tabular}"]
        own = escape_latex(" ".join(block.interval_notes))
        parts += [rf"\par\smallskip\raggedright\footnotesize {notes} {own}".rstrip()] if block.source else []
        parts += [r"\end{table*}", ""]
    return "\n".join(parts)


def escape_latex(text: str) -> str:
    """Escape text for LaTeX, in one line, and write losses as formulas."""
    parts = re.split(r"\bL_([a-z]+)\b", UNFIT.sub(" ", text))
    return "".join(
        f"$L_{{{part}}}$" if place % 2 else "".join(_LATEX.get(character, character) for character in part)
        for place, part in enumerate(parts)
    )


def _with_rows(filled: FilledTable, finished: FinishedRuns) -> list[tuple[Run, dict[str, str]]]:
    return list(zip(filled.runs, run_rows(filled.runs, finished), strict=True))


def _heads(block: Block, header: str) -> list[str]:
    return _two(block, f"{header}, ours", f"{header}, published") if block.paper_name else [header]


def _two(block: Block, ours: str, published: str) -> list[str]:
    """Our text and the published one, or the one of them that a block has."""
    return ([ours] if block.source else []) + ([published] if block.paper_name else [])


def _one_line(text: str) -> str:
    return " ".join(text.split())
