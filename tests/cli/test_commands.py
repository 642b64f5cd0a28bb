"""Commands on datasets, help and errors."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from commands import RunP3iv
from p3iv import __version__


def test_version_and_info(p3iv: RunP3iv) -> None:
    assert p3iv("--version").stdout == f"p3iv {__version__}\n"
    info = json.loads(p3iv("info", "--json").stdout)
    assert info["packages"]["torch"]
    assert info["extras"]["video"] is True
    assert p3iv("info").stdout.split()[:2] == ["p3iv", __version__]


@pytest.mark.parametrize("command", [[], ["data"], ["data", "make"], ["data", "make", "tabletop"], ["data", "import"]])
def test_help_shows_how_to_start(p3iv: RunP3iv, command: list[str]) -> None:
    shown = p3iv(*command, "--help")
    assert shown.returncode == 0
    assert "Usage: " in shown.stdout
    assert "Example:\n    p3iv " in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data", "import", "coin", "nowhere.json", "d"], "nowhere.json"),
        (["data", "stats", "nowhere"], "nowhere"),
        (["data", "make", "tabletop", "d", "--videos", "1"], "at least 3"),
        (["data", "stats", "nowhere", "--horizons", "x"], "whole numbers separated by commas"),
        (["data", "make", "tabletop", "."], "the current folder"),
        (["data", "simulate", "nowhere", "--noise", "inf"], "--noise inf"),
        (["info", "nowhere"], "There is no run nowhere. A planner is a run folder, a checkpoint or .onnx file, or"),
        (["evaluate", "nowhere"], "There is no run nowhere. Train first"),
        (["plan", "x", "--start", "a@1", "--goal", "a@2", "--data", "no"], "--data no, but there is no such folder."),
        (["plan", "x", "--start", "a@1", "--goal", "a@2", "--svg", "a.png"], "--svg a.png, but it must end in .svg."),
    ],
)
def test_a_mistake_gets_one_sentence_and_no_traceback(
    p3iv: RunP3iv, tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = p3iv(*arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_check_fails_when_it_finds_a_problem(p3iv: RunP3iv, tmp_path: Path) -> None:
    (tmp_path / "steps.csv").write_text("video,task,step,start_s,end_s\nv,tea,boil,3,1\nv,tea,pour,3,4\n")
    done = p3iv("data", "check", tmp_path)
    assert done.returncode == 1
    assert "steps.csv:2" in done.stdout


def test_making_videos_says_how_to_plan_from_them(p3iv: RunP3iv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("p3iv.tabletop.make.make_tabletop", lambda *_, **__: None)
    made = p3iv("data", "make", "tabletop", "my data")
    assert "features: state (of the world, with noise); to plan from video files, extract" in made.stdout
    assert "next: p3iv extract 'my data' --overwrite\n" in made.stderr
    assert "features" not in p3iv("data", "make", "tabletop", "d", "--skip-rendering").stdout
    assert p3iv("data", "make", "tabletop", "d", "--skip-features").stderr == "next: p3iv extract d\n"


def test_stats_as_json_print_nothing_else(p3iv: RunP3iv, tabletop: Path) -> None:
    stats = json.loads(p3iv("data", "stats", tabletop, "--json", "--split", "release").stdout)
    assert stats["videos"] == 40
    assert set(stats["windows"]) == {"3", "4", "5", "6"}
    assert stats["features"]["encoder"] == "state"


def test_import_lists_every_problem_on_standard_error(p3iv: RunP3iv, tmp_path: Path) -> None:
    source = tmp_path / "mine"
    source.mkdir()
    rows = "v,tea,boil,3,1\nv,tea,pour,3,4\nw,tea,pour,nan,4\nw,tea,pour,1,2\n"
    (source / "steps.csv").write_text("video,task,step,start_s,end_s\n" + rows)
    done = p3iv("data", "import", "folder", source, "out")
    assert done.returncode == 0
    assert done.stdout.startswith("2 videos, 1 task, 1 action, 2 steps")
    assert done.stderr.count("problem: ") == 2
    refused = p3iv("data", "import", "folder", source, "strict", "--strict")
    assert refused.returncode == 1
    assert not (tmp_path / "strict").exists()


def test_names_that_look_like_emoji_are_printed_unchanged(p3iv: RunP3iv, tmp_path: Path) -> None:
    (tmp_path / "steps.csv").write_text(
        "video,task,step,start_s,end_s\n:100:,tea,boil,3,1\n:100:,tea,pour,3,4\n:100:\n"
    )
    done = p3iv("data", "check", tmp_path)
    assert "steps.csv:4" in done.stdout
    (tmp_path / "steps.csv").write_text("video,task,step,start_s,end_s\n:100:,tea,boil,3,4\n")
    assert ":100:" in p3iv("data", "import", "folder", tmp_path, "out", "--videos", tmp_path).stderr


def test_an_interrupted_command_says_so(p3iv: RunP3iv, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("p3iv.data.folder.open_dataset", interrupt)
    done = p3iv("data", "stats", "folder")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


@pytest.mark.parametrize("arguments", [["--version"], ["data", "stats", "nowhere"]])
def test_a_process_prints_what_the_same_command_prints_in_the_process_of_the_tests(
    p3iv: RunP3iv, p3iv_process: RunP3iv, arguments: list[str]
) -> None:
    outside, inside = p3iv_process(*arguments), p3iv(*arguments)
    for part in ("returncode", "stdout", "stderr"):
        assert getattr(outside, part) == getattr(inside, part)


def state_of_this_process() -> list[object]:
    threads, numbers = torch.get_num_threads(), torch.get_rng_state().tolist()
    return [Path.cwd(), dict(os.environ), list(sys.argv), sys.stdout, sys.excepthook, threads, numbers]


def test_a_command_leaves_the_process_of_the_tests_as_it_was(p3iv: RunP3iv, p3iv_run: Path) -> None:
    before = state_of_this_process()
    assert p3iv("plan", p3iv_run, "--start", "x.npy", "--goal", "y.npy", "--threads", "2").returncode == 1
    assert state_of_this_process() == before


def test_leftovers_are_named_by_check_and_removed_by_the_next_command_that_writes(
    p3iv: RunP3iv, tmp_path: Path
) -> None:
    left, others = tmp_path / ".out.abcdefgh.part", tmp_path / ".mine.abcdefgh.part"
    for folder in (left, others):
        folder.mkdir()
    make = ("data", "make", "tabletop", "out", "--videos", "3", "--skip-rendering")
    assert p3iv(*make).returncode == 0
    assert (left.exists(), others.exists()) == (False, True)
    left.mkdir()
    for name in (".features.abcdefgh.part", "..features.abcdefgh.part.abcdefgh.old"):
        (tmp_path / "out" / name / "was").mkdir(parents=True)
    checked = p3iv("data", "check", "out")
    note = f"note: {left} was left by an interrupted run. Delete it unless that command is still running.\n"
    assert checked.stderr.startswith(note)
    assert checked.stderr.count("/was holds the folder that it was replacing. Delete it") == 2
    simulated = p3iv("data", "simulate", "out", "--overwrite")
    assert (simulated.returncode, simulated.stderr) == (0, "next: p3iv data stats out\n")
    assert not list((tmp_path / "out").glob(".*"))


def test_a_dataset_that_a_killed_command_moved_away_is_moved_back_before_it_is_replaced(
    p3iv: RunP3iv, tmp_path: Path
) -> None:
    make = ("data", "make", "tabletop", "out", "--videos", "3", "--skip-rendering")
    assert p3iv(*make).returncode == 0
    was = tmp_path / ".out.abcdefgh.old" / "was"
    was.parent.mkdir()
    (tmp_path / "out").rename(was)
    refused = p3iv(*make)
    assert "out exists and is not empty. Name another folder, or pass --overwrite" in refused.stderr
    assert (tmp_path / "out" / "steps.csv").exists()
    was.parent.mkdir()
    (tmp_path / "out").rename(was)
    assert p3iv("data", "import", "folder", was, "out").returncode == 0
    assert (was / "steps.csv").exists(), "a source is never removed"
    assert p3iv(*make, "--overwrite").returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_stats_count_a_dataset_that_is_too_small_to_split(p3iv: RunP3iv, tmp_path: Path) -> None:
    rows = "".join(f"v,tea,{step},{at},{at + 1}\n" for at, step in enumerate(("boil", "pour", "stir", "drink")))
    (tmp_path / "steps.csv").write_text(f"video,task,step,start_s,end_s\n{rows}")
    done = p3iv("data", "stats", tmp_path, "--horizons", "3,500")
    assert done.returncode == 0
    assert "1 video, 1 task, 4 actions" in done.stdout
    assert done.stdout.count("note: not split: 1 video, but train, val and test need") == 1
    assert "note: T=500: no window: the longest video has 4 steps" in done.stdout
    second = p3iv("data", "stats", tmp_path, "--protocol", "2", "--horizons", "3")
    assert "actions to predict: 2 at T=3" in second.stdout


def test_one_problem_is_singular_and_an_unused_file_is_not_a_problem(p3iv: RunP3iv, tmp_path: Path) -> None:
    source = tmp_path / "mine"
    (source / "features").mkdir(parents=True)
    (source / "steps.csv").write_text("video,task,step,start_s,end_s\nv,tea,boil,3,4\n")
    for name in ("v", "w"):
        np.save(source / "features" / f"{name}.npy", np.ones((5, 2), np.float32))
    done = p3iv("data", "import", "folder", source, "out", "--strict")
    assert done.returncode == 0
    note = "note: mine/features: 1 file of no video, not used: w.npy\n".replace("mine", str(source))
    made = "note: no --language was given, so embeddings of 1 step were made by minilm (language.npz)\n"
    assert done.stderr == f"{note}{made}next: p3iv data check out\n"
    (source / "features" / "v.npy").rename(source / "features" / "u.npy")
    np.save(source / "features" / "tea_v.npy", np.ones((5, 2), np.float32))
    with (source / "steps.csv").open("a") as lines:
        lines.write("v,tea,pour,9,8\n")
    assert "\n1 problem, see above" in p3iv("data", "import", "folder", source, "out2").stderr
    assert "--strict: 1 problem," in p3iv("data", "import", "folder", source, "out3", "--strict").stderr


def test_simulation_lists_videos_without_features(p3iv: RunP3iv, tmp_path: Path) -> None:
    (tmp_path / "steps.csv").write_text("video,task,step,start_s,end_s\nv,tea,boil,3,4\nlong,tea,boil,0,1e9\n")
    np.savez(tmp_path / "language.npz", step=np.array(["boil"]), embedding=np.eye(1, 8))
    done = p3iv("data", "simulate", tmp_path)
    assert done.returncode == 0
    assert done.stderr.startswith("problem: long: steps that end at 1000000000.0 s")
    assert "\n1 problem, see above.\n" in done.stderr


@pytest.mark.parametrize("options", [["--language", "nope.npz"], ["--language", "table.npz", "--rename", "nope.json"]])
def test_a_missing_file_is_named(p3iv: RunP3iv, tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "steps.csv").write_text("video,task,step,start_s,end_s\nv,tea,boil,3,4\n")
    np.savez(tmp_path / "table.npz", step=np.array(["boil"]), embedding=np.eye(1, 8))
    done = p3iv("data", "import", "folder", tmp_path, "out", *options)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {options[-1]}: there is no such file")


def test_an_ensemble_is_evaluated_beside_the_run(p3iv: RunP3iv, plus_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(plus_run, tmp_path / "run")
    done = p3iv("evaluate", run, "--samples", "20", "--ensemble", plus_run)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "evaluation_ensemble2.json").exists()


def test_an_ensemble_has_each_run_once(p3iv: RunP3iv, plus_run: Path) -> None:
    done = p3iv("evaluate", plus_run, "--samples", "20", "--ensemble", plus_run)
    assert done.returncode == 1
    assert "is given twice, but an ensemble has each planner once" in done.stderr
