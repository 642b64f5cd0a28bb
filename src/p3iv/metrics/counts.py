"""The distinct plans among the samples of many windows, with how often each was drawn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

Plan = tuple[int, ...]  # action ids


@dataclass(frozen=True)
class PlanCounts:
    """The distinct plans of every window with how often each was drawn, most frequent first (ties by action ids).

    Windows have different numbers of distinct plans, so their rows lie one after another:

        samples of window 0: [1 2] [1 2] [1 3]    plans  [1 2] [1 3] [4 0]
        samples of window 1: [4 0] [4 0] [4 0]    counts   2     1     3
                                                  first  [0, 2, 3]
    """

    plans: Tensor  # (U, T) int64, padded where they have several lengths
    counts: Tensor  # (U,) int64
    first: Tensor  # (N + 1,) int64: rows first[i] to first[i + 1] are those of window i

    def __len__(self) -> int:
        return len(self.first) - 1

    @cached_property
    def window(self) -> Tensor:
        """The window of every row: (U,)."""
        return torch.repeat_interleave(torch.arange(len(self)), self.first.diff())

    @cached_property
    def totals(self) -> Tensor:
        """Samples per window: (N,)."""
        return torch.zeros(len(self), dtype=torch.int64).index_add(0, self.window, self.counts)

    def rows(self, number: int) -> tuple[Tensor, Tensor]:
        """Plans (u, T) and counts (u,) of one window."""
        here = slice(int(self.first[number]), int(self.first[number + 1]))
        return self.plans[here], self.counts[here]

    @property
    def modes(self) -> Tensor:
        """The most frequent plan of every window: (N, T)."""
        return self.plans[self.first[:-1]]


def count_plans(samples: Tensor) -> PlanCounts:
    """Distinct plans and counts of samples (N, K, T), which may be padded."""
    num_windows, num_samples, horizon = samples.shape
    size = int(samples.max()) + 2
    # Plans as numbers in base `size`, with ids plus 1 as digits, since padding is -1; where one number cannot hold a
    # plan, ranks of its prefix take the prefix's place.
    keys = samples[:, :, 0].long()
    for position in range(1, horizon):
        if int(keys.max()) >= (2**62) // size:
            keys = torch.unique(keys, return_inverse=True)[1]
        keys = keys * size + samples[:, :, position] + 1
    order_keys, order = keys.sort(dim=1)  # (N, K)
    is_first = torch.ones_like(order_keys, dtype=torch.bool)
    is_first[:, 1:] = order_keys[:, 1:] != order_keys[:, :-1]
    window, place = is_first.nonzero(as_tuple=True)  # (U,) each
    flat = window * num_samples + place
    counts = torch.cat((flat[1:], flat.new_tensor([num_windows * num_samples]))) - flat
    plans = samples[window, order[window, place]].long()
    # Stable, so that equal counts stay in the order of their action ids.
    by_count = (window * (num_samples + 1) + (num_samples - counts)).argsort(stable=True)
    first = torch.zeros(num_windows + 1, dtype=torch.int64)
    first[1:] = is_first.sum(dim=1).cumsum(0)
    return PlanCounts(plans[by_count], counts[by_count], first)
