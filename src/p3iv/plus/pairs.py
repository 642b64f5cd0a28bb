"""Start and goal pairs for the linear path: the training windows, and those of neighbouring horizons made of them.

What is seen at the start depends on the first step of a window alone, and what is seen at the goal on its last. So the
windows of horizon T of one video, recombined, show the pairs of other horizons too: their first and last actions are
known, and more of them are seen than T-windows alone would show. All of T + 1 and T + 2 are found so; of T - 1, those
that begin where a T-window begins and end where one ends, 82 % on CaptainCook4D at T = 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from p3iv.observations import WindowTensors

NEIGHBOURS = (-1, 1, 2)  # horizons T - 1, T + 1 and T + 2


@dataclass(frozen=True)
class EndPairs:
    """Pairs whose first and last actions are known; the training windows themselves come first."""

    start: Tensor  # (n,) row of the training windows whose start is seen
    goal: Tensor  # (n,) row of the training windows whose goal is seen
    groups: Tensor  # (n,) number of the video
    num_windows: int  # how many of them are the training windows


def pair_ends(windows: WindowTensors, neighbours: tuple[int, ...] = NEIGHBOURS) -> EndPairs:
    """The pairs of the windows and of neighbouring horizons; with no neighbours, the windows alone."""
    row_of = {(w.video, w.first_step): row for row, w in enumerate(windows.windows)}
    horizon = windows.action_ids.shape[1]
    pairs = [(row, row) for row in range(len(windows))]
    for shift in neighbours:
        if horizon + shift >= 1:
            pairs += [
                (row, row_of[video, first + shift])
                for (video, first), row in row_of.items()
                if (video, first + shift) in row_of
            ]
    start, goal = torch.tensor(pairs).T
    groups = video_numbers(windows)
    return EndPairs(start, goal, groups[start], len(windows))


def video_numbers(windows: WindowTensors) -> Tensor:
    """The number of every window's video, in the order of their first windows: (N,)."""
    number_of: dict[str, int] = {}
    return torch.tensor([number_of.setdefault(w.video, len(number_of)) for w in windows.windows])
