"""The most probable plans of a chain: Viterbi and its n best, without looking at every pair of actions.

Viterbi looks at A^2 pairs of actions per step. In a large vocabulary hardly any of them matter: the best plans are
searched among the `NUM_CANDIDATES` most promising actions of each position first. A plan with another action scores at
most the ceiling of that action (the best that any plan with it could score), so where all ceilings are below what was
found, the result is that of all actions, to the last bit. The other windows are searched again with all actions.
Shapes: N windows, T positions, A actions, k candidates, n plans.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

MAX_ELEMENTS = 2**21  # of one block of (windows, actions, actions): 16 MB for any vocabulary
NUM_CANDIDATES = 64
_ROUNDING = 1e-9  # relative: sums of the same numbers in another order agree far better

Found = tuple[Tensor, Tensor]  # plans (N, n, T) and their log p without Z (N, n), best first


@dataclass(frozen=True)
class Tables:
    """The transitions, and what is computed from them once for all windows."""

    log: Tensor  # (A, A): from row to column

    @cached_property
    def weights(self) -> Tensor:
        """The transitions themselves: (A, A)."""
        return self.log.exp()

    @cached_property
    def into(self) -> Tensor:
        """From column to row, (A, A): maxima over what comes before are then over neighbours in memory."""
        return self.log.T.contiguous()

    @cached_property
    def best_into(self) -> Tensor:
        """The best transition into every action: (A,)."""
        return self.log.amax(dim=0)

    @cached_property
    def best_out(self) -> Tensor:
        """The best transition out of every action: (A,)."""
        return self.log.amax(dim=1)


def best_path(log_emissions: Tensor, tables: Tables) -> Found:
    """The best plan of every window; of equally good ones, that of the lowest actions from the end."""
    return _search(log_emissions, tables, _viterbi, 1)


def best_plans(log_emissions: Tensor, tables: Tables, number: int) -> Found:
    """The n best plans of every window; minus infinity where fewer are possible."""
    return _search(log_emissions, tables, lambda emissions, steps: _list_viterbi(emissions, steps, number), number)


class _Steps(Protocol):
    """The transitions between the actions of one position and those of the next, numbered from 0 each."""

    def best_before(self, position: int, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Add the scores (m, k) of the actions before a position: the best for each action there, and which it is."""

    def best_after(self, position: int, scores: Tensor) -> Tensor:
        """Add the scores (m, k) of the actions after a position: the best for each action there (m, k)."""

    def rows(self, position: int, actions: Tensor) -> Tensor:
        """From actions (m, j) of the position before to all actions: (m, j, k)."""


