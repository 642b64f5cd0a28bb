"""The most probable plans of a chain: Viterbi and its n best, without looking at every pair of actions.

Viterbi looks at A^2 pairs of actions per step. In a large vocabulary hardly any of them matter: the best plans are
searched among the `NUM_CANDIDATES` most promising actions of each position first. A plan with another action scores at
most the ceiling of that action (the best that any plan with it could score), so where all ceilings are below what was
found, the result is that of all actions, to the last bit. The other windows are searched again with all actions.
Shapes: N windows, T positions, A actions, k candidates, n plans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from p3iv.types import Array

MAX_ELEMENTS = 2**21  # of one block of (windows, actions, actions): 16 MB for any vocabulary
NUM_CANDIDATES = 64
ROUNDING = 1e-9  # relative: sums of the same numbers in another order agree far better

Found = tuple[Array, Array]  # plans (N, n, T) and their log p without Z (N, n), best first


@dataclass(frozen=True, eq=False)
class Tables:
    """The transitions, and what is computed from them once for all windows."""

    log: Array  # (A, A): from row to column

    @cached_property
    def weights(self) -> Array:
        """The transitions themselves: (A, A)."""
        return np.exp(self.log)

    @cached_property
    def into(self) -> Array:
        """From column to row, (A, A): maxima over what comes before are then over neighbours in memory."""
        return np.ascontiguousarray(self.log.T)

    @cached_property
    def best_into(self) -> Array:
        """The best transition into every action: (A,)."""
        return self.log.max(axis=0)

    @cached_property
    def best_out(self) -> Array:
        """The best transition out of every action: (A,)."""
        return self.log.max(axis=1)


def best_path(log_emissions: Array, tables: Tables) -> Found:
    """The best plan of every window; of equally good ones, that of the lowest actions from the end."""
    return _search(log_emissions, tables, _viterbi, 1)


def best_plans(log_emissions: Array, tables: Tables, number: int) -> Found:
    """The n best plans of every window; minus infinity where fewer are possible."""
    return _search(log_emissions, tables, lambda emissions, steps: _list_viterbi(emissions, steps, number), number)


def top(values: Array, number: int) -> Found:
    """The largest values of every row (N, n), largest first, and where they are; ties by their place."""
    if number < values.shape[1]:
        place = np.sort(np.argpartition(values, values.shape[1] - number, axis=1)[:, -number:], axis=1)
    else:
        place = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    found = np.take_along_axis(values, place, axis=1)
    order = np.argsort(-found, axis=1, kind="stable")
    return np.take_along_axis(found, order, axis=1), np.take_along_axis(place, order, axis=1)


def parts_of(array: Array, size: int) -> Iterator[Array]:
    """An array in parts of at most `size` rows."""
    return (array[first : first + size] for first in range(0, len(array), size))


def best_after(scores: Array, tables: Tables) -> Array:
    """Add the scores (m, A) of the actions after a position: the best for each action there (m, A)."""
    parts = [(scores[:, None] + part).max(axis=2) for part in _blocks(tables.log, len(scores))]
    return np.concatenate(parts, axis=1)


def _blocks(table: Array, num_windows: int) -> Iterator[Array]:
    return parts_of(table, max(1, MAX_ELEMENTS // (num_windows * table.shape[1])))


class _Steps(Protocol):
    """The transitions between the actions of one position and those of the next, numbered from 0 each."""

    def best_before(self, position: int, scores: Array) -> tuple[Array, Array]:
        """Add the scores (m, k) of the actions before a position: the best for each action there, and which it is."""

    def best_after(self, position: int, scores: Array) -> Array:
        """Add the scores (m, k) of the actions after a position: the best for each action there (m, k)."""

    def rows(self, position: int, actions: Array) -> Array:
        """From actions (m, j) of the position before to all actions: (m, j, k)."""


class _AllActions:
    """The same steps at every position of every window; computed in blocks of actions."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def best_before(self, position: int, scores: Array) -> tuple[Array, Array]:  # noqa: ARG002
        parts = [_best(scores[:, None] + part) for part in _blocks(self._tables.into, len(scores))]
        return np.concatenate([best for best, _ in parts], axis=1), np.concatenate([at for _, at in parts], axis=1)

    def best_after(self, position: int, scores: Array) -> Array:  # noqa: ARG002
        return best_after(scores, self._tables)

    def rows(self, position: int, actions: Array) -> Array:  # noqa: ARG002
        return self._tables.log[actions]


class _Candidates:
    """The steps between the candidates of each window."""

    def __init__(self, tables: Tables, ids: Array) -> None:
        self._into = tables.into[ids[:, 1:, :, None], ids[:, :-1, None, :]]  # (m, T - 1, k to, k from)
        self._window = np.arange(len(ids))[:, None]

    def best_before(self, position: int, scores: Array) -> tuple[Array, Array]:
        return _best(scores[:, None] + self._into[:, position - 1])

    def best_after(self, position: int, scores: Array) -> Array:
        return (scores[:, :, None] + self._into[:, position]).max(axis=1)

    def rows(self, position: int, actions: Array) -> Array:
        return self._into[:, position - 1].transpose(0, 2, 1)[self._window, actions]


Solve = Callable[[Array, _Steps], Found]


def _best(scores: Array) -> tuple[Array, Array]:
    """The largest of the last axis and where it is, the first of equal ones: (m, k, k) -> (m, k) twice."""
    place = scores.argmax(axis=2)
    return np.take_along_axis(scores, place[:, :, None], axis=2)[:, :, 0], place


