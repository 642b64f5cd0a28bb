"""The types that all parts share: steps, videos, vocabularies, windows, splits, problems, progress."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:  # `p3iv --help` reads this module and must not wait for numpy
    from typing import Any

    import numpy as np

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

Side = Literal["train", "val", "test"]

SIDES: tuple[Side, ...] = ("train", "val", "test")

# Characters that change how a terminal or a page shows the rest: control characters, line and paragraph separators,
# changes of the writing direction; and surrogates, which cannot be written.
UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True)
class Step:
    """One action in a video; both times are None if only the order of the steps is known."""

    action: str
    start_s: float | None = None
    end_s: float | None = None
    extra: tuple[tuple[str, str], ...] = ()  # further columns of steps.csv, unchanged


@dataclass(frozen=True)
class Video:
    """One video and its steps, ordered by start, then end, unless steps.csv has a column `order`."""

    id: str
    task: str
    steps: tuple[Step, ...]
    aliases: tuple[str, ...] = ()  # other names that its files may have, such as TASK_VIDEO

    @property
    def is_timed(self) -> bool:
        """Whether the steps have times: either all of them or none."""
        return all(step.start_s is not None and step.end_s is not None for step in self.steps)


@dataclass(frozen=True)
class Action:
    """One entry of a vocabulary: a unique name, its description, and its number in the release if it has one."""

    name: str
    text: str
    id: str | None = None


@dataclass(frozen=True)
class Vocabulary:
    """The actions of a dataset; an action's position is its id everywhere after the readers."""

    actions: tuple[Action, ...]

    def __len__(self) -> int:
        return len(self.actions)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(action.name for action in self.actions)

    @cached_property
    def id_of(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}


@dataclass(frozen=True)
class Split:
    """The video ids of each side."""

    train: tuple[str, ...]
    val: tuple[str, ...]
    test: tuple[str, ...]

    def side(self, name: Side) -> tuple[str, ...]:
        return {"train": self.train, "val": self.val, "test": self.test}[name]


@dataclass(frozen=True)
class Problem:
    """Something in a source that could not be used, where it is, and what was done about it."""

    where: str  # a file, with a line number if there is one: annotations/23521_abc.csv:4
    what: str
    done: str
    count: int = 1  # more than 1: problems that are counted together

    def __str__(self) -> str:
        return f"{self.where}: {self.what}; {self.done}"


@dataclass(frozen=True)
class Annotations:
    """The result of a reader, in one form for all releases."""

    name: str
    videos: tuple[Video, ...]
    vocabulary: Vocabulary
    problems: tuple[Problem, ...] = ()
    split: Split | None = None  # the release's own; an empty val is filled from train when the split is used
    notes: tuple[str, ...] = ()  # what was written in another way than documented, and how it was understood


@dataclass(frozen=True)
class Window:
    """One planning example: T consecutive actions and the two moments that the planner observes."""

    video: str
    first_step: int  # index in the video of the first action that is predicted
    action_ids: tuple[int, ...]  # (T,)
    start_s: float | None  # the start observation is centred here
    goal_s: float | None  # infinite: at the end of the video


@dataclass(frozen=True)
class PlanScores:
    """How good the plans of some windows are: means, as shares from 0 to 1."""

    success_rate: float
    mean_accuracy: float
    mean_iou: float
    num_windows: int


def mean_scores(parts: Iterable[PlanScores]) -> PlanScores:
    """The scores of several sets of windows together."""
    scores = list(parts)
    total = sum(one.num_windows for one in scores)
    return PlanScores(
        success_rate=sum(one.success_rate * one.num_windows for one in scores) / total,
        mean_accuracy=sum(one.mean_accuracy * one.num_windows for one in scores) / total,
        mean_iou=sum(one.mean_iou * one.num_windows for one in scores) / total,
        num_windows=total,
    )


TRAINING: Final = "Training epochs"  # what a training does, in its `Progress`


@dataclass(frozen=True)
class Progress:
    """How far long work has come; functions that take long call `progress` with it.

    In the last call, `done` equals `total`. An exception that is raised in a call, KeyboardInterrupt included, stops
    the work and leaves files that the same call continues; training continues with `resume=True`.

    Example:
        >>> def show(at: p3iv.Progress) -> None:
        ...     print(f"{at.what}: {at.share:.0%} {at.about}")
        >>> show(p3iv.Progress("Extracting videos", done=3, total=4, about="120 frames/s"))
        Extracting videos: 75% 120 frames/s
    """

    what: str  # such as "Extracting videos"
    done: float  # from 0 to `total`; a part of an epoch counts as a fraction
    total: int
    about: str = ""  # a speed, the last result, the time left
    values: Mapping[str, float] = field(default_factory=dict)  # of training: losses and scores, as in metrics.csv

    @property
    def share(self) -> float:
        """How much is done, from 0 to 1."""
        return self.done / self.total if self.total else 1.0


OnProgress = Callable[[Progress], None]

LEFT_WITHOUT_FEATURES = "left without features"  # what was done about a video whose features cannot be used


def list_problems(problems: Sequence[Problem], max_lines: int = 20) -> str:
    """The first problems for a message, one per line, and how many more there are."""
    lines = [f"  {problem}" for problem in problems[:max_lines]]
    more = [f"  and {count_problems(problems[max_lines:])} more"] if len(problems) > max_lines else []
    return "\n".join([*lines, *more])


def count_problems(problems: Sequence[Problem]) -> int:
    return sum(problem.count for problem in problems)


def listed(names: Sequence[str], max_names: int = 5) -> str:
    """A few names for a message, and how many more there are: a, b and 3 more."""
    shown = ", ".join(names[:max_names])
    return shown if len(names) <= max_names else f"{shown} and {len(names) - max_names} more"


def hash_number(text: str | bytes) -> int:
    """A 64-bit number that depends on a text only: all random draws are seeded by texts that name their purpose."""
    content = text.encode() if isinstance(text, str) else text
    return int.from_bytes(hashlib.sha256(content).digest()[:8], "big")


def clock(seconds: float) -> str:
    """A duration in the unit that fits: 40 s, 5 min, 2.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def counted(number: int, noun: str) -> str:
    """A number and its noun: 1 problem, 2 problems."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def counted_range(numbers: Sequence[int], noun: str) -> str:
    """The smallest and the largest of some numbers, and their noun: 1 to 6 steps; of one number, 3 steps.

    >>> counted_range((1, 2, 3), "step"), counted_range((1,), "step")
    ('1 to 3 steps', '1 step')
    """
    low, high = min(numbers), max(numbers)
    return counted(high, noun) if low == high else f"{low} to {high} {noun}s"
