from __future__ import annotations

import pytest
import torch

from p3iv.data.tensors import PlanningData
from p3iv.planners.base import Batch

NUM_WINDOWS = 12


@pytest.fixture(scope="session")
def batch(data: PlanningData) -> Batch:
    """Training windows of several procedures, with the rows that say which."""
    rows = torch.linspace(0, len(data.train) - 1, NUM_WINDOWS).long()
    train = data.train
    return Batch(train.start[rows], train.goal[rows], train.action_ids[rows], rows=rows)
