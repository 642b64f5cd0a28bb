"""The chain against brute force over all A^T plans, zero probabilities included."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import p3iv.plans.viterbi
from allocations import peak_bytes
from p3iv.errors import PlanError
from p3iv.plans.chain import Chain
from p3iv.types import Array


def all_plans(num_actions: int, horizon: int) -> Array:
    return np.array(list(itertools.product(range(num_actions), repeat=horizon)))


def weigh(emissions: Array, transitions: Array, plans: Array) -> Array:
    """The definition, plan by plan: (N, A^T)."""
    table = np.ones((len(emissions), len(plans)))
    for window, emission in enumerate(emissions):
        for number, plan in enumerate(plans.tolist()):
            for position, action in enumerate(plan):
                table[window, number] *= emission[position, action]
                if position:
                    table[window, number] *= transitions[plan[position - 1], action]
    return table


def random_weights(seed: int, horizon: int, num_actions: int, zeros: float) -> tuple[Array, Array]:
    generator = np.random.default_rng(seed)
    tables = []
    for shape in ((3, horizon, num_actions), (num_actions, num_actions)):
        weights = generator.random(shape)
        tables.append(weights * (generator.random(shape) >= zeros))
    return tables[0], tables[1]


def descending(values: Array) -> Array:
    return np.sort(values)[::-1]


@given(
    seed=st.integers(0, 10_000),
    horizon=st.integers(1, 4),
    num_actions=st.integers(1, 4),
    zeros=st.sampled_from([0, 0.4]),
)
def test_every_answer_equals_brute_force(seed: int, horizon: int, num_actions: int, zeros: float) -> None:
    emissions, transitions = random_weights(seed, horizon, num_actions, zeros)
    chain, plans = Chain.of(emissions, transitions), all_plans(num_actions, horizon)
    weights = weigh(emissions, transitions, plans)
    paths, scores = chain.best_paths()
    np.testing.assert_allclose(np.exp(scores), weights.max(axis=1))
    np.testing.assert_allclose(np.exp(chain.log_normaliser()), weights.sum(axis=1))
    for window in range(len(weights)):
        if not weights[window].any():
            continue
        shares = weights[window] / weights[window].sum()
        (number,) = np.flatnonzero((plans == paths[window]).all(axis=1))
        assert weights[window, number] == pytest.approx(weights[window].max())
        given_window = np.full(len(plans), window)
        np.testing.assert_allclose(np.exp(chain.log_probability(plans, given_window)), shares, atol=1e-15)
        for position, action in itertools.product(range(horizon), range(num_actions)):
            expected = shares[plans[:, position] == action].sum()
            np.testing.assert_allclose(chain.marginals()[window, position, action], expected, atol=1e-15)


@given(
    seed=st.integers(0, 10_000),
    horizon=st.integers(1, 4),
    num_actions=st.integers(1, 4),
    zeros=st.sampled_from([0, 0.4]),
    number=st.integers(1, 9),
)
def test_the_best_plans_are_those_of_brute_force_in_order(
    seed: int, horizon: int, num_actions: int, zeros: float, number: int
) -> None:
    emissions, transitions = random_weights(seed, horizon, num_actions, zeros)
    chain, plans = Chain.of(emissions, transitions), all_plans(num_actions, horizon)
    weights = weigh(emissions, transitions, plans)
    found, logs = chain.best_plans(number)
    assert found.shape == (3, number, horizon)
    for window in range(3):
        if not weights[window].any():
            continue
        shares = weights[window] / weights[window].sum()
        most = descending(shares)[:number]
        np.testing.assert_allclose(np.exp(logs[window, : len(most)]), most, atol=1e-15)
        assert (logs[window, len(most) :] == -np.inf).all()
        possible = found[window][logs[window] > -np.inf]
        assert len(np.unique(possible, axis=0)) == len(possible)
        given_window = np.full(len(possible), window)
        np.testing.assert_allclose(
            chain.log_probability(possible, given_window), logs[window, : len(possible)], atol=1e-12
        )


def log_weights(log_emissions: Array, log_transitions: Array, window: int, plans: Array) -> Array:
    """The definition in log space: (A^T,)."""
    steps = log_emissions[window, np.arange(plans.shape[1]), plans].sum(axis=1)
    weights: Array = steps + log_transitions[plans[:, :-1], plans[:, 1:]].sum(axis=1)
    return weights


def test_draws_have_the_exact_distribution() -> None:
    """Pearson's chi-squared over all plans of positive probability; none of probability 0 is ever drawn."""
    emissions, transitions = random_weights(7, 3, 4, zeros=0.25)
    plans, number = all_plans(4, 3), 40_000
    uniforms = np.random.default_rng(1).random((number, 3))
    drawn = Chain.of(emissions, transitions).draw(uniforms)
    for window, weights in enumerate(weigh(emissions, transitions, plans)):
        expected = number * weights / weights.sum()
        keys = (drawn[window] * np.array([16, 4, 1])).sum(axis=1)
        counts = np.bincount(keys, minlength=64)
        possible = expected > 0
        assert counts[~possible].sum() == 0
        statistic = ((counts - expected)[possible] ** 2 / expected[possible]).sum()
        freedom = possible.sum() - 1
        assert statistic < freedom + 4 * (2 * freedom) ** 0.5  # mean and four standard deviations


def test_a_window_is_drawn_by_itself() -> None:
    emissions, transitions = random_weights(3, 3, 4, zeros=0)
    uniforms = np.random.default_rng(1).random((50, 3))
    together = Chain.of(emissions, transitions).draw(uniforms)
    for window in range(len(emissions)):
        alone = Chain.of(emissions[window : window + 1], transitions).draw(uniforms)[0]
        assert np.array_equal(alone, together[window])


