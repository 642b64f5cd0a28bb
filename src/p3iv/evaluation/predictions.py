"""Prediction files: what a planner said for every window, beside what was done there, for anybody to write.

JSON lines, or a CSV with the same columns and lists as JSON or as ids between spaces; further keys are left unread:

    {"window": "v1:0", "prediction": [3, 5], "reference": [3, 4], "samples": [[[3, 5], 9], [[3, 4], 1]], "video": "v1"}

`samples` (plans and how often each was drawn) and `video` stand on every line or on none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from p3iv.errors import PlanError
from p3iv.evaluation.records import Record, parse_json, read_records, require_file, shown
from p3iv.files import atomic_file
from p3iv.plans.distribution import PlanCounts
from p3iv.types import counted, listed

MOST_ACTIONS = 100_000


@dataclass(frozen=True)
class ActionList:
    """Ids from 0, and names where they are listed."""

    number: int
    id_of: Mapping[str, int] = field(default_factory=dict)

    def to_ids(self, actions: Sequence[Any]) -> Sequence[int]:
        """Ids of actions given by id or by name.

        Raises:
            ValueError: naming the first that is neither.
        """
        if set(map(type, actions)) == {int} and min(actions) >= 0 and max(actions) < self.number:
            return actions
        return [self._id(action) for action in actions]

    def _id(self, action: object) -> int:
        if isinstance(action, str) and action in self.id_of:
            return self.id_of[action]
        if type(action) is int and 0 <= action < self.number:
            return action
        names = "or one of the names listed" if self.id_of else "(names need a list: --actions FILE)"
        raise ValueError(f"{shown(action)} is not an action; expected an id from 0 to {self.number - 1} {names}")


def read_actions(text: str) -> ActionList:
    """A number of actions, or a file of their names: one per line, or a JSON list.

    Raises:
        PlanError: for a number out of range, and for a file that is not such a list.
    """
    if re.fullmatch(r"[+-]?\d+", text):
        if len(text) > 9 or not 1 <= int(text) <= MOST_ACTIONS:
            raise PlanError(f"--actions {text[:20]}: expected a number from 1 to {MOST_ACTIONS}, or a file of names.")
        return ActionList(int(text))
    require_file(Path(text), "the number of actions, or a file of their names")
    try:
        names = _parse_names(Path(text).read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise PlanError(f"{text}: byte {error.start + 1} is not UTF-8.") from error
    except ValueError as error:
        raise PlanError(f"{text}: {error}") from error
    return ActionList(len(names), {name: number for number, name in enumerate(names)})


def _parse_names(text: str) -> list[str]:
    """One name per line, or a JSON list of them."""
    if text.lstrip().startswith("["):
        names = parse_json(text)
        if not isinstance(names, list) or any(not isinstance(name, str) for name in names):
            raise ValueError("expected a JSON list of names")
    else:
        names = [line.strip() for line in text.rstrip().split("\n")]
    line_of: dict[str, int] = {}
    for number, name in enumerate(names, start=1):
        if not name or name in line_of:
            raise ValueError(f"name {number} is " + (f"{shown(name)}, as is name {line_of[name]}" if name else "empty"))
        line_of[name] = number
    if not 1 <= len(names) <= MOST_ACTIONS:
        raise ValueError(f"{counted(len(names), 'name')}; expected 1 to {MOST_ACTIONS}")
    return names


MOST_DRAWS = 10**9  # of one plan in one window


@dataclass(frozen=True)
class Predictions:
    """One predicted plan per window, the plan that was followed there, and perhaps sampled plans."""

    windows: tuple[str, ...]  # (N,)
    videos: tuple[str, ...] | None  # (N,)
    predictions: Tensor  # (N, T) int64
    references: Tensor  # (N, T) int64
    samples: PlanCounts | None  # of N windows

    def __post_init__(self) -> None:
        columns: list[Sized | None] = [self.windows, self.videos, self.predictions, self.references, self.samples]
        if {len(column) for column in columns if column is not None} != {len(self.windows)} or not self.windows:
            raise PlanError("Predictions need at least one window, and as many of everything as there are windows.")
        plans = [self.predictions, self.references, *([self.samples.plans] if self.samples is not None else [])]
        if len({table.shape[1:] for table in plans}) != 1:
            raise PlanError("Predictions, references and samples need plans of one length.")


def read_predictions(path: Path, actions: ActionList, references: Path | None = None) -> Predictions:
    """Read a prediction file; its references may stand in a file of their own, joined by `window`.

    Raises:
        PlanError: with the line that cannot be what it says it is.
    """
    known = None
    if references is not None:
        known = {line.window: line for line in _read_lines(references, _LineParser(actions).reference_line)}
    lines = list(_read_lines(path, _LineParser(actions, known).prediction_line))
    missing = sorted(set(known or ()) - {line.window for line in lines})
    if missing:
        raise PlanError(
            f"{path}: no prediction for {counted(len(missing), 'window')} of {references}: {listed(missing)}"
        )
    return Predictions(
        windows=tuple(line.window for line in lines),
        videos=tuple(line.video for line in lines if line.video is not None) or None,
        predictions=torch.tensor([line.prediction for line in lines], dtype=torch.int64),
        references=torch.tensor([line.reference for line in lines], dtype=torch.int64),
        samples=_join([line.samples for line in lines if line.samples is not None]),
    )


def write_predictions(path: Path, predictions: Predictions) -> None:
    """Write JSON lines that `read_predictions` reads back to the same predictions: the whole file or none."""
    with atomic_file(path) as beside, beside.open("w", encoding="utf-8") as file:
        for number, window in enumerate(predictions.windows):
            record: Record = {"window": window}
            if predictions.videos is not None:
                record["video"] = predictions.videos[number]
            record["prediction"] = predictions.predictions[number].tolist()
            record["reference"] = predictions.references[number].tolist()
            if predictions.samples is not None:
                plans, counts = predictions.samples.rows(number)
                record["samples"] = list(zip(plans.tolist(), counts.tolist(), strict=True))
            file.write(json.dumps(record) + "\n")


@dataclass(frozen=True)
class _Samples:
    """The distinct sampled plans of one window, in the order of `PlanCounts`."""

    plans: NDArray[np.int32]  # (u, T), half the size of what they become, since all windows wait like this
    counts: NDArray[np.int64]  # (u,)


@dataclass(frozen=True)
class _Line:
    number: int
    window: str
    video: str | None
    prediction: Sequence[int]  # empty in a file of references
    reference: Sequence[int]
    samples: _Samples | None


def _read_lines(path: Path, parse: Callable[[int, Record], _Line]) -> Iterator[_Line]:
    """Lines whose windows are new and which are like the first."""
    line_of: dict[str, int] = {}
    first: _Line | None = None
    for number, record in read_records(path):
        try:
            line = parse(number, record)
            first = first or line
            _check_line(line, first, line_of)
        except ValueError as error:
            raise PlanError(f"{path}:{number}: {error}") from error
        line_of[line.window] = number
        yield line
    if first is None:
        raise PlanError(f"{path}: a header, and no line after it")


def _check_line(line: _Line, first: _Line, line_of: dict[str, int]) -> None:
    if line.window in line_of:
        raise ValueError(f"window {line.window!r} is there already, on line {line_of[line.window]}")
    horizon, before = len(line.reference), len(first.reference)
    if horizon != before:
        raise ValueError(f"plans of {horizon}, but of {before} on line {first.number}; score each horizon on its own")
    for name in ("video", "samples"):
        if (getattr(line, name) is None) != (getattr(first, name) is None):
            has = "no" if getattr(line, name) is None else "a"
            raise ValueError(f"{has} `{name}`, unlike line {first.number}; give it on every line or on none")


class _LineParser:
    """Makes lines of records; every ValueError says what is wrong with one."""

    def __init__(self, actions: ActionList, known: dict[str, _Line] | None = None) -> None:
        self._actions = actions
        self._known = known

    def reference_line(self, number: int, record: Record) -> _Line:
        _require(record, "window", "reference")
        reference = self._plan(record, "reference")
        return _Line(number, _text(record, "window"), _video(record), (), reference, None)

    def prediction_line(self, number: int, record: Record) -> _Line:
        _require(record, "window", "prediction", *(["reference"] if self._known is None else []))
        window, video, prediction = _text(record, "window"), _video(record), self._plan(record, "prediction")
        reference: Sequence[int] = self._plan(record, "reference") if record.get("reference") is not None else ()
        if self._known is not None:
            if window not in self._known:
                raise ValueError(f"window {window!r} is not among the references")
            known = self._known[window]
            if reference and list(reference) != list(known.reference):
                raise ValueError(f"another reference than on line {known.number} of the references")
            reference, video = known.reference, video or known.video
        if len(prediction) != len(reference):
            raise ValueError(f"a prediction of {len(prediction)} actions, a reference of {len(reference)}")
        return _Line(number, window, video, prediction, reference, self._samples(record, len(prediction)))

    def _plan(self, record: Record, name: str) -> Sequence[int]:
        actions = _list(record, name)
        if not actions:
            raise ValueError(f"`{name}` is empty; expected at least one action")
        return self._ids(name, actions)

    def _samples(self, record: Record, horizon: int) -> _Samples | None:
        if record.get("samples") is None:
            return None
        pairs = _list(record, "samples")
        if not _are_lists(pairs, 2):
            raise ValueError("`samples` must be a list of [[actions], count], at least one")
        plans, counts = zip(*pairs, strict=True)
        if not _are_lists(plans, horizon):
            raise ValueError(f"`samples`: a plan that is not a list of {horizon} actions, as the prediction is")
        if set(map(type, counts)) != {int} or min(counts) < 1 or max(counts) > MOST_DRAWS:
            wrong = next(count for count in counts if type(count) is not int or not 1 <= count <= MOST_DRAWS)
            raise ValueError(f"`samples`: a count of {shown(wrong)}; expected a whole number, 1 to {MOST_DRAWS}")
        ids = self._ids("samples", list(chain.from_iterable(plans)))
        return _distinct(np.array(ids, dtype=np.int32).reshape(-1, horizon), np.array(counts, dtype=np.int64))

    def _ids(self, name: str, actions: list[Any]) -> Sequence[int]:
        try:
            return self._actions.to_ids(actions)
        except ValueError as error:
            raise ValueError(f"`{name}`: {error}") from error


def _require(record: Record, *names: str) -> None:
    missing = [f"`{name}`" for name in names if record.get(name) is None]
    if missing:
        raise ValueError(f"no {listed(missing)}; there is {listed([shown(name) for name in record]) or 'nothing'}")


def _video(record: Record) -> str | None:
    return None if record.get("video") is None else _text(record, "video")


def _text(record: Record, name: str) -> str:
    """Texts, and whole numbers as such."""
    value = record[name]
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise ValueError(f"`{name}` is {shown(value)}; expected a text")
    return str(value)


def _list(record: Record, name: str) -> list[Any]:
    """A list, or a text that holds one: as JSON, or as words between spaces, of which numbers become ids."""
    value = record[name]
    if isinstance(value, str):
        value = parse_json(value) if value.lstrip().startswith("[") else [_word(word) for word in value.split()]
    if not isinstance(value, list):
        raise ValueError(f"`{name}` is {shown(value)}; expected a list")  # noqa: TRY004 - one kind for every wrong line
    return value


def _are_lists(values: Sequence[Any], length: int) -> bool:
    """Whether they are lists of that length, at least one; by map, since there may be millions."""
    return set(map(type, values)) == {list} and set(map(len, values)) == {length}


def _word(word: str) -> int | str:
    return int(word) if word.isascii() and word.isdecimal() and len(word) <= 18 else word


def _distinct(plans: NDArray[np.int32], counts: NDArray[np.int64]) -> _Samples:
    """Equal plans become one with all their draws; most frequent first, ties by action ids."""
    order = np.lexsort(plans.T[::-1])
    plans, counts = plans[order], counts[order]
    is_first = np.ones(len(plans), dtype=bool)
    is_first[1:] = (plans[1:] != plans[:-1]).any(axis=1)
    counts = np.add.reduceat(counts, np.flatnonzero(is_first))
    by_count = np.argsort(-counts, kind="stable")
    return _Samples(plans[is_first][by_count], counts[by_count])


def _join(samples: list[_Samples]) -> PlanCounts | None:
    if not samples:
        return None
    first = np.cumsum([0, *(len(one.counts) for one in samples)], dtype=np.int64)
    plans = np.concatenate([one.plans for one in samples], dtype=np.int64)
    counts = np.concatenate([one.counts for one in samples])
    return PlanCounts(torch.from_numpy(plans), torch.from_numpy(counts), torch.from_numpy(first))
