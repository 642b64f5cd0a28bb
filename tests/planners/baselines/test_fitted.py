"""Planners that are fitted at once: each against a literal transcription of what it says it does."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from p3iv.data.tensors import PlanningData, WindowTensors
from p3iv.metrics.plans import score_plans
from p3iv.planners.baselines import retrieval
from p3iv.planners.baselines.retrieval import nearest_plans
from p3iv.planners.header import PlannerShape
from p3iv.planners.registry import planner_class
from p3iv.plans.draws import SampleSettings, uniform_blocks
from p3iv.plans.transitions import Transitions
from runs import quick


def fitted(name: str, data: PlanningData, **changes: Any) -> Any:
    config = quick(name, **changes)
    planner = planner_class(name)(PlannerShape.of(data, config), config)
    planner.fit(data)
    return planner


def cosine(first: Tensor, second: Tensor) -> float:
    a, b = first.numpy(), second.numpy()
    return round(float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b))), 9)


def scales(data: PlanningData) -> list[tuple[Tensor, Tensor]]:
    """Mean and spread of standardised, centred and unchanged features."""
    both = torch.cat((data.train.start, data.train.goal)).double()
    mean, spread, ones = both.mean(dim=0), both.std(dim=0), torch.ones(both.shape[1])
    return [(mean, torch.where(spread > 1e-6, spread, ones)), (mean, ones), (0 * mean, ones)]


def ends(data: PlanningData, side: str, number: int) -> Tensor:
    windows = getattr(data, side)
    return torch.cat((windows.start[number], windows.goal[number]))


def literal_neighbours(
    data: PlanningData, number: int, k: int, scale: tuple[Tensor, Tensor], side: str = "test"
) -> list[tuple[int, ...]]:
    mean, spread = (both.float().double().repeat(2) for both in scale)
    asked = (ends(data, side, number).double() - mean) / spread
    alike = [cosine((ends(data, "train", n).double() - mean) / spread, asked) for n in range(len(data.train))]
    order = sorted(range(len(alike)), key=lambda other: (-alike[other], other))
    return [tuple(data.train.action_ids[other].tolist()) for other in order[:k]]


def test_blocks_do_not_change_the_nearest_plans(data: PlanningData, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = nearest_plans(data, data.train, skip_own_video=True)
    monkeypatch.setattr(retrieval, "_MAX_ELEMENTS", 3 * len(data.train))
    monkeypatch.setattr(retrieval, "_BLOCK", 7)
    assert torch.equal(nearest_plans(data, data.train, skip_own_video=True), whole)


def test_retrieval_is_its_literal_transcription(data: PlanningData) -> None:
    planner = fitted("retrieval", data)
    test = replace(data.test, windows=data.test.windows[:25], start=data.test.start[:25], goal=data.test.goal[:25])
    expected = [literal_neighbours(data, number, 1, scales(data)[0])[0] for number in range(25)]
    found = planner.plan(test.start, test.goal)
    assert [tuple(plan) for plan in found.tolist()] == expected
    assert torch.equal(nearest_plans(data, test), found)
    draws = planner.sampler(SampleSettings(7)).draw(test.start.numpy(), test.goal.numpy())
    assert np.array_equal(draws.plan, found)
    assert (draws.argmax == found[:, None].numpy()).all()


@pytest.mark.parametrize(("num_noisy", "noise", "best"), [(1, 30.0, 0), (300, 0.001, 2)])
def test_retrieval_scales_features_as_is_best_on_validation_windows(
    data: PlanningData, num_noisy: int, noise: float, best: int
) -> None:
    """One loud dimension has to be scaled down; many quiet ones must not be scaled up."""
    generator = torch.Generator().manual_seed(0)

    def change(windows: WindowTensors) -> WindowTensors:
        signal = functional.one_hot(windows.action_ids[:, 0], len(data.names)).float()
        start = torch.cat((signal, noise * torch.randn(len(windows), num_noisy, generator=generator)), dim=1)
        return replace(windows, start=start + 100, goal=start + 100)

    changed = replace(data, train=change(data.train), val=change(data.val), test=change(data.test))
    scores = []
    for scale in scales(changed):
        plans = [literal_neighbours(changed, number, 1, scale, "val")[0] for number in range(len(changed.val))]
        found = score_plans(torch.tensor(plans), changed.val.action_ids)
        scores.append((found.success_rate, found.mean_accuracy))
    assert scores.index(max(scores)) == best
    planner = fitted("retrieval", changed)
    for chosen, expected in zip((planner.feature_mean, planner.feature_scale), scales(changed)[best], strict=True):
        torch.testing.assert_close(chosen, expected.float())


def test_among_windows_that_look_the_same_retrieval_takes_the_first(data: PlanningData) -> None:
    train = data.train
    twice = replace(
        train,
        start=torch.cat((train.start, train.start)),
        goal=torch.cat((train.goal, train.goal)),
        action_ids=torch.cat((train.action_ids, train.action_ids.flip(1))),
    )
    assert torch.equal(nearest_plans(replace(data, train=twice), data.test), nearest_plans(data, data.test))


def test_more_neighbours_are_a_distribution_of_plans(data: PlanningData) -> None:
    planner = fitted("retrieval", data, baseline__neighbours=5)
    draws = planner.sampler(SampleSettings(4000)).draw(data.test.start[:4].numpy(), data.test.goal[:4].numpy())
    for number in range(4):
        plans = Counter(literal_neighbours(data, number, 5, (planner.feature_mean, planner.feature_scale)))
        drawn = Counter(tuple(plan) for plan in draws.argmax[number].tolist())
        assert set(drawn) == set(plans)
        assert all(abs(drawn[plan] / 4000 - count / 5) < 0.04 for plan, count in plans.items())
        assert plans[tuple(draws.plan[number].tolist())] == max(plans.values())
        first = {plan[0] for plan in plans}
        for action in first:
            share = sum(count for plan, count in plans.items() if plan[0] == action) / 5
            assert abs(float(draws.marginals[number, 0, action]) - share) < 1e-12


def test_random_is_its_literal_transcription(data: PlanningData) -> None:
    planner, settings = fitted("random", data, seed=11), SampleSettings(200, seed=4)
    draws = planner.sampler(settings).draw(data.test.start[:3].numpy(), data.test.goal[:3].numpy())
    uniforms = torch.from_numpy(uniform_blocks(settings, "categorical", 3)).float().flatten(0, 1)[:200]
    size = len(data.names)
    for number in range(3):
        pair = ends(data, "test", number).numpy().tobytes()

        def numbers(purpose: str, pair: bytes = pair) -> Tensor:
            digest = hashlib.sha256(f"11/{purpose}/".encode() + pair).digest()
            seed = int.from_bytes(digest[:8], "big") >> 1
            return torch.rand(3, generator=torch.Generator().manual_seed(seed))

        assert draws.plan is not None
        assert draws.plan[number].tolist() == [int(float(u) * size) for u in numbers("plan")]
        shifted = (uniforms + numbers("samples")) % 1.0
        assert draws.argmax[number].tolist() == [[int(float(u) * size) for u in row] for row in shifted]
    assert np.allclose(draws.marginals, 1 / size)


def test_random_plans_are_uniform_over_the_vocabulary(data: PlanningData) -> None:
    planner = fitted("random", data)
    draws = planner.sampler(SampleSettings(20_000)).draw(data.test.start[:1].numpy(), data.test.goal[:1].numpy())
    counts = np.bincount(draws.argmax.ravel(), minlength=len(data.names))
    expected = counts.sum() / len(data.names)
    assert ((counts - expected) ** 2 / expected).sum() < 2 * len(data.names)
    plans = planner.plan(data.test.start, data.test.goal)
    assert len(plans.unique(dim=0)) == len(data.test)  # every pair has its own


def test_majority_is_the_most_frequent_plan_of_the_predicted_procedure(data: PlanningData) -> None:
    planner = fitted("majority", data)
    assert data.train.task_ids is not None
    assert data.test.task_ids is not None
    ranks = planner.predict_task(data.test.start, data.test.goal)
    tasks = data.train.task_ids.unique()[ranks]
    assert (tasks == data.test.task_ids).float().mean() > 0.5
    plans = planner.plan(data.test.start, data.test.goal)
    for task, plan in zip(tasks.tolist(), plans.tolist(), strict=True):
        counts = Counter(map(tuple, data.train.action_ids[data.train.task_ids == task].tolist()))
        best = max(counts.values())
        assert tuple(plan) == min(plan for plan, count in counts.items() if count == best)


def test_graph_takes_the_best_of_all_paths_between_its_ends(data: PlanningData) -> None:
    planner = fitted("graph", data)
    plans = data.train.action_ids.tolist()
    row = Transitions.fit(data.train_sequences, data.val_sequences, plans, len(data.names)).row
    first_last = planner.predict_ends(data.test.start[:6], data.test.goal[:6])
    found = planner.plan(data.test.start[:6], data.test.goal[:6])
    for (first, last), plan in zip(first_last.tolist(), found.tolist(), strict=True):
        scores = [float(row[first, middle] * row[middle, last]) for middle in range(len(data.names))]
        assert (plan[0], plan[2]) == (first, last)
        assert scores[plan[1]] == max(scores)
    assert (first_last[:, 0] == data.test.action_ids[:6, 0]).float().mean() >= 0.5
    drawn = planner.sampler(SampleSettings(50)).draw(data.test.start[:6].numpy(), data.test.goal[:6].numpy())
    assert (drawn.categorical[:, :, (0, -1)] == first_last[:, None].numpy()).all()