class _AllActions:
    """The same steps at every position of every window; computed in blocks of actions."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def best_before(self, position: int, scores: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        parts = [(scores[:, None] + part).max(dim=2) for part in self._blocks(self._tables.into, len(scores))]
        return torch.cat([part.values for part in parts], dim=1), torch.cat([part.indices for part in parts], dim=1)

    def best_after(self, position: int, scores: Tensor) -> Tensor:  # noqa: ARG002
        parts = [(scores[:, None] + part).amax(dim=2) for part in self._blocks(self._tables.log, len(scores))]
        return torch.cat(parts, dim=1)

    def rows(self, position: int, actions: Tensor) -> Tensor:  # noqa: ARG002
        return self._tables.log[actions]

    @staticmethod
    def _blocks(table: Tensor, num_windows: int) -> tuple[Tensor, ...]:
        blocks: tuple[Tensor, ...] = table.split(max(1, MAX_ELEMENTS // (num_windows * table.shape[1])))
        return blocks


class _Candidates:
    """The steps between the candidates of each window."""

    def __init__(self, tables: Tables, ids: Tensor) -> None:
        self._into = tables.into[ids[:, 1:, :, None], ids[:, :-1, None, :]]  # (m, T - 1, k to, k from)
        self._window = torch.arange(len(ids))[:, None]

    def best_before(self, position: int, scores: Tensor) -> tuple[Tensor, Tensor]:
        best = (scores[:, None] + self._into[:, position - 1]).max(dim=2)
        return best.values, best.indices

    def best_after(self, position: int, scores: Tensor) -> Tensor:
        return (scores[:, :, None] + self._into[:, position]).amax(dim=1)

    def rows(self, position: int, actions: Tensor) -> Tensor:
        return self._into[:, position - 1].transpose(1, 2)[self._window, actions]


Solve = Callable[[Tensor, _Steps], Found]


def _search(log_emissions: Tensor, tables: Tables, solve: Solve, number: int) -> Found:
    _, horizon, num_actions = log_emissions.shape
    if num_actions <= 4 * NUM_CANDIDATES:
        return _search_all(log_emissions, tables, solve, number)
    size = max(1, MAX_ELEMENTS // max(horizon * num_actions, horizon * NUM_CANDIDATES**2, number * NUM_CANDIDATES))
    parts = [_search_candidates(part, tables, solve) for part in log_emissions.split(size)]
    plans, scores, is_sure = (torch.cat(kind) for kind in zip(*parts, strict=True))
    left = (~is_sure).nonzero()[:, 0]
    if len(left):
        plans[left], scores[left] = _search_all(log_emissions[left], tables, solve, number)
    return plans, scores


def _search_all(log_emissions: Tensor, tables: Tables, solve: Solve, number: int) -> Found:
    num_actions = log_emissions.shape[2]
    size = max(1, MAX_ELEMENTS // (num_actions * max(num_actions, number)))
    parts = [solve(part, _AllActions(tables)) for part in log_emissions.split(size)]
    return torch.cat([plans for plans, _ in parts]), torch.cat([scores for _, scores in parts])


def _search_candidates(log_emissions: Tensor, tables: Tables, solve: Solve) -> tuple[Tensor, Tensor, Tensor]:
    """The best plans of the candidates, and whether they must be those of all actions: (m, n, T), (m, n), (m,)."""
    ceilings = ceilings_of(log_emissions, tables)
    ranked, order = ceilings.topk(NUM_CANDIDATES + 1, dim=2)
    ids = order[:, :, :-1].sort(dim=2).values  # (m, T, k): in the order of all actions, so that ties go the same way
    found, scores = solve(log_emissions.gather(2, ids), _Candidates(tables, ids))
    plans = ids.transpose(1, 2).gather(1, found)
    worst, highest = scores[:, -1], ranked[:, :, -1].amax(dim=1)  # of the plans found; of all that was left out
    return plans, scores, highest < worst - _ROUNDING * (1 + worst.abs())


def ceilings_of(log_emissions: Tensor, tables: Tables) -> Tensor:
    """What a plan with an action at a position can score at most: (N, T, A)."""
    into, out = (log_emissions.new_zeros(log_emissions.shape[1:]) for _ in range(2))  # (T, A)
    into[1:], out[:-1] = tables.best_into, tables.best_out
    begin = functional.pad((log_emissions + into).amax(dim=2), (1, 0))[:, :-1].cumsum(dim=1)  # (N, T): before each
    end = functional.pad((log_emissions + out).amax(dim=2), (0, 1))[:, 1:].flip(1).cumsum(dim=1).flip(1)  # after each
    return log_emissions + (into + out) + (begin + end)[:, :, None]


def _viterbi(log_emissions: Tensor, steps: _Steps) -> Found:
    score = log_emissions[:, 0]  # (m, k)
    came_from = []
    for position in range(1, log_emissions.shape[1]):
        best, where = steps.best_before(position, score)
        score = best + log_emissions[:, position]
        came_from.append(where)
    final, last = score.max(dim=1)
    path = [last]
    for where in reversed(came_from):
        path.append(where.gather(1, path[-1][:, None])[:, 0])
    return torch.stack(path[::-1], dim=1)[:, None], final[:, None]


def _list_viterbi(log_emissions: Tensor, steps: _Steps, number: int) -> Found:
    """The n best plans, action by action.

    Keeps the n beginnings whose best completions score highest: n plans are better than any plan of another beginning.
    """
    ends = _best_ends(log_emissions, steps)
    num_windows, horizon, num_actions = log_emissions.shape
    plans = torch.zeros(num_windows, 1, 0, dtype=torch.int64)
    scores = log_emissions.new_zeros(num_windows, 1)  # (m, j): of the beginnings so far
    window = torch.arange(num_windows)[:, None]
    for position in range(horizon):
        step = log_emissions[:, None, position]  # (m, 1, k)
        if position:
            step = step + steps.rows(position, plans[:, :, -1])  # (m, j, k)
        longer = (scores[:, :, None] + step).flatten(1)  # (m, j k)
        ceiling = longer + ends[:, position].repeat(1, scores.shape[1])
        ranked, place = ceiling.topk(min(number, ceiling.shape[1]), dim=1)
        scores = longer.gather(1, place)
        plans = torch.cat((plans[window, place // num_actions], (place % num_actions)[:, :, None]), dim=2)
    missing = number - plans.shape[1]
    return functional.pad(plans, (0, 0, 0, missing)), functional.pad(ranked, (0, missing), value=-torch.inf)


def _best_ends(log_emissions: Tensor, steps: _Steps) -> Tensor:
    """The score of the best end that follows an action, (m, T, k): 0 at the last position."""
    ends = [torch.zeros_like(log_emissions[:, 0])]
    for position in range(log_emissions.shape[1] - 2, -1, -1):
        ends.append(steps.best_after(position, ends[-1] + log_emissions[:, position + 1]))
    return torch.stack(ends[::-1], dim=1)
