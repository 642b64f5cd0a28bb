"""What actions change: found where changes add up, scored as the formula says, and not used where they do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from p3iv.data.folder import Dataset
from p3iv.data.tensors import PlanningData, WindowTensors
from p3iv.planner import Planner
from p3iv.planners.checkpoint import load_planner
from p3iv.planners.header import BEST, PlannerShape
from p3iv.planners.plus.network import Effects
from p3iv.planners.plus.planner import WEIGHTS, P3IVPlus, choose_weight, standard_error
from p3iv.plans.chain import RescoredChain, fit_of
from p3iv.training.loop import TrainRequest, train
from planners.plus.conftest import quick


def additive(windows: WindowTensors, effects: Tensor, *, noise: float, seed: int) -> WindowTensors:
    """The same windows, whose goals are what their actions (A, F) make of their starts, and some noise."""
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(windows.start.shape, generator=generator)
    change = effects[windows.action_ids].sum(dim=1) + noise * torch.randn(start.shape, generator=generator)
    return replace(windows, start=start, goal=start + change)


@pytest.fixture(scope="module")
def true_effects(data: PlanningData) -> Tensor:
    width = data.train.start.shape[1]
    return torch.randn(len(data.names), width, generator=torch.Generator().manual_seed(9))


@pytest.fixture(scope="module")
def adding_up(data: PlanningData, true_effects: Tensor) -> PlanningData:
    return replace(
        data,
        train=additive(data.train, true_effects, noise=0.1, seed=0),
        val=additive(data.val, true_effects, noise=0.1, seed=1),
    )


def test_changes_of_new_windows_are_explained_where_they_add_up(adding_up: PlanningData, true_effects: Tensor) -> None:
    effects = Effects(PlannerShape.of(adding_up, quick()))
    effects.fit(adding_up.train)
    new = additive(adding_up.val, true_effects, noise=0.1, seed=2)
    change = (new.goal - new.start) * effects.units - effects.offset
    explained = effects.effects[new.action_ids].sum(dim=1)
    assert (change - explained).square().mean() < 0.2 * (change - change.mean(dim=0)).square().mean()


def test_the_fit_of_a_plan_is_minus_its_squared_distance_in_the_units_of_what_is_left(adding_up: PlanningData) -> None:
    effects, val = Effects(PlannerShape.of(adding_up, quick())).double(), adding_up.val
    effects.fit(adding_up.train)
    plans = torch.randint(len(adding_up.names), (4, 6, 3), generator=torch.Generator().manual_seed(1))
    start, goal = val.start[:4].double(), val.goal[:4].double()
    fit = fit_of(plans.numpy(), *effects.terms(start, goal))
    for window in range(4):
        change = (goal[window] - start[window]) * effects.units - effects.offset
        misfits = [(change - effects.effects[plan].sum(dim=0)).square().sum() for plan in plans[window]]
        np.testing.assert_allclose(fit[window], change.square().sum() - torch.stack(misfits), rtol=1e-7, atol=1e-9)


def test_a_feature_that_nothing_explains_hardly_counts(adding_up: PlanningData) -> None:
    train = adding_up.train
    wild = train.goal.clone()
    wild[:, 0] = 100 * torch.randn(len(wild), generator=torch.Generator().manual_seed(3))
    effects = Effects(PlannerShape.of(adding_up, quick()))
    effects.fit(replace(train, goal=wild))
    sizes = effects.effects.square().sum(dim=0)
    assert sizes[0] < 0.2 * sizes[1:].median()


def untrained(data: PlanningData) -> P3IVPlus:
    torch.manual_seed(0)
    planner = P3IVPlus(PlannerShape.of(data, quick()), quick())
    planner.fit(data)
    return planner


def test_a_weight_is_chosen_where_effects_tell_right_plans_from_wrong_ones(adding_up: PlanningData) -> None:
    planner, val = untrained(adding_up), adding_up.val
    before = planner.chain(val.start, val.goal).best_paths()[0]
    choose_weight(planner, val)
    assert planner.effects.weight.item() in WEIGHTS
    chain = planner.chain(val.start, val.goal)
    assert isinstance(chain, RescoredChain)
    truth = val.action_ids.numpy()
    right, was_right = ((plans == truth).all(axis=1).mean() for plans in (chain.best_paths()[0], before))
    assert right > was_right


def test_no_weight_is_chosen_where_nothing_adds_up(data: PlanningData) -> None:
    none = torch.zeros(len(data.names), data.train.start.shape[1])
    train_windows, val = (additive(side, none, noise=1.0, seed=5 + n) for n, side in enumerate((data.train, data.val)))
    nothing = replace(data, train=train_windows, val=val)
    planner = untrained(nothing)
    planner.effects.weight.fill_(3.0)
    choose_weight(planner, nothing.val)
    assert planner.effects.weight.item() == 0.0
    assert not isinstance(planner.chain(nothing.val.start, nothing.val.goal), RescoredChain)


def test_the_weight_travels_in_the_checkpoint_and_switched_off_there_is_none(dataset: Dataset, tmp_path: Path) -> None:
    for name, is_on in (("on", True), ("off", False)):
        train(TrainRequest(dataset, tmp_path / name, quick(plus__effects=is_on, optim__epochs=4)))
    on, off = (load_planner(tmp_path / name / BEST).planner for name in ("on", "off"))
    assert isinstance(on, P3IVPlus)
    assert isinstance(off, P3IVPlus)
    assert on.effects.weight.item() in WEIGHTS
    assert off.effects.weight.item() == 0.0
    assert not off.effects.effects.any()


def test_probabilities_of_plans_in_words_are_those_of_the_rescored_chain(
    dataset: Dataset, data: PlanningData, tmp_path: Path
) -> None:
    train(TrainRequest(dataset, tmp_path / "run", quick(optim__epochs=4)))
    planner = Planner.from_pretrained(tmp_path / "run")
    start, goal = data.test.start[2], data.test.goal[2]
    found = planner.plan(start, goal, number=60)
    for plan, probability in found.top(60):
        assert planner.probability(start, goal, plan) == pytest.approx(probability, rel=1e-6)
    assert next(planner.plan(start, goal, number=1, num_samples=20).top()) == (found.plan, found.plan_probability)


def test_the_standard_error_is_that_of_sums_over_groups() -> None:
    values, groups = torch.tensor([1.0, 2.0, 6.0, 3.0]).double(), torch.tensor([0, 0, 5, 2])
    apart = [(1 - 3) + (2 - 3), 6 - 3, 3 - 3]
    assert standard_error(values, groups).item() == pytest.approx((sum(a**2 for a in apart) * 3 / 2) ** 0.5 / 4)
    assert standard_error(values, torch.zeros(4, dtype=torch.int64)).item() == float("inf")
