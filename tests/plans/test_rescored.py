"""The rescored chain against brute force over all A^T plans."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import p3iv.plans.chain
from p3iv.plans.chain import Chain, RescoredChain
from p3iv.plans.draws import join_chains
from p3iv.types import Array
from plans.test_chain import all_plans, descending, random_weights, weigh

FEW = 5


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weigh five plans again, so that others are left."""
    monkeypatch.setattr(p3iv.plans.chain, "NUM_RESCORED", FEW)


def example(seed: int, horizon: int, num_actions: int, zeros: float = 0.0) -> tuple[RescoredChain, Array]:
    """A chain, and the probabilities of all plans of its three windows written out, (3, A^T)."""
    emissions, transitions = random_weights(seed, horizon, num_actions, zeros)
    generator = np.random.default_rng(seed + 1)
    each = 2 * generator.standard_normal((3, num_actions))
    both = generator.standard_normal((num_actions, num_actions))
    both = both + both.T
    plans = all_plans(num_actions, horizon)
    weights = weigh(emissions, transitions, plans)
    with np.errstate(invalid="ignore"):
        shares = weights / weights.sum(axis=1, keepdims=True)
    written = shares.copy()
    for window in range(3):
        if np.isnan(shares[window]).any():  # no plan is possible
            continue
        first = np.argsort(-shares[window], kind="stable")[:FEW].tolist()
        mass = sum(float(shares[window, number]) for number in first)
        reweighted = {}
        for number in first:
            plan = plans[number].tolist()
            fit = sum(float(each[window, a]) for a in plan) - sum(float(both[a, b]) for a in plan for b in plan)
            reweighted[number] = float(shares[window, number]) * math.exp(fit)
        for number in first:
            fitted = mass * reweighted[number] / sum(reweighted.values())
            written[window, number] = 0.9 * fitted + 0.1 * shares[window, number]
    return RescoredChain.over(Chain.of(emissions, transitions), each, both), written


@given(
    seed=st.integers(0, 10_000),
    horizon=st.integers(1, 4),
    num_actions=st.integers(2, 4),
    zeros=st.sampled_from([0, 0.3]),
)
def test_every_answer_equals_brute_force(seed: int, horizon: int, num_actions: int, zeros: float) -> None:
    chain, written = example(seed, horizon, num_actions, zeros)
    plans = all_plans(num_actions, horizon)
    for window in range(3):
        shares = written[window]
        if not np.isfinite(shares).all():  # no plan is possible
            continue
        own = np.full(len(plans), window)
        np.testing.assert_allclose(np.exp(chain.log_probability(plans, own)), shares, atol=1e-12)
        assert np.exp(chain.log_probability(plans, own)).sum() == pytest.approx(1.0)
        best, score = (part[window] for part in chain.best_paths())
        assert shares[(plans == best).all(axis=1)][0] == pytest.approx(shares.max())
        assert math.exp(score - chain.log_normaliser()[window]) == pytest.approx(shares.max())
        ranked = np.exp(chain.best_plans(8)[1][window])[: len(plans)]
        np.testing.assert_allclose(ranked, descending(shares)[:8], atol=1e-12)
        marginals = np.zeros((horizon, num_actions))
        for share, plan in zip(shares, plans, strict=True):
            marginals[np.arange(horizon), plan] += share
        np.testing.assert_allclose(chain.marginals()[window], marginals, atol=1e-12)


@given(
    draw=st.data(),
    horizon=st.integers(1, 4),
    num_actions=st.integers(2, 4),
    number=st.integers(1, 12),
)
def test_the_best_plans_under_ties_are_those_of_an_enumeration(
    draw: st.DataObject, horizon: int, num_actions: int, number: int
) -> None:
    """Weights that are powers of two, so that many plans are exactly equally probable."""
    exponents = st.sampled_from([0.0, 0.0, -1.0, -np.inf])
    sizes = horizon * num_actions, num_actions**2
    emissions, transitions = (np.exp2(draw.draw(st.lists(exponents, min_size=size, max_size=size))) for size in sizes)
    generator = np.random.default_rng(draw.draw(st.integers(0, 100)))
    each = 2 * generator.standard_normal((1, num_actions))
    both = np.zeros((num_actions, num_actions))
    plain = Chain.of(emissions.reshape(1, horizon, num_actions), transitions.reshape(num_actions, num_actions))
    chain, plans = RescoredChain.over(plain, each, both), all_plans(num_actions, horizon)
    own = np.zeros(len(plans), dtype=np.int64)
    before, after = plain.log_probability(plans, own), chain.log_probability(plans, own)
    if np.isnan(before).any():  # no plan is possible
        return
    assert np.exp(after).sum() == pytest.approx(1.0)
    possible = before > -np.inf
    moved = before[possible][np.abs(before[possible] - after[possible]) > 1e-9]  # five at most, and as probable as any
    assert len(moved) <= FEW
    assert (moved >= descending(before)[:FEW][-1] - 1e-9).all()

    found, logs = (part[0] for part in chain.best_plans(number))
    possible = logs > -np.inf
    assert possible.sum() == min(number, int((after > -np.inf).sum()))
    assert len(np.unique(found[possible], axis=0)) == possible.sum()
    np.testing.assert_allclose(logs[possible], descending(after)[: possible.sum()], atol=1e-12)
    again = chain.log_probability(found[possible], own[: possible.sum()])
    np.testing.assert_allclose(again, logs[possible], atol=1e-12)


def test_draws_are_as_frequent_as_plans_are_probable() -> None:
    chain, written = example(3, 3, 3)
    uniforms = np.random.default_rng(0).random((40_000, 4))
    drawn, plans = chain.draw(uniforms), all_plans(3, 3)
    for window in range(3):
        found = (drawn[window][:, None] == plans).all(axis=2).mean(axis=0)
        np.testing.assert_allclose(found, written[window], atol=0.012, rtol=0)
        before = Chain(chain.log_emissions, chain.log_transitions).log_probability(plans, np.array([window]))
        assert np.abs(found - np.exp(before)).max() > 0.05  # so that the test can tell


def test_a_window_answers_the_same_alone_and_among_others() -> None:
    chain, _ = example(4, 3, 4)
    alone = chain.split()
    np.testing.assert_allclose(chain.marginals(), np.concatenate([part.marginals() for part in alone]))
    assert np.array_equal(chain.best_paths()[0], np.concatenate([part.best_paths()[0] for part in alone]))
    uniforms = np.random.default_rng(1).random((50, 4))
    assert np.array_equal(chain.draw(uniforms), np.concatenate([part.draw(uniforms) for part in alone]))


def test_an_ensemble_weighs_with_the_mean_of_what_its_members_add() -> None:
    chain, _ = example(5, 3, 4)
    plain = Chain(chain.log_emissions, chain.log_transitions)
    joined = join_chains([chain, plain])
    assert isinstance(joined, RescoredChain)
    np.testing.assert_allclose(joined.log_each, chain.log_each / 2)
    np.testing.assert_allclose(joined.log_both, chain.log_both / 2)
    assert not isinstance(join_chains([plain, plain]), RescoredChain)
