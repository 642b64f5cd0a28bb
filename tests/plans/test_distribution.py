"""Distinct plans with counts, and the distribution that a user holds."""

from __future__ import annotations

import collections
import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from p3iv.errors import PlanError
from p3iv.plans.distribution import PlanDistribution, count_plans, distribution_of


@given(
    seed=st.integers(0, 10_000),
    num_actions=st.sampled_from([1, 2, 5, 778]),
    horizon=st.integers(1, 9),
    windows=st.integers(1, 4),
)
def test_counts_equal_a_literal_count(seed: int, num_actions: int, horizon: int, windows: int) -> None:
    samples = torch.randint(num_actions, (windows, 30, horizon), generator=torch.Generator().manual_seed(seed))
    counted = count_plans(samples)
    assert len(counted) == windows
    for number in range(windows):
        literal = collections.Counter(map(tuple, samples[number].tolist()))
        expected = sorted(literal.items(), key=lambda item: (-item[1], item[0]))
        plans, counts = counted.rows(number)
        assert list(zip(map(tuple, plans.tolist()), counts.tolist(), strict=True)) == expected
        assert tuple(counted.modes[number].tolist()) == expected[0][0]
    assert counted.totals.tolist() == [30] * windows


def held() -> tuple[torch.Tensor, PlanDistribution]:
    samples = torch.randint(4, (1, 200, 3), generator=torch.Generator().manual_seed(2))
    names = ("boil water", "öffne <Dose>", "pour", "stir")
    counts = count_plans(samples)
    return samples[0], distribution_of(counts, 0, names=names, plan=counts.modes[0], plan_probability=0.25)


def test_marginals_of_the_samples_equal_their_counts() -> None:
    samples, distribution = held()
    for position in range(3):
        shares = torch.bincount(samples[:, position], minlength=4).double() / 200
        torch.testing.assert_close(distribution.marginals[position], shares)
    assert sum(distribution.shares) == pytest.approx(1)
    assert distribution.num_samples == 200
    assert distribution.entropy == pytest.approx(-sum(p * math.log(p) for p in distribution.shares))


def test_json_there_and_back() -> None:
    _, distribution = held()
    again = PlanDistribution.from_json(distribution.to_json())
    assert again == distribution
    assert again.to_json() == distribution.to_json()
    steps, share = next(iter(distribution.top()))
    assert steps == distribution.words(distribution.plans[0])
    assert share == distribution.shares[0]


@pytest.mark.parametrize(
    "change",
    [
        {"plans": []},
        {"plans": [{"steps": ["pour"], "count": 0}]},
        {"plans": [{"steps": ["fly"], "count": 1}]},
        {"plans": [{"steps": ["pour"], "count": 2.7}]},
        {"plans": [{"steps": ["pour"], "count": True}]},
        {"plans": [{"steps": ["pour"], "count": float("inf")}]},
        {"vocabulary": ["pour", "pour"]},
        {"plan": ["pour", "stir"]},
        {"plan_probability": float("nan")},
        {"vocabulary": None},
    ],
)
def test_an_invalid_distribution_is_refused(change: dict[str, object]) -> None:
    good = {
        "vocabulary": ["pour", "stir"],
        "plans": [{"steps": ["pour"], "count": 3}],
        "plan": ["pour"],
        "plan_probability": 0.5,
    }
    assert PlanDistribution.from_json(json.dumps(good)).num_samples == 3
    with pytest.raises(PlanError):
        PlanDistribution.from_json(json.dumps({**good, **change}))


def test_one_certain_plan_has_no_entropy() -> None:
    distribution = PlanDistribution(("a",), ((0, 0),), (9,), (0, 0), 1.0)
    assert distribution.entropy == 0.0
    assert str(distribution.entropy) == "0.0"
