"""Random videos of the tabletop, and the exact probability of every plan between two states of the table.

A video starts with a random procedure (all are equally likely) and one of its starting tables. Each next step is drawn
among the steps that the procedure still has and that the table allows; its probability is proportional to its weight
and to the habit of following the recipe's order. When all required steps are done, stopping competes with the optional
steps, by the procedure's `stop_weight`. The camera sees only the facts on the table: neither the procedure nor the
steps that were done. The probability of a plan between two tables therefore sums over all procedures and histories.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, cached_property

import numpy as np

from p3iv.tabletop.tasks import HABIT, PROCEDURES, RULES, Facts, Procedure

FRAMES_PER_SECOND = 10
Plan = tuple[str, ...]


class RandomStream(IntEnum):
    """Appended to a video's seed, so that each use of random numbers has its own generator."""

    TIMES = 1
    FEATURES = 2
    LOOK = 3
    CAMERA = 4


@dataclass(frozen=True)
class Execution:
    """One run of a procedure: T steps and the T + 1 tables before, between and after them."""

    procedure: str
    steps: Plan
    states: tuple[Facts, ...]


@dataclass(frozen=True)
class _Moment:
    """The state of an execution: everything that its next steps depend on. The camera sees only the facts."""

    procedure: int
    done: frozenset[int]  # indices of slots
    facts: Facts


@dataclass(frozen=True)
class _Choice:
    step: str
    probability: float
    next: int  # index of the moment that follows


class World:
    """All moments that the procedures can reach, and the probability of every step from each of them."""

    def __init__(self, procedures: tuple[Procedure, ...] = PROCEDURES) -> None:
        self.procedures = procedures
        self._moments: list[_Moment] = []
        self._number: dict[_Moment, int] = {}
        self._choices: list[list[_Choice]] = []  # per moment; the execution stops with the remaining probability
        self._starts: list[tuple[int, float]] = []
        for index, procedure in enumerate(procedures):
            total = sum(procedure.starts.values())
            for facts, weight in procedure.starts.items():
                done = _already_done(procedure, facts)
                self._starts.append((self._visit(_Moment(index, done, facts)), weight / total / len(procedures)))
        while len(self._choices) < len(self._moments):  # _choices_at appends the moments that follow
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
            if index == len(choices):  # _choices_at makes sure that rounding never ends an unfinished execution
                return Execution(procedure, tuple(steps), tuple(states))
            steps.append(choices[index].step)
            at = choices[index].next
            states.append(self._moments[at].facts)

    def plans_between(self, start: Facts, goal: Facts, horizon: int) -> dict[Plan, float]:
        """Every plan of `horizon` steps from one table to the other, with P(plan | start, goal, horizon).

        The probability is the plan's expected number of occurrences between these two tables in a video, divided by
        that of all plans, over all procedures and positions. Empty if no video contains this pair.
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
        """For every depth, the moments from which the remaining steps can reach `goal`."""
        ahead = [set(self._seen_as[goal])]
        for _ in range(horizon):
            ahead.append({before for moment in ahead[-1] for before in self._before[moment]})
        return ahead[::-1]

    @cached_property
    def _visits(self) -> list[float]:
        """Expected number of times that a video passes each moment."""
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
        if not finished and choices:  # the last choice takes the rounding error, so that nothing stops early
            rest = 1.0 - sum(choice.probability for choice in choices[:-1])
            choices[-1] = _Choice(choices[-1].step, rest, choices[-1].next)
        return choices


def _options(procedure: Procedure, moment: _Moment) -> Iterator[tuple[int, str, float]]:
    """Yield slot, step and weight of every step that the procedure still has and the table allows."""
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
    """Slots that the starting table already shows as done, such as a full kettle."""
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


@dataclass(frozen=True)
class Script:
    """An execution and the time of each of its steps."""

    id: str
    execution: Execution
    times: tuple[tuple[float, float], ...]  # start and end of every step, in seconds
    length_s: float
    seed: tuple[int, int]  # seed of the dataset, index of the video


def write_script(seed: int, index: int) -> Script:
    """Draw an execution and its times: steps take 2 to 5 seconds, with pauses between them."""
    execution = tabletop_world().sample(np.random.default_rng([seed, index]))
    rng = np.random.default_rng([seed, index, RandomStream.TIMES])
    now, times = rng.uniform(1.2, 2.5), []
    for _ in execution.steps:
        start_s = now
        now += rng.uniform(2.0, 5.0)
        times.append((_on_frame(start_s), _on_frame(now)))
        now += rng.uniform(0.4, 1.6)
    return Script(f"tabletop-{index:04d}", execution, tuple(times), _on_frame(now + 1.0), (seed, index))


def _on_frame(seconds: float) -> float:
    """Round to the time of the nearest frame."""
    return round(round(seconds * FRAMES_PER_SECOND) / FRAMES_PER_SECOND, 3)
