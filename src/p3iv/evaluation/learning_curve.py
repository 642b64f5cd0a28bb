"""Whether there are enough videos (enough.json): cross-validated scores by number of videos, and what more would bring.

The success rate p of planners that learn from n videos is taken to follow

    logit p(n) = a + b log2 n

A line through the three points at a quarter, a half and all of the training videos of the folds gives a and b, and
p(2n) follows. Videos are left out one at a time, at all three points together, and the variance of the results gives
the interval: it is for other videos, and for the curve only as far as this formula is right.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from p3iv.errors import PlanError
from p3iv.evaluation.cross_validated import CrossValidation
from p3iv.files import write_text
from p3iv.metrics.intervals import Interval, t_quantile
from p3iv.types import counted
from p3iv.validation import read_model

ENOUGH_FILE: Final = "enough.json"
ENOUGH_FOLDER: Final = "enough"  # of a dataset folder
DRAWING_FILE: Final = "learning_curve.svg"
MIN_VIDEOS: Final = 10  # a quarter of the eight that train a fold of 5 are two: one to train, one to validate
MIN_WINDOWS: Final = 40  # with fewer, one window changes a score by more than 2.5 points
MAX_WIDTH: Final = 0.5  # of the interval for twice as many videos: half of all scores that there are


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class CurvePoint(_Part):
    """The cross-validated score of planners that learn from a part of the videos."""

    num_videos: float = Field(gt=0)  # that a planner learns from; a mean over the folds
    success_rate: Interval


class LearningCurve(_Part):
    """Success rates from 0 to 1 by number of videos."""

    format: Literal[1] = 1
    data: str
    feature_fingerprint: str = ""
    planner: str
    horizon: int | None
    num_folds: int
    num_videos: int
    num_windows: int
    points: tuple[CurvePoint, ...]  # from few to all videos
    double: Interval | None  # expected with twice as many videos; None where there are too few to say
    gain: Interval | None  # that minus the score with all videos
    too_few: str | None  # why there is no number

    def to_dict(self) -> dict[str, Any]:
        """For JSON, which has no nan."""
        return self.model_dump(mode="json")


def make_curve(parts: Sequence[tuple[float, CrossValidation]]) -> LearningCurve:
    """The curve of cross-validations of the same videos, from few to all training videos.

    Args:
        parts: the number of videos that a planner learns from, and the scores.
    """
    last = parts[-1][1]
    double, gain = _double([_hits_of(found) for _, found in parts])
    why = _why_too_few(last, double)
    return LearningCurve(
        data=last.data,
        feature_fingerprint=last.feature_fingerprint,
        planner=last.planner,
        horizon=last.horizon,
        num_folds=last.num_folds,
        num_videos=last.num_videos,
        num_windows=last.num_windows,
        points=tuple(CurvePoint(num_videos=n, success_rate=found.plans["success_rate"]) for n, found in parts),
        double=None if why else double,
        gain=None if why else gain,
        too_few=why,
    )


def check_amounts(num_videos: int, num_windows: int) -> str | None:
    """Why there is too little for a curve; None if there is enough to try."""
    if num_videos < MIN_VIDEOS:
        return (
            f"{counted(num_videos, 'video')}; a curve needs {MIN_VIDEOS}, because it also trains on a quarter of them"
        )
    if num_windows < MIN_WINDOWS:
        return f"{counted(num_windows, 'window')}; with fewer than {MIN_WINDOWS}, a single one changes a score too much"
    return None


def _why_too_few(found: CrossValidation, double: Interval) -> str | None:
    if why := check_amounts(found.num_videos, found.num_windows):
        return why
    if double.high - double.low > MAX_WIDTH:
        ends = f"from {100 * double.low:.0f} to {100 * double.high:.0f} %"
        return f"with twice as many videos, the success rate could be anything {ends}"
    return None


Hits = Mapping[str, tuple[float, int]]  # by video: windows that are right, and all


def _hits_of(found: CrossValidation) -> Hits:
    return {each.video: (each.success_rate * each.num_windows, each.num_windows) for each in found.videos}


def _double(parts: Sequence[Hits]) -> tuple[Interval, Interval]:
    """The expected success rate with twice as many videos, and its gain, with intervals."""
    videos = sorted(parts[-1])
    whole = _predict(parts, None)
    without = [_predict(parts, video) for video in videos]
    number, quantile = len(videos), t_quantile(len(videos) - 1)

    def half(place: int) -> float:
        spread = sum((each[place] - whole[place]) ** 2 for each in without)
        return quantile * math.sqrt((number - 1) / number * spread)

    logit, gain = whole
    value = _share(logit)
    double = Interval(value, _share(logit - half(0)), _share(logit + half(0)))
    return double, Interval(gain, max(gain - half(1), -1.0), min(gain + half(1), 1.0))


def _predict(parts: Sequence[Hits], left_out: str | None) -> tuple[float, float]:
    """The logit of the success rate with twice as many videos, and how much more than now that is."""
    logits = []
    for part in parts:
        kept = [each for video, each in part.items() if video != left_out]
        right, number = sum(hits for hits, _ in kept), sum(windows for _, windows in kept)
        logits.append(math.log((right + 0.5) / (number - right + 0.5)))  # so that 0 and 1 have one
    middle = (len(logits) - 1) / 2  # in doublings of the first
    squares = sum((place - middle) ** 2 for place in range(len(logits)))
    slope = sum((place - middle) * logit for place, logit in enumerate(logits)) / squares
    predicted = logits[-1]  # at least: more videos of the same kind do not make plans worse
    if slope > 0:
        predicted = max(predicted, sum(logits) / len(logits) + slope * (len(logits) - middle))
    return predicted, _share(predicted) - _share(logits[-1])


def _share(logit: float) -> float:
    return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0


def write_curve(path: Path, curve: LearningCurve) -> None:
    """Write enough.json."""
    write_text(path, json.dumps(curve.to_dict(), ensure_ascii=False, indent=2) + "\n")


def find_curve(dataset: Path | None) -> LearningCurve | None:
    """The learning curve in a dataset folder, if it has one.

    Raises:
        PlanError: the file is damaged.
    """
    path = dataset / ENOUGH_FOLDER / ENOUGH_FILE if dataset else None
    if path is None or not path.is_file():
        return None
    return read_model(path, LearningCurve, error=PlanError, advice=f"Make it again: p3iv data enough {dataset}")


def explain(curve: LearningCurve) -> str:
    """The result in plain words."""
    now = curve.points[-1].success_rate.value
    begin = f"With {counted(curve.num_videos, 'video')} the success rate is about {100 * now:.0f} %."
    if curve.double is None or curve.gain is None:
        return f"{begin} Too few to say what more videos would bring: {curve.too_few}."
    double, gain = curve.double, curve.gain
    expected = (
        f"With twice as many ({2 * curve.num_videos}) it would probably be about {100 * double.value:.0f} % "
        f"({100 * double.low:.0f} to {100 * double.high:.0f} %)"
    )
    if gain.low > 0.01:
        return f"{begin} {expected}: more videos of these procedures will help."
    if gain.high < 0.05:
        return f"{begin} {expected}: more videos of these procedures will hardly help."
    return (
        f"{begin} {expected}: more videos will probably help by {100 * gain.value:.0f} points, but it is not certain."
    )
