"""What visually supervised planners are shown: the states from start to goal, and how far predicted ones are off."""

from __future__ import annotations

import torch
from torch import Tensor

from p3iv.errors import DatasetError
from p3iv.interface import Batch


def states_of(batch: Batch) -> Tensor:
    """What is seen before the first action, between actions, and after the last: (B, T + 1, F)."""
    if batch.steps is None:
        raise DatasetError(
            "This planner learns from what is seen at every step in between, and these windows hold start and goal "
            "only. Use a dataset with start_s and end_s in steps.csv, or a planner that learns from step lists alone: "
            "--planner p3iv."
        )
    return torch.cat((batch.start[:, None], batch.steps[:, 1:], batch.goal[:, None]), dim=1)


def state_loss(predicted: Tensor, states: Tensor) -> Tensor:
    """Squared error per dimension, summed over the T positions, mean over the windows: (B, T, D) twice.

    The encoded states are targets, not parts, of the loss: pulled towards what is easily predicted they would all end
    in one place.
    """
    return (predicted - states.detach()).square().mean(dim=-1).sum(dim=1).mean()
