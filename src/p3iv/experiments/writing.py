"""A table as CSV, Markdown and LaTeX, and as a page; the index that leads to all of them."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable
from pathlib import Path

from p3iv.experiments.built import Block, Built, Cell
from p3iv.experiments.declared import PAPER_DATASETS
from p3iv.experiments.gathering import Gatherer
from p3iv.experiments.lettering import NOTE, arrow, metric_in, published_in, range_in, released_in, seeds_in, value_in
from p3iv.experiments.pages import index_page, table_page, table_part
from p3iv.experiments.parts import Part, keep_parts
from p3iv.experiments.provenance import Provenance, run_rows
from p3iv.experiments.runs import Run
from p3iv.files import write_text

CSV_COLUMNS = (
    *("table", "place", "data", "published_on", "row_group", "row", "column_group", "column", "metric", "unit"),
    *(
        "decoder",
        "ours",
        "low",
        "high",
        "sd_over_seeds",
        "deviation",
        "as_released",
        "published",
        "seeds",
        "runs",
        "why",
    ),
)
_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{
        "±": r"$\pm$",
        "<": "$<$",
        "\N{GREEK SMALL LETTER SIGMA}": r"$\sigma$",
        "↑": r"$\uparrow$",
        "↓": r"$\downarrow$",
        "†": r"$\dagger$",
    },
    "\\": r"\textbackslash{}",
}


def write_table(out: Path, built: Built, provenance: Provenance, gatherer: Gatherer) -> Part:
    """Write OUT/tables/NAME.csv, .md, .tex and .html; returns what the index shows of it."""
    place = out / "tables" / built.table.name
    write_text(place.with_suffix(".csv"), table_csv(built))
    write_text(place.with_suffix(".md"), table_markdown(built, provenance, gatherer))
    write_text(place.with_suffix(".tex"), table_latex(built, provenance, gatherer))
    write_text(place.with_suffix(".html"), table_page(built, provenance, gatherer))
    return table_part(built, provenance, gatherer)


def write_index(out: Path, parts: Iterable[Part]) -> None:
    """Write OUT/index.html and OUT/provenance.json, on these parts and on those of earlier calls."""
    kept = keep_parts(out, parts)
    write_text(out / "index.html", index_page(kept))
    origins = {part.anchor: part.provenance for part in kept}
    write_text(out / "provenance.json", json.dumps(origins, indent=2) + "\n")


def table_csv(built: Built) -> str:
    """One line per cell, figures in the units that the paper prints."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for block in built.blocks:
        for row in block.cells:
            writer.writerows(_csv_line(built, block, cell) for cell in row)
    return text.getvalue()


def _csv_line(built: Built, block: Block, cell: Cell) -> dict[str, str]:
    metric, found = metric_in(cell), cell.found
    line = {
        "table": built.table.name,
        "place": built.table.place,
        "data": block.source.label if block.source else "",
        "published_on": PAPER_DATASETS[block.paper_name] if block.paper_name else "",
        "row_group": cell.row.group,
        "row": cell.row.label,
        "column_group": cell.column.group,
        "column": cell.column.label,
        "published": published_in(cell),
    }
    if metric is None or cell.ask is None:
        return line
    line |= {
        "metric": str(cell.ask.metric),
        "unit": metric.unit,
        "decoder": cell.ask.decoder if metric.source == "plans" else "",
    }
    if found is None:
        return line | {"why": "no such dataset given" if block.source is None else "not asked for"}
    figures = {
        "ours": found.value,
        "low": found.low,
        "high": found.high,
        "sd_over_seeds": found.spread,
        "deviation": found.deviation,
        "as_released": found.as_released,
    }
    return (
        line
        | {name: "" if math.isnan(value) else f"{metric.scale * value:.4f}" for name, value in figures.items()}
        | {"seeds": " ".join(map(str, found.seeds)), "runs": " ".join(found.runs), "why": found.why}
    )


def cell_text(cell: Cell) -> str:
    """Ours, its seeds where some are missing, its interval, what released code would print."""
    value, seeds, range_, released = value_in(cell), seeds_in(cell), range_in(cell), released_in(cell)
    inside = range_ if range_.startswith("±") else f"[{range_}]" if range_ else ""
    parts = (value, f"({seeds})" if seeds else "", inside, f"†{released}" if released else "")
    return " ".join(part for part in parts if part)


