"""Metrics of plans of unknown length equal their definitions, written for one pair of tuples at a time."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from p3iv.data.padding import PAD, has_one_length, pad_plans, plan_lengths, same_width, unpad_plans, widen
from p3iv.errors import PlanError
from p3iv.metrics.counts import count_plans
from p3iv.metrics.distributions import distribution_values, exact_divergences, open_nll
from p3iv.metrics.plans import edit_distances, length_values
from p3iv.metrics.references import references_of
from p3iv.plans.chain import log_of
from p3iv.types import Array

NUM_ACTIONS = 4
Plan = tuple[int, ...]
plan_lists = st.lists(st.integers(0, NUM_ACTIONS - 1), min_size=1, max_size=5).map(tuple)
pairs = st.lists(st.tuples(plan_lists, plan_lists), min_size=1, max_size=8)
windows = st.lists(st.tuples(plan_lists, st.lists(plan_lists, min_size=3, max_size=3)), min_size=1, max_size=6)


@cache
def literal_distance(plan: Plan, reference: Plan) -> int:
    """The Levenshtein distance by its recursive definition."""
    if not plan or not reference:
        return len(plan) + len(reference)
    return min(
        literal_distance(plan[:-1], reference) + 1,
        literal_distance(plan, reference[:-1]) + 1,
        literal_distance(plan[:-1], reference[:-1]) + (plan[-1] != reference[-1]),
    )


def literal_values(plan: Plan, reference: Plan) -> dict[str, float]:
    return {
        "success_rate": plan == reference,
        "mean_iou": len(set(plan) & set(reference)) / len(set(plan) | set(reference)),
        "edit_score": 1 - literal_distance(plan, reference) / max(len(plan), len(reference)),
        "length_accuracy": len(plan) == len(reference),
    }


@given(pairs)
def test_every_value_equals_its_definition(given_pairs: list[tuple[Plan, Plan]]) -> None:
    plans, references = ([pair[side] for pair in given_pairs] for side in (0, 1))
    values = length_values(pad_plans(plans), pad_plans(references))
    for number, pair in enumerate(given_pairs):
        found = {name: each[number].item() for name, each in values.items()}
        assert found == pytest.approx(literal_values(*pair), abs=1e-12)


@given(pairs)
def test_an_edit_distance_is_a_distance_and_padding_does_not_change_it(given_pairs: list[tuple[Plan, Plan]]) -> None:
    plans, references = (pad_plans([pair[side] for pair in given_pairs]) for side in (0, 1))
    distances = edit_distances(plans, references)
    assert torch.equal(distances, edit_distances(references, plans))
    assert torch.equal(distances, edit_distances(widen(plans, 9), widen(references, 7)))
    assert ((distances == 0) == torch.tensor([plan == reference for plan, reference in given_pairs])).all()


@given(st.lists(plan_lists, min_size=1, max_size=8))
def test_padded_plans_are_unpadded(plans: list[Plan]) -> None:
    table = pad_plans(plans)
    assert unpad_plans(table) == unpad_plans(pad_plans(plans, 8)) == plans
    assert plan_lengths(table).tolist() == [len(plan) for plan in plans]
    assert has_one_length(table) == (len({len(plan) for plan in plans}) == 1)
    assert torch.equal(same_width(table, pad_plans(plans, 8))[0], pad_plans(plans, 8))


def test_tables_of_different_widths_have_several_lengths() -> None:
    assert not has_one_length(torch.zeros(2, 3), torch.zeros(2, 2))


@given(st.lists(st.lists(plan_lists, min_size=4, max_size=4), min_size=1, max_size=4))
def test_samples_of_several_lengths_are_counted(samples: list[list[Plan]]) -> None:
    width = max(len(plan) for drawn in samples for plan in drawn)
    counts = count_plans(torch.stack([pad_plans(drawn, width) for drawn in samples]))
    for number, drawn in enumerate(samples):
        plans, times = counts.rows(number)
        assert list(zip(unpad_plans(plans), times.tolist(), strict=True)) == sorted(
            Counter(drawn).items(), key=lambda item: (-item[1], item[0])
        )


def right_plans(references: list[Plan], mine: Plan) -> dict[Plan, float]:
    """The plans of any length with the same first and last action, with their frequencies."""
    alike = [plan for plan in references if (plan[0], plan[-1]) == (mine[0], mine[-1])]
    return {plan: count / len(alike) for plan, count in Counter(alike).items()}


def smoothed(share: float, length: int, num_lengths: int) -> float:
    return 0.99 * share + 0.01 / num_lengths * float(NUM_ACTIONS) ** -length


@given(windows)
def test_samples_of_several_lengths_are_scored_as_defined(given_windows: list[tuple[Plan, list[Plan]]]) -> None:
    """Samples may be longer than every reference, so the two tables have different widths."""
    references, samples = [mine for mine, _ in given_windows], [drawn for _, drawn in given_windows]
    width = max(len(plan) for drawn in samples for plan in drawn)
    counts = count_plans(torch.stack([pad_plans(drawn, width) for drawn in samples]))
    values = distribution_values(counts, references_of(pad_plans(references)), NUM_ACTIONS)
    num_lengths = len({len(plan) for plan in references})
    for number, (mine, drawn) in enumerate(given_windows):
        right = right_plans(references, mine)
        q = {plan: smoothed(drawn.count(plan) / len(drawn), len(plan), num_lengths) for plan in right}
        nll = -sum(p * math.log(q[plan]) for plan, p in right.items())
        expected = {
            "kl": nll + sum(p * math.log(p) for p in right.values()),
            "nll": nll,
            "mode_precision": sum(plan in right for plan in drawn) / len(drawn),
            "mode_recall": sum(plan in drawn for plan in right) / len(right),
            "distinct_plans": len(set(drawn)),
        }
        assert {name: getattr(values, name)[number].item() for name in expected} == pytest.approx(expected, abs=1e-9)
    assert has_one_length(counts.plans) or values.cosine_distance.isnan().all()


@settings(max_examples=40)
@given(windows)
def test_exact_divergences_over_several_lengths_are_those_of_the_shares(
    given_windows: list[tuple[Plan, list[Plan]]],
) -> None:
    references = references_of(pad_plans([mine for mine, _ in given_windows]))
    samples = [drawn for _, drawn in given_windows]
    width = max(len(plan) for drawn in samples for plan in drawn)

    def log_shares(plans: Array, asked: Array) -> Array:
        pairs = zip(asked.tolist(), unpad_plans(torch.from_numpy(plans)), strict=True)
        return log_of(np.array([samples[window].count(plan) / 3 for window, plan in pairs]))

    counts = count_plans(torch.stack([pad_plans(drawn, width) for drawn in samples]))
    exact = exact_divergences(log_shares, references, NUM_ACTIONS)
    sampled = distribution_values(counts, references, NUM_ACTIONS)
    torch.testing.assert_close([exact.kl, exact.nll], [sampled.kl, sampled.nll])


@settings(max_examples=40)
@given(st.sets(st.integers(1, 4), min_size=1), st.integers(1, 3), st.integers(0, 1000), st.booleans())
def test_the_smoothed_probabilities_of_all_plans_of_all_lengths_sum_to_one(
    horizons: set[int], num_actions: int, seed: int, has_impossible: bool
) -> None:
    every = [plan for horizon in sorted(horizons) for plan in product(range(num_actions), repeat=horizon)]
    weights = torch.rand(len(every), generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 1e-3
    if has_impossible and len(every) > 1:
        weights[0] = 0
    lengths = plan_lengths(pad_plans(every))
    probabilities = weights / weights.sum()
    values = open_nll(probabilities.log(), horizons, num_actions, lengths)
    assert (-values).exp().sum().item() == pytest.approx(1)
    uniform = torch.tensor([1 / len(horizons) / num_actions ** len(plan) for plan in every], dtype=torch.float64)
    torch.testing.assert_close(values, -(0.99 * probabilities + 0.01 * uniform).log())


def test_with_one_allowed_length_it_is_the_exact_nll_of_the_only_reference() -> None:
    plans, log = torch.tensor([[0, 1], [1, 2], [2, 0]]), np.log([0.5, 0.2, 0.1])
    exact = exact_divergences(lambda _, window: log[window], references_of(plans), NUM_ACTIONS)
    assert torch.equal(open_nll(torch.from_numpy(log), [2], NUM_ACTIONS, plan_lengths(plans)), exact.nll)


def test_a_reference_of_another_length_than_the_allowed_ones_is_refused() -> None:
    with pytest.raises(PlanError, match=r"A reference has length 7, but the allowed lengths are \[1, 2, 3\]"):
        open_nll(torch.zeros(2), range(1, 4), NUM_ACTIONS, torch.tensor([3, 7]))


def test_padding_is_never_an_action() -> None:
    values = length_values(torch.tensor([[1, PAD, PAD]]), torch.tensor([[2, PAD]]))
    assert {name: each.item() for name, each in values.items()} == {
        "success_rate": False,
        "mean_iou": 0,
        "edit_score": 0,
        "length_accuracy": True,
    }
