"""Distinct plans with counts, and the distribution that a user holds."""

from __future__ import annotations

import collections
import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from p3iv.errors import PlanError
from p3iv.metrics.counts import count_plans
from p3iv.plans.distribution import PlanDistribution


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


POUR, STIR = ("pour", "öffne <Dose>"), ("stir", "pour")


def test_json_there_and_back() -> None:
    distribution = PlanDistribution((POUR, STIR), (0.5, 0.3), "chain", ((STIR, 7), (POUR, 2)))
    again = PlanDistribution.from_json(distribution.to_json())
    assert again == distribution
    assert again.to_json() == distribution.to_json()
    assert (distribution.plan, distribution.plan_probability, distribution.num_samples) == (POUR, 0.5, 9)
    assert distribution.other_plans == pytest.approx(0.2)
    assert list(distribution.top(1)) == [(POUR, 0.5)]
    assert list(distribution.top(9)) == [(POUR, 0.5), (STIR, 0.3)]


@pytest.mark.parametrize(
    "change",
    [
        {"plans": []},
        {"plans": None},
        {"plans": [{"steps": ["pour"], "probability": 1.5}]},
        {"plans": [{"steps": ["pour"], "probability": float("nan")}]},
        {"plans": [{"steps": ["pour"], "probability": 0.2}] * 2},
        {"plans": [{"steps": ["pour"], "probability": 0.6}, {"steps": ["stir"], "probability": 0.6}]},
        {"samples": [{"steps": ["pour", "stir"], "count": 1}]},
        {"samples": [{"steps": ["pour"], "count": 0}]},
        {"samples": [{"steps": ["pour"], "count": 2.7}]},
        {"samples": [{"steps": ["pour"], "count": True}]},
        {"samples": [{"steps": ["pour"], "count": 1}] * 2},
        {"source": "a guess"},
    ],
)
def test_an_invalid_distribution_is_refused(change: dict[str, object]) -> None:
    good = {"plans": [{"steps": ["pour"], "probability": 0.5}], "source": "samples", "samples": []}
    assert PlanDistribution.from_json(json.dumps(good)).plan == ("pour",)
    with pytest.raises(PlanError):
        PlanDistribution.from_json(json.dumps({**good, **change}))