def headers(built: Built) -> list[str]:
    """The label of every column with its group and which way is better."""
    names = []
    for place, column in enumerate(built.table.columns):
        directions = {arrow(metric_in(row[place])) for block in built.blocks for row in block.cells}
        label = " ".join(part for part in (column.group, column.label) if part)
        names.append(label + (directions.pop() if len(directions) == 1 else ""))
    return names


def row_label(cell: Cell) -> str:
    """A row with its group and, where the metric is the row's, which way is better."""
    row = cell.row
    own = arrow(metric_in(cell)) if "metric" in row.says else ""
    return f"{row.group}{own}: {row.label}" if row.group else f"{row.label}{own}"


def table_markdown(built: Built, provenance: Provenance, gatherer: Gatherer) -> str:
    """Per dataset a table with two columns for each of the paper's: ours and published."""
    lines = [f"# {built.title}", "", NOTE, ""]
    lines += [built.table.note, ""] if built.table.note else []
    for block in built.blocks:
        lines += [f"## {block.title}", ""]
        heads = [name for header in headers(built) for name in _two(block, f"{header}, ours", f"{header}, published")]
        lines += [f"| | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
        for row in block.cells:
            texts = [text for cell in row for text in _two(block, cell_text(cell), published_in(cell))]
            lines.append(f"| {row_label(row[0])} | {' | '.join(texts)} |")
        lines += ["", *order_lines(block), ""]
    lines += [f"- missing: {_one_line(problem)}" for problem in built.problems]
    lines += ["", f"{provenance.sentence}.", "", "| run | epochs | best | CPU s |", "|---|---:|---:|---:|"]
    for run, facts in _with_rows(built, gatherer):
        lines.append(f"| {run} (runs/{run.key}) | {facts['epochs']} | {facts['best_epoch']} | {facts['cpu_s']} |")
    return "\n".join(lines).rstrip() + "\n"


def order_lines(block: Block) -> list[str]:
    """Whether rows stand to each other as in the paper, a line per column."""
    return [
        f"- rows of {' '.join(part for part in (column.group, column.label) if part)}: of {order.total} pairs, "
        f"{order.same} stand as in the paper, {order.reversed} the other way round, {order.undecided} undecided"
        for column, order in block.orders
    ]


def table_latex(built: Built, provenance: Provenance, gatherer: Gatherer) -> str:
    """A `table*` that needs booktabs; ours first, published in italics; runs and what is missing as comments."""
    parts = [f"% {_one_line(provenance.sentence)}"]
    parts += [f"% runs/{row['run']}: {run}, {row['status']}" for run, row in _with_rows(built, gatherer)]
    parts += [f"% missing: {_one_line(problem)}" for problem in built.problems]
    notes = escape_latex(" ".join(note for note in (_one_line(built.table.note), NOTE) if note))
    for block in built.blocks:
        names = [escape_latex(name) for name in headers(built)]
        theirs = [r"\emph{publ.}" if block.source else rf"\emph{{{name}}}" for name in names]
        heads = [head for both in zip(names, theirs, strict=True) for head in _two(block, *both)]
        parts += [
            r"\begin{table*}\centering\small",
            rf"\caption{{{escape_latex(f'{built.title}. {block.title}.')}}}",
            rf"\begin{{tabular}}{{l{'r' * len(heads)}}}\toprule",
            f"& {' & '.join(heads)} \\\\ \\midrule",
        ]
        for row in block.cells:
            texts = [
                text
                for cell in row
                for text in _two(block, escape_latex(cell_text(cell)), rf"\emph{{{escape_latex(published_in(cell))}}}")
            ]
            parts.append(f"{escape_latex(row_label(row[0]))} & {' & '.join(texts)} \\\\")
        parts += [r"\bottomrule\end{tabular}"]
        parts += [rf"\par\smallskip\raggedright\footnotesize {notes}"] if block.source else []
        parts += [r"\end{table*}", ""]
    return "\n".join(parts)


def escape_latex(text: str) -> str:
    """Text as LaTeX prints it, losses as formulas."""
    parts = re.split(r"L_(\w+)", text)
    return "".join(
        f"$L_{{{part}}}$" if place % 2 else "".join(_LATEX.get(character, character) for character in part)
        for place, part in enumerate(parts)
    )


def _with_rows(built: Built, gatherer: Gatherer) -> list[tuple[Run, dict[str, str]]]:
    return list(zip(built.runs, run_rows(built.runs, gatherer), strict=True))


def _two(block: Block, ours: str, published: str) -> list[str]:
    """Ours and theirs, as far as a block has them."""
    return ([ours] if block.source else []) + ([published] if block.paper_name else [])


def _one_line(text: str) -> str:
    return " ".join(text.split())
