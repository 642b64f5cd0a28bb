"""The reasons of plans against their definition, written out over all A^T plans."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import p3iv.plans.chain
from p3iv.errors import PlanError
from p3iv.plans.chain import Chain, RescoredChain
from p3iv.plans.explaining import cheapest_change, explain_plans
from p3iv.plans.reasons import EVIDENCE, PlanReasons
from p3iv.types import Array
from plans.test_chain import all_plans

FEW = 5
NAMES = ("boil", "pour", "stir", "serve")
Addends = dict[str, Array]
Example = tuple[Chain, Addends]
Plan = tuple[int, ...]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rescore five plans, so that others are left."""
    monkeypatch.setattr(p3iv.plans.chain, "NUM_RESCORED", FEW)


def example(
    seed: int, horizon: int, num_actions: int, *, scale: float = 1.0, zeros: float = 0.0, rescored: bool = False
) -> Example:
    """A chain of one window, and the addends of its emissions."""
    generator = np.random.default_rng(seed)
    sources = [source for source in ("prior", *EVIDENCE) if generator.random() < 0.6] or ["goal"]
    shape = horizon, num_actions
    addends = {source: scale * generator.standard_normal(shape) for source in sources}
    transitions = -scale * np.abs(generator.standard_normal((num_actions, num_actions)))
    addends[sources[0]][generator.random(shape) < zeros] = -np.inf
    transitions[generator.random(transitions.shape) < zeros] = -np.inf
    chain = Chain(emissions_of(addends), transitions)
    if not rescored:
        return chain, addends
    both = generator.standard_normal(transitions.shape)
    return RescoredChain.over(chain, 2 * generator.standard_normal((1, num_actions)), both + both.T), addends


def emissions_of(addends: Addends) -> Array:
    emissions: Array = np.sum(list(addends.values()), axis=0)[None]
    return emissions


def possible(chain: Chain) -> Array:
    """All plans that have a probability above 0."""
    _, horizon, num_actions = chain.log_emissions.shape
    plans = all_plans(num_actions, horizon)
    return plans[np.isfinite(chain.log_probability(plans, np.zeros(len(plans), dtype=np.int64)))]


def examples(scales: tuple[float, ...] = (1.0,), zeros: tuple[float, ...] = (0.0,)) -> st.SearchStrategy[Example]:
    return st.builds(
        example,
        st.integers(0, 10_000),
        st.integers(1, 4),
        st.integers(2, 4),
        scale=st.sampled_from(scales),
        zeros=st.sampled_from(zeros),
        rescored=st.booleans(),
    )


def parts_of(reasons: PlanReasons) -> list[float]:
    addends = [value for step in reasons.steps for value in step.addends.values()]
    return [*addends, reasons.length, reasons.conditions, reasons.normaliser]


@given(examples((0.01, 1.0, 30.0, 2000.0, 1e6), (0.0, 0.3)), st.floats(-30, 0), st.floats(-30, 0))
def test_everything_sums_to_the_log_probability(given: Example, log_length: float, log_share: float) -> None:
    chain, addends = given
    plans = possible(chain)
    logs = chain.log_probability(plans, np.zeros(len(plans), dtype=np.int64))
    log_share = max(log_share, float(logs.max(initial=-np.inf)))  # what satisfies conditions has at least its own share
    found = explain_plans(plans, NAMES, chain, addends, log_length=log_length, log_share=log_share)
    for reasons, plan, log in zip(found, plans.tolist(), logs.tolist(), strict=True):
        assert reasons.plan == tuple(NAMES[action] for action in plan)
        assert reasons.log_probability == pytest.approx(log + log_length - log_share, abs=1e-9)
        assert math.fsum(parts_of(reasons)) == pytest.approx(reasons.log_probability, abs=1e-6, rel=0)
        assert (reasons.length, reasons.conditions) == (log_length, -log_share)


