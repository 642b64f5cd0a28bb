"""Read pairs of moments from a CSV, line by line: a file, or standard input while it is being written."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO

from p3iv.errors import ConfigError, near_misses
from p3iv.readers.files import UnusableError, decode
from p3iv.readers.rows import place
from p3iv.types import UNFIT
from p3iv.validation import shown

STANDARD_INPUT = "-"
COLUMNS = ("start", "goal")
MAX_LINE = 2**16  # bytes: two paths, and room for further columns


@dataclass(frozen=True)
class Pair:
    """One line: two moments to plan between, or the reason why there are none."""

    where: str  # pairs.csv:3
    id: str  # the column `id`, else the number of the pair, from 1
    start: str = ""
    goal: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)  # the further ones, as they were
    fault: str = ""


@contextmanager
def open_pairs(text: str) -> Iterator[Iterator[Pair]]:
    """Yield the pairs of a file, or of standard input for `-`; one line at a time is read and kept.

    Raises:
        ConfigError: there is no such file, or its header does not name the columns start and goal.
    """
    if text == STANDARD_INPUT:
        yield read_pairs(sys.stdin.buffer, "standard input")
        return
    path = Path(text)
    if not path.is_file():
        raise ConfigError(f"--pairs {text}, but there is no such file. Give a CSV file, or - for standard input.")
    with path.open("rb") as file:
        yield read_pairs(file, path.name)


def read_pairs(file: BinaryIO, name: str) -> Iterator[Pair]:
    """The pairs of a CSV with a header; a line that cannot be used is a pair with a fault."""
    lines = _lines(file)
    _, first = next(lines, (1, b""))
    if not first.strip():
        raise ConfigError(f"{place(name)} is empty. The first line must name the columns: start,goal.")
    columns, separator = _parse_header(place(name), first)
    num_pairs = 0
    for number, line in lines:
        where = f"{place(name)}:{number}"
        if not line.strip():
            continue
        num_pairs += 1
        try:
            yield _parse_pair(where, str(num_pairs), columns, _cells(line, separator))
        except UnusableError as error:
            yield Pair(where, str(num_pairs), fault=str(error))


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines with their numbers; of one that is too long, the beginning."""
    for number, line in enumerate(iter(partial(file.readline, MAX_LINE + 1), b""), start=1):
        rest = line
        while len(rest) > MAX_LINE and not rest.endswith(b"\n"):
            rest = file.readline(MAX_LINE + 1)
        yield number, line


def _parse_header(name: str, line: bytes) -> tuple[list[str], str]:
    """The names of the columns, in lower case, and the sign between them."""
    advice = "The first line names the columns: start,goal, and if you like id and others."
    try:
        text = decode(line)
        separator = next((sign for sign in (",", ";", "\t") if sign in text), ",")
        columns = [cell.strip().lower() for cell in _cells(line, separator)]
    except UnusableError as error:
        raise ConfigError(f"{name}:1: {error}. {advice}") from error
    for wanted in COLUMNS:
        if columns.count(wanted) != 1:
            near = near_misses(wanted, set(columns) - set(COLUMNS), most=1)
            hint = f" Rename {shown(near[0])}." if near else ""
            number = columns.count(wanted)
            raise ConfigError(f"{name}:1: {number} columns are named {wanted}, expected 1. {advice}{hint}")
    return columns, separator


def _cells(line: bytes, separator: str) -> list[str]:
    if len(line) > MAX_LINE:
        raise UnusableError(f"longer than the {MAX_LINE} bytes that are allowed")
    try:
        (cells,) = csv.reader([decode(line).rstrip("\r\n")], delimiter=separator, strict=True, skipinitialspace=True)
    except (csv.Error, ValueError) as error:
        raise UnusableError(f"not a CSV record ({error})") from error
    return cells


def _parse_pair(where: str, number: str, columns: list[str], cells: list[str]) -> Pair:
    """The pair of a line; what can be read of a line with a fault is kept, so that its answer can be recognised."""
    row = {name: UNFIT.sub("?", cell.strip()) for name, cell in zip(columns, cells, strict=False)}
    further = {name: cell for name, cell in row.items() if name and name not in (*COLUMNS, "id")}
    start, goal = (row.get(name, "") for name in COLUMNS)
    return Pair(where, row.get("id") or number, start, goal, further, _fault(columns, cells))


def _fault(columns: list[str], cells: list[str]) -> str:
    """What is wrong with the cells of a line; empty if nothing is."""
    if len(cells) > len(columns):
        return f"{len(cells)} cells, expected the {len(columns)} of the header"
    row = {name: cell.strip() for name, cell in zip(columns, cells, strict=False)}
    for name, cell in row.items():
        if UNFIT.search(cell):
            return f"{name or 'a cell'} is {shown(cell)}, expected a text without control characters"
    missing = [name for name in COLUMNS if not row.get(name)]
    return f"no {missing[0]}, expected a moment such as clip.mp4@12.5" if missing else ""