def _search(log_emissions: Array, tables: Tables, solve: Solve, number: int) -> Found:
    _, horizon, num_actions = log_emissions.shape
    if num_actions <= 4 * NUM_CANDIDATES:
        return _search_all(log_emissions, tables, solve, number)
    size = max(1, MAX_ELEMENTS // max(horizon * num_actions, horizon * NUM_CANDIDATES**2, number * NUM_CANDIDATES))
    parts = [_search_candidates(part, tables, solve) for part in parts_of(log_emissions, size)]
    plans, scores, is_sure = (np.concatenate(kind) for kind in zip(*parts, strict=True))
    left = np.flatnonzero(~is_sure)
    if len(left):
        plans[left], scores[left] = _search_all(log_emissions[left], tables, solve, number)
    return plans, scores


def _search_all(log_emissions: Array, tables: Tables, solve: Solve, number: int) -> Found:
    num_actions = log_emissions.shape[2]
    size = max(1, MAX_ELEMENTS // (num_actions * max(num_actions, number)))
    parts = [solve(part, _AllActions(tables)) for part in parts_of(log_emissions, size)]
    return np.concatenate([plans for plans, _ in parts]), np.concatenate([scores for _, scores in parts])


def _search_candidates(log_emissions: Array, tables: Tables, solve: Solve) -> tuple[Array, Array, Array]:
    """The best plans of the candidates, and whether they must be those of all actions: (m, n, T), (m, n), (m,)."""
    ceilings = ceilings_of(log_emissions, tables)
    ranked, order = top(ceilings.reshape(-1, ceilings.shape[2]), NUM_CANDIDATES + 1)
    ranked, order = (part.reshape(*ceilings.shape[:2], -1) for part in (ranked, order))
    ids = np.sort(order[:, :, :-1], axis=2)  # (m, T, k): in the order of all actions, so that ties go the same way
    found, scores = solve(np.take_along_axis(log_emissions, ids, axis=2), _Candidates(tables, ids))
    plans = np.take_along_axis(ids.transpose(0, 2, 1), found, axis=1)
    worst, highest = scores[:, -1], ranked[:, :, -1].max(axis=1)  # of the plans found; of all that was left out
    is_sure = np.isfinite(worst) & (highest < worst - ROUNDING * (1 + np.abs(worst)))
    return plans, scores, is_sure


def ceilings_of(log_emissions: Array, tables: Tables) -> Array:
    """What a plan with an action at a position can score at most: (N, T, A)."""
    into, out = (np.zeros(log_emissions.shape[1:]) for _ in range(2))  # (T, A)
    into[1:], out[:-1] = tables.best_into, tables.best_out
    first, last = (np.zeros_like(log_emissions[:, :, 0]) for _ in range(2))  # (N, T)
    first[:, 1:] = (log_emissions + into).max(axis=2)[:, :-1]  # of the position before each
    last[:, :-1] = (log_emissions + out).max(axis=2)[:, 1:]  # of the position after each
    begin, end = first.cumsum(axis=1), last[:, ::-1].cumsum(axis=1)[:, ::-1]
    return log_emissions + (into + out) + (begin + end)[:, :, None]


def _viterbi(log_emissions: Array, steps: _Steps) -> Found:
    score = log_emissions[:, 0]  # (m, k)
    came_from = []
    for position in range(1, log_emissions.shape[1]):
        best, where = steps.best_before(position, score)
        score = best + log_emissions[:, position]
        came_from.append(where)
    path = [score.argmax(axis=1)]
    for where in reversed(came_from):
        path.append(np.take_along_axis(where, path[-1][:, None], axis=1)[:, 0])
    return np.stack(path[::-1], axis=1)[:, None], score.max(axis=1)[:, None]


def _list_viterbi(log_emissions: Array, steps: _Steps, number: int) -> Found:
    """The n best plans, action by action.

    Keeps the n beginnings whose best completions score highest: n plans are better than any plan of another beginning.
    """
    ends = _best_ends(log_emissions, steps)
    num_windows, horizon, num_actions = log_emissions.shape
    plans = np.zeros((num_windows, 1, 0), dtype=np.int64)
    scores = np.zeros((num_windows, 1))  # (m, j): of the beginnings so far
    ranked = scores
    window = np.arange(num_windows)[:, None]
    for position in range(horizon):
        step = log_emissions[:, None, position]  # (m, 1, k)
        if position:
            step = step + steps.rows(position, plans[:, :, -1])  # (m, j, k)
        longer = (scores[:, :, None] + step).reshape(num_windows, -1)  # (m, j k)
        ceiling = longer + np.tile(ends[:, position], (1, scores.shape[1]))
        ranked, place = top(ceiling, min(number, ceiling.shape[1]))
        scores = np.take_along_axis(longer, place, axis=1)
        plans = np.concatenate((plans[window, place // num_actions], (place % num_actions)[:, :, None]), axis=2)
    missing = number - plans.shape[1]
    padded = np.pad(plans, ((0, 0), (0, missing), (0, 0)))
    return padded, np.pad(ranked, ((0, 0), (0, missing)), constant_values=-np.inf)


def _best_ends(log_emissions: Array, steps: _Steps) -> Array:
    """The score of the best end that follows an action, (m, T, k): 0 at the last position."""
    ends = [np.zeros_like(log_emissions[:, 0])]
    for position in range(log_emissions.shape[1] - 2, -1, -1):
        ends.append(steps.best_after(position, ends[-1] + log_emissions[:, position + 1]))
    return np.stack(ends[::-1], axis=1)
