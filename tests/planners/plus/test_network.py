"""Pairs of neighbouring horizons are the windows that would be cut at those horizons."""

from __future__ import annotations

import torch

from p3iv.data.folder import Dataset
from p3iv.data.tensors import PlanningData, load_planning_data
from p3iv.planners.plus.network import pair_ends, video_numbers
from planners.plus.conftest import quick


def test_pairs_of_a_longer_horizon_are_its_windows(data: PlanningData, dataset: Dataset) -> None:
    train, longer = data.train, load_planning_data(dataset, quick(data__horizon=5).data).train
    pairs = pair_ends(train, (2,))
    start, goal = pairs.start[pairs.num_windows :], pairs.goal[pairs.num_windows :]
    assert len(start) == len(longer)
    assert torch.equal(train.start[start], longer.start)
    assert torch.equal(train.goal[goal], longer.goal)
    assert torch.equal(train.action_ids[start, 0], longer.action_ids[:, 0])
    assert torch.equal(train.action_ids[goal, -1], longer.action_ids[:, -1])


def test_shorter_windows_are_those_inside_others(data: PlanningData, dataset: Dataset) -> None:
    train, shorter = data.train, load_planning_data(dataset, quick(data__horizon=2).data).train
    pairs = pair_ends(train, (-1,))
    seen = {tuple(row) for row in torch.cat((shorter.start, shorter.goal), dim=1).tolist()}
    rows = slice(pairs.num_windows, None)
    found = torch.cat((train.start[pairs.start[rows]], train.goal[pairs.goal[rows]]), dim=1)
    videos = len({window.video for window in train.windows})
    assert len(found) == len(train) - videos  # but for the first and the last of every video
    assert {tuple(row) for row in found.tolist()} <= seen


def test_the_windows_come_first_and_pairs_stay_in_their_video(data: PlanningData) -> None:
    pairs, video = pair_ends(data.train), video_numbers(data.train)
    own = torch.arange(len(data.train))
    assert torch.equal(pairs.start[: len(own)], own)
    assert torch.equal(pairs.goal[: len(own)], own)
    assert torch.equal(video[pairs.start], video[pairs.goal])
    assert torch.equal(pairs.groups, video[pairs.start])
