"""Every planner of the registry through training, evaluation, the report and `Planner`."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from commands import RunP3iv
from p3iv.catalogue import PRESETS
from p3iv.config import BaselineConfig, SuccessorConfig, setting_names
from p3iv.data.folder import Dataset
from p3iv.data.tensors import PlanningData
from p3iv.errors import ConfigError, DatasetError
from p3iv.evaluation.evaluate import EvaluationRequest, evaluate
from p3iv.planner import Planner
from p3iv.planners.base import BasePlanner, Batch
from p3iv.planners.checkpoint import load_planner
from p3iv.planners.header import BEST, LAST, PlannerShape
from p3iv.planners.registry import PLANNERS, planner_class
from p3iv.plans.draws import SampleSettings
from p3iv.report.write import write_report
from p3iv.training.loop import TrainRequest, train
from p3iv.types import Progress
from runs import quick

LEARNED = ("wltdo", "uaaa", "upn", "ddn", "plate", "ext-gail", "ext-gail-no-aug", "schema", "viterbi-plan-net")
CHAINS = ("p3iv", "p3iv-plus", "schema", "viterbi-plan-net")


@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_trains_evaluates_and_plans(
    name: str, dataset: Dataset, data: PlanningData, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    result = train(TrainRequest(dataset, run, quick(name)))
    assert result.epochs == (2 if name in ("p3iv", "p3iv-plus", *LEARNED) else 1)
    found = evaluate(EvaluationRequest(run, settings=SampleSettings(20)))
    assert (found.planner, found.decoder) == (name, "viterbi" if name == "p3iv" else "own")
    line = json.loads((run / "predictions.jsonl").read_text().splitlines()[0])
    assert len(line["plan"]) == 3
    assert sum(count for _, count in line["samples"]) == 20
    write_report(run)
    assert name in (run / "README.md").read_text()

    planner = Planner.from_pretrained(run)
    start, goal = data.test.start[:4], data.test.goal[:4]
    together = planner.plan_many(start, goal, num_samples=30)
    assert planner.plan(start[2], goal[2], num_samples=30) == together[2]
    assert line["plan"] == list(together[0].plan)
    assert together[0].source == ("chain" if name in CHAINS else "samples")
    for steps, probability in planner.plan(start[0], goal[0]).top(3):
        assert planner.probability(start[0], goal[0], steps) == pytest.approx(probability)


@pytest.mark.parametrize("name", [name for name in PLANNERS if name != "p3iv"])
def test_neither_the_batch_nor_the_number_of_samples_changes_a_pair_s_plans(name: str, data: PlanningData) -> None:
    config = quick(name)
    torch.manual_seed(0)
    planner = planner_class(name)(PlannerShape.of(data, config), config)
    planner.fit(data)
    few, many = (planner.sampler(SampleSettings(number)) for number in (40, 400))
    start, goal = data.test.start.numpy(), data.test.goal.numpy()
    together = many.draw(start[:5], goal[:5])
    alone = many.draw(start[3:4], goal[3:4])
    fewer = few.draw(start[3:4], goal[3:4])
    for part in ("marginals", "argmax", "categorical", "plan"):
        assert np.array_equal(getattr(together, part)[3:4], getattr(alone, part))
    for part in ("argmax", "categorical"):
        assert np.array_equal(getattr(alone, part)[:, :40], getattr(fewer, part))
    assert np.allclose(alone.marginals.sum(axis=-1), 1)
    with pytest.raises(ConfigError, match=f"planner={name} has none"):
        planner.sampler(SampleSettings(4, input_noise=0.1))


@pytest.mark.parametrize("name", [name for name in PLANNERS if name != "p3iv-plus"])
def test_every_planner_names_in_its_file_the_settings_of_its_section_that_it_reads(
    name: str, data: PlanningData
) -> None:
    read = set()

    class Watched:
        def __getattribute__(self, key: str) -> Any:
            if not key.startswith("__"):
                section = "baseline" if isinstance(self, BaselineConfig) else "successor"
                read.add(f"{section}.{key}")
            return super().__getattribute__(key)

    class WatchedBaseline(Watched, BaselineConfig):
        pass

    class WatchedSuccessor(Watched, SuccessorConfig):
        pass

    config = replace(quick(name), baseline=WatchedBaseline(), successor=WatchedSuccessor())
    read.clear()  # what the settings check in themselves
    planner = planner_class(name)(PlannerShape.of(data, config), config)
    planner.fit(data)
    planner.calibrate(data)
    planner.sampler(SampleSettings(2)).draw(data.test.start[:2].numpy(), data.test.goal[:2].numpy())
    assert read == set(planner.own_settings)
    about = sys.modules[type(planner).__module__].__doc__ or ""
    assert all(f"`{setting}`" in about for setting in read)


def test_no_two_planners_are_described_alike() -> None:
    lines = [planner_class(name).describe(quick(name)) for name in PLANNERS]
    assert len(set(lines)) == len(lines)


def test_an_unknown_planner_is_refused_with_those_there_are(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"planner='pdpp', but it must be one of p3iv, p3iv-plus, random, .*ext-gail"):
        train(TrainRequest(dataset, tmp_path / "run", replace(quick("p3iv"), planner="pdpp")))
    assert not (tmp_path / "run").exists()


class Stop(Exception):  # noqa: N818 - not an error: the tests' way to interrupt
    pass


def stop_after_one(at: Progress) -> None:
    if at.done == 1 and "val_success_rate" in at.values:
        raise Stop


@pytest.mark.parametrize("name", ["ext-gail", "upn", "p3iv-plus", "schema", "viterbi-plan-net"])
def test_a_resumed_run_ends_bit_for_bit_where_an_uninterrupted_one_ends(
    name: str, dataset: Dataset, tmp_path: Path
) -> None:
    config = quick(name, optim__epochs=3)
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    train(TrainRequest(dataset, whole, config))
    with pytest.raises(Stop):
        train(TrainRequest(dataset, halves, config, on_progress=stop_after_one))
    torch.manual_seed(123)
    train(TrainRequest(dataset, halves, config, resume=True))
    for path in (LAST, BEST):
        first, second = load_file(whole / path), load_file(halves / path)
        assert first.keys() == second.keys()
        assert all(torch.equal(first[key], second[key]) for key in first)


def test_a_fitted_planner_is_what_was_saved_and_resuming_it_does_nothing(dataset: Dataset, tmp_path: Path) -> None:
    for name in ("retrieval", "majority"):
        train(TrainRequest(dataset, tmp_path / name, quick(name)))
        before = (tmp_path / name / BEST).read_bytes()
        assert train(TrainRequest(dataset, tmp_path / name, quick(name), resume=True)).epochs == 1
        assert (tmp_path / name / BEST).read_bytes() == before
        trained = load_planner(tmp_path / name / BEST)
        assert all(
            torch.equal(v, load_file(tmp_path / name / BEST)[f"planner.{k}"])
            for k, v in trained.planner.state_dict().items()
        )


def test_a_dataset_without_times_of_steps_is_refused(dataset: Dataset, tmp_path: Path) -> None:
    untimed = tuple(
        replace(video, steps=tuple(replace(step, start_s=None, end_s=None) for step in video.steps))
        for video in dataset.videos
    )
    with pytest.raises(DatasetError, match=r"has no times of its steps.*steps\.csv.*--planner p3iv"):
        train(TrainRequest(replace(dataset, videos=untimed), tmp_path / "run", quick("ddn")))


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNED)
def test_every_learned_planner_can_fit_64_windows(name: str, data: PlanningData) -> None:
    config = quick(name, model__width=64, successor__input_dropout=0.0)
    torch.manual_seed(0)
    planner = planner_class(name)(PlannerShape.of(data, config), config)
    planner.fit(data)
    learner = planner.make_learner(data, lambda _: None)
    train_ = data.train
    assert train_.steps is not None
    few = slice(0, 64)
    best = 0.0
    for step in range(1, 501):
        batch = Batch(
            train_.start[few], train_.goal[few], train_.action_ids[few], steps=train_.steps[few], rows=torch.arange(64)
        )
        learner.train_step(batch)
        if step % 20 == 0:
            planner.eval()
            with torch.no_grad():
                plans = planner.plan(train_.start[few], train_.goal[few])
            assert plans is not None
            best = max(best, float((plans == train_.action_ids[few]).all(dim=1).double().mean()))
            if best == 1.0:
                break
    assert best >= {"upn": 0.8, "schema": 0.95}.get(name, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNED)
def test_every_learned_planner_is_ten_times_as_accurate_as_random_on_held_out_windows(
    name: str, dataset: Dataset, data: PlanningData, tmp_path: Path
) -> None:
    epochs = {"plate": 9, "schema": 36}.get(name, 18)
    train(TrainRequest(dataset, tmp_path / "run", quick(name, model__width=64, optim__epochs=epochs)))
    trained = load_planner(tmp_path / "run" / BEST)
    with torch.no_grad():
        plans = trained.planner.recommend(data.test.start, data.test.goal, trained.transitions)
    accuracy = float((plans == data.test.action_ids).double().mean())
    assert accuracy >= 10 / len(data.names)


@pytest.mark.parametrize(
    ("planner", "setting", "read"),
    [
        ("wltdo", "baseline.beam=5", "baseline.temperature"),
        ("p3iv", "plus.chain=false", "none"),
        ("viterbi-plan-net", "loss.language=1", "successor.input_dropout, successor.transition_floor"),
        ("p3iv-plus", "baseline.beam=3", r"plus\.\*"),
        ("p3iv-plus", "optim.decay=0.5", r"plus\.\*"),
        ("p3iv-plus", "loss.action=2", r"plus\.\*"),
    ],
)
def test_a_setting_that_a_planner_does_not_read_is_refused(
    planner: str, setting: str, read: str, tabletop: Path, p3iv: RunP3iv
) -> None:
    result = p3iv("train", tabletop, "--out", "run", "--planner", planner, "--set", setting)
    assert result.returncode == 1
    name = setting.partition("=")[0]
    assert re.search(rf"Planner {planner} does not use {name}\. Settings of its own: {read}\.", result.stderr)


@pytest.mark.parametrize(("setting", "option"), [("planner=p3iv-plus", "--planner"), ("preset=tiny", "--preset")])
def test_planner_and_preset_are_options_and_not_settings(
    setting: str, option: str, tabletop: Path, p3iv: RunP3iv
) -> None:
    result = p3iv("train", tabletop, "--out", "run", "--set", setting)
    assert result.returncode == 1
    name, _, value = setting.partition("=")
    assert f"--set {setting}, but {name} has its own option: {option} {value}." in result.stderr


def test_every_name_of_the_registry_is_a_planner_with_a_preset_and_known_settings() -> None:
    for name in PLANNERS:
        found = planner_class(name)
        assert issubclass(found, BasePlanner)
        assert found.preset in PRESETS
        assert all(any(known.startswith(own) for known in setting_names()) for own in found.own_settings)
