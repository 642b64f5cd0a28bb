"""Prediction files (predictions.jsonl): the plan for every window beside its reference, for anybody to write.

JSON lines, or a CSV with the same columns, whose lists are JSON or ids between spaces; further keys are ignored:

    {"window": "v1:0", "plan": [3, 5], "reference": [3, 4], "samples": [[[3, 5], 9], [[3, 4], 1]], "video": "v1"}

`samples` (sampled plans and how often each was drawn) and `video` are given on every line or on none. Plans, references
and samples may have any lengths.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Generic, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from torch import Tensor

from p3iv.data.padding import PAD, has_one_length, pad_ids, pad_plans
from p3iv.errors import PlanError
from p3iv.evaluation.actions import ActionList, require_file
from p3iv.files import atomic_file
from p3iv.metrics.counts import PlanCounts
from p3iv.types import counted, listed
from p3iv.validation import explain, parse_json, shown

PREDICTIONS_FILE = "predictions.jsonl"
MAX_DRAWS = 10**9  # of one plan in one window
MAX_LENGTH = 1000  # of plans of several lengths, which are padded to the longest
_MAX_CELL = 2**31 - 1  # csv refuses cells of more than 128 kB by default
_OLD_NAMES = (
    "`plan` is missing: it was called `prediction` (and `plan_probability` `probability`). "
    "Rename the fields, or run `p3iv evaluate` again"
)

ActionT = TypeVar("ActionT", str, int | str)
LineT = TypeVar("LineT", bound=BaseModel)


def _number_as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Name: TypeAlias = Annotated[str, BeforeValidator(_number_as_text), Field(min_length=1)]
Probability: TypeAlias = Annotated[float, Field(ge=0, le=1 + 1e-6), AfterValidator(lambda value: min(value, 1.0))]
Count: TypeAlias = Annotated[int, Field(ge=1, le=MAX_DRAWS)]


class PredictionLine(BaseModel, Generic[ActionT]):
    """One line: one window. Actions are names, or also ids (`PredictionLine[str]`, `PredictionLine[int | str]`)."""

    model_config = ConfigDict(frozen=True, strict=True, allow_inf_nan=False)

    window: Name  # VIDEO:FIRST_STEP in our own files
    video: Name | None = None
    task: str = ""
    first_step: int | None = None
    start_s: float | None = None
    goal_s: float | None = None
    plan: Annotated[tuple[ActionT, ...], Field(min_length=1)]  # the recommended plan
    plan_probability: Probability | None = None
    reference: tuple[ActionT, ...] = ()  # empty where it is not known
    decoders: dict[str, tuple[ActionT, ...]] = {}  # the plans of the other decoders
    samples: tuple[tuple[Annotated[tuple[ActionT, ...], Field(min_length=1)], Count], ...] | None = None
    scores: dict[str, float | None] = {}  # by metric, of `plan`, `samples` and the chain; None where not defined

    @property
    def is_right(self) -> bool:
        return self.plan == self.reference

    @property
    def num_matches(self) -> int:
        """Positions at which the plan has the reference's step."""
        return sum(step == wanted for step, wanted in zip(self.plan, self.reference, strict=False))

    @cached_property
    def ranked_samples(self) -> tuple[tuple[tuple[ActionT, ...], int], ...]:
        """The distinct samples with how often each was drawn, most frequent first."""
        counts: Counter[tuple[ActionT, ...]] = Counter()
        for plan, count in self.samples or ():
            counts[plan] += count
        return tuple(counts.most_common())

    @cached_property
    def num_samples(self) -> int:
        return sum(count for _, count in self.samples or ())


NamedLine: TypeAlias = PredictionLine[str]


class ReferenceLine(BaseModel):
    """One line of a file of references."""

    model_config = ConfigDict(frozen=True, strict=True)

    window: Name
    video: Name | None = None
    reference: Annotated[tuple[int | str, ...], Field(min_length=1)]


@dataclass(frozen=True)
class Place:
    """Where a line is in its file."""

    number: int  # from 1
    offset: int  # the byte at which it begins


def read_lines(path: Path, model: type[LineT]) -> Iterator[tuple[Place, LineT]]:
    """Read a prediction file line by line; it may be larger than memory.

    Raises:
        PlanError: naming the file, and the line that is wrong.
    """
    lines = _non_blank_lines(path)
    first = next(lines, None)
    if first is None:
        raise PlanError(f"{path}: the file is empty")
    lines = chain((first,), lines)
    for place, text in lines if first[1].lstrip().startswith("{") else _csv_as_json(path, lines):
        yield place, _parse_line(text, model, f"{path}:{place.number}")


def read_lines_at(path: Path, offsets: Iterable[int], model: type[LineT]) -> list[LineT]:
    """Read the lines that begin at these bytes, in this order."""
    with path.open("rb") as file:
        lines = []
        for offset in offsets:
            file.seek(offset)
            lines.append(_parse_line(file.readline().decode("utf-8-sig"), model, f"{path}, byte {offset}"))
    return lines


