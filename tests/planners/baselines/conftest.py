"""Small planners with random parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from p3iv.planners.header import PlannerShape
from p3iv.planners.registry import planner_class
from runs import quick

Build = Callable[..., Any]


@pytest.fixture
def build() -> Build:
    """A planner with random parameters for features of width 6, in evaluation mode."""

    def make(name: str, *, horizon: int = 3, num_actions: int = 4, **changes: Any) -> Any:
        torch.manual_seed(3)
        planner = planner_class(name)(PlannerShape(horizon, num_actions, 6, 1), quick(name, **changes))
        return planner.double().eval()

    return make
