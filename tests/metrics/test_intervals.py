"""Intervals equal a plain transcription of their formulas, and are right in the cases that have a known answer.

How often they hold the truth is simulated in test_coverage.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from p3iv.metrics.intervals import (
    FEW_VIDEOS,
    Clusters,
    Interval,
    difference_intervals,
    mean_intervals,
    paired_intervals,
    t_quantile,
)
from p3iv.metrics.released import macro_precision, macro_precision_interval

Rows = Sequence[Sequence[float]]  # by seed and window


def plain_mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def plain_variance(tables: Sequence[Rows], videos: Sequence[int]) -> tuple[float, float, float]:
    """Variance, quantile and effective number of videos of a sum of means, by loops."""
    names, size = sorted(set(videos)), len(videos)
    average = [sum(plain_mean([row[i] for row in rows]) for rows in tables) for i in range(size)]

    def without(name: int) -> float:
        return plain_mean([value for value, video in zip(average, videos, strict=True) if video != name])

    number, value = len(names), plain_mean(average)
    by_video = (number - 1) / number * sum((without(name) - value) ** 2 for name in names)
    effective = size**2 / sum(videos.count(name) ** 2 for name in names)
    parts, both = [], 0.0
    for rows in tables:
        if len(rows) == 1:
            continue
        means = [plain_mean(row) for row in rows]
        middle, last = plain_mean(means), len(rows) - 1
        parts.append((sum((mean - middle) ** 2 for mean in means) / last / len(rows), last))
        for name in names:
            here = [i for i in range(size) if videos[i] == name]
            level = plain_mean([sum(row[i] for i in here) for row in rows])
            for row, mean in zip(rows, means, strict=True):
                left = sum(row[i] for i in here) - level - (mean - middle) * len(here)
                both += number / (number - 1) * (left / size) ** 2 / last / len(rows)
    by_seeds, squares = sum(part for part, _ in parts), sum(part**2 / degrees for part, degrees in parts)
    added, quantile = max(by_seeds - both, 0), t_quantile(max(effective - 1, 1))
    if added:
        half = quantile**2 * by_video + t_quantile(max(by_seeds**2 / squares, 1)) ** 2 * added
        quantile = math.sqrt(half / (by_video + added))
    return by_video + added, quantile, effective


def plain_wilson(p: float, variance: float, quantile: float, effective: float) -> tuple[float, float]:
    """The ends of the shares whose distance to p is at most that many standard errors of such a share."""
    number = (p * (1 - p) + 0.05 / effective) / (variance + 0.05 / effective**2)
    k = quantile**2 / number
    root = math.sqrt((2 * p + k) ** 2 - 4 * (1 + k) * p * p)
    return (2 * p + k - root) / (2 * (1 + k)), (2 * p + k + root) / (2 * (1 + k))


windows = st.lists(st.tuples(st.integers(0, 4), *[st.floats(0, 1)] * 5), min_size=3, max_size=12).filter(
    lambda rows: len({row[0] for row in rows}) > 1
)


@given(windows, st.integers(1, 3), st.integers(1, 2))
def test_intervals_equal_a_plain_transcription(rows: list[tuple[float, ...]], num_ours: int, num_theirs: int) -> None:
    videos = [int(row[0]) for row in rows]
    columns = list(zip(*rows, strict=True))[1:]
    ours, theirs = columns[:num_ours], columns[3 : 3 + num_theirs]
    clusters = Clusters.of(videos)
    value = plain_mean([plain_mean(row) for row in ours])
    found = mean_intervals({"success_rate": table(ours), "nll": table(ours)}, clusters)
    variance, quantile, effective = plain_variance([ours], videos)
    low, high = plain_wilson(value, variance, quantile, effective)
    half = quantile * math.sqrt(variance)
    assert found["success_rate"].value == pytest.approx(value)
    assert ends(found["success_rate"]) == pytest.approx((max(low, 0), min(high, 1)), abs=1e-7)
    assert ends(found["nll"]) == pytest.approx((max(value - half, 0), value + half), abs=1e-7)

    opposite = [[-entry for entry in row] for row in theirs]
    variance, quantile, _ = plain_variance([ours, opposite], videos)
    half, value = quantile * math.sqrt(variance), value - plain_mean([plain_mean(row) for row in theirs])
    difference = difference_intervals({"nll": table(ours)}, {"nll": table(theirs)}, clusters)["nll"]
    assert difference.value == pytest.approx(value, abs=1e-9)
    assert ends(difference) == pytest.approx((value - half, value + half), abs=1e-7)


def table(rows: Rows) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def ends(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(1, 12.7062047), (2, 4.3026527), (3, 3.1824463), (10, 2.2281389), (100, 1.9839715), (1e12, 1.9599640)],
)
def test_quantiles_are_those_of_printed_tables(degrees: float, quantile: float) -> None:
    assert t_quantile(degrees) == pytest.approx(quantile, abs=5e-6)


def test_where_nothing_or_everything_was_hit_the_interval_is_that_of_as_many_videos() -> None:
    """About 3.7 / V, the exact bound of no hit in V independent trials."""
    clusters, t = Clusters.of([window // 4 for window in range(80)]), t_quantile(19)
    none, all_ = (mean_intervals({"success_rate": torch.full((80,), hit)}, clusters) for hit in (0.0, 1.0))
    assert ends(none["success_rate"]) == pytest.approx((0, t**2 / (20 + t**2)))
    assert ends(all_["success_rate"]) == pytest.approx((20 / (20 + t**2), 1))
    exact = 1 - 0.025 ** (1 / 20)
    assert exact <= none["success_rate"].high < 1.1 * exact


def test_one_hit_does_not_make_the_interval_much_narrower_than_no_hit() -> None:
    clusters, values = Clusters.of([window // 8 for window in range(160)]), torch.zeros(160)
    none = mean_intervals({"success_rate": values}, clusters)["success_rate"]
    values[3] = 1
    one = mean_intervals({"success_rate": values}, clusters)["success_rate"]
    assert 0.4 * none.high < one.high
    assert 0 < one.low < one.value == 1 / 160


def test_the_difference_of_planners_that_hit_the_same_windows_is_not_certainly_zero() -> None:
    clusters, t = Clusters.of([window // 4 for window in range(80)]), t_quantile(19)
    hits, misses = {"success_rate": torch.ones(80)}, {"success_rate": torch.zeros(80)}
    same, most = (difference_intervals(hits, theirs, clusters)["success_rate"] for theirs in (hits, misses))
    assert ends(same) == pytest.approx((-(t**2) / (20 + t**2), t**2 / (20 + t**2)))
    assert ends(most) == pytest.approx((20 / (20 + t**2), 1))


def test_seeds_that_agree_change_nothing_and_seeds_that_differ_widen_the_interval() -> None:
    generator = torch.Generator().manual_seed(0)
    clusters = Clusters.of([window // 5 for window in range(200)])
    values = (torch.rand(200, generator=generator) < 0.4).double()
    one = mean_intervals({"mean_iou": values}, clusters)["mean_iou"]
    same = mean_intervals({"mean_iou": values.repeat(3, 1)}, clusters)["mean_iou"]
    assert vars(same) == pytest.approx(vars(one))
    apart = values + torch.tensor([[-0.1], [0.0], [0.1]])
    wide = mean_intervals({"mean_iou": apart}, clusters)["mean_iou"]
    assert wide.value == pytest.approx(one.value)
    assert wide.high - wide.low > 0.2 > one.high - one.low


def test_windows_without_a_value_do_not_count() -> None:
    values = torch.tensor([0.2, math.nan, 0.4, 0.9, math.nan])
    found = mean_intervals({"cosine_distance": values}, Clusters.of("aabbc"))["cosine_distance"]
    assert found == mean_intervals({"cosine_distance": values[[0, 2, 3]]}, Clusters.of("abb"))["cosine_distance"]
    nothing = mean_intervals({"cosine_distance": torch.full((3,), math.nan)}, Clusters.of("abc"))["cosine_distance"]
    assert math.isnan(nothing.value)
    assert not nothing.has_ends
    infinite = mean_intervals({"nll": torch.tensor([1.0, math.inf])}, Clusters.of("ab"))["nll"]
    assert infinite.value == math.inf
    assert not infinite.has_ends


def test_the_order_of_windows_and_the_names_of_videos_do_not_matter() -> None:
    generator = torch.Generator().manual_seed(0)
    values, order = torch.rand(3, 30, generator=generator), torch.randperm(30, generator=generator)
    videos = [int(window**1.5) // 12 for window in range(30)]
    one = mean_intervals({"nll": values}, Clusters.of(videos))["nll"]
    shuffled = Clusters.of([f"video {videos[window]}" for window in order.tolist()])
    assert vars(mean_intervals({"nll": values[:, order]}, shuffled)["nll"]) == pytest.approx(vars(one))


def test_a_paired_difference_is_sharper_than_two_intervals() -> None:
    generator = torch.Generator().manual_seed(0)
    ours = torch.rand(200, generator=generator).double()
    theirs = ours - 0.01 * torch.rand(200, generator=generator).double()
    theirs[3] = math.nan
    clusters = Clusters.of([window // 4 for window in range(200)])
    difference = difference_intervals({"mean_iou": ours}, {"mean_iou": theirs}, clusters)["mean_iou"]
    assert difference.value == pytest.approx((ours - theirs).nanmean().item())
    assert 0 < difference.low < difference.value < difference.high < 0.01
    assert mean_intervals({"mean_iou": ours}, clusters)["mean_iou"].low < theirs.nanmean().item()


def test_decoders_of_the_same_runs_are_compared_seed_by_seed() -> None:
    """The seeds differ by 10 points, the two decoders by 1 point under every seed."""
    generator = torch.Generator().manual_seed(0)
    clusters = Clusters.of([window // 4 for window in range(200)])
    ours = torch.rand(200, generator=generator) / 2 + torch.tensor([[0.0], [0.1], [0.2]])
    theirs = ours - 0.01 - 0.001 * torch.rand(3, 200, generator=generator)
    apart = difference_intervals({"mean_iou": ours}, {"mean_iou": theirs}, clusters)["mean_iou"]
    paired = paired_intervals({"mean_iou": ours - theirs}, clusters)["mean_iou"]
    assert paired.value == pytest.approx(apart.value, abs=1e-6)
    assert apart.low < 0 < paired.low


def make_plans(num_windows: int, num_actions: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    references = torch.randint(0, num_actions, (num_windows, 3), generator=generator)
    other = torch.randint(0, num_actions, (num_windows, 3), generator=generator)
    return torch.where(torch.rand(num_windows, 3, generator=generator) < 0.6, references, other), references


@pytest.mark.parametrize("num_actions", [5, 300])  # in one part, and in three
def test_the_interval_of_macro_precision_is_made_from_the_scores_without_each_video(num_actions: int) -> None:
    plans, references = make_plans(60, num_actions, seed=0)
    videos = torch.arange(60) // 3
    found = macro_precision_interval(plans, references, Clusters.of(videos.tolist()))
    value = macro_precision(plans, references)
    without = [macro_precision(plans[videos != video], references[videos != video]) for video in range(20)]
    variance = 19 / 20 * sum((score - value) ** 2 for score in without)
    assert found.value == value
    assert ends(found) == pytest.approx(plain_wilson(value, variance, t_quantile(19), 20), abs=1e-9)


def test_scores_of_one_video_have_no_interval() -> None:
    plans, references = make_plans(5, 4, seed=0)
    clusters = Clusters.of("vvvvv")
    for found in (
        macro_precision_interval(plans, references, clusters),
        mean_intervals({"success_rate": torch.ones(5)}, clusters)["success_rate"],
        difference_intervals({"nll": torch.ones(5)}, {"nll": torch.zeros(5)}, clusters)["nll"],
    ):
        assert not found.has_ends


def test_few_videos_are_noted_and_uneven_ones_count_less() -> None:
    assert Clusters.of(range(FEW_VIDEOS)).notes == ()
    assert Clusters.of("abc").notes == (
        "only 3 videos, so the intervals are wide and few planners can be distinguished",
    )
    assert Clusters.of("aaa").notes == ("no intervals: they need at least two videos",)
    [uneven] = Clusters.of([*range(12), *[0] * 20]).notes
    assert uneven.startswith("only 12 videos, as informative as 2.3 with equally many windows, so")