@contextmanager
def prediction_writer(path: Path) -> Iterator[Callable[[PredictionLine[Any]], None]]:
    """Yield a function that writes one line; the file replaces an older one when the block ends without an error."""
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        yield lambda line: print(line.model_dump_json(), file=file)


@dataclass(frozen=True)
class Predictions:
    """One plan per window, its reference, and the sampled plans where there are some; padded to one length."""

    windows: tuple[str, ...]  # (N,)
    videos: tuple[str, ...] | None  # (N,)
    plans: Tensor  # (N, T) int64
    references: Tensor  # (N, T) int64
    samples: PlanCounts | None  # of N windows

    def __post_init__(self) -> None:
        columns: list[Sized | None] = [self.windows, self.videos, self.plans, self.references, self.samples]
        if {len(column) for column in columns if column is not None} != {len(self.windows)} or not self.windows:
            raise PlanError("Predictions need at least one window, and as many of everything as there are windows.")
        if len({table.shape[1:] for table in self.tables.values()}) != 1:
            raise PlanError("Plans, references and samples need to be padded to one length.")

    @property
    def tables(self) -> dict[str, Tensor]:
        """What has actions, by name."""
        given = {"plan": self.plans, "reference": self.references}
        return given if self.samples is None else given | {"sample": self.samples.plans}

    @cached_property
    def has_one_length(self) -> bool:
        """Whether all plans, references and samples have the same number of actions."""
        return has_one_length(*self.tables.values())


def read_predictions(path: Path, actions: ActionList, references: Path | None = None) -> Predictions:
    """Read a whole prediction file; its references may be in a file of their own, joined by `window`.

    Raises:
        PlanError: naming the line that is wrong.
    """
    known = None if references is None else _read_references(references, actions)
    rows = list(_read_rows(path, actions, known))
    missing = sorted(set(known or ()) - {row.window for row in rows})
    if missing:
        raise PlanError(f"{path}: no plan for {counted(len(missing), 'window')} of {references}: {listed(missing)}")
    width = max(row.width for row in rows)
    return Predictions(
        windows=tuple(row.window for row in rows),
        videos=tuple(row.video for row in rows if row.video is not None) or None,
        plans=pad_plans([row.plan for row in rows], width),
        references=pad_plans([row.reference for row in rows], width),
        samples=_join([row.samples for row in rows if row.samples is not None], width),
    )


@dataclass(frozen=True)
class _Samples:
    """The distinct sampled plans of one window, in the order of `PlanCounts`."""

    plans: NDArray[np.int32]  # (u, T) padded, half the size of what they become, since all windows are kept like this
    counts: NDArray[np.int64]  # (u,)


@dataclass(frozen=True)
class _Row:
    """One line with ids."""

    number: int
    window: str
    video: str | None
    plan: Sequence[int]  # empty in a file of references
    reference: Sequence[int]
    samples: _Samples | None = None

    @property
    def width(self) -> int:
        """The number of actions of its longest plan."""
        return max(len(self.plan), len(self.reference), 0 if self.samples is None else self.samples.plans.shape[1])


def _read_references(path: Path, actions: ActionList) -> dict[str, _Row]:
    def to_row(number: int, line: ReferenceLine) -> _Row:
        return _Row(number, line.window, line.video, (), _ids(actions, "reference", line.reference))

    return {row.window: row for row in _checked_rows(path, ReferenceLine, to_row)}


def _read_rows(path: Path, actions: ActionList, known: dict[str, _Row] | None) -> Iterator[_Row]:
    def to_row(number: int, line: PredictionLine[int | str]) -> _Row:
        plan, reference = (_ids(actions, name, getattr(line, name)) for name in ("plan", "reference"))
        video = line.video
        if known is not None:
            reference, video = _join_reference(line.window, video, reference, known)
        elif not reference:
            raise ValueError("`reference` is missing")
        return _Row(number, line.window, video, plan, reference, _samples(actions, line))

    return _checked_rows(path, PredictionLine[int | str], to_row)


def _checked_rows(path: Path, model: type[LineT], to_row: Callable[[int, LineT], _Row]) -> Iterator[_Row]:
    """Lines whose windows are new, and which have what the first line has."""
    line_of: dict[str, int] = {}
    first: _Row | None = None
    for place, line in read_lines(path, model):
        try:
            row = to_row(place.number, line)
            first = first or row
            _check_row(row, first, line_of)
        except ValueError as error:
            raise PlanError(f"{path}:{place.number}: {error}") from error
        line_of[row.window] = place.number
        yield row
    if first is None:
        raise PlanError(f"{path}: a header, and no line after it")


def _check_row(row: _Row, first: _Row, line_of: dict[str, int]) -> None:
    if row.window in line_of:
        raise ValueError(f"window {shown(row.window)} is also on line {line_of[row.window]}")
    _check_lengths([len(plan) for plan in (row.plan, row.reference) if plan] + [row.width, first.width])
    for name in ("video", "samples"):
        if (getattr(row, name) is None) != (getattr(first, name) is None):
            has = "no" if getattr(row, name) is None else "a"
            raise ValueError(f"{has} `{name}`, unlike line {first.number}; give it on every line or on none")


