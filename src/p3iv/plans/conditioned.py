"""A chain under conditions: exact plans, samples, marginals and probabilities, given that the conditions hold.

Some conditions say which actions a position may have; the others get weight 0. An `Automaton` follows the conditions
that depend on what has occurred so far. Dynamic programming over (state, action) instead of actions then answers
everything exactly. The states are rows of the same matrix products; they do not enlarge the A x A matrix.
Shapes: T positions, A actions, S states, n plans, K samples, L rescored plans.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from p3iv.errors import PlanError
from p3iv.plans.automaton import Automaton
from p3iv.plans.chain import Chain, RescoredChain, log_of, log_product, log_sum, pick_each, same_plans, scaled_weights
from p3iv.plans.viterbi import ROUNDING, best_after, top
from p3iv.types import Array

_FLOAT = np.finfo(np.float64)


@dataclass(frozen=True, eq=False)
class ConditionedChain:
    """The chain of one window, given conditions; `Rules.restrict` makes it."""

    chain: Chain
    allowed: Array  # (T, A) bool: which actions the conditions allow at which position
    automaton: Automaton

    @staticmethod
    def over(chain: Chain, allowed: Array, automaton: Automaton) -> ConditionedChain:
        """Put conditions on a chain of one window."""
        if isinstance(chain, RescoredChain):
            return ConditionedRescoredChain(chain, allowed, automaton)
        return ConditionedChain(chain, allowed, automaton)

    @property
    def horizon(self) -> int:
        """The number of steps of a plan."""
        return len(self.allowed)

    @cached_property
    def log_share(self) -> float:
        """Log of the probability that a plan of the chain satisfies the conditions; minus infinity: impossible."""
        return self._base_log_share

    def best_plans(self, number: int) -> tuple[Array, Array]:
        """The most probable plans, best first (n, T), and log p of each (n,); fewer if fewer are possible."""
        plans, scores = self._best_scores(number)
        return plans, scores - self.chain.log_normaliser()[0] - self.log_share

    def draw(self, uniforms: Array) -> Array:
        """Plans drawn exactly, action by action from the first.

        Args:
            uniforms: (K, T) in [0, 1); further columns are ignored.

        Returns:
            (K, T) int64.
        """
        if self._log_normaliser == -np.inf:
            raise PlanError("No plan satisfies these conditions, so none can be drawn.")
        plans = np.zeros((len(uniforms), self.horizon), dtype=np.int64)
        state = np.zeros(len(uniforms), dtype=np.int64)
        for position in range(self.horizon):
            keys, num_keys = self._keys(plans[:, :position], state)
            weights_of = partial(self._weights, position)
            plans[:, position] = pick_each(keys, (num_keys, self.allowed.shape[1]), weights_of, uniforms[:, position])
            state = self.automaton.following[state, plans[:, position]]
        return plans

    def marginals(self) -> Array:
        """The probability of every action at every position: (T, A); all 0 if the conditions are impossible."""
        if self._log_normaliser == -np.inf:
            return np.zeros(self.allowed.shape)
        pairs = zip(self._before(), self._onward, strict=True)
        return np.exp([log_sum((before + onward - self._log_normaliser).T) for before, onward in pairs])

    def log_probability(self, plans: Array) -> Array:
        """Log p of plans (R, T), given the conditions: (R,); minus infinity for those that violate them."""
        logs = np.full(len(plans), -np.inf)
        holds = self.satisfies(plans)
        if holds.any() and self.log_share > -np.inf:
            window = np.zeros(holds.sum(), dtype=np.int64)
            logs[holds] = self.chain.log_probability(plans[holds], window) - self.log_share
        return logs

    def satisfies(self, plans: Array) -> Array:
        """Which plans (R, T) satisfy the conditions: (R,)."""
        is_accepted = self.automaton.accepts[self.automaton.run(plans)[:, -1]]
        return is_accepted & self.allowed[np.arange(self.horizon), plans].all(axis=1)

    @cached_property
    def _base_log_share(self) -> float:
        """Log of the share of the chain without rescoring."""
        if self._log_normaliser == -np.inf:
            return -np.inf
        return min(0.0, float(self._log_normaliser - self.chain.log_normaliser()[0]))

    @cached_property
    def _log_normaliser(self) -> float:
        """Log of the weight of all plans that satisfy the conditions, without rescoring."""
        return float(log_sum(self._onward[0])[0])

    @cached_property
    def _log_emissions(self) -> Array:
        return np.where(self.allowed, self.chain.log_emissions[0], -np.inf)  # (T, A)

    @cached_property
    def _num_states(self) -> list[int]:
        """How many states, the first ones, are possible before each position, and at the end: T + 1."""
        return np.searchsorted(self.automaton.depth, range(self.horizon + 1), side="right").tolist()

    @cached_property
    def _onward(self) -> list[Array]:
        """For each position, the log weight of every action there with all ends of plans that may follow: (S, A)."""
        log_into, into = self.chain.tables.into, self.chain.tables.weights.T
        return self._backward(lambda rows: log_product(rows, log_into, into))

    def _backward(self, sum_after: Callable[[Array], Array]) -> list[Array]:
        """The same for sums or maxima over what follows: T of (S, A), by the state before the action."""
        columns, following = np.arange(self.allowed.shape[1]), self.automaton.following
        impossible = np.full((1, len(columns)), -np.inf)
        ends = np.where(self.automaton.accepts[: self._num_states[-1], None], 0.0, impossible)  # (S, A)
        steps: list[Array] = []
        for position in reversed(range(self.horizon)):
            after = following[: self._num_states[position]]
            onward = self._log_emissions[position] + np.concatenate((ends, impossible))[after, columns]
            steps.append(onward)
            if position:
                ends = _where_possible(sum_after, onward)
        return steps[::-1]

    def _before(self) -> list[Array]:
        """For each position, the log weight of all beginnings that an action there may follow: (S, A), by state."""
        columns, tables = np.arange(self.allowed.shape[1]), self.chain.tables
        before = np.zeros((1, len(columns)))
        steps = []
        for position, emissions in enumerate(self._log_emissions):
            steps.append(before)
            after = np.full((self._num_states[position + 1] + 1, len(columns)), -np.inf)
            np.logaddexp.at(after, (self.automaton.following[: len(before)], columns), before + emissions)
            before = _where_possible(lambda rows: log_product(rows, tables.log, tables.weights), after[:-1])
        return steps

    def _best_scores(self, number: int) -> tuple[Array, Array]:
        """The n best plans of the chain without rescoring (n, T), and log p of each without Z (n,).

        As list Viterbi does: keeps the n beginnings whose best completions score highest. The worst of n completions is
        a bound: longer beginnings with less than that need not be ranked.
        """
        log_transitions, num_actions = self.chain.log_transitions, self.allowed.shape[1]
        plans, state = (np.zeros(shape, dtype=np.int64) for shape in ((1, 0), 1))
        scores, bound = np.zeros(1), -np.inf
        for position, onward in enumerate(self._backward(lambda rows: best_after(rows, self.chain.tables))):
            so_far = scores[:, None] + (log_transitions[plans[:, -1]] if position else 0.0)
            ceilings = (so_far + onward[state]).ravel()
            place = np.flatnonzero(ceilings >= max(bound, _FLOAT.min))
            ranked, order = top(ceilings[place][None], min(number, len(place)))
            place = place[order[0]]
            row, action = place // num_actions, place % num_actions
            scores = np.broadcast_to(so_far, (len(so_far), num_actions))[row, action]
            scores = scores + self._log_emissions[position, action]
            plans = np.concatenate((plans[row], action[:, None]), axis=1)
            state = self.automaton.following[state[row], action]
            if len(place) == number:
                bound = ranked[0, -1] - ROUNDING * (1 + abs(ranked[0, -1]))
        return plans, scores

    def _keys(self, plans: Array, state: Array) -> tuple[Array, int]:
        """What the next action of plans (K, t) depends on, state and last action, as numbers (K,); how many there are.

        Plans without an action are all in state 0.
        """
        num_actions = self.allowed.shape[1]
        return state * num_actions + (plans[:, -1] if plans.shape[1] else 0), len(self.automaton.depth) * num_actions

    def _weights(self, position: int, keys: Array) -> Array:
        """The weights of the actions that may come next: keys (J,) -> (J, A)."""
        state, last = np.divmod(keys, self.allowed.shape[1])
        onward, tables = self._onward[position], self.chain.tables
        states, row = np.unique(state, return_inverse=True)
        weights = scaled_weights(onward[states])[row]
        if not position:
            return weights
        weights *= tables.weights[last]
        is_small = weights.max(axis=1) < _FLOAT.tiny / _FLOAT.eps  # some terms may have become zero
        if is_small.any():
            weights[is_small] = scaled_weights(onward[state[is_small]] + tables.log[last[is_small]])
        return weights


@dataclass(frozen=True, eq=False)
class ConditionedRescoredChain(ConditionedChain):
    """A chain with rescored plans, given conditions.

    The rescored plans that satisfy the conditions keep their weight after rescoring, all other plans that of the chain.
    After rescoring a plan has at least a tenth of its weight, so differences of weights stay exact to rounding.
    """

    chain: RescoredChain

    @cached_property
    def log_share(self) -> float:
        """Log of the probability that a plan satisfies the conditions; minus infinity: impossible."""
        _, before, after = self._listed
        if not len(before):
            return self._base_log_share
        others = max(0.0, 1 - float(np.exp(before - self._base_log_share).sum()))
        return min(0.0, float(np.logaddexp(self._base_log_share + log_of(np.array(others)), log_sum(after))))

    def best_plans(self, number: int) -> tuple[Array, Array]:
        """The most probable plans, best first (n, T), and log p of each (n,); fewer if fewer are possible."""
        listed, _, after = self._listed
        more, scores = self._best_scores(len(listed) + number)
        is_other = ~same_plans(more, listed).any(axis=1)
        plans = np.concatenate((listed, more[is_other]))
        logs = np.concatenate((after, scores[is_other] - self.chain.log_normaliser()[0]))
        order = np.argsort(-logs, kind="stable")[:number]
        return plans[order], logs[order] - self.log_share

    def marginals(self) -> Array:
        """The probability of every action at every position: (T, A); all 0 if the conditions are impossible."""
        listed, before, after = self._listed
        if not len(listed):
            return super().marginals()
        marginals = super().marginals() * np.exp(self._base_log_share - self.log_share)
        moved = np.exp(after - self.log_share) - np.exp(before - self.log_share)  # (L,)
        np.add.at(marginals, (np.arange(self.horizon), listed), moved[:, None])
        return np.maximum(marginals, 0.0)

    @cached_property
    def _listed(self) -> tuple[Array, Array, Array]:
        """The rescored plans that satisfy the conditions (L, T), and log p of each before and after (L,)."""
        plans, before, after = (part[0] for part in self.chain.rescored)
        holds = self.satisfies(plans) & (before > -np.inf)
        return plans[holds], before[holds], after[holds]

    @cached_property
    def _log_beginnings(self) -> Array:
        """Log p of the actions of the listed plans before each position: (L, T)."""
        plans, _, _ = self._listed
        steps = self.chain.log_emissions[0][np.arange(self.horizon), plans]
        steps[:, 1:] += self.chain.log_transitions[plans[:, :-1], plans[:, 1:]]
        sums = np.cumsum(steps, axis=1) - steps
        return sums - self.chain.log_normaliser()[0]

    def _keys(self, plans: Array, state: Array) -> tuple[Array, int]:
        """As in the chain; a further number for the beginning of each listed plan."""
        keys, num_keys = super()._keys(plans, state)
        listed, position = self._listed[0], plans.shape[1]
        if len(listed):
            is_same = _same_beginnings(plans, listed, position)  # (K, L)
            keys = np.where(is_same.any(axis=1), num_keys + is_same.argmax(axis=1), keys)
        return keys, num_keys + len(listed)

    def _weights(self, position: int, keys: Array) -> Array:
        number = keys - len(self.automaton.depth) * self.allowed.shape[1]  # of listed plans, from 0
        weights = np.empty((len(keys), self.allowed.shape[1]))
        weights[number < 0] = super()._weights(position, keys[number < 0])
        weights[number >= 0] = self._listed_weights(position, number[number >= 0])
        return weights

    def _listed_weights(self, position: int, number: Array) -> Array:
        """The weights of the actions after the beginnings of listed plans (J,): (J, A)."""
        listed, before, after = self._listed
        state = self.automaton.run(listed)[number, position]
        logs = self._log_beginnings[number, position, None] + self._onward[position][state]
        if position:
            logs += self.chain.log_transitions[listed[number, position - 1]]
        is_same = _same_beginnings(listed[number], listed, position)  # (J, L)
        scale = np.maximum(logs.max(axis=1), np.where(is_same, after, -np.inf).max(axis=1, initial=-np.inf))
        weights = np.exp(logs - scale[:, None])
        row, other = np.nonzero(is_same)
        moved = np.exp(after[other] - scale[row]) - np.exp(before[other] - scale[row])
        np.add.at(weights, (row, listed[other, position]), moved)
        return np.maximum(weights, 0.0)


def _same_beginnings(plans: Array, others: Array, length: int) -> Array:
    """Which plans (K, T) begin with the same actions as which others (L, T): (K, L)."""
    if not length:
        return np.ones((len(plans), len(others)), dtype=bool)
    return same_plans(plans[:, :length], others[:, :length])


def _where_possible(sum_rows: Callable[[Array], Array], log_weights: Array) -> Array:
    """Sums of rows (S, A); rows without any weight are left out, because sums of zeros are computed slowly."""
    sums = np.full(log_weights.shape, -np.inf)
    is_possible = log_weights.max(axis=1) > -np.inf
    if is_possible.any():
        sums[is_possible] = sum_rows(log_weights[is_possible])
    return sums
