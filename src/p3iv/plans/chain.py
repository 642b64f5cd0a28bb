"""A chain of emissions and transitions: its best plans, exact samples, marginals and probabilities.

    p(a_1 .. a_T) = emission_1(a_1) * prod_t transition(a_{t-1}, a_t) * emission_t(a_t) / Z

`best_paths` is Viterbi (section 3.5, supplement B), `best_plans` its n best, `draw` samples exactly, `log_normaliser`
is log Z, `marginals` the probability of every action at every position. All in log space and float64, so that zero
probabilities are minus infinity and nothing possible becomes zero. In numpy alone, so that an exported planner needs no
torch; `planners.plus.likelihood` has what a planner is trained through. Shapes: N windows, T positions, A actions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from p3iv.errors import PlanError
from p3iv.plans.viterbi import MAX_ELEMENTS, Tables, best_path, best_plans, parts_of
from p3iv.types import Array

NUM_RESCORED = 50  # plans that a `RescoredChain` rescores
UNCHANGED_SHARE = 0.1  # of their joint probability, which stays as it was


@dataclass(frozen=True, eq=False)
class Chain:
    """One chain per window; the transitions are shared."""

    log_emissions: Array  # (N, T, A) float64
    log_transitions: Array  # (A, A) float64: from row to column
    tables: Tables = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", Tables(self.log_transitions))

    @classmethod
    def of(cls, emissions: Array, transitions: Array) -> Chain:
        """From probabilities, or any weights from 0: (N, T, A) and (A, A)."""
        return cls(log_of(emissions.astype(np.float64)), log_of(transitions.astype(np.float64)))

    def __len__(self) -> int:
        return len(self.log_emissions)

    def best_paths(self) -> tuple[Array, Array]:
        """The most probable plan of every window (N, T), and log p of each without Z (N,); Viterbi.

        If no plan is possible, the score is minus infinity and the plan has no meaning.
        """
        plans, scores = best_path(self.log_emissions, self.tables)
        return plans[:, 0], scores[:, 0]

    def best_plans(self, number: int) -> tuple[Array, Array]:
        """The n most probable plans of every window, best first (N, n, T), and log p of each (N, n); list Viterbi.

        If fewer plans are possible, the rest have a log p of minus infinity and no meaning.
        """
        plans, scores = best_plans(self.log_emissions, self.tables, number)
        return plans, _without(scores, self.log_normaliser()[:, None])

    def log_normaliser(self) -> Array:
        """Log Z of every window: (N,)."""
        return log_sum(self._log_forward[:, -1])

    def marginals(self) -> Array:
        """The probability of every action at every position: (N, T, A)."""
        backward = _log_backward(self.log_emissions, self.log_transitions, self.tables.weights)
        return np.exp(_without(self._log_forward + backward, self.log_normaliser()[:, None, None]))

    def log_probability(self, plans: Array, window: Array) -> Array:
        """Log p of plans (R, T), each in the chain of its window (R,): (R,)."""
        position = np.arange(plans.shape[1])
        score = self.log_emissions[window[:, None], position, plans].sum(axis=1)
        score = score + self.log_transitions[plans[:, :-1], plans[:, 1:]].sum(axis=1)
        return _without(score, self.log_normaliser()[window])

    def draw(self, uniforms: Array) -> Array:
        """Plans drawn exactly, by forward filtering and backward sampling.

        Args:
            uniforms: (K, T) in [0, 1), the same for every window; further columns are ignored.

        Returns:
            (N, K, T) int64. A window's plans do not depend on its neighbours: each is drawn by itself.
        """
        transitions = self.log_transitions, self.tables.weights
        forwards = (_log_forward(window[None], *transitions)[0] for window in self.log_emissions)
        return np.stack([_draw_one(forward, self.tables.into, uniforms) for forward in forwards])

    def split(self) -> list[Self]:
        """One chain per window; that of a single window is this one, with all that it has computed."""
        if len(self) == 1:
            return [self]
        return [self._share(log_emissions=emissions[None]) for emissions in self.log_emissions]

    def with_emissions(self, log_emissions: Array) -> Self:
        """The same transitions with other emissions of as many windows."""
        return self._share(log_emissions=log_emissions)

    def _share(self, **changes: Any) -> Self:
        """A chain with the same transitions, which uses what was already computed from them."""
        other = replace(self, **changes)
        object.__setattr__(other, "tables", self.tables)
        return other

    @cached_property
    def _log_forward(self) -> Array:
        return _log_forward(self.log_emissions, self.log_transitions, self.tables.weights)


@dataclass(frozen=True, eq=False)
class RescoredChain(Chain):
    """A chain whose likeliest plans are rescored by how well all their actions fit together, which a chain cannot tell.

    The actions a_1 .. a_T of a plan have a fit to which every pair of positions adds, not only neighbours:

        fit = sum_t each(a_t) - sum_s sum_t both(a_s, a_t)

    The `NUM_RESCORED` likeliest plans of the chain redistribute their joint probability: `UNCHANGED_SHARE`, a tenth,
    stays as it was, the rest is in proportion to p(plan) exp(fit). All other plans keep theirs. So every result stays
    exact, all plans add up to 1, and a plan that does not fit loses at most a factor of 10. The most probable plan is
    still among them: the best of them has at least their mean, which is more than any other plan has.
    """

    log_each: Array  # (N, A) float64
    log_both: Array  # (A, A) float64, symmetric

    @classmethod
    def over(cls, chain: Chain, log_each: Array, log_both: Array) -> RescoredChain:
        """Rescore the likeliest plans of a chain."""
        rescored = cls(chain.log_emissions, chain.log_transitions, log_each, log_both)
        object.__setattr__(rescored, "tables", chain.tables)
        return rescored

    def best_paths(self) -> tuple[Array, Array]:
        """The most probable plan of every window (N, T), and log p of each without Z (N,)."""
        plans, logs = self.best_plans(1)
        return plans[:, 0], logs[:, 0] + self.log_normaliser()

    def best_plans(self, number: int) -> tuple[Array, Array]:
        """The n most probable plans of every window, best first (N, n, T), and log p of each (N, n)."""
        plans, _, logs = self.rescored
        if number > 1:  # another plan may now be likelier than some of these
            more, more_logs = super().best_plans(NUM_RESCORED + number)
            # By comparison, not by rank: of plans that are equally probable, the longer list may begin with others.
            is_rescored = same_plans(more, plans).any(axis=2)
            plans = np.concatenate((plans, more), axis=1)
            logs = np.concatenate((logs, np.where(is_rescored, -np.inf, more_logs)), axis=1)
        order = np.argsort(-logs, axis=1, kind="stable")[:, :number]
        return plans[np.arange(len(plans))[:, None], order], np.take_along_axis(logs, order, axis=1)

    def marginals(self) -> Array:
        """The probability of every action at every position: (N, T, A)."""
        plans, before, after = self.rescored
        marginals, moved = super().marginals(), np.exp(after) - np.exp(before)  # (N, n)
        window, position = np.arange(len(plans))[:, None, None], np.arange(plans.shape[2])
        np.add.at(marginals, (window, position, plans), moved[:, :, None])
        return np.maximum(marginals, 0.0)

    def log_probability(self, plans: Array, window: Array) -> Array:
        """Log p of plans (R, T), each in the chain of its window (R,): (R,)."""
        listed, before, after = self.rescored
        is_it = same_plans(plans[:, None], listed[window])[:, 0] & (before[window] > -np.inf)  # (R, n)
        return np.where(is_it.any(axis=1), after[window, is_it.argmax(axis=1)], super().log_probability(plans, window))

    def rescored_plans(self) -> tuple[Array, Array]:
        """The plans that are rescored (N, n, T), and log p of each before that (N, n).

        If fewer plans are possible, the rest have a log p of minus infinity and no meaning.
        """
        return self.rescored[:2]

    def mean_fit(self) -> Array:
        """Log of the mean of exp(fit) over the rescored plans, weighted by their probabilities: (N,)."""
        plans, logs = self.rescored_plans()
        return log_sum(logs + fit_of(plans, self.log_each, self.log_both)) - log_sum(logs)

    def draw(self, uniforms: Array) -> Array:
        """Exact samples: draw from the chain, then redraw samples that fall among the rescored plans.

        Args:
            uniforms: (K, T + 1) in [0, 1), the same for every window.

        Returns:
            (N, K, T) int64. A window's plans do not depend on its neighbours: each is drawn by itself.
        """
        drawn = super().draw(uniforms)
        extra = uniforms[:, drawn.shape[2]]
        for row, plans in enumerate(drawn):
            listed, before, after = (part[row] for part in self.rescored)
            total = np.exp(after).cumsum()
            place = np.searchsorted(total, total[-1] * extra, side="right").clip(max=NUM_RESCORED - 1)
            is_listed = same_plans(plans, listed[before > -np.inf]).any(axis=1)
            plans[is_listed] = listed[place[is_listed]]
        return drawn

    def split(self) -> list[Self]:
        """One chain per window; that of a single window is this one, with all that it has computed."""
        if len(self) == 1:
            return [self]
        parts = zip(self.log_emissions, self.log_each, strict=True)
        return [self._share(log_emissions=emissions[None], log_each=each[None]) for emissions, each in parts]

    @cached_property
    def rescored(self) -> tuple[Array, Array, Array]:
        """The likeliest plans (N, n, T), and log p of each before and after (N, n)."""
        plans, logs = super().best_plans(NUM_RESCORED)
        return plans, logs, redistribute(logs, fit_of(plans, self.log_each, self.log_both))


def fit_of(plans: Array, each: Array, both: Array) -> Array:
    """The fit of plans (N, n, T), from terms (N, A) of single actions and (A, A) of pairs: (N, n)."""
    alone = each[np.arange(len(plans))[:, None, None], plans].sum(axis=2)
    together = both[plans[..., :, None], plans[..., None, :]].sum(axis=(2, 3))
    return alone - together


def redistribute(logs: Array, fit: Array) -> Array:
    """Redistribute the joint probability of plans, mostly in proportion to p exp(fit): log p (N, n) -> (N, n)."""
    reweighted = logs + fit
    shares = _without(reweighted, log_sum(reweighted)[:, None]) + log_sum(logs)[:, None]
    with np.errstate(invalid="ignore"):  # nan where nothing is possible
        mixed = np.logaddexp(shares + math.log(1 - UNCHANGED_SHARE), logs + math.log(UNCHANGED_SHARE))
    return np.where(logs > -np.inf, mixed, logs)  # impossible plans stay impossible


def log_pairs(chain: Chain) -> Array:
    """Log of the weight of all plans with two actions at neighbouring positions, before any is rescored, without Z.

    (N, T - 1, A, A): from row to column.
    """
    transitions = chain.log_transitions, chain.tables.weights
    after = chain.log_emissions + _log_backward(chain.log_emissions, *transitions)  # (N, T, A)
    return chain._log_forward[:, :-1, :, None] + chain.log_transitions + after[:, 1:, None, :]


def log_of(weights: Array) -> Array:
    """The logarithm; minus infinity of 0."""
    with np.errstate(divide="ignore"):
        return np.log(weights)


def log_sum(logs: Array) -> Array:
    """Log of the sum of exp(logs) over the last axis; minus infinity where all are."""
    shift = np.maximum(logs.max(axis=-1, keepdims=True), np.finfo(np.float64).min)
    return log_of(np.exp(logs - shift).sum(axis=-1)) + shift[..., 0]


def _without(logs: Array, normaliser: Array) -> Array:
    """Logs minus a normaliser; nan where both are minus infinity, because then nothing is possible."""
    with np.errstate(invalid="ignore"):
        return logs - normaliser


def _log_forward(log_emissions: Array, log_transitions: Array, transitions: Array) -> Array:
    """Log of the weight of all beginnings that end in an action: (n, T, A)."""
    steps = [log_emissions[:, 0]]
    for position in range(1, log_emissions.shape[1]):
        steps.append(log_product(steps[-1], log_transitions, transitions) + log_emissions[:, position])
    return np.stack(steps, axis=1)


def _log_backward(log_emissions: Array, log_transitions: Array, transitions: Array) -> Array:
    """Log of the weight of all ends that follow an action: (n, T, A)."""
    steps = [np.zeros_like(log_emissions[:, 0])]
    for position in range(log_emissions.shape[1] - 1, 0, -1):
        steps.append(log_product(steps[-1] + log_emissions[:, position], log_transitions.T, transitions.T))
    return np.stack(steps[::-1], axis=1)


def log_product(log_weights: Array, log_matrix: Array, matrix: Array) -> Array:
    """Log of exp(log_weights) @ matrix: (n, A).

    A product of matrices, shifted so that the largest weight is 1. Sums that are so small that some of their terms may
    have become zero are computed again one by one, each shifted by its own largest term.
    """
    number = np.finfo(np.float64)
    shift = np.maximum(log_weights.max(axis=1, keepdims=True), number.min)  # finite where every weight is zero
    product = np.exp(log_weights - shift) @ matrix
    log_product = log_of(product) + shift
    rows, columns = np.nonzero(product < number.tiny / number.eps)
    size = max(1, MAX_ELEMENTS // len(matrix))
    for row, column in zip(parts_of(rows, size), parts_of(columns, size), strict=True):
        log_product[row, column] = log_sum(log_weights[row] + log_matrix.T[column])
    return log_product


def _draw_one(forward: Array, into: Array, uniforms: Array) -> Array:
    """The log weights of the beginnings of one window (T, A) and uniforms (K, T) -> plans (K, T).

    `into` are the log transitions from column to row.
    """
    if forward[-1].max() == -np.inf:
        raise PlanError("No plan is possible under these emissions and transitions, so none can be drawn.")
    last, num_actions = scaled_weights(forward[-1][None]), forward.shape[1]
    drawn = [_pick(last, np.zeros(len(uniforms), dtype=np.int64), uniforms[:, len(forward) - 1])]
    for position in range(len(forward) - 2, -1, -1):

        def weights_before(following: Array, here: Array = forward[position]) -> Array:
            return scaled_weights(here + into[following])  # (distinct following actions, A)

        drawn.append(pick_each(drawn[-1], (num_actions, num_actions), weights_before, uniforms[:, position]))
    return np.stack(drawn[::-1], axis=1)


def scaled_weights(log_weights: Array) -> Array:
    """The weights of rows (J, A) of logarithms, the largest of each row 1."""
    return np.exp(log_weights - log_weights.max(axis=1, keepdims=True))


def pick_each(keys: Array, shape: tuple[int, int], weights_of: Callable[[Array], Array], uniform: Array) -> Array:
    """For every k an action by the weights of its key; never one of weight 0.

    Args:
        keys: (K,); those with the same key pick by the same weights, which are computed once.
        shape: the number of keys, and that of actions.
        weights_of: from distinct keys (J,) to weights (J, A), on any scale.
        uniform: (K,) in [0, 1).
    """
    num_keys, num_actions = shape
    is_used = np.zeros(num_keys, dtype=bool)
    is_used[keys] = True
    distinct, row = np.flatnonzero(is_used), (is_used.cumsum() - 1)[keys]
    picked = np.empty_like(row)
    size = max(1, MAX_ELEMENTS // num_actions)
    for first in range(0, len(distinct), size):
        here = np.flatnonzero((row >= first) & (row < first + size))
        picked[here] = _pick(weights_of(distinct[first : first + size]), row[here] - first, uniform[here])
    return picked


def _pick(weights: Array, row: Array, uniform: Array) -> Array:
    """For every k an entry of its row of (J, A), by inverting the cumulative distribution; never one of weight 0."""
    num_rows, num_actions = weights.shape
    steps = [2**power for power in reversed(range(num_actions.bit_length()))]  # 64, 32, .. 1: a binary search
    total = np.full((num_rows, sum(steps)), np.inf)
    np.cumsum(weights, axis=1, out=total[:, :num_actions])
    wanted = uniform * total[row, num_actions - 1]
    begin, entries = row * total.shape[1], total.ravel()
    place = begin.copy()
    for step in steps:
        place += step * (entries[place + (step - 1)] <= wanted)
    return place - begin


def same_plans(plans: Array, others: Array) -> Array:
    """Which plans (..., K, T) equal which others (..., n, T): (..., K, n). Position by position, to be fast."""
    equal = plans[..., :, None, 0] == others[..., None, :, 0]
    for position in range(1, plans.shape[-1]):
        equal &= plans[..., :, None, position] == others[..., None, :, position]
    return equal
