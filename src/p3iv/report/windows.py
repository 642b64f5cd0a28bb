"""predictions.jsonl, line by line: the file may be far larger than what a report keeps of it."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from p3iv.report.inputs import ReportError

Plan = tuple[str, ...]  # the names of its steps


@dataclass(frozen=True)
class WindowPlans:
    """What was planned for one window."""

    window: str  # VIDEO:FIRST_STEP
    video: str
    task: str
    start_s: float | None
    goal_s: float | None
    prediction: Plan  # the decoded plan
    probability: float | None  # of it, under the chain that decoded it
    reference: Plan  # empty where none is known
    samples: tuple[tuple[Plan, int], ...]  # distinct plans with how often each was drawn, most frequent first

    @property
    def is_right(self) -> bool:
        return self.prediction == self.reference

    @cached_property
    def num_samples(self) -> int:
        return sum(count for _, count in self.samples)

    @property
    def num_matches(self) -> int:
        """Positions at which the decoded plan has the reference's step."""
        return sum(step == wanted for step, wanted in zip(self.prediction, self.reference, strict=True))


def read_predictions(path: Path) -> Iterator[tuple[int, WindowPlans]]:
    """Every window with the byte at which its line begins."""
    offset = 0
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield offset, _read_line(line, f"{path}:{number}")
                offset += len(line)
    except OSError as error:
        raise ReportError(f"{path} cannot be read ({error.strerror}).") from error


def read_windows_at(path: Path, offsets: Iterable[int]) -> list[WindowPlans]:
    """The windows whose lines begin at these bytes, in the order asked for."""
    with path.open("rb") as file:
        windows = []
        for offset in offsets:
            file.seek(offset)
            windows.append(_read_line(file.readline(), f"{path}, byte {offset}"))
    return windows


def _read_line(line: bytes, where: str) -> WindowPlans:
    try:
        return _window_from(json.loads(line))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else error
        raise ReportError(f"{where}: not a line of predictions: {reason}. Evaluate the run again.") from error


def _window_from(content: dict[str, Any]) -> WindowPlans:
    prediction, reference = _plan(content["prediction"]), _plan(content["reference"])
    drawn: Counter[Plan] = Counter()
    for plan, count in content.get("samples") or []:
        drawn[_plan(plan)] += _count(count)
    if len({len(plan) for plan in (prediction, reference, *drawn)}) != 1 or not prediction:
        raise ValueError("prediction, reference and samples must be plans of one length")
    probability = _number(content.get("probability"), "probability")
    if probability is not None and not 0 <= probability <= 1 + 1e-6:
        raise ValueError(f"probability is {probability}, but it must be from 0 to 1")
    return WindowPlans(
        window=str(content["window"]),
        video=str(content.get("video", "")),
        task=str(content.get("task", "")),
        start_s=_number(content.get("start_s"), "start_s"),
        goal_s=_number(content.get("goal_s"), "goal_s"),
        prediction=prediction,
        probability=None if probability is None else min(probability, 1.0),
        reference=reference,
        samples=tuple(drawn.most_common()),
    )


def _plan(steps: Any) -> Plan:
    if not isinstance(steps, list) or not all(isinstance(step, str) for step in steps):
        raise TypeError(f"{str(steps)[:40]!r} is not a list of step names")
    return tuple(steps)


def _count(count: Any) -> int:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ValueError(f"a plan was drawn {str(count)[:40]!r} times")
    return count


def _number(value: Any, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is {str(value)[:40]!r}, not a number")
    return float(value)
