"""How much nearness to the goal counts in a search: chosen on validation windows, kept, and used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from p3iv.data.folder import Dataset
from p3iv.data.tensors import PlanningData
from p3iv.planners.baselines import autoregressive as searching
from p3iv.planners.baselines.autoregressive import WEIGHTS, Searching
from p3iv.planners.checkpoint import load_planner
from p3iv.planners.header import BEST, PlannerShape
from p3iv.planners.registry import planner_class
from p3iv.training.loop import TrainRequest, train
from runs import quick


def untrained(name: str, data: PlanningData, **changes: Any) -> Searching:
    config = quick(name, **changes)
    torch.manual_seed(0)
    planner = planner_class(name)(PlannerShape.of(data, config), config).eval()
    assert isinstance(planner, Searching)
    planner.fit(data)
    return planner


@torch.no_grad()
def plans_at(planner: Searching, data: PlanningData, weight: float) -> Tensor:
    planner.goal_weight.fill_(weight)
    return planner.plan(data.val.start, data.val.goal)


@pytest.mark.parametrize("name", ["ddn", "plate"])
def test_the_weight_that_is_best_on_validation_windows_is_chosen(name: str, data: PlanningData) -> None:
    planner, chosen = untrained(name, data), set()
    for weight in WEIGHTS:
        plans = plans_at(planner, data, weight)
        planner.calibrate(replace(data, val=replace(data.val, action_ids=plans)))
        chosen.add(float(planner.goal_weight))
        assert torch.equal(plans_at(planner, data, float(planner.goal_weight)), plans)
    assert len(chosen) > 2


def test_the_choice_uses_a_limited_number_of_windows(data: PlanningData, monkeypatch: pytest.MonkeyPatch) -> None:
    planner = untrained("ddn", data)
    monkeypatch.setattr(searching, "MAX_WINDOWS", 5)
    wanted = torch.randperm(len(data.val), generator=torch.Generator().manual_seed(0))[:5]
    ids = plans_at(planner, data, 0.0)
    ids[wanted] = plans_at(planner, data, 300.0)[wanted]
    planner.calibrate(replace(data, val=replace(data.val, action_ids=ids)))
    assert float(planner.goal_weight) > 0


def test_a_weight_that_is_given_stays_and_is_kept_by_the_configuration_alone(data: PlanningData) -> None:
    planner = untrained("ddn", data, baseline__goal_weight=5.0)
    planner.calibrate(data)
    assert float(planner.goal_weight) == 5.0
    assert "goal_weight" not in planner.state_dict()


def test_the_chosen_weight_travels_with_a_planner_and_decides_its_plans(
    dataset: Dataset, data: PlanningData, tmp_path: Path
) -> None:
    train(TrainRequest(dataset, tmp_path / "run", quick("ddn", optim__epochs=4)))
    trained = load_planner(tmp_path / "run" / BEST)
    planner = trained.planner
    assert isinstance(planner, Searching)
    weight = float(planner.goal_weight)
    assert weight == float(load_file(tmp_path / "run" / BEST)["planner.goal_weight"]) > 0
    with torch.no_grad():
        plans = planner.recommend(data.val.start, data.val.goal, trained.transitions)
    assert torch.equal(plans, plans_at(planner, data, weight))
    assert not torch.equal(plans, plans_at(planner, data, 0.0))
