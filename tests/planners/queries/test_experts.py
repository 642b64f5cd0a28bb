"""The closed-form parts are ridge regressions, and the scores that training sees are those without a window's video."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from p3iv.data.tensors import PlanningData
from p3iv.planners.queries.experts import (
    RIDGE_PENALTIES,
    Examples,
    Experts,
    HeldOutScores,
    LinearScores,
    MomentRows,
    Projection,
)


@pytest.fixture(scope="module")
def fitted(lengths_data: PlanningData) -> tuple[Experts, HeldOutScores]:
    data = lengths_data
    experts = Experts(data.train.start.shape[1], len(data.names), len(data.procedures), (1, 2, 3, 4))
    return experts, experts.fit(data)


def test_every_window_finds_its_two_moments(lengths_data: PlanningData) -> None:
    train = lengths_data.train
    moments = MomentRows.of(train)
    assert torch.equal(moments.shortest.start[moments.start_row], train.start)
    assert torch.equal(moments.shortest.goal[moments.goal_row], train.goal)
    for row, window in enumerate(train.windows):
        following = moments.following[moments.start_row[row]].tolist()
        assert tuple(following[: len(window.action_ids)]) == window.action_ids


def test_the_axes_are_those_of_the_largest_variance() -> None:
    rows = torch.randn(200, 6, generator=torch.Generator().manual_seed(0)) * torch.tensor([1, 9, 2, 7, 3, 5.0])
    projection = Projection(6)
    projection.fit(rows)
    spread = projection(rows).std(dim=0)
    assert spread.tolist() == sorted(spread.tolist(), reverse=True)
    torch.testing.assert_close(projection(rows).mean(dim=0), torch.zeros(6), atol=1e-4, rtol=0)
    torch.testing.assert_close(projection(rows).square().sum(), (rows - rows.mean(dim=0)).square().sum())


def test_held_out_scores_are_those_of_a_fit_without_the_video() -> None:
    generator = torch.Generator().manual_seed(1)
    rows, groups = torch.randn(30, 5, generator=generator), torch.arange(30) // 6
    ids = torch.randint(4, (30, 2), generator=generator)
    ids[::7, 1] = -1
    path = LinearScores(5, 2, 4)
    held_out = path.fit(
        [Examples(rows[:20], groups[:20], ids[:20]), Examples(rows[20:], groups[20:], ids[20:])], (0, 1)
    )
    assert len(held_out) == 20  # the second examples are learned from, and not scored
    inputs = functional.normalize(rows, dim=1).double()
    for place in range(2):
        targets = functional.one_hot(ids[:, place].clamp_min(0), 4).double() * (ids[:, place] >= 0)[:, None]
        weights = path.weights[place].double()
        residual = inputs.T @ (targets - inputs @ weights)  # of ridge: penalty * weights
        penalty = float((residual * weights).sum() / weights.square().sum())
        for group in groups.unique():
            kept = groups != group
            square = inputs[kept].T @ inputs[kept] + penalty * torch.eye(5)
            without = torch.linalg.solve(square, inputs[kept].T @ targets[kept])
            scored = ~kept[:20]
            expected = inputs[:20][scored] @ without
            torch.testing.assert_close(held_out[scored, place].double(), expected, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("lengths", [(1,), (2, 3, 4)])
def test_the_ends_of_all_lengths_are_one_regression(lengths_data: PlanningData, lengths: tuple[int, ...]) -> None:
    """The first and the last step of two steps or more; windows of one step have a regression of their own."""
    data = replace(lengths_data, train=replace(lengths_data.train, nearby=None))  # every pair at one moment
    experts, train = Experts(data.train.start.shape[1], len(data.names), len(data.procedures), (1, 2, 3, 4)), data.train
    experts.fit(data)
    rows = torch.isin(train.lengths, torch.tensor(lengths)).nonzero()[:, 0]
    pairs = torch.cat((experts.projection(train.start[rows]), experts.projection(train.goal[rows])), dim=1)
    inputs = experts.pair.inputs(pairs).double()
    square = inputs.T @ inputs
    for place in (0, -1):
        ids = [train.windows[row].action_ids[place] for row in rows.tolist()]
        targets = functional.one_hot(torch.tensor(ids), len(data.names)).double()
        fits = [
            torch.linalg.solve(square + penalty * torch.eye(len(square)), inputs.T @ targets)
            for penalty in RIDGE_PENALTIES
        ]
        for horizon in lengths:
            found = experts.pair.weights[experts.first_of[horizon] + place % horizon].double()
            assert min(float((fit - found).abs().max()) for fit in fits) < 1e-4


def test_usage_leaves_out_the_own_video(fitted: tuple[Experts, HeldOutScores]) -> None:
    experts, _ = fitted
    own = torch.tensor([0, 1])
    counts = torch.minimum(experts.counts[own], torch.ones(()))
    procedure = functional.one_hot(own, len(experts.counts)).float()
    left = experts.counts[own] - counts + 0.1
    expected = (left / left.sum(dim=1, keepdim=True)).log()
    torch.testing.assert_close(experts.log_usage(procedure, counts, own), expected)


def test_counts_are_those_of_the_training_videos(
    fitted: tuple[Experts, HeldOutScores], lengths_data: PlanningData
) -> None:
    total = sum(len(ids) for ids in lengths_data.train_sequences)
    assert int(fitted[0].counts.sum()) == total


def test_scores_of_every_length_are_fitted(fitted: tuple[Experts, HeldOutScores], lengths_data: PlanningData) -> None:
    experts, held_out = fitted
    train = lengths_data.train
    for horizon, scores in held_out.pair.items():
        windows, rows = train.of_length(horizon)
        assert scores.shape == (len(windows), horizon, len(lengths_data.names))
        assert torch.equal(held_out.place[rows], torch.arange(len(rows)))
        right = (scores.argmax(dim=2) == windows.action_ids).float().mean()
        assert right > 0.3  # far above chance, without the own video
    assert experts.score_lengths(train.start, train.goal).shape == (len(train), 4)