@given(examples(zeros=(0.0, 0.3)))
def test_an_addend_is_relative_to_the_mean_of_the_plans_with_something_else_there(given: Example) -> None:
    chain, addends = given
    plans = possible(chain)
    plain = Chain(chain.log_emissions, chain.log_transitions)
    shares = np.exp(plain.log_probability(plans, np.zeros(len(plans), dtype=np.int64)))
    listed = [tuple(plan) for plan in plans.tolist()]
    weights = dict(zip(listed, shares.tolist(), strict=True))
    best = set(sorted(listed, key=lambda plan: -weights[plan])[:FEW])
    for plan, reasons in zip(listed, explain_plans(plans, NAMES, chain, addends), strict=True):
        for at, step in enumerate(reasons.steps):
            other = [each for each in listed if each[at] != plan[at]]
            for source, table in addends.items():
                expected = against(plan, other, weights, partial(entry, table, at))
                assert step.addends[source] == pytest.approx(expected, abs=1e-9)
            if isinstance(chain, RescoredChain):
                rescored = [each for each in other if each in best] if plan in best else []
                expected = against(plan, rescored, weights, partial(effect, chain, at))
                assert step.addends["effects"] == pytest.approx(expected, abs=1e-9)
            other = [each for each in listed if each[at - 1 : at + 1] != plan[at - 1 : at + 1]] if at else []
            expected = against(plan, other, weights, partial(transition, chain, at))
            assert step.addends["transitions"] == pytest.approx(expected, abs=1e-9)


def against(plan: Plan, other: list[Plan], weights: dict[Plan, float], value: Callable[[Plan], float]) -> float:
    """The value of a plan minus the mean of others; 0 if there are none."""
    if not other:
        return 0.0
    return value(plan) - sum(weights[each] * value(each) for each in other) / sum(weights[each] for each in other)


def entry(table: Array, at: int, plan: Plan) -> float:
    return float(table[at, plan[at]])


def transition(chain: Chain, at: int, plan: Plan) -> float:
    return float(chain.log_transitions[plan[at - 1], plan[at]])


def effect(chain: RescoredChain, at: int, plan: Plan) -> float:
    return float(chain.log_each[0, plan[at]] - sum(chain.log_both[plan[at], action] for action in plan))


@given(examples(), st.integers(0, 100))
def test_constants_that_move_between_sources_change_nothing(given: Example, seed: int) -> None:
    chain, addends = given
    plans = possible(chain)
    shift = 5 * np.random.default_rng(seed).standard_normal((plans.shape[1], 1))
    first, *more = addends
    moved = {**addends, first: addends[first] + shift}
    moved |= {more[0]: addends[more[0]] - shift} if more else {}
    again = chain.with_emissions(emissions_of(moved))
    for one, other in zip(
        explain_plans(plans, NAMES, chain, addends), explain_plans(plans, NAMES, again, moved), strict=True
    ):
        assert parts_of(other) == pytest.approx(parts_of(one), abs=1e-9)


@pytest.mark.parametrize("margin", [0.1, 40.0, 5000.0])
def test_the_addends_of_one_of_two_actions_sum_to_its_log_odds_however_certain_it_is(margin: float) -> None:
    addends = {"start": np.array([[1.0, 3.0]]), "goal": np.array([[margin, -2.0]])}
    chain = Chain((addends["start"] + addends["goal"])[None], np.zeros((2, 2)))
    (reasons,) = explain_plans(np.array([[0]]), NAMES, chain, addends)
    assert reasons.totals == pytest.approx({"start": -2.0, "goal": margin + 2.0, "transitions": 0.0})
    odds = chain.log_emissions[0, 0, 0] - chain.log_emissions[0, 0, 1]
    assert sum(reasons.totals.values()) == pytest.approx(odds)


def changed_plan(chain: Chain, addends: Addends, source: str, at: int | None, factor: float) -> tuple[str, ...]:
    """The best plan if a source counts so many times, at a position or at all of them."""
    changed = {name: table.copy() for name, table in addends.items()}
    changed[source][slice(None) if at is None else at] *= factor
    path = chain.with_emissions(emissions_of(changed)).best_paths()[0][0]
    return tuple(NAMES[action] for action in path.tolist())


@given(examples((0.3, 1.0, 3.0)))
def test_the_best_plan_changes_exactly_at_the_change(given: Example) -> None:
    chain, addends = given
    plans = chain.best_plans(256)[0][0]
    change = cheapest_change(plans, NAMES, chain, addends)
    if change is None:
        return
    at = None if change.step is None else change.step - 1
    words = tuple(NAMES[action] for action in plans[0].tolist())
    before = change.factor - math.copysign(2e-6, change.factor - 1)
    assert changed_plan(chain, addends, change.source, at, before) == words
    assert changed_plan(chain, addends, change.source, at, change.factor) == change.plan != words
    own = [NAMES.index(step) for step in change.plan]
    logs = chain.log_probability(np.array([plans[0], own]), np.zeros(2, dtype=np.int64))
    assert change.nats == pytest.approx(logs[0] - logs[1])


