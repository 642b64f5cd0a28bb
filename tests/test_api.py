"""The functions do what the commands do, to the last bit; they report progress, and can be stopped."""

from __future__ import annotations

import hashlib
import inspect
import json
import shutil
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import p3iv
from commands import run_in_process
from p3iv.cli import check, compare, evaluate, extract, report, score, train
from p3iv.cli import data as data_commands
from p3iv.data.folder import open_dataset
from p3iv.data.tensors import PlanningData
from p3iv.errors import ConfigError
from p3iv.planners.header import BEST, LAST
from p3iv.training.loop import TrainResult

SMALL: Mapping[str, object] = {"optim.epochs": 2, "model.width": 32, "loss.latents": 3}
SET = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]


def ignore(_: object) -> None:
    """Notes about so little data are not what is tested."""


def train_small(data: Path, out: Path, **options: Any) -> TrainResult:
    arguments: dict[str, Any] = {"preset": "tiny", "split": "release", "settings": SMALL, "on_note": ignore}
    return p3iv.train(data, out, **(arguments | options))


def content_of(folder: Path) -> dict[str, str]:
    """The files of a folder and their hashes."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


COMMANDS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "train": (train.train_command, p3iv.train),
    "evaluate": (evaluate.evaluate_command, p3iv.evaluate),
    "report": (report.report_command, p3iv.write_report),
    "score": (score.score_command, p3iv.score),
    "compare": (compare.compare_command, p3iv.compare),
    "extract": (extract.extract_command, p3iv.extract),
    "align": (extract.align_command, p3iv.align),
    "make_tabletop": (data_commands.make_tabletop_command, p3iv.make_tabletop),
    "import_dataset": (data_commands.import_command, p3iv.import_dataset),
    "simulate": (data_commands.simulate_command, p3iv.simulate),
    "check": (check.check_command, p3iv.check),
    "stats": (data_commands.stats_command, p3iv.stats),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_options_and_arguments_have_the_same_names_and_defaults(name: str) -> None:
    command, function = (inspect.signature(each).parameters for each in COMMANDS[name])
    renamed = {"folder": "data", "target": "out", "sources": "source", "form": "format"}
    renamed |= {"run": "out"} if name == "train" else {}
    options = {renamed.get(option, option): each.default for option, each in command.items() if option != "as_json"}
    arguments = {argument: each.default for argument, each in function.items()}
    only = {"progress", "on_note", "command"}
    if name == "import_dataset":  # `data import annotations` is a function of its own
        files = inspect.signature(p3iv.import_annotations).parameters
        arguments |= {argument: each.default for argument, each in files.items() if argument != "files"}
    # --sheet draws, --list-settings prints, --follow is `p3iv.evaluate_following`, and check --fix is `p3iv.repair`
    assert set(options) - {"sheet", "list_settings", "follow", "fix"} == set(arguments) - only
    for option in set(options) & set(arguments) - {"threads", "jobs", "level"}:  # without --level, 1
        assert as_text(options[option]) == as_text(arguments[option]), option


def as_text(default: object) -> object:
    """A list as the command line writes it; an empty one is none at all."""
    return ",".join(map(str, default)) or None if isinstance(default, tuple) else default


def test_train_and_evaluate_are_the_commands(tabletop: Path, tmp_path: Path) -> None:
    result = train_small(tabletop, tmp_path / "function", threads=1)
    words: tuple[str | Path, ...]
    words = ("train", tabletop, "--out", "command", "--preset", "tiny", "--split", "release", *SET)
    assert run_in_process(tmp_path, *words).returncode == 0
    for path in (LAST, BEST, "config.yaml"):
        assert (tmp_path / "function" / path).read_bytes() == (tmp_path / "command" / path).read_bytes()
    found = p3iv.evaluate(result.run, samples=20, threads=1, on_note=ignore)
    done = run_in_process(tmp_path, "evaluate", "command", "--samples", "20", "--json")
    assert json.loads(done.stdout) == found.to_dict()
    for name in ("evaluation.json", "predictions.jsonl", "actions.json"):
        assert (tmp_path / "function" / name).read_bytes() == (tmp_path / "command" / name).read_bytes()
    scores = p3iv.score(result.run / "predictions.jsonl", result.run / "actions.json")
    words = ("score", "command/predictions.jsonl", "--actions", "command/actions.json", "--json")
    assert json.loads(run_in_process(tmp_path, *words).stdout) == scores.to_dict()


def test_extract_and_import_are_the_commands(tabletop: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    videos = open_dataset(tabletop).videos
    for video in videos:
        np.save(rows / f"{video.id}.npy", np.full((200, 4), len(video.steps), np.float32))
    seen: list[p3iv.Progress] = []
    parts: dict[str, Any] = {"features": rows, "encoder": "mine", "language": tabletop / "language.npz"}
    p3iv.import_dataset("folder", tabletop, tmp_path / "function" / "data", progress=seen.append, **parts)
    words = [word for name, value in parts.items() for word in (f"--{name}", value)]
    assert run_in_process(tmp_path, "data", "import", "folder", tabletop, "command/data", *words).returncode == 0
    assert content_of(tmp_path / "function") == content_of(tmp_path / "command")
    assert_complete(seen, "Packing features", len(videos))
    again: dict[str, Any] = {"encoder": "precomputed", "weights": rows, "dtype": "float32", "text_encoder": "keep"}
    p3iv.extract(tmp_path / "function" / "data", overwrite=True, progress=seen.append, **again)
    words = [word for name, value in again.items() for word in (f"--{name.replace('_', '-')}", value)]
    assert run_in_process(tmp_path, "extract", "command/data", "--overwrite", *words).returncode == 0
    assert content_of(tmp_path / "function") == content_of(tmp_path / "command")
    assert seen[-1].done == seen[-1].total


def assert_complete(seen: list[p3iv.Progress], what: str, total: int) -> None:
    """Progress is about one thing, never goes back, and ends at its total."""
    assert {at.what for at in seen} == {what}
    done = [at.done for at in seen]
    assert done == sorted(done)
    assert (seen[-1].done, seen[-1].total, seen[-1].share) == (total, total, 1.0)


def test_progress_of_training_has_losses_and_scores(tabletop: Path, tmp_path: Path) -> None:
    seen: list[p3iv.Progress] = []
    result = train_small(tabletop, tmp_path / "run", progress=seen.append)
    assert_complete(seen, "Training epochs", result.epochs)
    assert "examples" in seen[0].about
    assert all({"action", "language"} <= set(at.values) for at in seen[1:])
    epochs = [at for at in seen if "val_success_rate" in at.values]
    assert [at.done for at in epochs] == [1, 2]
    assert result.best is not None
    assert result.best.success_rate == epochs[result.best_epoch - 1].values["val_success_rate"]


def test_progress_of_the_other_functions_ends_at_its_total(tabletop: Path, plus_run: Path, tmp_path: Path) -> None:
    seen: list[p3iv.Progress] = []
    run, copy = (Path(shutil.copytree(each, tmp_path / each.name)) for each in (plus_run, tabletop))
    found = p3iv.evaluate(run, samples=5, progress=seen.append, on_note=ignore)
    assert_complete(seen, "Evaluating windows", found.num_windows)
    seen.clear()
    p3iv.simulate(copy, overwrite=True, progress=seen.append)
    assert_complete(seen, "Simulating features", 40)
    seen.clear()
    options: dict[str, Any] = {
        "planners": ["random"],
        "horizons": [3],
        "seeds": [0, 1],
        "samples": 5,
        "split": "release",
    }
    compared = p3iv.compare(tabletop, tmp_path / "out", progress=seen.append, on_note=ignore, **options)
    assert_complete(seen, "Making runs", 2)
    assert [(row["planner"], row["seeds"]) for row in compared.rows] == [("random", "0 1")]
    assert compared.failures == {}


class Stop(BaseException):
    """As KeyboardInterrupt, it is not an Exception."""


def test_a_training_stopped_by_its_callback_resumes_to_the_same_bits(tabletop: Path, tmp_path: Path) -> None:
    train_small(tabletop, tmp_path / "whole")
    for number, moment in enumerate((0, 0.5, 1, 1.5)):

        def stop(at: p3iv.Progress, moment: float = moment) -> None:
            if at.done > moment:
                raise Stop

        with pytest.raises(Stop):
            train_small(tabletop, tmp_path / "stopped", progress=stop, resume=number > 0)
    train_small(tabletop, tmp_path / "stopped", resume=True)
    for path in (LAST, BEST):
        assert (tmp_path / "whole" / path).read_bytes() == (tmp_path / "stopped" / path).read_bytes()
    assert [path for path in tmp_path.rglob("*") if path.name.endswith(".part")] == []


def test_an_evaluation_or_a_dataset_stopped_by_its_callback_leaves_what_was_there(
    plus_run: Path, tmp_path: Path
) -> None:
    def stop(at: p3iv.Progress) -> None:
        if at.done:
            raise Stop

    run = Path(shutil.copytree(plus_run, tmp_path / "run"))
    before = content_of(run)
    with pytest.raises(Stop):
        p3iv.evaluate(run, samples=5, progress=stop, on_note=ignore)
    assert content_of(run) == before
    with pytest.raises(Stop):
        p3iv.make_tabletop(tmp_path / "few", videos=3, skip_features=True, progress=stop)
    assert not (tmp_path / "few").exists()


def test_the_state_of_torch_stays_as_it_is(tabletop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(5)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    during = []
    fit: dict[str, Any] = {"planner": "random", "preset": None, "settings": None, "overwrite": True}
    train_small(tabletop, tmp_path / "run", threads=2, progress=lambda _: during.append(torch.get_num_threads()), **fit)
    assert set(during) == {2}
    with pytest.raises(Stop):
        train_small(tabletop, tmp_path / "run", threads=3, progress=raise_stop, **fit)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), before)
    assert capsys.readouterr() == ("", "")


def raise_stop(_: p3iv.Progress) -> None:
    raise Stop


def test_mistakes_are_answered_as_by_the_commands(tabletop: Path, tmp_path: Path, plus_run: Path) -> None:
    with pytest.raises(ConfigError, match=r"--set planner=ddn, but planner has its own option: --planner ddn\."):
        p3iv.train(tabletop, tmp_path / "run", settings={"planner": "ddn"})
    with pytest.raises(ConfigError, match=r"Planner p3iv does not use plus\.ends"):
        p3iv.train(tabletop, tmp_path / "run", settings={"plus.ends": 0.1})
    with pytest.raises(ConfigError, match=r"in a comparison it is --seeds 3\."):
        p3iv.compare(tabletop, tmp_path / "out", settings={"seed": 3})
    with pytest.raises(ConfigError, match="--threads 0, but it must be at least 1"):
        p3iv.evaluate(plus_run, threads=0)
    assert list(tmp_path.iterdir()) == []


def test_notes_are_warnings_unless_there_is_a_function_for_them(plus_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(plus_run, tmp_path / "run")
    notes: list[str] = []
    p3iv.evaluate(run, side="val", samples=5, on_note=notes.append)
    assert any("chosen on these windows" in note for note in notes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        p3iv.evaluate(run, side="val", samples=5)
    assert [str(warning.message) for warning in caught] == notes


def test_a_split_file_is_kept_by_its_whole_path(
    tabletop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copyfile(tabletop / "split.json", "mine.json")
    train_small(tabletop, Path("run"), planner="random", preset=None, settings=None, split="mine.json")
    assert f"split: {tmp_path / 'mine.json'}" in Path("run/config.yaml").read_text()


def test_plans_of_pairs_come_one_after_the_other_and_show_themselves(plus_run: Path, data: PlanningData) -> None:
    planner = p3iv.Planner.from_pretrained(plus_run)
    pairs = [(np.asarray(data.test.start[row]), np.asarray(data.test.goal[row])) for row in range(2)]
    each = list(planner.plan_each(pairs))
    assert each == planner.plan_many(*zip(*pairs, strict=True))
    for plans in each:
        assert p3iv.PlanDistribution.from_dict(json.loads(json.dumps(plans.to_dict()))) == plans
        assert str(plans) == plans.to_text()
        assert " -> ".join(plans.plan) in plans.to_text()
        drawn = "".join(ET.fromstring(plans.to_svg()).itertext())  # noqa: S314 - our own drawing
        assert all(word in drawn for word in plans.plan[0].split())
