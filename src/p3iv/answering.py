"""Evidence in, plans in words out: what a loaded planner answers to a query that was read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from p3iv.catalogue import DEFAULT_NUM_SAMPLES
from p3iv.errors import PlanError
from p3iv.planners.header import Backend
from p3iv.plans.answered import AnsweredQuery, ReadQuery
from p3iv.plans.decoding import distinct_plans, has_chain, plan_chain, plan_probability, rank_plans
from p3iv.plans.distribution import SOURCES, PlanDistribution, Steps
from p3iv.plans.draws import Draws, SampleSettings
from p3iv.plans.evidence import Answer
from p3iv.types import Array


class Answering:
    """Answers the queries of one planner."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self._names = backend, backend.header.names
        self._has_lengths = backend.header.config.data.has_lengths
        self._sampler = lru_cache(maxsize=4)(backend.sampler)

    def plan(
        self,
        read: ReadQuery,
        number: int,
        num_samples: int | None = None,
        *,
        seed: int = 0,
        mode: str | None = None,
        why: bool = False,
    ) -> PlanDistribution:
        """The most probable plans, `number` at most.

        Raises:
            PlanError: no plan satisfies the conditions, or this planner cannot give reasons.
        """
        settings = _settings(num_samples, seed)
        if not self._needs_chain(read) and not why:
            return self._rank(self._draws(read, settings), number, num_samples, mode)
        answered = self._answered(read, settings)
        best = answered.plans.best_plans(number)
        drawn = answered.draw(settings) if num_samples is not None else []
        return PlanDistribution(
            tuple(self._steps(plan) for plan, _ in best),
            tuple(min(1.0, math.exp(log)) for _, log in best),
            SOURCES[0],
            tuple((self._steps(plan), count) for plan, count in Counter(drawn).most_common()),
            lengths=answered.plans.lengths if len(answered.parts) > 1 else (),
            understood=read.understood,
            reasons=answered.explain([plan for plan, _ in best], self._names) if why else (),
        )

    def sample(self, read: ReadQuery, num_samples: int, *, seed: int = 0, mode: str | None = None) -> list[Steps]:
        """Sampled plans, in the order in which they were drawn."""
        settings = _settings(num_samples, seed)
        if self._needs_chain(read):
            return [self._steps(plan) for plan in self._answered(read, settings).draw(settings)]
        return list(self._words(self._samples(self._draws(read, settings), mode)))

    def probability(self, read: ReadQuery, plan: Sequence[int]) -> float:
        """The probability of a plan."""
        settings = SampleSettings()
        if self._needs_chain(read):
            return min(1.0, math.exp(self._answered(read, settings).plans.log_probability(plan)))
        draws = self._draws(read, settings)
        chain = plan_chain(draws, self._backend.transitions)
        return min(1.0, float(plan_probability(draws, np.array([plan]), chain)[0]))

    def _needs_chain(self, read: ReadQuery) -> bool:
        """Whether a query is more than the question that every planner answers: two pictures, one length."""
        return self._has_lengths or bool(read.conditions)

    def _draws(self, read: ReadQuery, settings: SampleSettings) -> Draws:
        """The draws of a planner for one length."""
        start, goal = read.evidence.start, read.evidence.goal
        if start is None or goal is None:
            raise PlanError("This planner needs a picture of the start and one of the goal.")
        return self._sampler(settings).draw(start, goal)

    def _rank(self, draws: Draws, number: int, num_samples: int | None, mode: str | None) -> PlanDistribution:
        """The most probable plans of a planner for one length."""
        plans, probabilities = rank_plans(draws, self._backend.transitions, number)
        samples: tuple[tuple[Steps, int], ...] = ()
        if num_samples is not None:
            distinct, counts = distinct_plans(self._samples(draws, mode))
            samples = tuple(zip(self._words(distinct), counts.tolist(), strict=True))
        source = SOURCES[0] if has_chain(draws) else SOURCES[1]
        return PlanDistribution(self._words(plans), tuple(probabilities.tolist()), source, samples)

    def _answered(self, read: ReadQuery, settings: SampleSettings) -> AnsweredQuery:
        """The chains of a query under its conditions."""
        if self._has_lengths:
            return AnsweredQuery.of(self._backend.answer(read.evidence), read, self._names)
        draws = self._draws(read, settings)
        if not has_chain(draws):
            raise PlanError(
                f"planner={self._backend.header.config.planner} chooses its plan without a chain, so it can neither be "
                f"asked with conditions nor for reasons. Use a planner such as p3iv-plus."
            )
        answer = Answer((plan_chain(draws, self._backend.transitions),), np.zeros(1))
        return AnsweredQuery.of(answer, read, self._names)

    def _samples(self, draws: Draws, mode: str | None) -> Array:
        """The sampled plans of a single pair: (K, T)."""
        own_mode = "chain" if has_chain(draws) else "categorical"
        plans: Array = draws.plans(mode or own_mode, self._backend.transitions.row)[0]
        return plans

    def _words(self, plans: Array) -> tuple[Steps, ...]:
        """Plans (n, T) in words."""
        return tuple(map(self._steps, plans.tolist()))

    def _steps(self, plan: Sequence[int]) -> Steps:
        """A plan in words."""
        return tuple(self._names[action] for action in plan)


def _settings(num_samples: int | None, seed: int) -> SampleSettings:
    return SampleSettings(DEFAULT_NUM_SAMPLES if num_samples is None else num_samples, seed)