@given(examples((0.3, 1.0, 3.0)))
def test_no_smaller_change_of_any_source_changes_the_plan_of_a_chain(given: Example) -> None:
    plain, addends = given
    chain = Chain(plain.log_emissions, plain.log_transitions)
    horizon = chain.log_emissions.shape[1]
    plans = chain.best_plans(256)[0][0]
    change = cheapest_change(plans, NAMES, chain, addends)
    size = (1.0 if change is None else abs(1 - change.factor)) - 2e-6
    words = tuple(NAMES[action] for action in plans[0].tolist())
    places = itertools.product((source for source in addends if source in EVIDENCE), (None, *range(horizon)))
    for (source, at), sign in itertools.product(places, (-1, 1)):
        assert changed_plan(chain, addends, source, at, 1 + sign * size) == words


def test_under_conditions_the_plan_changes_to_one_that_satisfies_them() -> None:
    chain, addends = example(3, 3, 4)
    allowed = all_plans(4, 3)
    allowed = allowed[(allowed != chain.best_paths()[0][0, 0]).all(axis=1)]  # without the best first step

    def best(chain: Chain) -> Array:
        logs = chain.log_probability(allowed, np.zeros(len(allowed), dtype=np.int64))
        plan: Array = allowed[logs.argmax()]
        return plan

    logs = chain.log_probability(allowed, np.zeros(len(allowed), dtype=np.int64))
    change = cheapest_change(allowed[np.argsort(-logs)], NAMES, chain, addends, best=best)
    assert change is not None
    assert [NAMES.index(step) for step in change.plan] in allowed.tolist()


def test_the_step_is_named_where_only_one_differs_and_plans_that_are_impossible_do_not_count() -> None:
    start, goal = np.array([[0.0, 0.0], [0.0, 1.0]]), np.array([[0.0, -np.inf], [4.0, 0.0]])
    addends = {"start": start, "goal": goal}
    chain = Chain((start + goal)[None], np.zeros((2, 2)))
    change = cheapest_change(all_plans(2, 2), NAMES, chain, addends)
    assert change is not None
    assert (change.source, change.step, change.plan) == ("goal", 2, ("boil", "pour"))
    assert change.factor == pytest.approx(0.25, abs=1e-6)
    assert change.nats == pytest.approx(3.0)
    assert cheapest_change(all_plans(2, 2)[:1], NAMES, chain, addends) is None  # no other plan
    assert cheapest_change(all_plans(2, 2), NAMES, chain, addends, sources=["start"]) is None
    assert cheapest_change(all_plans(2, 2), NAMES, chain, {"goal": start + goal}) is None  # only as probable without
    assert cheapest_change(all_plans(2, 2), NAMES, chain, {"prior": start + goal}) is None  # no evidence
    with pytest.raises(PlanError, match="first plan is impossible"):
        cheapest_change(all_plans(2, 2)[::-1], NAMES, chain, addends)


def test_what_cannot_be_explained_is_refused() -> None:
    chain, addends = example(0, 3, 3)
    plans, table = all_plans(3, 3), np.zeros((3, 3))
    with pytest.raises(PlanError, match="must sum to the log emissions"):
        explain_plans(plans, NAMES, chain, {**addends, "goal": addends.get("goal", table) + 1})
    with pytest.raises(PlanError, match="Did you mean goal"):
        explain_plans(plans, NAMES, chain, {**addends, "goals": table})
    with pytest.raises(PlanError, match="one window"):
        explain_plans(plans, NAMES, chain, {**addends, "goal": np.zeros((3, 4))})
    with pytest.raises(PlanError, match="one window"):
        explain_plans(plans, NAMES, chain.with_emissions(np.zeros((2, 3, 3))), {"goal": table})
    with pytest.raises(PlanError, match="impossible"):
        explain_plans(plans, NAMES, chain, addends, log_share=-math.inf)
    table[0, 0] = -np.inf
    with pytest.raises(PlanError, match="impossible"):
        explain_plans(plans, NAMES, Chain(table[None], np.zeros((3, 3))), {"goal": table})
