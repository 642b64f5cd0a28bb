"""Retrieval (supplement F): the plan of the training window whose start and goal look most alike."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from p3iv.observations import WindowTensors

_BLOCK = 1024  # windows compared at a time


def nearest_plans(train: WindowTensors, windows: WindowTensors, *, skip_own_video: bool = False) -> Tensor:
    """Plans of the nearest training windows by the cosine of [start; goal], ties to the first: (N, T).

    With `skip_own_video`, no window finds one of its own video: for windows that stand in train themselves.
    """
    known = functional.normalize(torch.cat((train.start, train.goal), dim=1), dim=1)  # (N_train, 2F)
    asked = functional.normalize(torch.cat((windows.start, windows.goal), dim=1), dim=1)
    number_of = {video: number for number, video in enumerate(dict.fromkeys(w.video for w in train.windows))}
    owner = torch.tensor([number_of[w.video] for w in train.windows])  # (N_train,)
    asker = torch.tensor([number_of.get(w.video, -1) for w in windows.windows])
    nearest = []
    for part, videos in zip(asked.split(_BLOCK), asker.split(_BLOCK), strict=True):
        alike = part @ known.T
        if skip_own_video:
            alike[videos[:, None] == owner] = -torch.inf
        nearest.append(alike.argmax(dim=1))
    return train.action_ids[torch.cat(nearest)]
