"""Executions of the tabletop's procedures, and the exact distribution of plans between any two states of the table.

A video draws a procedure (all equally likely), a starting table, and then one step after another: among the steps that
the procedure has left and the table allows, each is taken in proportion to its weight and to the habit of following the
order of the recipe; once nothing required is left, stopping competes with the optional steps by the procedure's own
weight. A camera sees only the facts on the table, not which procedure is under way nor what has been done, so the plans
between two tables are a mixture over all of those.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from p3iv.tabletop.tasks import HABIT, PROCEDURES, RULES, Facts, Procedure

FRAMES_PER_SECOND = 10

_TIMING = 1  # what the random generator is for, beside the one that draws the execution


@dataclass(frozen=True)
class Script:
    """One execution and when its steps happen."""

    id: str
    execution: Execution
    times: tuple[tuple[float, float], ...]  # start and end of every step
    length_s: float
    seed: tuple[int, int]  # of the dataset, of the video


def write_script(seed: int, index: int) -> Script:
    """Draw an execution and its times: steps of 2 to 5 seconds with pauses between them."""
    execution = tabletop_world().sample(np.random.default_rng([seed, index]))
    rng = np.random.default_rng([seed, index, _TIMING])
    now, times = rng.uniform(1.2, 2.5), []
    for _ in execution.steps:
        start_s = now
        now += rng.uniform(2.0, 5.0)
        times.append((_on_frame(start_s), _on_frame(now)))
        now += rng.uniform(0.4, 1.6)
    return Script(f"tabletop-{index:04d}", execution, tuple(times), _on_frame(now + 1.0), (seed, index))


def _on_frame(seconds: float) -> float:
    """The nearest moment that a frame shows."""
    return round(round(seconds * FRAMES_PER_SECOND) / FRAMES_PER_SECOND, 3)


Plan = tuple[str, ...]


@dataclass(frozen=True)
class Execution:
    """One run of a procedure: T steps and the T + 1 tables before, between and after them."""

    procedure: str
    steps: Plan
    states: tuple[Facts, ...]


@dataclass(frozen=True)
class _Moment:
    """All that the future depends on; a camera sees the facts alone."""

    procedure: int
    done: frozenset[int]  # slots
    facts: Facts


@dataclass(frozen=True)
class _Choice:
    step: str
    probability: float
    next: int  # moment


class World:
    """The moments that the procedures can reach, how likely each is, and the choices that lead from one to the next."""

    def __init__(self, procedures: tuple[Procedure, ...] = PROCEDURES) -> None:
        self.procedures = procedures
        self._moments: list[_Moment] = []
        self._number: dict[_Moment, int] = {}
        self._choices: list[list[_Choice]] = []  # per moment; what is missing to 1 is the probability to stop
        self._starts: list[tuple[int, float]] = []
        for index, procedure in enumerate(procedures):
            total = sum(procedure.starts.values())
            for facts, weight in procedure.starts.items():
                done = _already_done(procedure, facts)
                self._starts.append((self._visit(_Moment(index, done, facts)), weight / total / len(procedures)))
        while len(self._choices) < len(self._moments):  # _choices_at visits the moments that it leads to
            self._choices.append(self._choices_at(self._moments[len(self._choices)]))

    def sample(self, rng: np.random.Generator) -> Execution:
        """Draw one execution."""
        at = _draw(rng, self._starts)
        procedure = self.procedures[self._moments[at].procedure].name
        steps: list[str] = []
        states = [self._moments[at].facts]
        while True:
            choices = self._choices[at]
            index = int(np.searchsorted(np.cumsum([c.probability for c in choices]), rng.random(), side="right"))
            if index == len(choices):  # also where floating point leaves a crumb: see _choices_at
                return Execution(procedure, tuple(steps), tuple(states))
            steps.append(choices[index].step)
            at = choices[index].next
            states.append(self._moments[at].facts)

    def plans_between(self, start: Facts, goal: Facts, horizon: int) -> dict[Plan, float]:
        """Every plan of `horizon` steps from one table to the other, with P(plan | start, goal, horizon).

        The probability is over all procedures and positions: a plan's expected number of occurrences between these
        two tables in a video, over that of all plans. Empty where no video can show this pair.
        """
        ahead = self._moments_before(goal, horizon)
        found: dict[Plan, dict[int, float]] = {(): {m: self._visits[m] for m in self._seen_as[start] if m in ahead[0]}}
        for depth in range(1, horizon + 1):
            longer: dict[Plan, dict[int, float]] = defaultdict(lambda: defaultdict(float))
            for plan, weights in found.items():
                for moment, weight in weights.items():
                    for choice in self._choices[moment]:
                        if choice.next in ahead[depth]:
                            longer[(*plan, choice.step)][choice.next] += weight * choice.probability
            found = longer
        mass = {plan: sum(weights.values()) for plan, weights in found.items() if weights}
        total = sum(mass.values())
        return {plan: value / total for plan, value in sorted(mass.items(), key=lambda item: (-item[1], item[0]))}

    def _moments_before(self, goal: Facts, horizon: int) -> list[set[int]]:
        """For every depth, the moments from which `goal` is reached in the steps that are left."""
        ahead = [set(self._seen_as[goal])]
        for _ in range(horizon):
            ahead.append({before for moment in ahead[-1] for before in self._before[moment]})
        return ahead[::-1]

    @cached_property
    def _visits(self) -> list[float]:
        """Expected number of times that a video is at each moment."""
        visits = [0.0] * len(self._moments)
        for moment, probability in self._starts:
            visits[moment] += probability
        for moment in sorted(range(len(self._moments)), key=lambda m: len(self._moments[m].done)):
            for choice in self._choices[moment]:
                visits[choice.next] += visits[moment] * choice.probability
        return visits

    @cached_property
    def _seen_as(self) -> dict[Facts, list[int]]:
        seen: dict[Facts, list[int]] = defaultdict(list)
        for number, moment in enumerate(self._moments):
            seen[moment.facts].append(number)
        return seen

    @cached_property
    def _before(self) -> dict[int, set[int]]:
        before: dict[int, set[int]] = defaultdict(set)
        for number, choices in enumerate(self._choices):
            for choice in choices:
                before[choice.next].add(number)
        return before

    def _visit(self, moment: _Moment) -> int:
        if moment not in self._number:
            self._number[moment] = len(self._moments)
            self._moments.append(moment)
        return self._number[moment]

    def _choices_at(self, moment: _Moment) -> list[_Choice]:
        procedure = self.procedures[moment.procedure]
        options = list(_options(procedure, moment))
        finished = all(slot.optional or i in moment.done for i, slot in enumerate(procedure.slots))
        total = sum(weight for _, _, weight in options) + (procedure.stop_weight if finished else 0.0)
        choices = [
            _Choice(
                step,
                weight / total,
                self._visit(_Moment(moment.procedure, moment.done | {slot}, RULES[step].apply(moment.facts))),
            )
            for slot, step, weight in options
        ]
        if not finished and choices:  # the last choice takes what rounding left, so that nothing stops early
            rest = 1.0 - sum(choice.probability for choice in choices[:-1])
            choices[-1] = _Choice(choices[-1].step, rest, choices[-1].next)
        return choices


def _options(procedure: Procedure, moment: _Moment) -> Iterator[tuple[int, str, float]]:
    """The steps that the procedure has left and the table allows, with their slots and weights."""
    slot_of = {step: index for index, slot in enumerate(procedure.slots) for step in slot.weights}
    habit = 1.0
    for index, slot in enumerate(procedure.slots):
        if index in moment.done or any(slot_of[step] not in moment.done for step in slot.after):
            continue
        possible = {step: weight for step, weight in slot.weights.items() if RULES[step].allows(moment.facts)}
        for step, weight in possible.items():
            yield index, step, weight * habit
        if possible and not slot.optional:
            habit *= HABIT


def _already_done(procedure: Procedure, facts: Facts) -> frozenset[int]:
    """Slots whose work the starting table shows as done, such as a kettle that is full already."""
    return frozenset(
        index
        for index, slot in enumerate(procedure.slots)
        if not slot.optional and any(RULES[step].adds and RULES[step].adds <= facts for step in slot.weights)
    )


def _draw(rng: np.random.Generator, weighted: Iterable[tuple[int, float]]) -> int:
    items, weights = zip(*weighted, strict=True)
    return int(items[int(np.searchsorted(np.cumsum(weights), rng.random() * sum(weights), side="right"))])


@cache
def tabletop_world() -> World:
    """The world of all procedures, built once."""
    return World()
