from __future__ import annotations

import doctest
import random
from types import ModuleType

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from p3iv import catalogue
from p3iv.data import padding
from p3iv.metrics import distributions, plans, released
from p3iv.metrics.intervals import Clusters
from p3iv.metrics.plans import accuracies, calibration_error, calibration_interval, ious, score_plans, successes
from p3iv.metrics.released import bitwise_ious

NUM_ACTIONS = 12
pairs = st.integers(1, 5).flatmap(
    lambda horizon: st.lists(
        st.tuples(*[st.lists(st.integers(0, 4), min_size=horizon, max_size=horizon)] * 2), min_size=1, max_size=8
    )
)


@given(pairs)
def test_scores_equal_their_definitions_written_with_sets(plans: list[tuple[list[int], list[int]]]) -> None:
    predictions, references = torch.tensor([p for p, _ in plans]), torch.tensor([r for _, r in plans])
    scores = score_plans(predictions, references)
    count, horizon = len(plans), len(plans[0][0])
    assert abs(scores.success_rate - sum(p == r for p, r in plans) / count) < 1e-12
    right = [sum(a == b for a, b in zip(p, r, strict=True)) / horizon for p, r in plans]
    assert accuracies(predictions, references).tolist() == pytest.approx(right, abs=1e-12)
    assert abs(scores.mean_accuracy - sum(right) / count) < 1e-12
    iou = sum(len(set(p) & set(r)) / len(set(p) | set(r)) for p, r in plans) / count
    assert abs(scores.mean_iou - iou) < 1e-12


@settings(max_examples=40)
@given(pairs, st.permutations(range(NUM_ACTIONS)))
def test_renumbering_the_actions_changes_nothing(plans: list[tuple[list[int], list[int]]], number: list[int]) -> None:
    predictions, references = torch.tensor([p for p, _ in plans]), torch.tensor([r for _, r in plans])
    renumber = torch.tensor(number)
    for metric in (successes, accuracies, ious):
        assert torch.equal(metric(renumber[predictions], renumber[references]), metric(predictions, references))


def test_renumbering_the_actions_changes_the_bitwise_iou() -> None:
    prediction, reference = torch.tensor([[0, 1, 2]]), torch.tensor([[4, 1, 3]])
    renumber = torch.arange(NUM_ACTIONS).flip(0)
    before, after = bitwise_ious(prediction, reference), bitwise_ious(renumber[prediction], renumber[reference])
    assert abs(before - after).item() > 0.1


@pytest.mark.parametrize("module", [plans, released, distributions, padding, catalogue])
def test_the_examples_in_the_docstrings(module: ModuleType) -> None:
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.35, 0.5, 0.9, 1.0]), st.booleans()), min_size=1, max_size=40),
    st.randoms(use_true_random=False),
)
def test_the_calibration_error_is_that_of_its_definition_in_any_order(
    windows: list[tuple[float, bool]], shuffler: random.Random
) -> None:
    """Written out: in each of ten bins, the gap between mean probability and share of right plans, by its size."""
    expected = 0.0
    for number in range(10):
        inside = [each for each in windows if min(int(each[0] * 10), 9) == number]
        if inside:
            mean = sum(probability for probability, _ in inside) / len(inside)
            share = sum(right for _, right in inside) / len(inside)
            expected += len(inside) / len(windows) * abs(mean - share)
    shuffler.shuffle(windows)
    probabilities, right = (torch.tensor(column, dtype=torch.float64) for column in zip(*windows, strict=True))
    assert calibration_error(probabilities, right) == pytest.approx(expected, abs=1e-6)


def test_the_interval_of_the_calibration_error_is_a_jackknife_over_videos() -> None:
    generator = torch.Generator().manual_seed(0)
    probabilities = torch.rand(200, generator=generator)
    right, sure = torch.rand(200, generator=generator) < probabilities, torch.ones(200)
    clusters = Clusters.of([number // 10 for number in range(200)])
    honest, careless = (calibration_interval(each, right, clusters) for each in (probabilities, sure))
    assert honest.low <= honest.value <= honest.high < careless.low
    assert careless.value == pytest.approx(1 - right.double().mean().item())
    assert not calibration_interval(sure, right, Clusters.of(["one"] * 200)).has_ends
