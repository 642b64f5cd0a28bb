"""The tables of docs/results/queries.md, from the files that `p3iv reproduce queries queries-open` wrote."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

from p3iv.catalogue import METRICS

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "reproduce_queries"
DATASETS = {
    "captaincook4d": "CaptainCook4D, real features",
    "ikea_asm": "IKEA ASM, real recognition scores",
    "tabletop": "Tabletop, generated",
    "crosstask_simulated": "CrossTask, SIMULATED features",
}
Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]


def query_results(table: Table) -> str:
    """The tables of every dataset, as far as there are results."""
    parts = []
    for name, title in DATASETS.items():
        if not (FOLDER / name).is_dir():
            continue
        parts.append(f"### {title}")
        for file, about in (("queries", "The number of steps is known"), ("queries-open", "It is unknown")):
            if not (path := FOLDER / name / f"{file}.csv").exists():
                continue
            rows = read_rows(path)
            parts.append(f"{about}, {seeds_text(rows)}:")
            parts.append(make_table(rows, table))
    return "\n\n".join(parts)


def read_rows(path: Path) -> list[dict[str, str]]:
    """The cells of one table that have a value."""
    with path.open(encoding="utf-8", newline="") as lines:
        return [row for row in csv.DictReader(lines) if row["ours"]]


def seeds_text(rows: Sequence[dict[str, str]]) -> str:
    """The seeds of the cells."""
    seeds = max((row["seeds"] for row in rows), key=len).split()
    return f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"


def make_table(rows: Sequence[dict[str, str]], table: Table) -> str:
    """A table with a line per row and a column per metric."""
    columns = list(dict.fromkeys((row["column_group"], row["column"]) for row in rows))
    labels = list(dict.fromkeys((row["row_group"], row["row"]) for row in rows))
    cell_of = {(row["row_group"], row["row"], row["column_group"], row["column"]): cell_text(row) for row in rows}
    body = [
        [_label(group, row), *(cell_of.get((group, row, *column), "") for column in columns)] for group, row in labels
    ]
    return table(["", *(f"{group} {column}".strip() for group, column in columns)], body)


def _label(group: str, row: str) -> str:
    return f"{row} ({group})" if group.startswith("one planner") else row


def cell_text(row: dict[str, str]) -> str:
    """A value with its interval; a sign for differences."""
    metric, sign = METRICS[row["metric"]], "+" if row["row"].startswith("difference") else ""
    known = (row[name] for name in ("ours", "low", "high") if row[name] not in ("", "nan"))
    value, *ends = (f"{float(number):{sign}.{metric.digits}f}" for number in known)
    return f"{value} [{', '.join(ends)}]" if len(ends) == 2 else value
