"""How often each action stands at each position of the plans of a window."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from p3iv.plans import PlanCounts

_MOST_ENTRIES = 2**22  # of a table at a time: 32 MB


def count_actions(plans: Tensor, weights: Tensor, owner: Tensor, num_owners: int, num_actions: int) -> Tensor:
    """Add the weights (U,) of plans (U, T) up by owner (U,), position and action: (num_owners, T, A) float64."""
    tables = [
        torch.bincount(owner * num_actions + actions, weights=weights, minlength=num_owners * num_actions)
        for actions in plans.unbind(dim=1)
    ]
    return torch.stack(tables).view(len(tables), num_owners, num_actions).transpose(0, 1)


def sampled_actions(samples: PlanCounts, num_actions: int) -> Iterator[tuple[slice, Tensor]]:
    """Some windows at a time, and how often each action was drawn at each of their positions: (n, T, A)."""
    step = max(1, _MOST_ENTRIES // (samples.plans.shape[1] * num_actions))
    for start in range(0, len(samples), step):
        stop = min(start + step, len(samples))
        rows = slice(int(samples.first[start]), int(samples.first[stop]))
        counts, owner = samples.counts[rows].double(), samples.window[rows] - start
        yield slice(start, stop), count_actions(samples.plans[rows], counts, owner, stop - start, num_actions)
