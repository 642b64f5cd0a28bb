from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest

from p3iv.data.windows import split_by_video
from p3iv.tabletop.tasks import HABIT, PROCEDURES, RULES, Facts, Procedure, Slot
from p3iv.tabletop.world import Execution, Plan, World, tabletop_world, write_script

Pair = tuple[Facts, Facts]


@pytest.fixture(scope="module")
def executions() -> list[Execution]:
    rng = np.random.default_rng(7)
    return [tabletop_world().sample(rng) for _ in range(20_000)]


def test_the_number_of_procedures_and_steps() -> None:
    uses = Counter(step for procedure in PROCEDURES for slot in procedure.slots for step in slot.weights)
    assert len(PROCEDURES) >= 8
    assert len(uses) >= 45
    assert sum(count > 1 for count in uses.values()) >= 8
    assert set(uses) == set(RULES)


def test_every_execution_is_valid_and_has_7_to_14_steps(executions: list[Execution]) -> None:
    for execution in executions:
        assert 7 <= len(execution.steps) <= 14
        for step, before, after in zip(execution.steps, execution.states, execution.states[1:], strict=False):
            assert RULES[step].allows(before)
            assert RULES[step].apply(before) == after


def test_every_execution_does_all_required_steps(executions: list[Execution]) -> None:
    procedures = {procedure.name: procedure for procedure in PROCEDURES}
    for execution in executions:
        for slot in procedures[execution.procedure].slots:
            taken = [step for step in execution.steps if step in slot.weights]
            shown = any(RULES[step].adds <= execution.states[0] for step in slot.weights)
            assert len(taken) == 1 or slot.optional or shown


def test_every_step_and_procedure_occurs(executions: list[Execution]) -> None:
    assert {step for execution in executions for step in execution.steps} == set(RULES)
    assert {execution.procedure for execution in executions} == {procedure.name for procedure in PROCEDURES}


@pytest.mark.parametrize("horizons", [(3,), (6,), (1, 2, 3, 4, 5, 6)])
def test_plan_probabilities_match_the_frequencies_of_20000_executions(
    executions: list[Execution], horizons: tuple[int, ...]
) -> None:
    counts: dict[Pair, Counter[Plan]] = defaultdict(Counter)
    for execution in executions:
        for horizon in horizons:
            for first in range(len(execution.steps) - horizon + 1):
                pair = execution.states[first], execution.states[first + horizon]
                counts[pair][execution.steps[first : first + horizon]] += 1
    common = [pair for pair, plans in counts.items() if plans.total() >= 400]
    assert len(common) > 20
    for start, goal in common:
        seen, exact = counts[start, goal], tabletop_world().plans_from(start, goal=goal, horizons=horizons)
        total = seen.total()
        assert set(seen) <= set(exact)
        for plan, probability in exact.items():
            spread = np.sqrt(probability * (1 - probability) / total)
            assert abs(seen[plan] / total - probability) <= 5.5 * spread + 1 / total


def test_enumerated_plans_sum_to_one_and_can_be_executed(executions: list[Execution]) -> None:
    for execution in executions[:100]:
        for horizon in (1, 3, 5):
            for first in range(len(execution.steps) - horizon + 1):
                start, goal = execution.states[first], execution.states[first + horizon]
                plans = tabletop_world().plans_between(start, goal, horizon)
                assert sum(plans.values()) == pytest.approx(1.0, abs=1e-12)
                for plan in plans:
                    facts = start
                    for step in plan:
                        assert RULES[step].allows(facts)
                        facts = RULES[step].apply(facts)
                    assert facts == goal


def test_an_impossible_pair_has_no_plans() -> None:
    assert tabletop_world().plans_between(frozenset({"kettle"}), frozenset({"moon"}), 3) == {}


def test_plan_probabilities_of_a_world_small_enough_to_work_out_by_hand() -> None:
    """Two steps in any order with weights 3 and 1: the two orders are as likely as 3 and 1 times HABIT."""
    start = frozenset({"kettle", "tea", "coffee"})
    slots = (
        Slot({"fill the kettle with water": 3.0}),
        Slot({"set out a mug": 1.0}),
        Slot({"switch on the kettle": 1.0}, after=("set out a mug",)),
    )
    world = World((Procedure("boil", {start: 1.0}, slots),))
    goal = start | {"kettle.full", "mug"}
    assert world.plans_between(start, goal, 2) == pytest.approx(
        {
            ("fill the kettle with water", "set out a mug"): 3 / (3 + HABIT),
            ("set out a mug", "fill the kettle with water"): HABIT / (3 + HABIT),
        }
    )


def test_many_windows_have_more_than_one_plan() -> None:
    videos = [write_script(0, index) for index in range(160)]
    test = set(split_by_video([video.id for video in videos], seed=0).test)
    for horizon, min_plans in ((3, 2.0), (6, 4.0)):
        numbers = [
            len(tabletop_world().plans_between(states[first], states[first + horizon], horizon))
            for video in videos
            if video.id in test
            for states in [video.execution.states]
            for first in range(len(states) - horizon)
        ]
        assert np.mean(numbers) >= min_plans
