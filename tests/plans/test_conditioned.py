"""Chains under conditions against brute force over all A^T plans, with ties, dead ends and rescored plans."""

from __future__ import annotations

from itertools import pairwise
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import p3iv.plans.chain
import p3iv.plans.viterbi
from p3iv.errors import PlanError
from p3iv.plans.chain import Chain, RescoredChain
from p3iv.plans.conditioned import ConditionedChain
from p3iv.plans.conditions import Conditions
from p3iv.types import Array
from plans.test_chain import all_plans, descending

NAMES = ["boil", "pour", "salt", "stir", "wait"]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rescore five plans, so that others are left."""
    monkeypatch.setattr(p3iv.plans.chain, "NUM_RESCORED", 5)


def holds(conditions: Conditions, plan: list[str]) -> bool:
    """The definition, in words."""
    return (
        not set(plan) & {*conditions.without, *conditions.done}
        and set(conditions.including) <= set(plan)
        and conditions.first in {None, plan[0]}
        and conditions.last in {None, plan[-1]}
        and all(place <= len(plan) and plan[place - 1] == step for place, step in conditions.at)
        and all(plan.index(a) < plan.index(b) for a, b in conditions.before if a in plan and b in plan)
    )


def holding(conditions: Conditions, plans: Array) -> Array:
    return np.array([holds(conditions, [NAMES[action] for action in plan]) for plan in plans.tolist()])


@st.composite
def some_conditions(draw: st.DrawFn, num_actions: int, horizon: int) -> Conditions:
    """All kinds together; about half of them are impossible."""
    step = st.sampled_from(NAMES[:num_actions])

    def few_of(values: st.SearchStrategy[Any], most: int) -> Any:
        return draw(st.one_of(st.just([]), st.lists(values, max_size=most)))

    pairs = st.tuples(step, step).filter(lambda pair: pair[0] != pair[1])
    return Conditions(
        without=few_of(step, 1),
        including=few_of(step, 2),
        first=draw(st.one_of(st.none(), st.none(), step)),
        last=draw(st.one_of(st.none(), st.none(), step)),
        at=few_of(st.tuples(st.integers(1, horizon + 1), step), 1),
        before=few_of(pairs, 3) if num_actions > 1 else [],
        done=few_of(step, 1),
    )


@st.composite
def chains(draw: st.DrawFn, num_actions: int, horizon: int) -> Chain:
    """With many ties, with dead ends, with weights that are zero in float64; some with rescored plans."""
    logs = draw(
        st.sampled_from(
            (
                st.floats(-3, 3),
                st.sampled_from([0.0, -1.0, float(np.log(2))]),
                st.sampled_from([0.0, -1.0, -np.inf]),
                st.sampled_from([0.0, -1.0, -300.0, -800.0, -2000.0, -np.inf]),
            )
        )
    )

    def table(*shape: int) -> Array:
        return np.array(draw(st.lists(logs, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))).reshape(shape)

    chain = Chain(table(1, horizon, num_actions), table(num_actions, num_actions))
    if draw(st.booleans()):
        return chain
    generator = np.random.default_rng(draw(st.integers(0, 100)))
    both = generator.standard_normal((num_actions, num_actions))
    return RescoredChain.over(chain, 3 * generator.standard_normal((1, num_actions)), both + both.T)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Chain, Conditions]:
    num_actions, horizon = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    return draw(chains(num_actions, horizon)), draw(some_conditions(num_actions, horizon))


def written_out(chain: Chain, conditions: Conditions) -> tuple[Array, Array, float]:
    """All plans, log p of each given the conditions, and log of the share of those that satisfy them."""
    _, horizon, num_actions = chain.log_emissions.shape
    plans = all_plans(num_actions, horizon)
    logs = np.full(len(plans), -np.inf)
    if chain.log_normaliser()[0] > -np.inf:
        logs = chain.log_probability(plans, np.zeros(len(plans), dtype=np.int64))
    logs = np.where(holding(conditions, plans), logs, -np.inf)
    share = np.logaddexp.reduce(logs)
    return plans, logs - share if share > -np.inf else logs, float(share)


def restricted(chain: Chain, conditions: Conditions) -> ConditionedChain:
    return conditions.rules(NAMES[: chain.log_emissions.shape[2]]).restrict(chain)


@given(problem=problems(), number=st.integers(1, 12))
def test_every_answer_equals_brute_force(problem: tuple[Chain, Conditions], number: int) -> None:
    chain, conditions = problem
    plans, logs, share = written_out(chain, conditions)
    found = restricted(chain, conditions)
    assert np.array_equal(found.satisfies(plans), holding(conditions, plans))
    assert found.log_share == pytest.approx(share, abs=1e-9)
    np.testing.assert_allclose(found.log_probability(plans), logs, atol=1e-9)

    best, best_logs = found.best_plans(number)
    assert best.shape == (min(number, int((logs > -np.inf).sum())), plans.shape[1])
    np.testing.assert_allclose(best_logs, descending(logs)[: len(best)], atol=1e-9)
    assert len(np.unique(best, axis=0)) == len(best)
    np.testing.assert_allclose(found.log_probability(best), best_logs, atol=1e-9)

    marginals = np.zeros(chain.log_emissions.shape[1:])
    for plan, probability in zip(plans, np.exp(logs), strict=True):
        marginals[np.arange(len(plan)), plan] += probability
    np.testing.assert_allclose(found.marginals(), marginals, atol=1e-9)

    uniforms = np.random.default_rng(0).random((30, plans.shape[1] + 1))
    if share > -np.inf:
        assert (found.log_probability(found.draw(uniforms)) > -30).all()
    else:
        with pytest.raises(PlanError, match="No plan satisfies these conditions"):
            found.draw(uniforms)


@pytest.mark.parametrize("is_rescored", [False, True])
@pytest.mark.parametrize(
    "conditions",
    [
        Conditions(),
        Conditions(including=["salt"], before=[("boil", "pour")], done=["wait"]),
        Conditions(without=["stir"], including=["pour", "salt"], before=[("pour", "boil"), ("boil", "wait")]),
        Conditions(last="salt", including=["wait"], at=[(2, "boil")], before=[("salt", "stir")]),
    ],
    ids=str,
)
def test_samples_have_the_exact_distribution(
    conditions: Conditions, is_rescored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pearson's chi-squared over all plans of positive probability; none that violates a condition is ever drawn."""
    monkeypatch.setattr(p3iv.plans.chain, "NUM_RESCORED", 150)
    generator = np.random.default_rng(5)
    chain = Chain(generator.standard_normal((1, 4, 5)), generator.standard_normal((5, 5)))
    if is_rescored:
        both = generator.standard_normal((5, 5))
        chain = RescoredChain.over(chain, generator.standard_normal((1, 5)), (both + both.T) / 4)
        assert holding(conditions, chain.rescored[0][0]).sum() > 1
    plans, logs, _ = written_out(chain, conditions)
    number = 60_000
    expected = number * np.exp(logs)
    drawn = restricted(chain, conditions).draw(generator.random((number, 5)))
    counts = np.bincount((drawn * 5 ** np.arange(3, -1, -1)).sum(axis=1), minlength=len(plans))
    assert counts[expected == 0].sum() == 0
    frequent = expected >= 5
    counts, expected = (np.append(each[frequent], each[~frequent].sum()) for each in (counts, expected))
    counts, expected = counts[expected > 0], expected[expected > 0]
    freedom = len(expected) - 1
    assert ((counts - expected) ** 2 / expected).sum() < freedom + 4 * (2 * freedom) ** 0.5


