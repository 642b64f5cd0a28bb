"""The learning curve: what twice as many videos would bring, and when there are too few to say."""

from __future__ import annotations

import math
from statistics import mean

import pytest

from p3iv.evaluation.cross_validated import CrossValidation, VideoScores
from p3iv.evaluation.learning_curve import explain, make_curve
from p3iv.metrics.intervals import Interval, t_quantile


def scores(rates: list[float], num_windows: int = 8) -> CrossValidation:
    """A cross-validation in which videos have these success rates."""
    videos = tuple(
        VideoScores(video=f"v{number}", task="tea", fold=1, num_windows=num_windows, success_rate=rate)
        for number, rate in enumerate(rates)
    )
    return CrossValidation(
        data="kitchen",
        planner="p3iv-plus",
        preset="p3iv-plus",
        seed=0,
        horizon=3,
        num_folds=5,
        num_windows=num_windows * len(rates),
        num_videos=len(rates),
        plans={"success_rate": Interval(mean(rates))},
        baselines={},
        tasks=(),
        folds=(),
        videos=videos,
        notes=(),
    )


FEW, SOME, MANY = [0.0, 0.25] * 8, [0.25, 0.25] * 8, [0.25, 0.5] * 8


def literal_logit(rates: list[list[float]], left_out: int | None) -> float:
    """The logit at twice as many videos, by least squares through (0, y0), (1, y1), (2, y2), at 3."""
    logits = []
    for part in rates:
        kept = [rate for number, rate in enumerate(part) if number != left_out]
        right, wrong = 8 * sum(kept), 8 * (len(kept) - sum(kept))
        logits.append(math.log((right + 0.5) / (wrong + 0.5)))
    slope = (logits[2] - logits[0]) / 2
    intercept = mean(logits) - slope
    return max(intercept + 3 * slope, logits[2])


def test_the_interval_is_a_jackknife_over_videos() -> None:
    parts = [FEW, SOME, MANY]
    curve = make_curve([(4.0, scores(FEW)), (8.0, scores(SOME)), (16.0, scores(MANY))])
    whole = literal_logit(parts, None)
    spread = sum((literal_logit(parts, number) - whole) ** 2 for number in range(16))
    half = t_quantile(15) * math.sqrt(15 / 16 * spread)
    expected = [1 / (1 + math.exp(-logit)) for logit in (whole, whole - half, whole + half)]
    assert curve.double is not None
    assert [curve.double.value, curve.double.low, curve.double.high] == pytest.approx(expected)
    assert curve.gain is not None
    assert curve.gain.value == pytest.approx(expected[0] - 1 / (1 + math.exp(-math.log(48.5 / 80.5))))
    assert "(32) it would probably be about" in explain(curve)


def test_more_videos_never_promise_less() -> None:
    curve = make_curve([(4.0, scores(MANY)), (8.0, scores(SOME)), (16.0, scores(FEW))])
    assert curve.gain is not None
    assert curve.gain.value == 0
    assert curve.double is not None
    assert curve.double.value == pytest.approx(16.5 / 129)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([(n, scores([0.5] * 9)) for n in (2.0, 4.0, 7.0)], "9 videos"),
        ([(n, scores([0.5] * 12, num_windows=2)) for n in (2.0, 5.0, 10.0)], "24 windows"),
        ([(n, scores([0.0, 1.0] * 5)) for n in (2.0, 4.0, 8.0)], "could be anything"),
    ],
)
def test_too_few_to_say(parts: list[tuple[float, CrossValidation]], why: str) -> None:
    curve = make_curve(parts)
    assert curve.double is curve.gain is None
    assert why in str(curve.too_few)
    assert "Too few to say" in explain(curve)
