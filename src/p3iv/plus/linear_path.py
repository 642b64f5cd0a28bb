"""The linear path: ridge regression from centred, unit-norm [start; goal] to the action at every position."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from p3iv.config import PlusConfig
from p3iv.models import PlannerShape
from p3iv.observations import PlanningData
from p3iv.plus.pairs import pair_ends
from p3iv.plus.ridge import GroupedRidge, RidgeFit


class LinearPath(nn.Module):
    """One linear classifier per position, fitted in closed form and not trained."""

    mean: Tensor  # (2F,)
    weights: Tensor  # (T, 2F, A)

    def __init__(self, shape: PlannerShape) -> None:
        super().__init__()
        width = 2 * shape.feature_width
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("weights", torch.zeros(shape.horizon, width, shape.num_actions))

    def forward(self, start: Tensor, goal: Tensor) -> Tensor:
        """Scores of every action at every position: (B, F) twice -> (B, T, A)."""
        return torch.einsum("bf,tfa->bta", self.inputs(start, goal), self.weights)

    def inputs(self, start: Tensor, goal: Tensor) -> Tensor:
        """What it regresses on: [start; goal] about its mean over the training windows, of length 1, (B, 2F)."""
        return functional.normalize(torch.cat((start, goal), dim=1) - self.mean, dim=1)


def fit_linear_path(path: LinearPath, data: PlanningData, config: PlusConfig) -> Tensor:
    """Fit every position; returns the scores that training uses, (N, T, A): without a window's own video.

    What is seen at the ends depends on where a window begins or ends and not on how long it is, so the first and the
    last position also learn from pairs of neighbouring horizons. And a step looks much the same a second early or late,
    so all positions learn from the windows as seen then, too.
    """
    train, num_actions = data.train, len(data.names)
    horizon = train.action_ids.shape[1]
    path.mean.copy_(torch.cat((train.start, train.goal), dim=1).double().mean(dim=0))
    nearby = train.nearby if config.nearby and train.nearby is not None else ()
    fits: dict[int, RidgeFit] = {}
    for is_end in (True, False) if config.neighbours else (False,):
        pairs = pair_ends(train) if is_end else pair_ends(train, ())
        positions = [p for p in range(horizon) if not config.neighbours or (p in (0, horizon - 1)) == is_end]
        if not positions:
            continue
        rows = [path.inputs(train.start[pairs.start], train.goal[pairs.goal])]
        rows += [path.inputs(start, goal) for start, goal in nearby]
        again = torch.arange(len(train)).repeat(len(nearby))  # the windows come first among the pairs
        ridge = GroupedRidge(torch.cat(rows), torch.cat([pairs.groups, pairs.groups[again]]))
        for position in positions:
            ids = train.action_ids[pairs.start if position == 0 else pairs.goal, position]
            fits[position] = ridge.choose(torch.cat([ids, ids[again]]), num_actions, judged=pairs.num_windows)
    path.weights.copy_(torch.stack([fits[p].weights for p in range(horizon)]))
    if not config.held_out:
        seen: Tensor = path(train.start, train.goal)
        return seen
    return torch.stack([fits[p].held_out for p in range(horizon)], dim=1).float()
