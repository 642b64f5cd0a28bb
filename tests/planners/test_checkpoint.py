"""Checkpoint files: what is refused, and with which sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from p3iv.data.folder import Dataset
from p3iv.errors import CheckpointError
from p3iv.planners.baselines.majority import Majority
from p3iv.planners.baselines.retrieval import Retrieval
from p3iv.planners.checkpoint import load_ensemble, load_planner
from p3iv.planners.header import BEST, LAST, PlannerShape, read_header
from p3iv.training.loop import TrainRequest, train
from runs import quick


def header_of(path: Path) -> Any:
    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["p3iv"])


def copy_with(path: Path, copy: Path, **changes: Any) -> Path:
    """A copy of a checkpoint with other entries in its header."""
    save_file(load_file(path), copy, metadata={"p3iv": json.dumps(header_of(path) | changes)})
    return copy


def test_an_unchanged_copy_loads(p3iv_run: Path, tmp_path: Path) -> None:
    copy = copy_with(p3iv_run / BEST, tmp_path / "copy.safetensors")
    assert load_planner(copy).header == load_planner(p3iv_run / BEST).header


def test_a_checkpoint_of_another_format_says_how_to_make_it_again(p3iv_run: Path, tmp_path: Path) -> None:
    old = copy_with(p3iv_run / BEST, tmp_path / "old.safetensors", format=2)
    with pytest.raises(CheckpointError, match=r"checkpoint format 2, .* formats 3 and 4\. Train it again: p3iv train"):
        read_header(old)


def test_a_dataset_folder_is_not_a_run(tabletop: Path) -> None:
    with pytest.raises(CheckpointError, match="tabletop is a dataset folder, not a run"):
        read_header(tabletop / BEST)


def test_a_file_without_a_header_is_not_a_checkpoint(p3iv_run: Path, tmp_path: Path) -> None:
    save_file(load_file(p3iv_run / BEST), tmp_path / "bare.safetensors")
    with pytest.raises(CheckpointError, match="is not a p3iv checkpoint"):
        load_planner(tmp_path / "bare.safetensors")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"names": [f"action {number}" for number in range(90)]}, "has another vocabulary than"),
        ({"data_fingerprint": "x"}, "was trained on other features, windows or another split"),
    ],
)
def test_planners_of_different_data_cannot_form_an_ensemble(
    p3iv_run: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    other = copy_with(p3iv_run / BEST, tmp_path / "other.safetensors", **changes)
    with pytest.raises(CheckpointError, match=rf"{message}.*cannot form an ensemble"):
        load_ensemble([p3iv_run / BEST, other])


REMOVED = object()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("shape.horizon", "three"),
        ("shape.horizon", 10**9),
        ("shape.num_actions", 10**9),
        ("shape.feature_width", 10**9),
        ("shape.target_width", -1),
        ("shape", REMOVED),
        ("names", 3),
        ("names", ["a", "b\x1b[31m"]),
        ("encoder", {"a": [1]}),
        ("data_label", "x\ny"),
        ("config.model.feed_forward", 2**70),
        ("config.model.width", 10**9),
        ("config.model.encoder_hidden", 10**6),
        ("config.model.encoder_hidden", 2**16),
        ("config.model.layers", 10**9),
        ("config.model", "x" * 10**6),
        ("config", REMOVED),
        ("config.planner", "no such planner"),
        ("progress.best", [1]),
        ("progress.selection_score", None),
        ("progress", REMOVED),
        ("format", REMOVED),
        ("format", [[[[3]]]]),
    ],
)
def test_a_damaged_header_is_refused_before_anything_is_built(
    p3iv_run: Path, tmp_path: Path, place: str, value: object
) -> None:
    header = part = header_of(p3iv_run / BEST)
    *path, last = place.split(".")
    for key in path:
        part = part[key]
    part.pop(last) if value is REMOVED else part.update({last: value})
    damaged = tmp_path / "damaged.safetensors"
    save_file(load_file(p3iv_run / BEST), damaged, metadata={"p3iv": json.dumps(header)})
    refuses(damaged)


@pytest.mark.parametrize("text", ["[" * 100_000, "{}", "null", "", "[]", '{"format": 3}', "\0"])
def test_metadata_that_is_not_a_header_is_refused(p3iv_run: Path, tmp_path: Path, text: str) -> None:
    save_file(load_file(p3iv_run / BEST), tmp_path / "x.safetensors", metadata={"p3iv": text})
    refuses(tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("planner.queries", torch.nan, "planner.queries holds values that are not finite"),
        ("transitions.row", torch.inf, "transitions.row holds values that are not finite"),
        ("transitions.row", -1.0, "its transitions are negative"),
        ("transitions.smoothing", None, "has no tensor transitions.smoothing"),
        ("transitions.other", torch.zeros(1), "has an unknown tensor transitions.other"),
        ("planner.queries", torch.zeros(1), "has another shape in its tensor planner.queries"),
        ("planner.queries", torch.zeros(2, 64, dtype=torch.complex64), "not finite"),
    ],
)
def test_tensors_that_cannot_be_those_of_the_planner_are_refused(
    p3iv_run: Path, tmp_path: Path, name: str, value: Any, message: str
) -> None:
    tensors = load_file(p3iv_run / BEST)
    if isinstance(value, float):
        tensors[name] = torch.full_like(tensors[name], value)
    elif value is None:
        del tensors[name]
    else:
        tensors[name] = value
    damaged = tmp_path / "damaged.safetensors"
    save_file(tensors, damaged, metadata={"p3iv": json.dumps(header_of(p3iv_run / BEST))})
    refuses(damaged, message)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("critic_optimizer.0.exp_avg", "critic_optimizer.x.exp_avg"),
        ("critic_optimizer.0.exp_avg", "critic_optimizer.exp_avg"),
        ("critic_optimizer.0.exp_avg", "critic_optimizer.0.other"),
        ("critic_optimizer.0.step", "critic_optimizer.999999999.step"),
        ("critic_optimizer.0.exp_avg", torch.zeros(1)),
        ("critic_optimizer.0.exp_avg_sq", torch.nan),
        ("critic.layers.0.weight", torch.nan),
        ("critic.layers.0.weight", "critic.other"),
    ],
)
def test_a_run_is_not_resumed_from_a_damaged_state(
    dataset: Dataset, p3iv_run: Path, tmp_path: Path, old: str, new: Any
) -> None:
    run = tmp_path / "run"
    shutil.copytree(p3iv_run, run)
    header, tensors = header_of(run / LAST), load_file(run / LAST)
    if isinstance(new, str):
        tensors[new] = tensors.pop(old)
    else:
        tensors[old] = torch.full_like(tensors[old], new) if isinstance(new, float) else new
    save_file(tensors, run / LAST, metadata={"p3iv": json.dumps(header)})
    with pytest.raises(CheckpointError, match=r"state\.safetensors (does not fit|is damaged)") as raised:
        train(TrainRequest(dataset, run, quick(model__width=64, epochs=13), resume=True))
    assert "\n" not in str(raised.value)


def test_tables_of_plans_that_contradict_each_other_are_refused() -> None:
    shape = PlannerShape(horizon=2, num_actions=3, feature_width=1, target_width=1)
    plans, features = torch.tensor([[0, 1], [2, 2]]), torch.zeros(2, 2)
    retrieval = Retrieval(shape, quick())
    for tables in ({"known_plans": plans + 1}, {"known_plans": plans[:1]}, {"known": features[:0]}):
        retrieval.store(**{"known": features, "known_plans": plans, **tables})
        with pytest.raises(ValueError, match=r"table of plans|not as many"):
            retrieval.check_loaded()
    whole = {
        "task_weights": torch.zeros(3, 2),
        "task_plans": plans,
        "plan_counts": torch.ones(2, dtype=torch.int64),
        "first_plan": torch.arange(3),
    }
    majority = Majority(shape, quick())
    majority.store(**whole)
    majority.check_loaded()
    for name, table in {
        "task_plans": plans - 1,
        "plan_counts": whole["plan_counts"] - 1,
        "first_plan": torch.tensor([0, 2, 2]),
        "task_weights": torch.zeros(3, 0),
    }.items():
        majority.store(**{**whole, name: table})
        with pytest.raises(ValueError, match=r"table|procedure"):
            majority.check_loaded()


def refuses(path: Path, message: str = "safetensors") -> None:
    with pytest.raises(CheckpointError, match=message) as raised:
        load_planner(path)
    assert len(str(raised.value)) < 500
    assert "\n" not in str(raised.value)
