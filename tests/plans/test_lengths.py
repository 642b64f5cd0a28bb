"""Plans of several lengths as one distribution, against brute force over all plans of all lengths."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import p3iv.plans.chain
from p3iv.errors import PlanError
from p3iv.plans.chain import Chain, RescoredChain
from p3iv.plans.conditioned import ConditionedChain
from p3iv.plans.conditions import Conditions
from p3iv.plans.lengths import PlansOfLengths
from p3iv.types import Array
from plans.test_conditioned import NAMES, chains, holds, some_conditions

Problem = tuple[list[Chain], Array, Conditions]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rescore five plans, so that others are left."""
    monkeypatch.setattr(p3iv.plans.chain, "NUM_RESCORED", 5)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Chains of some lengths, in any order, log p(T) of each, and conditions: none at all for half of them."""
    num_actions = draw(st.integers(1, 4))
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True))
    parts = [draw(chains(num_actions, length)) for length in lengths]
    weights = np.array(draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.0]), min_size=len(parts), max_size=len(parts))))
    with np.errstate(divide="ignore", invalid="ignore"):
        log_lengths = np.log(weights / weights.sum())
    conditions = draw(st.one_of(st.just(Conditions()), some_conditions(num_actions, 4)))
    return parts, np.nan_to_num(log_lengths, nan=-np.inf, neginf=-np.inf), conditions


def restricted(parts: list[Chain], conditions: Conditions) -> list[Chain] | list[ConditionedChain]:
    if not conditions:
        return parts
    rules = conditions.rules(NAMES[: parts[0].log_emissions.shape[2]])
    return [rules.restrict(part) for part in parts]


def written_out(parts: list[Chain], log_lengths: Array, conditions: Conditions) -> dict[tuple[int, ...], float]:
    """Log p of every possible plan of every length, given the conditions; empty if there is none."""
    found: dict[tuple[int, ...], float] = {}
    for part, log_length in zip(parts, log_lengths, strict=True):
        _, length, num_actions = part.log_emissions.shape
        if part.log_normaliser()[0] == -np.inf:
            continue
        plans = [
            plan
            for plan in product(range(num_actions), repeat=length)
            if holds(conditions, [NAMES[action] for action in plan])
        ]
        if plans:
            logs = log_length + part.log_probability(np.array(plans), np.zeros(len(plans), dtype=np.int64))
            found |= {plan: log for plan, log in zip(plans, logs.tolist(), strict=True) if log > -np.inf}
    total = np.logaddexp.reduce(list(found.values())) if found else 0.0
    return {plan: log - total for plan, log in found.items()}


@given(problem=problems(), number=st.integers(1, 12))
def test_every_answer_equals_brute_force(problem: Problem, number: int) -> None:
    parts, log_lengths, conditions = problem
    written = written_out(parts, log_lengths, conditions)
    if not written:
        with pytest.raises(PlanError, match="No plan of any of these lengths is possible"):
            PlansOfLengths(restricted(parts, conditions), log_lengths)
        return
    plans = PlansOfLengths(restricted(parts, conditions), log_lengths)
    best = plans.best_plans(number)
    assert len(best) == min(number, len(written)) == len({plan for plan, _ in best})
    np.testing.assert_allclose([log for _, log in best], sorted(written.values(), reverse=True)[:number], atol=1e-9)
    np.testing.assert_allclose([log for _, log in best], [written[plan] for plan, _ in best], atol=1e-9)
    for length in range(6):  # the chains have 1 to 4
        for plan in product(range(parts[0].log_emissions.shape[2]), repeat=length):
            assert plans.log_probability(plan) == pytest.approx(written.get(plan, -np.inf), abs=1e-9)
    for length, probability in plans.lengths:
        logs = [log for plan, log in written.items() if len(plan) == length]
        assert probability == pytest.approx(np.exp(logs).sum(), abs=1e-9)
    assert sum(probability for _, probability in plans.lengths) == pytest.approx(1)
    generator = np.random.default_rng(0)
    drawn = plans.draw(generator.random((20, 5)), generator.random(20))
    assert all(written[plan] > -30 for plan in drawn)


@pytest.mark.parametrize("conditions", [Conditions(), Conditions(including=["salt"], before=[("boil", "pour")])])
def test_samples_have_the_exact_distribution(conditions: Conditions) -> None:
    generator = np.random.default_rng(3)
    transitions = generator.standard_normal((4, 4))
    parts = [Chain(generator.standard_normal((1, length, 4)), transitions) for length in (1, 2, 3)]
    parts[1] = RescoredChain.over(parts[1], generator.standard_normal((1, 4)), np.zeros((4, 4)))
    log_lengths = np.log([0.2, 0.5, 0.3])
    number, written = 40_000, written_out(parts, log_lengths, conditions)
    plans = PlansOfLengths(restricted(parts, conditions), log_lengths)
    drawn = plans.draw(generator.random((number, 4)), generator.random(number))
    assert set(drawn) <= set(written)
    counts = np.array([drawn.count(plan) for plan in written])
    expected = number * np.exp(list(written.values()))
    freedom = len(written) - 1
    assert ((counts - expected) ** 2 / expected).sum() < freedom + 4 * (2 * freedom) ** 0.5


@given(data=st.data(), number=st.integers(1, 30))
def test_a_single_length_without_conditions_is_the_chain_to_the_last_bit(data: st.DataObject, number: int) -> None:
    num_actions, horizon = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    chain = data.draw(chains(num_actions, horizon))
    if chain.log_normaliser()[0] == -np.inf:
        return
    plans = PlansOfLengths([chain], np.array([data.draw(st.sampled_from([0.0, -0.3, -700.0]))]))
    expected, logs = (part[0] for part in chain.best_plans(number))
    best = [(tuple(plan), log) for plan, log in zip(expected.tolist(), logs.tolist(), strict=True) if log > -np.inf]
    assert plans.best_plans(number) == best
    assert plans.lengths == ((horizon, 1.0),)
    uniforms = np.random.default_rng(0).random((20, horizon + 1))
    assert plans.draw(uniforms, uniforms[:, 0]) == [tuple(plan) for plan in chain.draw(uniforms)[0].tolist()]
    for plan in expected:
        assert plans.log_probability(plan.tolist()) == chain.log_probability(plan[None], np.array([0]))[0]


def test_conditions_change_how_probable_a_length_is() -> None:
    """Of plans of equal weights, a share of 1 - (3/4)^T has a certain step."""
    parts = [Chain(np.zeros((1, length, 4)), np.zeros((4, 4))) for length in (1, 2, 3)]
    shares = np.array([1 - 0.75**length for length in (1, 2, 3)]) * [0.5, 0.3, 0.2]
    plans = PlansOfLengths(restricted(parts, Conditions(including=["salt"])), np.log([0.5, 0.3, 0.2]))
    np.testing.assert_allclose([share for _, share in plans.lengths], shares / shares.sum())
    later = PlansOfLengths(restricted(parts, Conditions(at=[(3, "salt")])), np.log([0.5, 0.3, 0.2]))
    assert later.lengths == ((1, 0.0), (2, 0.0), (3, 1.0))


def test_every_length_has_one_chain() -> None:
    chain = Chain(np.zeros((1, 2, 4)), np.zeros((4, 4)))
    for parts in ([], [chain], [chain, chain]):
        with pytest.raises(PlanError, match="every length needs one chain"):
            PlansOfLengths(parts, np.log([0.5, 0.5]))
