"""Reference plans: those of all windows with the same first and last action, or a known distribution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from p3iv.data.padding import pad_plans, plan_lengths, same_width
from p3iv.errors import PlanError
from p3iv.metrics.counts import Plan, PlanCounts

MAX_PAIRS = 2**14  # of a window and a plan, at a time
_MAX_KEY = 2**62


@dataclass(frozen=True)
class ReferencePlans:
    """The distinct reference plans of every window with their probabilities; windows of one group share them.

    Windows [1 2 4] [1 3 4] [1 2 4] [5 5 6] have two groups, from 1 to 4 and from 5 to 6:

        plans          [1 2 4] [1 3 4] [5 5 6]
        probabilities     2/3     1/3     1
        first          [0, 2, 3]
        group          [0, 0, 0, 1]
    """

    plans: Tensor  # (R, T) int64, padded where they have several lengths
    probabilities: Tensor  # (R,) float64: those of one group are above 0 and sum to 1
    first: Tensor  # (G + 1,) int64: rows first[g] to first[g + 1] are those of group g
    group: Tensor  # (N,) int64: the group of every window

    def __len__(self) -> int:
        return len(self.group)

    @cached_property
    def lengths(self) -> Tensor:
        """The number of actions of every plan: (R,)."""
        return plan_lengths(self.plans)

    @cached_property
    def num_lengths(self) -> int:
        """How many different lengths the plans have."""
        return len(self.lengths.unique())

    @cached_property
    def group_of_row(self) -> Tensor:
        """(R,)."""
        return torch.repeat_interleave(torch.arange(len(self.first) - 1), self.first.diff())

    @cached_property
    def num_plans(self) -> Tensor:
        """Number of reference plans of every window: (N,)."""
        return self.first.diff()[self.group]

    @cached_property
    def entropies(self) -> Tensor:
        """Entropy of the reference plans of every window in nats: (N,)."""
        terms = -torch.xlogy(self.probabilities, self.probabilities)
        return torch.zeros(len(self.first) - 1, dtype=torch.float64).index_add(0, self.group_of_row, terms)[self.group]

    def pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield every window with every one of its plans: windows (E,) and rows (E,), `MAX_PAIRS` at a time.

        All windows may have the same first and last action, so there may be as many pairs as windows squared.
        """
        ends = self.num_plans.cumsum(0)
        begins, total = ends - self.num_plans, int(self.num_plans.sum())
        for start in range(0, total, MAX_PAIRS):
            number = torch.arange(start, min(start + MAX_PAIRS, total))
            windows = torch.searchsorted(ends, number, right=True)
            yield windows, number - begins[windows] + self.first[self.group[windows]]


def references_of(action_ids: Tensor) -> ReferencePlans:
    """The references of windows (N, T): a plan is a reference of every window that has its first and last action.

    Windows of several lengths are padded; a reference then need not have the length of its window.
    """
    last = action_ids.gather(1, plan_lengths(action_ids)[:, None] - 1)
    group = torch.unique(torch.cat((action_ids[:, :1], last), dim=1), dim=0, return_inverse=True)[1]  # (N,)
    rows, counts = torch.unique(torch.cat((group[:, None], action_ids), dim=1), dim=0, return_counts=True)
    sizes = torch.bincount(group).double()  # (G,)
    return ReferencePlans(
        plans=rows[:, 1:].contiguous(),
        probabilities=counts.double() / sizes[rows[:, 0]],
        first=_first_rows(torch.bincount(rows[:, 0])),
        group=group,
    )


def known_references(windows: Sequence[Sequence[tuple[Plan, float]]]) -> ReferencePlans:
    """The true plan distribution of every window, as lists of (plan, probability); plans may have several lengths.

    Raises:
        PlanError: for a window whose plans are not a distribution.
    """
    listed = [[(plan, probability) for plan, probability in window if probability != 0] for window in windows]
    if not listed or not all(len(plan) for window in listed for plan, _ in window):
        raise PlanError("Reference plans need at least one window, and at least one action each.")
    for number, window in enumerate(listed):
        total = sum(probability for _, probability in window)
        if any(not probability > 0 for _, probability in window) or not abs(total - 1) < 1e-6:
            raise PlanError(f"The probabilities of the reference plans of window {number} sum to {total}, not to 1.")
        if len({tuple(plan) for plan, _ in window}) != len(window):
            raise PlanError(f"The reference plans of window {number} contain the same plan twice.")
    probabilities = [torch.tensor([probability for _, probability in window], dtype=torch.float64) for window in listed]
    return ReferencePlans(
        plans=pad_plans([plan for window in listed for plan, _ in window]),
        probabilities=torch.cat([values / values.sum() for values in probabilities]),
        first=_first_rows(torch.tensor([len(window) for window in listed])),
        group=torch.arange(len(listed)),
    )


def match_plans(samples: PlanCounts, references: ReferencePlans) -> Tensor:
    """The row of `references` that equals each sampled plan of a window, -1 where there is none: (U,).

    Plans are compared as numbers whose digits are the group and the ids plus 1, since padding is -1. Where one number
    cannot hold a plan (778 actions, 9 steps), its prefix is replaced by the rank that it has among the prefixes of the
    references.
    """
    columns = [plans.unbind(dim=1) for plans in same_width(samples.plans, references.plans)]
    size = 2 + max(int(plans.max()) if len(plans) else 0 for plans in (samples.plans, references.plans))
    known, asked = references.group_of_row, references.group[samples.window]
    bound = len(references.first)  # above every key
    for sampled, right in zip(*columns, strict=True):
        if bound * size > _MAX_KEY:
            table, known = torch.unique(known, return_inverse=True)
            asked = _rank(table, asked)
            bound = len(table) + 1
        known = known * size + right + 1
        asked = asked * size + sampled + 1
        bound *= size
    table, row = known.sort()
    place = _rank(table, asked)
    return torch.cat((row, row.new_tensor([-1])))[place]


def _rank(table: Tensor, keys: Tensor) -> Tensor:
    """The places of the keys in a sorted table; its length for keys that are not in it."""
    place = torch.searchsorted(table, keys)
    missing = table[place.clamp_max(len(table) - 1)] != keys
    return place.masked_fill_(missing, len(table))


def _first_rows(sizes: Tensor) -> Tensor:
    return torch.cat((sizes.new_zeros(1), sizes.cumsum(0)))