def _check_lengths(lengths: Sequence[int]) -> None:
    """One long plan among many short ones would take as much memory as many long ones."""
    if max(lengths) > max(MAX_LENGTH, min(lengths)):
        raise ValueError(f"a plan of {max(lengths)} actions; plans of several lengths have at most {MAX_LENGTH}")


def _join_reference(
    window: str, video: str | None, reference: Sequence[int], known: dict[str, _Row]
) -> tuple[Sequence[int], str | None]:
    if window not in known:
        raise ValueError(f"window {shown(window)} is not among the references")
    row = known[window]
    if reference and list(reference) != list(row.reference):
        raise ValueError(f"another reference than on line {row.number} of the references")
    return row.reference, video or row.video


def _samples(actions: ActionList, line: PredictionLine[int | str]) -> _Samples | None:
    """Equal plans become one with all their draws; most frequent first, ties by action ids."""
    if line.samples is None:
        return None
    if not line.samples:
        raise ValueError("`samples` is empty; expected at least one [[actions], count]")
    ids = _ids(actions, "samples", list(chain.from_iterable(plan for plan, _ in line.samples)))
    lengths = [len(plan) for plan, _ in line.samples]
    _check_lengths(lengths)
    plans = pad_ids(ids, lengths, dtype=np.int32)
    counts = np.array([count for _, count in line.samples])
    order = np.lexsort(plans.T[::-1])
    plans, counts = plans[order], counts[order]
    is_first = np.ones(len(plans), dtype=bool)
    is_first[1:] = (plans[1:] != plans[:-1]).any(axis=1)
    counts = np.add.reduceat(counts, np.flatnonzero(is_first))
    by_count = np.argsort(-counts, kind="stable")
    return _Samples(plans[is_first][by_count], counts[by_count])


def _ids(actions: ActionList, name: str, given: Sequence[int | str]) -> Sequence[int]:
    try:
        return actions.to_ids(given)
    except ValueError as error:
        raise ValueError(f"`{name}`: {error}") from error


def _join(samples: list[_Samples], width: int) -> PlanCounts | None:
    if not samples:
        return None
    first = np.cumsum([0, *(len(one.counts) for one in samples)], dtype=np.int64)
    plans = np.full((int(first[-1]), width), PAD, dtype=np.int64)
    for one, start in zip(samples, first[:-1], strict=True):
        plans[start : start + len(one.plans), : one.plans.shape[1]] = one.plans
    counts = np.concatenate([one.counts for one in samples])
    return PlanCounts(torch.from_numpy(plans), torch.from_numpy(counts), torch.from_numpy(first))


def _parse_line(text: str, model: type[LineT], where: str) -> LineT:
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        is_old = first["type"] == "missing" and first["loc"] == ("plan",) and "prediction" in first["input"]
        raise PlanError(f"{where}: {_OLD_NAMES if is_old else explain(error)}") from error


def _non_blank_lines(path: Path) -> Iterator[tuple[Place, str]]:
    require_file(path, "a file of JSON lines, or a CSV")
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise PlanError(f"{path}:{number}: byte {error.start + 1} of the line is not UTF-8") from error
            if text.strip():
                yield Place(number, offset), text
            offset += len(line)


def _csv_as_json(path: Path, lines: Iterator[tuple[Place, str]]) -> Iterator[tuple[Place, str]]:
    """The rows of a CSV as JSON; empty cells are left out."""
    at = Place(0, 0)  # of the last line that was read: a row may take several

    def texts() -> Iterator[str]:
        nonlocal at
        for place, text in lines:
            at = place
            yield text

    limit = csv.field_size_limit(_MAX_CELL)
    try:
        rows = csv.reader(texts(), strict=True, skipinitialspace=True)
        header = [name.strip() for name in next(rows)]
        for row in rows:
            if len(row) > len(header):
                raise PlanError(f"{path}:{at.number}: {len(row)} cells, but the header names {len(header)} columns")
            cells = {name: cell for name, cell in zip(header, row, strict=False) if cell.strip()}
            yield at, json.dumps({name: parse(cells[name]) for name, parse in _COLUMNS.items() if name in cells})
    except csv.Error as error:
        raise PlanError(f"{path}:{at.number}: not CSV: {error}") from error
    except ValueError as error:
        raise PlanError(f"{path}:{at.number}: {error}") from error
    finally:
        csv.field_size_limit(limit)


def _parse_list(cell: str) -> object:
    """JSON, or words between spaces, of which numbers are ids."""
    if cell.lstrip().startswith("["):
        return parse_json(cell)
    return [int(word) if word.isascii() and word.isdecimal() and len(word) <= 18 else word for word in cell.split()]


_COLUMNS: dict[str, Callable[[str], object]] = {
    **dict.fromkeys(("window", "video", "task", "prediction"), str),
    **dict.fromkeys(("plan", "reference", "samples"), _parse_list),
}
