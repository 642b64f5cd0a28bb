"""Data and planners for queries of one to four steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import runs
from p3iv.config import Config
from p3iv.data.folder import Dataset
from p3iv.data.tensors import PlanningData, load_planning_data
from p3iv.planners.checkpoint import load_planner
from p3iv.planners.header import BEST
from p3iv.planners.queries.planner import QueryPlanner


def quick(**changes: Any) -> Config:
    """Settings of a small planner of queries that trains for two epochs."""
    return runs.quick("p3iv-plus", **{"data__min_horizon": 1, "data__horizon": 4, **changes})


@pytest.fixture(scope="session")
def lengths_data(dataset: Dataset) -> PlanningData:
    """Windows of one to four steps, with what came before them."""
    return load_planning_data(dataset, quick().data, nearby_s=1, with_history=True)


@pytest.fixture(scope="session")
def planner(query_run: Path) -> QueryPlanner:
    """A trained planner of queries."""
    found = load_planner(query_run / BEST).planner
    assert isinstance(found, QueryPlanner)
    return found
