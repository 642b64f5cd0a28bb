"""truth.jsonl: the true plan distribution of windows, where the process that made the videos is known."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from p3iv.types import Video, Vocabulary

TRUTH_FILE = "truth.jsonl"

Plans = tuple[tuple[tuple[int, ...], float], ...]


@dataclass(frozen=True)
class TrueWindow:
    """The true plan distribution of one window."""

    video: str
    first_step: int
    horizon: int
    plans: Plans  # action ids, probability


class TruthReader:
    """Reads lines of truth.jsonl against the videos and the vocabulary that they speak of."""

    def __init__(self, videos: Sequence[Video], vocabulary: Vocabulary) -> None:
        self._id_of = vocabulary.id_of
        self._ids_of_video = {video.id: [self._id_of.get(step.action) for step in video.steps] for video in videos}

    def read(self, line: bytes) -> TrueWindow:
        """One line.

        Raises:
            ValueError: saying what is wrong with it.
        """
        try:
            content = json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)
            window = self._window(content)
        except KeyError as error:
            raise ValueError(f"{error.args[0]!r} is missing or unknown") from error
        except (TypeError, OverflowError, RecursionError) as error:
            raise ValueError(_EXPECTED) from error
        _check_plans(window)
        self._check_executed(window)
        return window

    def video_of(self, line: bytes) -> str:
        """The video that a line speaks of, as far as it can be told, for a message."""
        try:
            return str(json.loads(line)["video"])
        except (ValueError, TypeError, KeyError, RecursionError):
            return "an unknown video"

    def _window(self, content: dict[str, object]) -> TrueWindow:
        video, first_step, horizon, plans = (content[key] for key in ("video", "first_step", "horizon", "plans"))
        if not isinstance(video, str) or type(first_step) is not int or type(horizon) is not int:
            raise ValueError(_EXPECTED)
        if not isinstance(plans, list):
            raise ValueError(_EXPECTED)  # noqa: TRY004 - one kind of error for every wrong line
        parsed = tuple(
            (tuple(self._id_of[name] for name in names), _probability(probability)) for names, probability in plans
        )
        return TrueWindow(video, first_step, horizon, parsed)

    def _check_executed(self, window: TrueWindow) -> None:
        """What was done in the video is one of the ways to do it; if it is not, the line speaks of other steps."""
        if window.video not in self._ids_of_video:
            raise ValueError(f"{window.video!r} is missing or unknown")
        ids = self._ids_of_video[window.video]
        last = window.first_step + window.horizon
        if not 0 <= window.first_step <= len(ids) - window.horizon:
            raise ValueError(f"steps {window.first_step} to {last - 1} are not all there")
        if tuple(ids[window.first_step : last]) not in dict(window.plans):
            raise ValueError("what was done in the video is not among the plans")


_EXPECTED = 'expected {"video": NAME, "first_step": NUMBER, "horizon": NUMBER, "plans": [[[STEP, ...], NUMBER], ...]}'


def _check_plans(window: TrueWindow) -> None:
    if window.horizon < 1:
        raise ValueError(f"the horizon is {window.horizon}, but must be at least 1")
    if any(len(plan) != window.horizon for plan, _ in window.plans):
        raise ValueError(f"a plan that has not {window.horizon} steps")
    if len(dict(window.plans)) != len(window.plans):
        raise ValueError("the same plan twice")
    if not math.isclose(total := sum(probability for _, probability in window.plans), 1.0, abs_tol=1e-6):
        raise ValueError(f"the probabilities sum to {total:.6f}, not to 1")


def _probability(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise ValueError("a probability that is not a finite number from 0")
    return float(value)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a finite number")
