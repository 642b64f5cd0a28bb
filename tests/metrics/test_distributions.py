"""Distribution metrics equal their definitions written out window by window."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from allocations import LargestTensor
from metrics.conftest import Case, cases
from p3iv.errors import PlanError
from p3iv.metrics.counts import PlanCounts, count_plans
from p3iv.metrics.distributions import cosine_distances, distribution_values, exact_divergences
from p3iv.metrics.references import MAX_PAIRS, ReferencePlans, known_references, references_of
from p3iv.plans.chain import log_of
from p3iv.types import Array

Plan = tuple[int, ...]


def right_plans(references: list[Plan], number: int) -> dict[Plan, float]:
    """P: the plans of the windows with the same first and last action, with their frequencies."""
    mine = references[number]
    alike = [plan for plan in references if plan[0] == mine[0] and plan[-1] == mine[-1]]
    return {plan: count / len(alike) for plan, count in Counter(alike).items()}


def smoothed(share: float, num_actions: int, horizon: int) -> float:
    return 0.99 * share + 0.01 * float(num_actions) ** -horizon


def literal_values(right: dict[Plan, float], samples: list[Plan], num_actions: int) -> dict[str, float]:
    horizon = len(samples[0])
    q = {plan: smoothed(samples.count(plan) / len(samples), num_actions, horizon) for plan in right}
    distances = [1 - sum(a == b for a, b in zip(*pair, strict=True)) / horizon for pair in combinations(samples, 2)]
    return {
        "kl": sum(p * math.log(p / q[plan]) for plan, p in right.items()),
        "nll": -sum(p * math.log(q[plan]) for plan, p in right.items()),
        "mode_precision": sum(plan in right for plan in samples) / len(samples),
        "mode_recall": sum(plan in samples for plan in right) / len(right),
        "cosine_distance": sum(distances) / len(distances) if distances else math.nan,
        "distinct_plans": len(set(samples)),
    }


@given(cases())
def test_every_value_equals_its_definition(case: Case) -> None:
    values = distribution_values(case.counts, references_of(case.action_ids), case.num_actions)
    for number, samples in enumerate(case.samples):
        right = right_plans(case.references, number)
        for name, value in literal_values(right, samples, case.num_actions).items():
            assert getattr(values, name)[number].item() == pytest.approx(value, abs=1e-9, nan_ok=True), name


@settings(max_examples=40)
@given(cases())
def test_known_references_give_the_same_values_as_those_of_the_windows(case: Case) -> None:
    shared = references_of(case.action_ids)
    known = known_references([list(right_plans(case.references, n).items()) for n in range(len(case.references))])
    ours, theirs = (distribution_values(case.counts, table, case.num_actions) for table in (shared, known))
    for name in vars(ours):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name), equal_nan=True)


@settings(max_examples=40)
@given(cases())
def test_exact_divergences_of_the_sample_shares_are_those_of_the_samples(case: Case) -> None:
    references = references_of(case.action_ids)

    def log_shares(plans: Array, windows: Array) -> Array:
        asked = zip(windows.tolist(), map(tuple, plans.tolist()), strict=True)
        shares = [case.samples[window].count(plan) / len(case.samples[window]) for window, plan in asked]
        return log_of(np.array(shares))

    exact = exact_divergences(log_shares, references, case.num_actions)
    sampled = distribution_values(case.counts, references, case.num_actions)
    torch.testing.assert_close(exact.kl, sampled.kl)
    torch.testing.assert_close(exact.nll, sampled.nll)


@pytest.mark.parametrize("block", [1, 3, 100])
def test_pairs_are_every_window_with_every_one_of_its_plans(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("p3iv.metrics.references.MAX_PAIRS", block)
    references = references_of(torch.tensor([[1, 2, 4], [5, 5, 6], [1, 3, 4], [1, 2, 4]]))
    windows, rows = (torch.cat(parts) for parts in zip(*references.pairs(), strict=True))
    assert [(w, *plan) for w, plan in zip(windows.tolist(), references.plans[rows].tolist(), strict=True)] == [
        *((0, 1, 2, 4), (0, 1, 3, 4)),
        (1, 5, 5, 6),
        *((2, 1, 2, 4), (2, 1, 3, 4)),
        *((3, 1, 2, 4), (3, 1, 3, 4)),
    ]
    assert torch.zeros(4).double().index_add(0, windows, references.probabilities[rows]).tolist() == [1] * 4


def test_windows_that_share_first_and_last_action_are_compared_in_bounded_memory() -> None:
    middle = torch.arange(1000)
    references = references_of(torch.stack((middle * 0, middle, middle * 0), dim=1))
    with LargestTensor() as made:
        found = exact_divergences(lambda plans, _: np.full(len(plans), -math.log(1000.0)), references, 1000)
    assert made.elements <= MAX_PAIRS * references.plans.shape[1]  # of 1000 x 1000 pairs
    torch.testing.assert_close(found.nll, torch.full((1000,), math.log(1000 / 0.99), dtype=torch.float64))


@pytest.mark.parametrize(("num_actions", "horizon"), [(778, 9), (9_000, 40), (2, 200)])
def test_plans_too_long_for_one_integer_key_are_still_distinguished(num_actions: int, horizon: int) -> None:
    """Every window draws its own plan, another window's, and twice one that is wrong at a single position."""
    generator = torch.Generator().manual_seed(0)
    references = torch.randint(0, num_actions, (30, horizon), generator=generator)
    references[:, [0, -1]] = 1
    wrong = references.clone()
    wrong[torch.arange(30), torch.randint(0, horizon, (30,), generator=generator)] ^= 1
    samples = count_plans(torch.stack((references, references.roll(1, 0), wrong, wrong), dim=1))
    values = distribution_values(samples, references_of(references), num_actions)
    assert values.mode_precision.tolist() == [2 / 4] * 30
    assert values.mode_recall.tolist() == [2 / 30] * 30
    log_never = math.log(0.01) - horizon * math.log(num_actions)
    expected = -(2 / 30 * math.log(0.99 / 4) + 28 / 30 * log_never)
    assert values.nll.tolist() == pytest.approx([expected] * 30)


