from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from p3iv.baselines import nearest_plans
from p3iv.config import DataConfig
from p3iv.dataset import Dataset, open_dataset
from p3iv.errors import DatasetError
from p3iv.observations import load_planning_data

RELEASE = DataConfig(split="release")


@pytest.fixture(scope="module")
def dataset(tabletop: Path) -> Dataset:
    return open_dataset(tabletop)


def test_observations_are_the_three_seconds_around_a_moment(dataset: Dataset) -> None:
    data = load_planning_data(dataset, RELEASE)
    side_by_side = load_planning_data(dataset, replace(RELEASE, observation="concat"))
    assert dataset.features is not None
    for number in (0, 7, len(data.train) - 1):
        window = data.train.windows[number]
        rows = dataset.features.rows(window.video).astype(np.float32)
        for observed, wide, moment in (
            (data.train.start, side_by_side.train.start, window.start_s),
            (data.train.goal, side_by_side.train.goal, window.goal_s),
        ):
            assert moment is not None
            near = [min(max(int(moment) + shift, 0), len(rows) - 1) for shift in (-1, 0, 1)]
            assert np.allclose(observed[number].numpy(), rows[near].mean(axis=0), atol=1e-6)
            assert np.array_equal(wide[number].numpy(), rows[near].reshape(-1))


def test_steps_are_seen_where_they_start(dataset: Dataset) -> None:
    data = load_planning_data(dataset, RELEASE, with_steps=True)
    assert data.train.steps is not None
    assert torch.equal(data.train.steps[:, 0], data.train.start)


def test_windows_of_videos_without_features_are_left_out_and_said(dataset: Dataset) -> None:
    blind = replace(dataset.videos[0], id="blind")
    assert dataset.split is not None
    split = replace(dataset.split, train=(*dataset.split.train, "blind"))
    data = load_planning_data(replace(dataset, videos=(*dataset.videos, blind), split=split), RELEASE)
    assert "blind" not in {window.video for window in data.train.windows}
    assert any("blind" in note for note in data.notes)


def test_a_dataset_without_features_says_how_to_get_some(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="p3iv data simulate"):
        load_planning_data(replace(dataset, folder=tmp_path), RELEASE)


def test_retrieval_equals_a_plain_search_and_finds_what_it_knows(dataset: Dataset) -> None:
    data = load_planning_data(dataset, RELEASE)
    assert torch.equal(nearest_plans(data.train, data.train), data.train.action_ids)
    known = torch.cat((data.train.start, data.train.goal), dim=1).double()
    for number in range(0, len(data.test), 17):
        asked = torch.cat((data.test.start[number], data.test.goal[number])).double()
        cosines = [float(asked @ row / asked.norm() / row.norm()) for row in known]
        best = int(np.argmax(cosines))
        assert torch.equal(nearest_plans(data.train, data.test)[number], data.train.action_ids[best])