def test_rescoring_changes_how_probable_the_conditions_are() -> None:
    """The five rescored plans that satisfy a condition may weigh more or less than before, and so does the share."""
    generator = np.random.default_rng(2)
    plain = Chain(generator.standard_normal((1, 3, 5)), generator.standard_normal((5, 5)))
    chain = RescoredChain.over(plain, 3 * generator.standard_normal((1, 5)), np.zeros((5, 5)))
    shares = {
        name: [restricted(each, Conditions(including=[name])).log_share for each in (plain, chain)] for name in NAMES
    }
    ratios = [after - before for before, after in shares.values()]
    assert min(ratios) < -0.1
    assert max(ratios) > 0.1


def test_the_beginning_of_samples_does_not_depend_on_their_number() -> None:
    generator = np.random.default_rng(0)
    chain = Chain(generator.standard_normal((1, 4, 5)), generator.standard_normal((5, 5)))
    found = restricted(chain, Conditions(including=["salt"], before=[("boil", "pour")]))
    uniforms = generator.random((200, 4))
    assert np.array_equal(found.draw(uniforms)[:50], found.draw(uniforms[:50]))


def test_blocks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    conditions = Conditions(including=["salt"], before=[("boil", "pour")])
    tables = generator.standard_normal((1, 4, 5)), generator.standard_normal((5, 5))
    uniforms = generator.random((200, 4))
    whole = restricted(Chain(*tables), conditions)
    expected = whole.best_plans(20), whole.draw(uniforms)
    for module in (p3iv.plans.chain, p3iv.plans.viterbi):
        monkeypatch.setattr(module, "MAX_ELEMENTS", 1)
    parts = restricted(Chain(*tables), conditions)
    assert np.array_equal(parts.draw(uniforms), expected[1])
    for found, wanted in zip(parts.best_plans(20), expected[0], strict=True):
        assert np.array_equal(found, wanted)


def test_many_conditions_are_exact_up_to_a_limit() -> None:
    names = [f"step {number}" for number in range(20)]
    chain = Chain(np.zeros((1, 10, 20)), np.zeros((20, 20)))
    eight = Conditions(including=names[:8]).rules(names).restrict(chain)
    # Inclusion and exclusion: the number of plans that lack none of eight steps.
    plans = sum((-1) ** left_out * comb(8, left_out) * (20 - left_out) ** 10 for left_out in range(9))
    assert eight.log_share == pytest.approx(np.log(plans / 20**10))
    with pytest.raises(PlanError, match=r"^9 steps that must occur are too many .* more than 256 states"):
        Conditions(including=names[:9]).rules(names).restrict(chain)
    chained = Conditions(before=list(pairwise(names[:10]))).rules(names)
    with pytest.raises(PlanError, match=r"^9 pairs of steps in a given order are .* Leave some of them out\."):
        chained.restrict(chain)
