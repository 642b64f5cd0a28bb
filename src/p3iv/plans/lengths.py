"""One distribution over plans of several lengths: p(T) p(plan | T), exact where its parts are.

A planner's p(T) is a softmax over the lengths of what speaks for each:

    log p(T) = bias_T + sum_i slope_i * clue_iT - log of the sum over all T

The clues are log Z_T, the normaliser of the chain of T positions, which is large where the steps that start and goal
show are T apart; what a regression says of start and goal; and how well the effects of plans of T steps add up to what
changed. There is one set of numbers for queries with a picture of the goal, one for a goal in words, and one without a
goal, where only the bias counts. In numpy alone, so that an exported planner needs no torch; `planners.queries.lengths`
fits the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from p3iv.errors import PlanError
from p3iv.plans.chain import Chain, RescoredChain, log_sum, pick_each, scaled_weights
from p3iv.plans.conditioned import ConditionedChain
from p3iv.plans.evidence import GOAL, WORDS
from p3iv.types import Array

Plan = tuple[int, ...]  # ids of actions

KINDS = (("start", "goal"), ("start", "words"), ("start",))  # of queries, each with numbers of its own for p(T)
NUM_CLUES = 3


class PlansOfLengths:
    """The plans of one query, of every allowed length.

    The probability of a plan is that of its length times that of the plan among all plans of this length. Conditions
    change both: a length with few plans that satisfy them becomes less probable.

    Args:
        parts: one chain of one window for each length; all with the same conditions, or all without.
        log_lengths: log p(T) of each, without conditions: (H,).

    Raises:
        PlanError: no plan is possible.

    Example:
        >>> one = Chain.of(np.array([[[0.75, 0.25]]]), np.ones((2, 2)))
        >>> two = Chain.of(np.full((1, 2, 2), 0.5), np.ones((2, 2)))
        >>> plans = PlansOfLengths([one, two], np.log([0.6, 0.4]))
        >>> [(plan, round(float(np.exp(log)), 3)) for plan, log in plans.best_plans(2)]
        [((0,), 0.45), ((1,), 0.15)]
    """

    log_lengths: Array  # (H,) log p(T), given the conditions

    def __init__(self, parts: Sequence[Chain | ConditionedChain], log_lengths: Array) -> None:
        self._parts = [part if isinstance(part, ConditionedChain) else _Unconditioned(part) for part in parts]
        if len({part.horizon for part in self._parts}) != len(log_lengths) or len(parts) != len(log_lengths):
            raise PlanError(f"{len(parts)} chains and {len(log_lengths)} lengths, but every length needs one chain.")
        joint = np.asarray(log_lengths, dtype=np.float64) + np.array([part.log_share for part in self._parts])
        if not joint.max(initial=-np.inf) > -np.inf:
            raise PlanError("No plan of any of these lengths is possible.")
        self.log_lengths = joint - log_sum(joint)

    @property
    def lengths(self) -> tuple[tuple[int, float], ...]:
        """Every length and its probability, given the conditions."""
        probabilities = np.exp(self.log_lengths).tolist()
        return tuple((part.horizon, share) for part, share in zip(self._parts, probabilities, strict=True))

    def best_plans(self, number: int) -> list[tuple[Plan, float]]:
        """The most probable plans and log p of each, best first; fewer if fewer are possible."""
        best = [(part.best_plans(number), log_length) for part, log_length in self._possible()]
        parts = [(plans, logs + log_length) for (plans, logs), log_length in best]
        least = np.sort(np.concatenate([logs for _, logs in parts]))[-number:][0]
        found: list[tuple[Plan, float]] = []
        for plans, logs in parts:
            kept = logs >= least
            found += zip(map(tuple, plans[kept].tolist()), logs[kept].tolist(), strict=True)
        return sorted(found, key=lambda entry: -entry[1])[:number]

    def draw(self, uniforms: Array, length_uniforms: Array) -> list[Plan]:
        """Plans drawn exactly: first the length, then the plan.

        Args:
            uniforms: (K, largest T) in [0, 1), with one more column if a part is a `RescoredChain`; a plan of T actions
                is what the chain of this length draws with its row.
            length_uniforms: (K,) in [0, 1).
        """
        weights, same_key = scaled_weights(self.log_lengths[None]), np.zeros(len(uniforms), dtype=np.int64)
        chosen = pick_each(same_key, (1, len(self._parts)), lambda _: weights, length_uniforms)
        plans: list[Plan] = [()] * len(uniforms)
        for number in np.unique(chosen).tolist():
            rows = np.flatnonzero(chosen == number)
            drawn = self._parts[number].draw(uniforms[rows])
            for row, plan in zip(rows.tolist(), drawn.tolist(), strict=True):
                plans[row] = tuple(plan)
        return plans

    def log_probability(self, plan: Sequence[int]) -> float:
        """Log p of any plan; minus infinity if its length is not allowed or it violates the conditions."""
        for part, log_length in self._possible():
            if part.horizon == len(plan):
                return float(part.log_probability(np.array([plan]))[0] + log_length)
        return -np.inf

    def _possible(self) -> list[tuple[ConditionedChain | _Unconditioned, float]]:
        """The chains that have a plan, and log p(T) of each."""
        pairs = zip(self._parts, self.log_lengths.tolist(), strict=True)
        return [(part, log_length) for part, log_length in pairs if log_length > -np.inf]


class _Unconditioned:
    """A chain of one window that is asked as a `ConditionedChain` is."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self.horizon = chain.log_emissions.shape[1]

    @property
    def log_share(self) -> float:
        return 0.0 if self._chain.log_normaliser()[0] > -np.inf else -np.inf

    def best_plans(self, number: int) -> tuple[Array, Array]:
        plans, logs = (part[0] for part in self._chain.best_plans(number))
        return plans[logs > -np.inf], logs[logs > -np.inf]

    def draw(self, uniforms: Array) -> Array:
        return self._chain.draw(uniforms)[0]

    def log_probability(self, plans: Array) -> Array:
        return self._chain.log_probability(plans, np.zeros(len(plans), dtype=np.int64))


@dataclass(frozen=True, eq=False)
class LengthWeights:
    """The numbers of the formula of p(T)."""

    bias: Array  # (3, H)
    slope: Array  # (3, NUM_CLUES)

    def log_probabilities(self, clues: Array, has: Array) -> Array:
        """Log p(T) of queries with the same evidence (5,): (N, NUM_CLUES, H) -> (N, H)."""
        kind = 0 if has[GOAL] else 1 if has[WORDS] else 2
        logits = self.bias[kind] + np.einsum("nch,c->nh", clues, self.slope[kind])
        return logits - log_sum(logits)[:, None]


def length_clues(chains: Sequence[Chain], length_fit: Array | None) -> Array:
    """What speaks for every length: log Z, a regression, and the effects, (N, NUM_CLUES, H).

    Args:
        chains: of N queries, one for every length.
        length_fit: how well every length fits start and goal, (N, H); None if not both are seen.
    """
    normalisers = np.stack([chain.log_normaliser() for chain in chains], axis=1)
    by_pair = np.zeros_like(normalisers) if length_fit is None else length_fit
    zero = np.zeros(len(normalisers))
    fits = [chain.mean_fit() if isinstance(chain, RescoredChain) else zero for chain in chains]
    return np.stack((normalisers, by_pair, np.stack(fits, axis=1)), axis=1)
