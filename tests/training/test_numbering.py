"""Test videos change neither the numbers of the actions nor a trained planner."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from torch import Tensor

from p3iv.config import Config
from p3iv.data.folder import Dataset, open_dataset
from p3iv.data.tensors import load_planning_data
from p3iv.evaluation.evaluate import EvaluationRequest, evaluate
from p3iv.planners.header import BEST
from p3iv.plans.draws import SampleSettings
from p3iv.training.loop import TrainRequest, train
from runs import quick

NEW = "a step of some test videos"  # alphabetically the first of all


def make_variant(tabletop: Path, folder: Path, *, with_new: bool) -> Dataset:
    """A copy without step embeddings, with or without test videos that have a new step."""
    folder.mkdir()
    shutil.copytree(tabletop / "features", folder / "features")
    shutil.copy(tabletop / "dataset.yaml", folder)
    split = json.loads((tabletop / "split.json").read_text())
    new = set(split["test"][::2])
    split["test"] = [video for video in split["test"] if with_new or video not in new]
    (folder / "split.json").write_text(json.dumps(split))
    with (tabletop / "steps.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    changed = [
        [video, task, NEW if number % 3 == 0 else step, *rest]
        for number, (video, task, step, *rest) in enumerate(row for row in rows if row[0] in new)
    ]
    kept = [row for row in rows if row[0] not in new]
    with (folder / "steps.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, *(changed if with_new else []), *kept])
    return open_dataset(folder)


@pytest.fixture
def without(tabletop: Path, tmp_path: Path) -> Dataset:
    return make_variant(tabletop, tmp_path / "without", with_new=False)


@pytest.fixture
def with_new(tabletop: Path, tmp_path: Path) -> Dataset:
    return make_variant(tabletop, tmp_path / "with", with_new=True)


NO_LANGUAGE: dict[str, Any] = {"loss__language": 0, "loss__adversarial": 0}
P3IV, PLUS = quick(epochs=1, **NO_LANGUAGE), quick("p3iv-plus", epochs=1, plus__end_heads=False, **NO_LANGUAGE)


def trained_tensors(dataset: Dataset, config: Config) -> dict[str, Tensor]:
    run = dataset.folder.with_name(f"run-{dataset.folder.name}")
    train(TrainRequest(dataset, run, config))
    return load_file(run / BEST)


@pytest.mark.parametrize("config", [P3IV, PLUS, quick("graph")], ids=lambda config: config.planner)
def test_test_videos_do_not_change_a_planner(without: Dataset, with_new: Dataset, config: Config) -> None:
    one, other = (trained_tensors(dataset, config) for dataset in (without, with_new))
    assert one.keys() == other.keys()
    assert all(one[name].equal(other[name]) for name in one)


def test_steps_of_test_videos_only_are_listed_and_count_as_wrong(
    without: Dataset, with_new: Dataset, tmp_path: Path
) -> None:
    before, data = (load_planning_data(dataset, PLUS.data) for dataset in (without, with_new))
    assert data.names == before.names
    assert data.train.action_ids.equal(before.train.action_ids)
    unknown = data.vocabulary.id_of[NEW]
    assert unknown >= data.num_known
    num_wrong = int((data.test.action_ids == unknown).any(dim=1).sum())
    train(TrainRequest(with_new, tmp_path / "run", PLUS))
    found = evaluate(EvaluationRequest(tmp_path / "run", settings=SampleSettings(20)))
    what = r"test windows contain steps \(2 different ones\) that no training video has, so planners cannot learn them"
    assert any(re.search(rf"{what}: {NEW}, ", note) for note in found.notes)
    names = tuple(name for name in data.vocabulary.names if name != NEW)
    elsewhere = load_planning_data(with_new, PLUS.data, names=names, trained_on="other data")
    windows = f"{num_wrong} of {len(data.test)} test windows contain a step"
    assert f"{windows} that the planner does not know, so it cannot plan it: {NEW}" in elsewhere.notes
    assert found.decoders["own"]["success_rate"].value <= 1 - num_wrong / len(data.test)
    assert found.distribution["exact_nll"].value < 100
    assert json.loads((tmp_path / "run" / "actions.json").read_text())[unknown] == NEW
