"""Random videos of the tabletop, and the exact probability of every plan between two states of the table.

A video starts with a random procedure (all are equally likely) and one of its starting tables. Each next step is drawn
among the steps that the procedure still has and that the table allows; its probability is proportional to its weight
and to the habit of following the recipe's order. When all required steps are done, stopping competes with the optional
steps, by the procedure's `stop_weight`. The camera sees only the facts on the table: neither the procedure nor the
steps that were done. The probability of a plan between two tables therefore sums over all procedures and histories.

Where the number of steps is unknown, every window of every allowed length counts once. In 95 % of these windows the two
tables tell the number of steps. They do not where a step removes all traces of an optional one before it: running the
blender those of the ice, putting the plant in the big pot those of trimming it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, cached_property

import numpy as np

from p3iv.errors import DatasetError, PlanError, one_of
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

    def replay(self, procedure: str, steps: Sequence[str]) -> Execution:
        """The execution with these steps, from the first to the last; they tell the table that it started from."""
        for at in self._moments_of((moment for moment, _ in self._starts), procedure):
            passed = [at]
            for step in steps:
                passed += [choice.next for choice in self._choices[passed[-1]] if choice.step == step]
            if len(passed) == len(steps) + 1 and self._may_stop(passed[-1]):
                return Execution(procedure, tuple(steps), tuple(self._moments[moment].facts for moment in passed))
        raise DatasetError(f"These {len(steps)} steps are not a whole video of `{procedure}` in this world.")

    def plans_between(self, start: Facts, goal: Facts, horizon: int) -> dict[Plan, float]:
        """Every plan of `horizon` steps from one table to the other, with P(plan | start, goal, horizon).

        The probability is the plan's expected number of occurrences between these two tables in a video, divided by
        that of all plans, over all procedures and positions. Empty if no video contains this pair.
        """
        return self.plans_from(start, goal=goal, horizons=(horizon,))

    def plans_from(
        self,
        start: Facts,
        *,
        horizons: Collection[int],
        goal: Facts | None = None,
        procedure: str | None = None,
        history: Sequence[Facts] | None = None,
    ) -> dict[Plan, float]:
        """Every plan of any of the lengths from this table on, with its probability given all that is passed.

        The probability is the plan's expected number of occurrences in a video, divided by that of all plans of these
        lengths: every window of every length counts once. Without a goal it is what comes next in videos that go on
        for that many steps. Empty if no video contains this.

        Args:
            start: the table before the first step.
            horizons: the allowed numbers of steps.
            goal: the table after the last step.
            procedure: the name of the procedure.
            history: all tables of the video before `start`, in order; empty where the video begins with `start`.

        Example:
            >>> table = frozenset("kettle tea coffee milk sugar mug kettle.hot kettle.full".split())
            >>> {plan: round(p, 2) for plan, p in tabletop_world().plans_from(table, horizons=[1]).items()}
            {('put a tea bag in the mug',): 0.49, ('open the coffee jar',): 0.45, ('set out biscuits',): 0.06}
        """
        begin = self._moments_at(start, procedure, history)
        mass: dict[Plan, float] = {}
        for horizon in horizons:
            mass |= self._expected_plans(begin, goal, horizon)
        total = sum(mass.values())
        return {plan: value / total for plan, value in sorted(mass.items(), key=lambda item: (-item[1], item[0]))}

    def _expected_plans(self, begin: dict[int, float], goal: Facts | None, horizon: int) -> dict[Plan, float]:
        """Expected number of occurrences of every plan, given that of the moments before its first step."""
        ahead = self._moments_before(goal, horizon)
        found: dict[Plan, dict[int, float]] = {(): {m: weight for m, weight in begin.items() if m in ahead[0]}}
        for depth in range(1, horizon + 1):
            longer: dict[Plan, dict[int, float]] = defaultdict(lambda: defaultdict(float))
            for plan, weights in found.items():
                for moment, weight in weights.items():
                    for choice in self._choices[moment]:
                        if choice.next in ahead[depth]:
                            longer[(*plan, choice.step)][choice.next] += weight * choice.probability
            found = longer
        return {plan: sum(weights.values()) for plan, weights in found.items() if weights}

    def _moments_at(self, start: Facts, procedure: str | None, history: Sequence[Facts] | None) -> dict[int, float]:
        """Expected number of times that a video passes each moment that fits what is known."""
        if history is None:
            return {m: self._visits[m] for m in self._moments_of(self._seen_as.get(start, ()), procedure)}
        tables = (*history, start)
        at = {moment: probability for moment, probability in self._starts if self._moments[moment].facts == tables[0]}
        for table in tables[1:]:
            following: dict[int, float] = defaultdict(float)
            for moment, weight in at.items():
                for choice in self._choices[moment]:
                    if self._moments[choice.next].facts == table:
                        following[choice.next] += weight * choice.probability
            at = following
        return {moment: at[moment] for moment in self._moments_of(at, procedure)}

    def _moments_of(self, moments: Iterable[int], procedure: str | None) -> list[int]:
        """Those of a procedure, if it is given."""
        names = [each.name for each in self.procedures]
        if procedure is not None and procedure not in names:
            raise PlanError(f"The procedure is {procedure!r}, but it must be {one_of(procedure, names)}")
        return [m for m in moments if procedure in (None, names[self._moments[m].procedure])]

    def _may_stop(self, moment: int) -> bool:
        return _is_finished(self.procedures[self._moments[moment].procedure], self._moments[moment].done)

    def _moments_before(self, goal: Facts | None, horizon: int) -> list[set[int]]:
        """For every depth, the moments from which the remaining steps can reach `goal`, or anything without a goal."""
        ahead = [set(range(len(self._moments)) if goal is None else self._seen_as.get(goal, ()))]
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
        finished = _is_finished(procedure, moment.done)
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


def _is_finished(procedure: Procedure, done: frozenset[int]) -> bool:
    """Whether all required slots are done, so that a video may stop."""
    return all(slot.optional or index in done for index, slot in enumerate(procedure.slots))


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
    other_camera: bool = False  # of `--shift-test`; the steps and their probabilities are the same


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