def test_a_window_with_one_sample_has_no_pair() -> None:
    counts = PlanCounts(torch.tensor([[0, 1], [0, 1], [1, 1]]), torch.tensor([1, 1, 1]), torch.tensor([0, 1, 3]))
    assert torch.equal(cosine_distances(counts, 2).isnan(), torch.tensor([True, False]))


@pytest.mark.parametrize(
    "windows",
    [
        [],
        [[]],
        [[((0, 1), 0.5)]],
        [[((0, 1), 0.5), ((0, 1), 0.5)]],
        [[((0, 1), 1.5), ((1, 1), -0.5)]],
        [[((0, 1), math.nan)]],
        [[((0, 1), 0.5), ((), 0.5)]],
    ],
)
def test_references_that_are_not_a_distribution_are_refused(windows: list[list[tuple[Plan, float]]]) -> None:
    with pytest.raises(PlanError):
        known_references(windows)


def test_a_plan_of_probability_zero_is_not_a_reference() -> None:
    assert len(known_references([[((0, 1), 1.0), ((1, 1), 0.0)]]).plans) == 1


@settings(max_examples=40)
@given(cases(), st.integers(0, 1000))
def test_renumbering_the_actions_changes_nothing(case: Case, seed: int) -> None:
    renumber = torch.randperm(case.num_actions, generator=torch.Generator().manual_seed(seed))
    samples = torch.tensor(case.samples)

    def values(samples: torch.Tensor, references: ReferencePlans) -> list[torch.Tensor]:
        return list(vars(distribution_values(count_plans(samples), references, case.num_actions)).values())

    before = values(samples, references_of(case.action_ids))
    after = values(renumber[samples], references_of(renumber[case.action_ids]))
    torch.testing.assert_close(before, after, equal_nan=True)
