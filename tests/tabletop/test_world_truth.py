"""Plans of any length, with and without goal, procedure and history: equal to brute force over all videos."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p3iv.errors import DatasetError, PlanError
from p3iv.tabletop.tasks import HABIT, RULES, Facts, Procedure, Slot
from p3iv.tabletop.world import Execution, Plan, World, tabletop_world, write_script

HORIZONS = (1, 2, 3, 4, 5, 6)
HIDING = {"make a smoothie": "run the blender", "repot a plant": "put the plant in the big pot"}
TABLE = frozenset({"blender", "banana", "banana.peeled", "berries", "milk"})
BANANA, MILK, ICE = "put the banana in the blender", "pour milk into the blender", "add ice to the blender"
LID, RUN, BERRIES = "put the lid on the blender", "run the blender", "put berries in the blender"


def tiny_world(weights: list[float]) -> tuple[Procedure, ...]:
    """Two procedures with the same tables: the ice cannot be seen after blending, and is optional in one of them."""
    banana, milk, ice, lid, run, stop, full, berries = weights
    blend = (
        Slot({BANANA: banana}),
        Slot({MILK: milk}),
        Slot({ICE: ice}, optional=True),
        Slot({BERRIES: berries}, optional=True),
        Slot({LID: lid}, after=(BANANA, MILK)),
        Slot({RUN: run}),
    )
    chill = (
        Slot({MILK: milk}),
        Slot({BANANA: run}),
        Slot({ICE: lid}),
        Slot({LID: ice}, after=(BANANA, MILK, ICE)),
        Slot({RUN: berries}, optional=True),
    )
    return (
        Procedure("blend", {TABLE: 1.0, TABLE | {"blender.milk"}: full}, blend, stop_weight=stop),
        Procedure("chill", {TABLE: 1.0}, chill, stop_weight=stop),
    )


def every_video(procedures: tuple[Procedure, ...]) -> list[tuple[Execution, float]]:
    """All executions with their probabilities, straight from the description of the world."""
    return [
        each
        for procedure in procedures
        for table, weight in procedure.starts.items()
        for each in continuations(
            Execution(procedure.name, (), (table,)),
            procedure,
            [not s.optional and any(RULES[step].adds <= table for step in s.weights) for s in procedure.slots],
            weight / sum(procedure.starts.values()) / len(procedures),
        )
    ]


def continuations(
    video: Execution, procedure: Procedure, done: list[bool], probability: float
) -> Iterator[tuple[Execution, float]]:
    options, habit, table = [], 1.0, video.states[-1]
    for number, slot in enumerate(procedure.slots):
        first = all(done[n] for n, other in enumerate(procedure.slots) if set(other.weights) & set(slot.after))
        possible = [step for step in slot.weights if first and not done[number] and RULES[step].allows(table)]
        options += [(number, step, slot.weights[step] * habit) for step in possible]
        habit *= HABIT if possible and not slot.optional else 1.0
    is_finished = all(each or slot.optional for each, slot in zip(done, procedure.slots, strict=True))
    total = sum(weight for _, _, weight in options) + is_finished * procedure.stop_weight
    if is_finished:
        yield video, probability * procedure.stop_weight / total
    for number, step, weight in options:
        steps, states = (*video.steps, step), (*video.states, RULES[step].apply(table))
        longer = replace(video, steps=steps, states=states)
        now_done = [each or n == number for n, each in enumerate(done)]
        yield from continuations(longer, procedure, now_done, probability * weight / total)


@dataclass(frozen=True)
class Known:
    """What is known of a window."""

    start: Facts
    goal: Facts | None
    procedure: str | None
    history: tuple[Facts, ...] | None


def windows_of(video: Execution, horizons: tuple[int, ...]) -> Iterator[tuple[Known, Plan]]:
    """Every window with all that can be known of it, and its plan."""
    for horizon in horizons:
        for first in range(len(video.steps) - horizon + 1):
            known = Known(video.states[first], video.states[first + horizon], video.procedure, video.states[:first])
            yield known, video.steps[first : first + horizon]


@settings(max_examples=15)
@given(st.lists(st.floats(0.1, 9.0), min_size=8, max_size=8), st.sets(st.integers(1, 6), min_size=1))
def test_plans_equal_brute_force_over_all_videos_whatever_is_known(weights: list[float], lengths: set[int]) -> None:
    procedures, horizons = tiny_world(weights), tuple(sorted(lengths))
    world, videos = World(procedures), every_video(procedures)
    assert sum(probability for _, probability in videos) == pytest.approx(1.0)
    for goal, procedure, history in product((True, False), repeat=3):
        expected: dict[Known, dict[Plan, float]] = defaultdict(lambda: defaultdict(float))
        for video, probability in videos:
            for window, plan in windows_of(video, horizons):
                known = Known(
                    window.start,
                    window.goal if goal else None,
                    window.procedure if procedure else None,
                    window.history if history else None,
                )
                expected[known][plan] += probability
        for known, plans in expected.items():
            total = sum(plans.values())
            exact = {plan: mass / total for plan, mass in plans.items()}
            found = world.plans_from(
                known.start, goal=known.goal, procedure=known.procedure, history=known.history, horizons=horizons
            )
            assert found == pytest.approx(exact)
            assert list(found.values()) == sorted(found.values(), reverse=True)


def test_in_the_small_world_each_piece_of_knowledge_changes_the_plans() -> None:
    """Otherwise the test above would prove little."""
    world = World(tiny_world([1.0] * 8))
    start, goal = TABLE, TABLE - {"banana", "banana.peeled"} | {"blender.blended", "blender.lid"}
    plans = world.plans_from(start, goal=goal, horizons=HORIZONS)
    assert {len(plan) for plan in plans} == {4, 5}
    blend, chill = (world.plans_from(start, goal=goal, procedure=p, horizons=HORIZONS) for p in ("blend", "chill"))
    assert plans != blend
    assert {len(plan) for plan in chill} == {5}
    middle = TABLE | {"blender.milk"}
    some, first = (world.plans_from(middle, horizons=(1,), history=history) for history in ((TABLE,), ()))
    assert some != first


def test_known_lengths_are_slices_of_unknown_ones() -> None:
    world = tabletop_world()
    for video in (write_script(0, index).execution for index in range(20)):
        for window, plan in windows_of(video, HORIZONS):
            assert window.goal is not None
            every = world.plans_from(window.start, goal=window.goal, horizons=HORIZONS)
            slice_ = {each: p for each, p in every.items() if len(each) == len(plan)}
            share = sum(slice_.values())
            expected = {each: p / share for each, p in slice_.items()}
            assert world.plans_between(window.start, window.goal, len(plan)) == pytest.approx(expected)


def test_the_tables_tell_the_length_except_where_traces_of_an_optional_step_vanish() -> None:
    world, unclear, windows = tabletop_world(), 0, 0
    for video in (write_script(3, index).execution for index in range(160)):
        for window, plan in windows_of(video, HORIZONS):
            assert window.start != window.goal
            lengths = {len(each) for each in world.plans_from(window.start, goal=window.goal, horizons=HORIZONS)}
            if lengths != {len(plan)}:
                assert HIDING[video.procedure] in plan
                assert lengths in ({len(plan), len(plan) + 1}, {len(plan), len(plan) - 1})
                unclear += 1
            windows += 1
    assert 0.03 < unclear / windows < 0.07


def test_replay_finds_the_tables_of_a_video_from_its_steps() -> None:
    for video in (write_script(0, index).execution for index in range(160)):
        assert tabletop_world().replay(video.procedure, video.steps) == video


@pytest.mark.parametrize("steps", [(), ("seal the envelope",), write_script(0, 0).execution.steps[:-1]])
def test_steps_that_are_no_whole_video_are_refused(steps: Plan) -> None:
    with pytest.raises(DatasetError, match=f"These {len(steps)} steps are not a whole video"):
        tabletop_world().replay(write_script(0, 0).execution.procedure, steps)


def test_what_no_video_contains_has_no_plans() -> None:
    world, moon = tabletop_world(), frozenset({"moon"})
    video = write_script(0, 0).execution
    start, goal = video.states[0], video.states[2]
    assert world.plans_from(moon, horizons=HORIZONS) == {}
    assert world.plans_from(start, goal=moon, horizons=HORIZONS) == {}
    assert world.plans_from(goal, goal=start, horizons=HORIZONS) == {}
    assert world.plans_from(start, history=(goal,), horizons=HORIZONS) == {}
    assert world.plans_from(start, goal=goal, horizons=(1,)) == {}


def test_an_unknown_procedure_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(PlanError, match=r"'make teas'.*Did you mean make tea\?"):
        tabletop_world().plans_from(frozenset(), horizons=(1,), procedure="make teas")
