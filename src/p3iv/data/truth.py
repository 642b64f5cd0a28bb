"""truth.jsonl: the true distribution of plans of windows, if the process that made the videos is known."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from p3iv.types import Video, Vocabulary
from p3iv.validation import explain, shown

TRUTH_FILE = "truth.jsonl"

Plans = tuple[tuple[tuple[int, ...], float], ...]


@dataclass(frozen=True)
class TrueWindow:
    """The true distribution of plans of one window."""

    video: str
    first_step: int
    horizon: int
    plans: Plans  # action ids, probability


class TruthLine(BaseModel):
    """One line of truth.jsonl."""

    model_config = ConfigDict(strict=True)

    video: str
    first_step: int
    horizon: PositiveInt
    plans: list[tuple[list[str], Annotated[float, Field(ge=0, allow_inf_nan=False)]]]


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
        window = TrueWindow(content.video, content.first_step, content.horizon, plans)
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
        end = window.first_step + window.horizon
        if not 0 <= window.first_step <= len(ids) - window.horizon:
            raise ValueError(f"steps {window.first_step} to {end - 1} do not all exist; the video has {len(ids)}")
        if tuple(ids[window.first_step : end]) not in dict(window.plans):
            raise ValueError("the steps in the video are not among the plans")


def _check_plans(window: TrueWindow) -> None:
    if any(len(plan) != window.horizon for plan, _ in window.plans):
        raise ValueError(f"a plan does not have {window.horizon} steps")
    if len(dict(window.plans)) != len(window.plans):
        raise ValueError("the same plan twice")
    if not math.isclose(total := sum(probability for _, probability in window.plans), 1.0, abs_tol=1e-6):
        raise ValueError(f"the probabilities sum to {total:.6f}, not to 1")
