"""The windows of a small tabletop, and a small P3IV+."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from p3iv.config import Config, override, preset_config
from p3iv.data.folder import Dataset, open_dataset
from p3iv.data.tensors import PlanningData, load_planning_data
from p3iv.planners.base import Batch


def quick(**changes: Any) -> Config:
    """Small and short, with the tabletop's own split."""
    sizes = {"model.width": 32, "model.heads": 4, "model.feed_forward": 64, "model.memory_slots": 8}
    settings = {"planner": "p3iv-plus", "data.split": "release", "optim.epochs": 2, **sizes}
    return override(preset_config("p3iv-plus"), settings | {n.replace("__", "."): v for n, v in changes.items()})


def batch(data: PlanningData, rows: Tensor) -> Batch:
    """Rows of the training windows as the loop hands them out."""
    train = data.train
    return Batch(train.start[rows], train.goal[rows], train.action_ids[rows], rows=rows)


@pytest.fixture(scope="session")
def dataset(tabletop: Path) -> Dataset:
    return open_dataset(tabletop)


@pytest.fixture(scope="session")
def data(dataset: Dataset) -> PlanningData:
    return load_planning_data(dataset, quick().data, nearby_s=quick().plus.nearby)
