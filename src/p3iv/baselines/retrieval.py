"""Retrieval (supplement F): the plan of the training window whose start and goal look most alike."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from p3iv.observations import WindowTensors

_BLOCK = 1024  # windows compared at a time


def nearest_plans(train: WindowTensors, windows: WindowTensors) -> Tensor:
    """Plans of the nearest training windows by the cosine of [start; goal], ties to the first: (N, T)."""
    known = functional.normalize(torch.cat((train.start, train.goal), dim=1), dim=1)  # (N_train, 2F)
    asked = functional.normalize(torch.cat((windows.start, windows.goal), dim=1), dim=1)
    nearest = [(part @ known.T).argmax(dim=1) for part in asked.split(_BLOCK)]
    return train.action_ids[torch.cat(nearest)]
