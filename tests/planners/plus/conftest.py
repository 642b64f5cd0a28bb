"""Settings and batches of a small P3IV+."""

from __future__ import annotations

from typing import Any

from torch import Tensor

import runs
from p3iv.config import Config
from p3iv.data.tensors import PlanningData
from p3iv.planners.base import Batch


def quick(**changes: Any) -> Config:
    """Settings of a small P3IV+ that trains for two epochs on the tabletop's own split."""
    return runs.quick("p3iv-plus", **changes)


def batch(data: PlanningData, rows: Tensor) -> Batch:
    """Rows of the training windows as the loop hands them out."""
    train = data.train
    return Batch(train.start[rows], train.goal[rows], train.action_ids[rows], rows=rows)
