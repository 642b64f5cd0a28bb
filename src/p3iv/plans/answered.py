"""A query that was answered: its plans of every length under its conditions, and the reasons for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from p3iv.errors import PlanError
from p3iv.plans.chain import Chain, log_sum
from p3iv.plans.conditioned import ConditionedChain
from p3iv.plans.conditions import Conditions, restrict_chains
from p3iv.plans.draws import SampleSettings, chain_uniforms, length_uniforms
from p3iv.plans.evidence import Answer, Evidence
from p3iv.plans.explaining import BestPlan, cheapest_change, explain_plans
from p3iv.plans.lengths import Plan, PlansOfLengths
from p3iv.plans.reasons import PlanReasons
from p3iv.types import Array


@dataclass(frozen=True, eq=False)
class ReadQuery:
    """A query as a planner sees it."""

    evidence: Evidence
    horizon: int | None = None  # None: any length
    conditions: Conditions = field(default_factory=Conditions)
    understood: tuple[str, ...] = ()  # how words were understood
    weights: tuple[Array, Array] | None = None  # of the first step and of every later one, in logs: (A,) each


@dataclass(frozen=True, eq=False)
class AnsweredQuery:
    """The plans of one query."""

    answer: Answer  # of the lengths that were asked for
    parts: tuple[Chain | ConditionedChain, ...]  # the same under the conditions
    plans: PlansOfLengths

    @classmethod
    def of(cls, answer: Answer, query: ReadQuery, names: Sequence[str]) -> AnsweredQuery:
        """Restrict an answer to one length, if asked for, and to conditions.

        Raises:
            PlanError: no plan satisfies the conditions; says why.
        """
        weighted = answer if query.weights is None else answer.weighted(*query.weights)
        chosen = weighted if query.horizon is None else _slice(weighted, query.horizon)
        parts = tuple(restrict_chains(chosen.chains, query.conditions, names)) if query.conditions else chosen.chains
        return cls(chosen, parts, PlansOfLengths(parts, chosen.log_lengths))

    def draw(self, settings: SampleSettings) -> list[Plan]:
        """Exact samples."""
        longest = max(self.answer.horizons)
        return self.plans.draw(chain_uniforms(settings, longest, rescored=True), length_uniforms(settings))

    def explain(self, plans: Sequence[Plan], names: Sequence[str]) -> tuple[PlanReasons, ...]:
        """The reasons for plans; of the first one also what would change it.

        Raises:
            PlanError: this planner does not say what its scores consist of.
        """
        addends = self.answer.addends
        if addends is None:
            raise PlanError(
                "This planner cannot say why, because its scores are not sums over the evidence; an ensemble cannot, "
                "either. Train one that can: p3iv train DIR --planner p3iv-plus --horizon 1-6."
            )
        shares = [part.log_share if isinstance(part, ConditionedChain) else 0.0 for part in self.parts]
        log_share = float(log_sum(self.answer.log_lengths + np.array(shares)))
        found: dict[Plan, PlanReasons] = {}
        for number, horizon in enumerate(self.answer.horizons):
            here = [plan for plan in plans if len(plan) == horizon]
            if not here:
                continue
            chain, ids, parts = self.answer.chains[number], np.array(here), addends(horizon)
            log_length = float(self.answer.log_lengths[number])
            reasons = explain_plans(ids, names, chain, parts, log_length=log_length, log_share=log_share)
            found |= dict(zip(here, reasons, strict=True))
            if len(plans[0]) == horizon:
                change = cheapest_change(ids, names, chain, parts, best=self._best_of(number))
                found[plans[0]] = replace(found[plans[0]], change=change)
        return tuple(found[plan] for plan in plans)

    def _best_of(self, number: int) -> BestPlan:
        """How the recommended plan of one length is chosen."""
        part = self.parts[number]

        def best(chain: Chain) -> Array:
            if isinstance(part, ConditionedChain):
                chain_under = ConditionedChain.over(chain, part.allowed, part.automaton)
                return chain_under.best_plans(1)[0][0]
            return chain.best_paths()[0][0]

        return best


def _slice(answer: Answer, horizon: int) -> Answer:
    """The answer for one length."""
    number = answer.horizons.index(horizon)
    return replace(answer, chains=(answer.chains[number],), log_lengths=np.zeros(1))
