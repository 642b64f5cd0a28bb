"""Files of records, as JSON lines or as CSV, read one at a time with the line that each stands on."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final, NoReturn

from p3iv.errors import PlanError

Record = dict[str, object]

_LARGEST_CELL: Final = 2**31 - 1  # csv refuses cells of more than 128 kB unless it is told


def read_records(path: Path) -> Iterator[tuple[int, Record]]:
    """Line numbers and records: objects where the first line opens one, else rows of a CSV with a header.

    The values of a CSV are texts, and an empty cell is not there.

    Raises:
        PlanError: naming the file, and the line that is not what it should be.
    """
    lines = _read_lines(path)
    first = next(lines, None)
    if first is None:
        raise PlanError(f"{path}: the file is empty")
    lines = chain((first,), lines)
    yield from _json_records(path, lines) if first[1].lstrip().startswith("{") else _csv_records(path, lines)


def require_file(path: Path, expected: str) -> None:
    """Only regular files, and links to them: a pipe or a device would never end.

    Raises:
        PlanError: saying what is there instead.
    """
    if not path.is_file():
        what = "a folder" if path.is_dir() else "not a regular file" if path.exists() else "there is no such file"
        raise PlanError(f"{path}: {what}; expected {expected}.")


def parse_json(text: str) -> object:
    """JSON of any depth, with numbers of any length, without trusting either; NaN and Infinity are not in it.

    Raises:
        ValueError: saying what is wrong with it.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from error
    except RecursionError as error:
        raise ValueError("JSON that is nested too deeply") from error
    except ValueError as error:  # a constant, or an integer of thousands of digits
        raise ValueError(f"not JSON: {error}") from error


def shown(value: object) -> str:
    """A value for a message: short, whatever it is."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers."""
    require_file(path, "a file of JSON lines, or a CSV")
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise PlanError(f"{path}:{number}: byte {error.start + 1} of the line is not UTF-8") from error
            if text.strip():
                yield number, text


def _json_records(path: Path, lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, Record]]:
    for number, text in lines:
        try:
            content = parse_json(text)
        except ValueError as error:
            raise PlanError(f"{path}:{number}: {error}") from error
        if not isinstance(content, dict):
            raise PlanError(f'{path}:{number}: {shown(content)}, but a line is one object: {{"window": ...}}')
        yield number, content


def _csv_records(path: Path, lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, Record]]:
    at = 0  # the line that was read last; a row may take several

    def texts() -> Iterator[str]:
        nonlocal at
        for number, text in lines:
            at = number
            yield text

    limit = csv.field_size_limit(_LARGEST_CELL)
    try:
        rows = csv.reader(texts(), strict=True, skipinitialspace=True)
        header = [name.strip() for name in next(rows)]
        for row in rows:
            if len(row) > len(header):
                raise PlanError(f"{path}:{at}: {len(row)} cells, but the header names {len(header)} columns")
            yield at, {name: cell for name, cell in zip(header, row, strict=False) if cell.strip()}
    except csv.Error as error:
        raise PlanError(f"{path}:{at}: not CSV: {error}") from error
    finally:
        csv.field_size_limit(limit)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")