def test_a_long_chain_does_not_underflow() -> None:
    emissions = np.full((1, 400, 5), 1e-3)
    transitions = np.full((5, 5), 1e-3)
    chain = Chain.of(emissions, transitions)
    assert chain.log_normaliser()[0] == pytest.approx(799 * math.log(1e-3) + 400 * math.log(5))
    assert np.isfinite(chain.best_paths()[1]).all()


@given(draw=st.data(), horizon=st.integers(1, 4), num_actions=st.integers(1, 3))
def test_improbable_plans_are_possible(draw: st.DataObject, horizon: int, num_actions: int) -> None:
    """Weights whose exponentials are zero in float64, next to dead ends: all answers equal brute force in log space."""
    sizes = horizon * num_actions, num_actions**2
    logs = st.sampled_from([0.0, -1.0, -300.0, -800.0, -2000.0, -np.inf])
    emissions, transitions = (np.array(draw.draw(st.lists(logs, min_size=size, max_size=size))) for size in sizes)
    chain = Chain(emissions.reshape(1, horizon, num_actions), transitions.reshape(num_actions, num_actions))
    plans = all_plans(num_actions, horizon)
    written = log_weights(chain.log_emissions, chain.log_transitions, 0, plans)
    assert chain.best_paths()[1][0] == pytest.approx(written.max())
    if written.max() == -np.inf:
        assert chain.log_normaliser()[0] == -np.inf
        return
    log_z = math.log(np.exp(written - written.max()).sum()) + written.max()
    assert chain.log_normaliser()[0] == pytest.approx(log_z)
    written = written - log_z
    none = np.zeros(len(plans), dtype=np.int64)
    np.testing.assert_allclose(chain.log_probability(plans, none), written, atol=1e-9)
    marginals = np.zeros((horizon, num_actions))
    for share, plan in zip(np.exp(written), plans, strict=True):
        marginals[np.arange(horizon), plan] += share
    np.testing.assert_allclose(chain.marginals()[0], marginals, atol=1e-12)
    drawn = chain.draw(np.random.default_rng(0).random((20, horizon)))[0]
    assert (chain.log_probability(drawn, np.zeros(20, dtype=np.int64)) > -30).all()


def test_blocks_do_not_change_the_best_path(monkeypatch: pytest.MonkeyPatch) -> None:
    emissions, transitions = random_weights(5, 4, 6, zeros=0.2)
    whole = Chain.of(emissions, transitions).best_paths()
    monkeypatch.setattr(p3iv.plans.viterbi, "MAX_ELEMENTS", 1)
    parts = Chain.of(emissions, transitions).best_paths()
    assert np.array_equal(whole[0], parts[0])
    assert np.array_equal(whole[1], parts[1])


@given(
    seed=st.integers(0, 10_000),
    horizon=st.integers(1, 4),
    zeros=st.sampled_from([0, 0.4]),
    sharpness=st.sampled_from([1, 6, 30]),
    number=st.integers(1, 5),
)
def test_candidates_do_not_change_the_best_plans(
    seed: int, horizon: int, zeros: float, sharpness: int, number: int
) -> None:
    emissions, transitions = random_weights(seed, horizon, 20, zeros)
    emissions = emissions.round(1) ** sharpness  # rounded, so that some actions are equally good
    whole = Chain.of(emissions, transitions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(p3iv.plans.viterbi, "NUM_CANDIDATES", 3)
        few = Chain.of(emissions, transitions)
        paths, best = few.best_paths(), few.best_plans(number)
    assert np.array_equal(paths[0], whole.best_paths()[0])
    assert np.array_equal(paths[1], whole.best_paths()[1])
    assert np.array_equal(best[1], whole.best_plans(number)[1])  # equally good plans may come in another order


def test_clear_emissions_need_no_search_among_all_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(p3iv.plans.viterbi, "_search_all", None)
    emissions = np.eye(300)[None, 5:8] + 1e-9
    transitions = np.random.default_rng(0).random((300, 300)) + 0.1
    chain = Chain.of(emissions, transitions)
    assert chain.best_paths()[0].tolist() == [[5, 6, 7]]
    assert chain.best_plans(1)[0].tolist() == [[[5, 6, 7]]]


def test_one_window_of_a_large_vocabulary_takes_no_memory_for_all_pairs_of_actions() -> None:
    number = 3000  # 9 million pairs, 72 MB
    generator = np.random.default_rng(0)
    chain = Chain(generator.standard_normal((1, 2, number)), generator.standard_normal((number, number)))
    uniforms = generator.random((number, 2))

    def ask() -> None:
        chain.best_paths()
        chain.best_plans(3)
        chain.draw(uniforms)

    ask()  # computes what all windows share
    assert peak_bytes(ask) <= 5 * 8 * p3iv.plans.viterbi.MAX_ELEMENTS < 2 * 8 * number**2


def test_the_parts_of_a_chain_share_what_is_computed_from_the_transitions() -> None:
    emissions, transitions = random_weights(2, 3, 4, zeros=0)
    chain = Chain.of(emissions, transitions)
    parts = chain.split()
    assert [len(part.log_emissions) for part in parts] == [1, 1, 1]
    assert np.array_equal(np.concatenate([part.best_paths()[0] for part in parts]), chain.best_paths()[0])
    other = chain.with_emissions(chain.log_emissions / 2)
    np.testing.assert_allclose(other.marginals(), Chain.of(np.sqrt(emissions), transitions).marginals())


def test_nothing_can_be_drawn_where_no_plan_is_possible() -> None:
    chain = Chain.of(np.eye(2)[None], np.eye(2))
    assert chain.best_paths()[1][0] == -np.inf
    with pytest.raises(PlanError, match="No plan is possible"):
        chain.draw(np.full((3, 2), 0.5))
