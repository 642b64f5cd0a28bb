"""What a user points at as start or goal, and the observation that it stands for."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import Tensor

from p3iv.dataset import Dataset
from p3iv.errors import PlanError
from p3iv.features.arrays import read_observation
from p3iv.observations import observe_moments

EXPECTED = "VIDEO@SECONDS (a moment of a video of the dataset) or a .npy file of features"
_MOMENT = re.compile(r"(?P<video>.+)@(?P<second>\d+(\.\d+)?)")


def is_file_moment(text: str) -> bool:
    """Whether a moment stands in a file of features, so that no dataset is needed."""
    return text.endswith(".npy")


def read_moment(text: str, dataset: Dataset | None, observation: str) -> Tensor:
    """The observation (F,) that a moment shows.

    Args:
        text: as EXPECTED says; a .npy holds one row (F,), or several around the moment.
        dataset: where VIDEO@SECONDS is looked up.
        observation: `mean` or `concat`, as the planner was trained.
    """
    if is_file_moment(text):
        if not Path(text).is_file():
            raise PlanError(f"{text} is no file.")
        rows = torch.from_numpy(read_observation(Path(text))).float()
        return rows.flatten() if observation == "concat" else rows.mean(dim=0)
    match = _MOMENT.fullmatch(text)
    if match is None or dataset is None:
        raise PlanError(f"{text!r} is no moment; it is {EXPECTED}.")
    return observe_moments(dataset, [(match["video"], float(match["second"]))], observation)[0]
