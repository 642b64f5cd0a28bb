"""Intervals equal a plain loop over the same draws, and contain the true value about as often as they should."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from p3iv.metrics.bootstrap import (
    Resamples,
    bootstrap_differences,
    bootstrap_means,
    draw_resamples,
)
from p3iv.metrics.released import bootstrap_macro_precision, macro_precision


def drawn_windows(resamples: Resamples) -> list[list[int]]:
    """The windows of every resample, one by one."""
    cluster = resamples.cluster.tolist()
    return [
        [window for window, number in enumerate(cluster) for _ in range(times[number])]
        for times in resamples.draws.tolist()
    ]


def ends(scores: list[float]) -> tuple[float, float]:
    low, high = np.percentile([score for score in scores if not math.isnan(score)], (2.5, 97.5))
    return float(low), float(high)


def plain_mean(values: list[float]) -> float:
    defined = [value for value in values if not math.isnan(value)]
    return sum(defined) / len(defined) if defined else math.nan


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.floats(-5, 5) | st.just(math.nan), st.floats(0, 1)), min_size=2, max_size=12
    )
)
def test_intervals_of_means_equal_a_loop_over_the_same_draws(windows: list[tuple[int, float, float]]) -> None:
    videos = [f"v{video}" for video, _, _ in windows]
    values = {"some": [value for _, value, _ in windows], "all": [value for _, _, value in windows]}
    resamples = draw_resamples(videos, num_resamples=50)
    found = bootstrap_means(
        {name: torch.tensor(column, dtype=torch.float64) for name, column in values.items()}, resamples
    )
    for name, column in values.items():
        assert found[name].value == pytest.approx(plain_mean(column), abs=1e-9, nan_ok=True)
        if len({video for video, value in zip(videos, column, strict=True) if not math.isnan(value)}) < 2:
            assert math.isnan(found[name].low)
            assert math.isnan(found[name].high)
            continue
        scores = [plain_mean([column[window] for window in drawn]) for drawn in drawn_windows(resamples)]
        assert (found[name].low, found[name].high) == pytest.approx(ends(scores), abs=1e-9)


def test_a_resample_draws_as_many_videos_as_there_are_and_keeps_them_whole() -> None:
    resamples = draw_resamples(list("aabcccd"), num_resamples=1000)
    assert resamples.cluster.tolist() == [0, 0, 1, 2, 2, 2, 3]
    assert torch.equal(resamples.draws.sum(dim=1), torch.full((1000,), 4))
    torch.testing.assert_close(resamples.draws.double().mean(dim=0), torch.ones(4).double(), atol=0.1, rtol=0)
    again = draw_resamples([1, 1, 2, 3, 3, 3, 4], num_resamples=1000)
    assert torch.equal(resamples.draws, again.draws)
    assert not torch.equal(resamples.draws, draw_resamples(list("aabcccd"), 1000, seed=1).draws)


def test_very_many_clusters_get_fewer_resamples() -> None:
    resamples = draw_resamples(range(100_000))
    assert resamples.draws.shape == (500, 100_000)
    assert resamples.draws.sum(dim=1).unique().tolist() == [100_000]


def test_a_paired_difference_is_sharper_than_two_intervals() -> None:
    generator = torch.Generator().manual_seed(0)
    ours = torch.rand(200, generator=generator).double()
    theirs = ours - 0.01 * torch.rand(200, generator=generator).double()
    theirs[3] = math.nan
    resamples = draw_resamples([window // 4 for window in range(200)], 500)
    difference = bootstrap_differences({"iou": ours}, {"iou": theirs}, resamples)["iou"]
    assert difference.value == pytest.approx((ours - theirs).nanmean().item())
    assert 0 < difference.low < difference.value < difference.high < 0.01
    assert bootstrap_means({"iou": ours}, resamples)["iou"].low < theirs.nanmean().item()


def make_plans(num_windows: int, num_actions: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    references = torch.randint(0, num_actions, (num_windows, 3), generator=generator)
    other = torch.randint(0, num_actions, (num_windows, 3), generator=generator)
    return torch.where(torch.rand(num_windows, 3, generator=generator) < 0.6, references, other), references


@pytest.mark.parametrize("num_actions", [5, 300])  # in one part, and in three
def test_the_interval_of_macro_precision_equals_a_loop_shifted_to_the_score(num_actions: int) -> None:
    predictions, references = make_plans(60, num_actions, seed=0)
    resamples = draw_resamples([window // 3 for window in range(60)], num_resamples=40)
    found = bootstrap_macro_precision(predictions, references, resamples)
    scores = [macro_precision(predictions[drawn], references[drawn]) for drawn in drawn_windows(resamples)]
    value = macro_precision(predictions, references)
    shifted = [score - sum(scores) / len(scores) + value for score in scores]
    assert found.value == value
    assert (found.low, found.high) == pytest.approx(ends(shifted), abs=1e-9)


def test_macro_precision_of_one_video_has_no_interval() -> None:
    predictions, references = make_plans(5, 4, seed=0)
    found = bootstrap_macro_precision(predictions, references, draw_resamples(["v"] * 5, 20))
    assert (math.isnan(found.low), math.isnan(found.high)) == (True, True)


def test_an_interval_by_video_holds_the_truth_and_one_by_window_is_too_narrow() -> None:
    """Windows of a video succeed or fail together, one half of the time."""
    rng = np.random.default_rng(0)
    held = {"video": 0, "window": 0}
    for _ in range(100):
        values = {"success": torch.from_numpy(np.repeat(rng.random(60) < 0.5, 8))}
        for kind, clusters in {"video": np.repeat(np.arange(60), 8), "window": np.arange(480)}.items():
            interval = bootstrap_means(values, draw_resamples(clusters.tolist(), 200))["success"]
            held[kind] += interval.low <= 0.5 <= interval.high
    assert held["video"] > 88
    assert held["window"] < 60
