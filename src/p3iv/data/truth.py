"""truth.jsonl: the true distribution of plans of windows, if the process that made the videos is known."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from p3iv.types import Video, Vocabulary
from p3iv.validation import explain, shown

TRUTH_FILE = "truth.jsonl"

Plans = tuple[tuple[tuple[int, ...], float], ...]


@dataclass(frozen=True)
class TrueWindow:
    """The true distribution of plans of one window: with its number of steps known, unknown, or both.

    It is for both where start and goal tell the number of steps, so that nothing changes when it becomes known. For
    other allowed numbers of steps within `horizons`, see `condition_truth`.
    """

    video: str
    first_step: int
    num_steps: int  # from start to goal in the video
    horizon: int | None  # num_steps if the distribution holds for plans of this known length, else None
    horizons: tuple[int, int] | None  # least and most steps if it holds for plans of unknown length, else None
    plans: Plans  # action ids, probability


@dataclass(frozen=True)
class ConditionedTruth:
    """The true distribution of plans under a condition."""

    share: float  # probability that a plan satisfies the condition; 0: it is impossible under the truth
    plans: Plans  # those with a probability above 0 that satisfy it, in their order; none if it is impossible


def condition_truth(plans: Plans, allows: Callable[[tuple[int, ...]], bool]) -> ConditionedTruth:
    """Restrict the true plans to those that satisfy a condition, and scale their probabilities to a sum of 1.

    Example:
        >>> plans = (((1, 2), 0.5), ((2, 1), 0.25), ((3,), 0.25))
        >>> condition_truth(plans, lambda plan: len(plan) == 2 and plan[0] == 2)
        ConditionedTruth(share=0.25, plans=(((2, 1), 1.0),))
        >>> condition_truth(plans, lambda plan: 4 in plan)
        ConditionedTruth(share=0.0, plans=())
    """
    allowed = [(plan, probability) for plan, probability in plans if probability > 0 and allows(plan)]
    share = math.fsum(probability for _, probability in allowed)
    return ConditionedTruth(share, tuple((plan, probability / share) for plan, probability in allowed))


class TruthLine(BaseModel):
    """One line of truth.jsonl: `horizon` for a known number of steps, `horizons` for an unknown one, or both.

    A line without `horizon` has `num_steps`: how many steps there are from start to goal in the video.
    """

    model_config = ConfigDict(strict=True)

    video: str
    first_step: int
    horizon: PositiveInt | None = None
    num_steps: PositiveInt | None = None
    horizons: tuple[PositiveInt, PositiveInt] | None = None
    plans: list[tuple[list[str], Annotated[float, Field(ge=0, allow_inf_nan=False)]]]

    @property
    def length(self) -> int:
        """Number of steps from start to goal in the video."""
        length = self.num_steps if self.horizon is None else self.horizon
        if length is None:
            raise ValueError("neither `horizon` nor `num_steps` is given")
        if self.num_steps not in (None, length):
            raise ValueError(f"`num_steps` is {self.num_steps}, but `horizon` is {self.horizon}")
        return length


class TruthReader:
    """Reads lines of truth.jsonl and checks them against the videos and the vocabulary."""

    def __init__(self, videos: Sequence[Video], vocabulary: Vocabulary) -> None:
        self._id_of = vocabulary.id_of
        self._ids_of_video = {video.id: [self._id_of.get(step.action) for step in video.steps] for video in videos}

    def read(self, line: bytes) -> TrueWindow:
        """Read one line.

        Raises:
            ValueError: saying what is wrong with it.
        """
        try:
            content = TruthLine.model_validate_json(line)
        except ValidationError as error:
            raise ValueError(explain(error)) from error
        plans = tuple((self._ids(names), probability) for names, probability in content.plans)
        window = TrueWindow(content.video, content.first_step, content.length, content.horizon, content.horizons, plans)
        _check_lengths(window)
        _check_plans(window)
        self._check_executed(window)
        return window

    def video_of(self, line: bytes) -> str:
        """The video of a line that may be unusable, for a message."""
        try:
            return str(json.loads(line)["video"])
        except (ValueError, TypeError, KeyError, RecursionError):
            return "an unknown video"

    def _ids(self, names: Sequence[str]) -> tuple[int, ...]:
        for name in names:
            if name not in self._id_of:
                raise ValueError(f"step {shown(name)} is unknown")
        return tuple(self._id_of[name] for name in names)

    def _check_executed(self, window: TrueWindow) -> None:
        """The steps in the video must be one of the plans; otherwise the line is about other steps."""
        if window.video not in self._ids_of_video:
            raise ValueError(f"video {shown(window.video)} is unknown")
        ids = self._ids_of_video[window.video]
        end = window.first_step + window.num_steps
        if not 0 <= window.first_step <= len(ids) - window.num_steps:
            raise ValueError(f"steps {window.first_step} to {end - 1} do not all exist; the video has {len(ids)}")
        if tuple(ids[window.first_step : end]) not in dict(window.plans):
            raise ValueError("the steps in the video are not among the plans")


def _check_lengths(window: TrueWindow) -> None:
    if window.horizon is None and window.horizons is None:
        raise ValueError("neither `horizon` nor `horizons` is given")
    least, most = window.horizons or (window.num_steps, window.num_steps)
    if not least <= window.num_steps <= most:
        raise ValueError(f"`horizons` is [{least}, {most}], without the {window.num_steps} steps of the window")
    if window.horizon is not None:
        least = most = window.horizon
    if any(not least <= len(plan) <= most for plan, _ in window.plans):
        raise ValueError(f"a plan does not have {least if least == most else f'{least} to {most}'} steps")


def _check_plans(window: TrueWindow) -> None:
    if len(dict(window.plans)) != len(window.plans):
        raise ValueError("the same plan twice")
    if not math.isclose(total := sum(probability for _, probability in window.plans), 1.0, abs_tol=1e-6):
        raise ValueError(f"the probabilities sum to {total:.6f}, not to 1")
