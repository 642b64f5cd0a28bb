"""Follows conditions through a plan: which steps are still missing, and which may no longer come.

A finite automaton. Its state after some actions is all that matters for the rest of a plan, so that dynamic programming
over (state, action) is exact. Shapes: T positions, A actions, S states, R plans.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from p3iv.errors import PlanError
from p3iv.types import Array, counted

MAX_STATES = 256  # eight steps that must occur, or five pairs of which one comes before the other


class _State(NamedTuple):
    """What matters of the actions so far."""

    missing: frozenset[int]  # steps that must still occur
    undecided: frozenset[tuple[int, int]]  # pairs (a, b), a before b, of which neither has occurred
    forbidden: frozenset[int]  # every a of a pair whose b came first

    @property
    def relevant(self) -> frozenset[int]:
        """The actions after which the state is another one."""
        return self.missing.union(self.forbidden, *self.undecided)

    def after(self, action: int) -> _State | None:
        """The state after a relevant action; None if the conditions can no longer hold."""
        if action in self.forbidden:
            return None
        forbidden = self.forbidden.union(first for first, second in self.undecided if second == action)
        missing = self.missing - {action}
        if missing & forbidden:
            return None
        settled = forbidden | {action}  # a pair is decided when one of it has occurred or can no longer occur
        return _State(missing, frozenset(pair for pair in self.undecided if settled.isdisjoint(pair)), forbidden)


@dataclass(frozen=True, eq=False)
class Automaton:
    """Follows the conditions that depend on what has occurred so far.

    State 0 is that of no action; the last row, number -1, is that of plans which cannot satisfy the conditions.
    """

    following: Array  # (S + 1, A): the state after an action
    accepts: Array  # (S + 1,): whether a plan may end here
    depth: Array  # (S,): how many actions a state needs at least; ascending

    @classmethod
    def of(
        cls, including: Iterable[int], before: Iterable[tuple[int, int]], *, horizon: int, num_actions: int
    ) -> Automaton:
        """All steps `including` must occur; of every pair (a, b), no b may come before the first a.

        Raises:
            PlanError: it would have too many states.
        """
        start = _State(frozenset(including), frozenset(before), frozenset())
        numbers, states, depth, edges = {start: 0}, [start], [0], []
        for number, state in enumerate(states):  # which grows
            if depth[number] == horizon:
                break
            for action in state.relevant:
                after = state.after(action)
                if after is not None and after not in numbers:
                    numbers[after] = len(states)
                    states.append(after)
                    depth.append(depth[number] + 1)
                edges.append((number, action, -1 if after is None else numbers[after]))
            if len(states) > MAX_STATES:
                raise PlanError(_too_many(start))
        following = np.append(np.arange(len(states)), -1)[:, None].repeat(num_actions, axis=1)
        for number, action, after_number in edges:
            following[number, action] = after_number
        return cls(following, np.array([*(not state.missing for state in states), False]), np.array(depth))

    def run(self, plans: Array) -> Array:
        """The states before every action of plans (R, T), and after the last: (R, T + 1)."""
        states = np.zeros((len(plans), plans.shape[1] + 1), dtype=np.int64)
        for position, actions in enumerate(plans.T):
            states[:, position + 1] = self.following[states[:, position], actions]
        return states


def _too_many(start: _State) -> str:
    kinds = (("step", " that must occur", start.missing), ("pair", " of steps in a given order", start.undecided))
    counts = [f"{counted(len(each), noun)}{rest}" for noun, rest, each in kinds if each]
    return (
        f"{' and '.join(counts)} are too many conditions: they have more than {MAX_STATES} states, which is the most "
        f"that is computed. Leave some of them out."
    )
