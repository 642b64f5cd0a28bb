"""Small planners on the windows of a small tabletop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from p3iv.config import Config, override, preset_config
from p3iv.data.folder import Dataset, open_dataset
from p3iv.data.tensors import PlanningData, load_planning_data
from p3iv.planners.base import PlannerShape
from p3iv.planners.registry import planner_class

Build = Callable[..., Any]


def quick(planner: str, **changes: Any) -> Config:
    settings = {"planner": planner, "data.split": "release", "model.width": 32, "optim.epochs": 2}
    return override(preset_config("tiny"), settings | {name.replace("__", "."): v for name, v in changes.items()})


@pytest.fixture(scope="session")
def dataset(tabletop: Path) -> Dataset:
    return open_dataset(tabletop)


@pytest.fixture(scope="session")
def data(dataset: Dataset) -> PlanningData:
    return load_planning_data(dataset, quick("p3iv").data, with_steps=True)


@pytest.fixture
def build() -> Build:
    """A planner with random parameters for features of width 6, in evaluation mode."""

    def make(name: str, *, horizon: int = 3, num_actions: int = 4, **changes: Any) -> Any:
        torch.manual_seed(3)
        planner = planner_class(name)(PlannerShape(horizon, num_actions, 6, 1), quick(name, **changes))
        return planner.double().eval()

    return make
