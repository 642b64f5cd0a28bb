"""What a user asks a planner, and how it is read: moments, words, names and history become evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from p3iv.errors import DatasetError, FeatureError, PlanError, warn_caller
from p3iv.moments import Moment, MomentReader, OnNote
from p3iv.planners.header import Header
from p3iv.plans.answered import ReadQuery
from p3iv.plans.conditions import Conditions
from p3iv.plans.distribution import PlanDistribution
from p3iv.plans.evidence import EVIDENCE, Evidence
from p3iv.plans.reasons import Example
from p3iv.types import Array
from p3iv.validation import shown
from p3iv.words import UnderstoodGoal, WordReader

if TYPE_CHECKING:
    from p3iv.data.examples import TrainingMoment, TrainingMoments

MAX_TEXTS = 64  # whose meaning is kept: 13 ms are saved when the same words are asked with another moment


@dataclass(frozen=True, eq=False)
class Query:
    """Where a user is, where they want to be, and what the plan must satisfy.

    Example:
        >>> Query("kitchen.mp4@12.5", goal_text="a Greek salad", conditions=Conditions(without=("add cucumber",)))
        ... # doctest: +ELLIPSIS
        Query(start='kitchen.mp4@12.5', goal=None, goal_text='a Greek salad', ...)
    """

    start: Moment
    goal: Moment | None = None  # a moment; without one, words, a procedure, or "what comes next"
    goal_text: str | None = None  # in words: a step or a procedure
    procedure: str | None = None  # by name
    history: bool | Array = True  # whether the video before the start counts; or its mean, as features (F,)
    horizon: int | None = None  # None: any length that the planner knows
    conditions: Conditions = field(default_factory=Conditions)


class QueryReader:
    """Reads queries for one planner."""

    def __init__(self, header: Header, moments: MomentReader, on_note: OnNote = warn_caller) -> None:
        self._header, self._moments, self._on_note = header, moments, on_note

    @property
    def horizons(self) -> tuple[int, ...]:
        """The lengths of plans that the planner knows."""
        return self._header.config.data.horizons

    @property
    def evidence(self) -> tuple[str, ...]:
        """The pieces of evidence that the planner understands, of EVIDENCE."""
        config, procedures = self._header.config, self._header.procedures
        if not config.data.has_lengths or config.planner == "graph":
            return ("start", "goal")
        return tuple(piece for piece in EVIDENCE if piece != "procedure" or procedures)

    @cached_property
    def words(self) -> WordReader:
        """Matches words to the steps and procedures of the planner."""
        return WordReader(self._header.names, self._header.procedures, self._on_note)

    @cached_property
    def _read_goal(self) -> Callable[[str], UnderstoodGoal]:
        return lru_cache(MAX_TEXTS)(self.words.read_goal)

    def read(self, query: Query) -> ReadQuery:
        """The evidence of a query.

        Raises:
            P3ivError: naming the part of the query that cannot be used, and what to type.
        """
        self.check(query)  # before anything is encoded
        parts: dict[str, Array] = {"start": self._moments.read(query.start, "start")[None]}
        if (before := self._read_history(query)) is not None:
            parts["history"] = before[None]
        read = self.read_goal(query)
        return replace(read, evidence=replace(read.evidence, **parts))

    def read_goal(self, query: Query) -> ReadQuery:
        """A query without its start and history, such as that of a video that will be followed.

        Raises:
            P3ivError: naming the part of the query that cannot be used, and what to type.
        """
        self.check(query)
        parts: dict[str, Array] = {} if query.goal is None else {"goal": self._moments.read(query.goal, "goal")}
        understood = self.understand(query)
        for goal in understood:
            parts |= {} if goal.last_step is None else {"last_step": goal.last_step}
            parts |= {} if goal.procedure is None else {"procedure": goal.procedure}
        return ReadQuery(
            Evidence(**{name: part[None] for name, part in parts.items()}),
            query.horizon,
            query.conditions,
            tuple(goal.summary for goal in understood),
        )

    def add_examples(self, plans: PlanDistribution, read: ReadQuery) -> PlanDistribution:
        """The same plans, with the nearest training moment of every step in their reasons, if the dataset is there."""
        start, goal = read.evidence.start, read.evidence.goal
        if self._training is None or start is None:
            return plans
        end = start if goal is None else goal
        reasons = []
        for each in plans.reasons:
            places = np.linspace(0.0, 1.0, len(each.plan))  # a step is looked for between start and goal
            middles = [(1 - place) * start[0] + place * end[0] for place in places]
            found = [self._training.nearest(step, row) for step, row in zip(each.plan, middles, strict=True)]
            reasons.append(each.with_examples([_example(one) for one in found]))
        return replace(plans, reasons=tuple(reasons))

    @cached_property
    def _training(self) -> TrainingMoments | None:
        """Moments of the training videos; None without the dataset."""
        from p3iv.data.examples import TrainingMoments  # it reads datasets, which most queries do not need

        data = self._header.config.data
        try:
            dataset = self._moments.find_dataset()
            return None if dataset is None else TrainingMoments(dataset, data, data.observation)
        except (DatasetError, FeatureError):  # it has moved, or has other features now: reasons do without
            return None

    def _read_history(self, query: Query) -> Array | None:
        if "history" not in self.evidence or query.history is False:
            return None
        if query.history is True:
            return self._moments.read_history(query.start)
        return self._moments.read(query.history, "history")

    def understand(self, query: Query) -> list[UnderstoodGoal]:
        """What the words mean; a procedure that is named counts more than one that words suggest.

        Raises:
            PlanError: nothing that the planner knows is near them.
        """
        texts = [] if query.goal_text is None else [self._read_goal(query.goal_text)]
        return texts if query.procedure is None else [*texts, self.words.read_procedure(query.procedure)]

    def check(self, query: Query) -> None:
        """Refuse what the planner cannot answer, whatever the moments show.

        Raises:
            PlanError: naming the part of the query, and what to type.
        """
        if query.horizon is not None and query.horizon not in self.horizons:
            allowed = f"{self.horizons[0]} to {self.horizons[-1]}" if len(self.horizons) > 1 else str(self.horizons[0])
            raise PlanError(f"horizon={shown(query.horizon)}, but the plans of this planner have {allowed} steps.")
        if "words" in self.evidence:
            return
        given = {"goal_text": query.goal_text, "procedure": query.procedure}
        if named := [name for name, value in given.items() if value is not None]:
            raise PlanError(
                f"{named[0]}={shown(given[named[0]])}, but this planner knows pictures of start and goal only. Train "
                f"one that knows words, procedures and any length: p3iv train DIR --planner p3iv-plus --horizon 1-6."
            )
        if query.goal is None:
            raise PlanError(
                "There is no goal, and this planner needs a picture of one. Pass a goal, or train a planner that does "
                "without: p3iv train DIR --planner p3iv-plus --horizon 1-6."
            )


def _example(found: tuple[TrainingMoment, float] | None) -> tuple[Example, ...]:
    return () if found is None else (Example(found[0].video, found[0].middle_s, found[1]),)
