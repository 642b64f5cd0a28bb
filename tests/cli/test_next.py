"""After `next:` stands a command that works, and the training line explains itself."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from commands import Done, RunP3iv
from p3iv.cli import console
from p3iv.cli.few_videos import print_next_training_on
from p3iv.cli.train import legend_of
from p3iv.types import Progress

SMALLER = {"train": ["--set", "optim.epochs=2"], "evaluate": ["--samples", "20"], "reproduce": ["--horizons", "3"]}


def next_of(done: Done) -> list[str]:
    """The words of the last command that a command names, without p3iv."""
    assert done.returncode == 0, done.stderr
    assert "next:" not in done.stdout
    commands = re.findall(r"(?m)^next: p3iv (.*)$", done.stderr)
    return shlex.split(commands[-1]) if commands else []


def test_whoever_follows_the_advice_gets_from_a_dataset_to_a_plan(p3iv: RunP3iv) -> None:
    words, seen = ["data", "make", "tabletop", "my data", "--videos", "12", "--skip-rendering"], []
    while words and "--json" not in words:
        seen.append(words[0] if words[0] != "data" else " ".join(words[:2]))
        words = next_of(p3iv(*words, *SMALLER.get(words[0], ())))
    assert seen == ["data make", "data stats", "train", "evaluate", "report", "plan", "plan"]
    drawn = p3iv(*words)
    assert drawn.stderr == ""
    assert json.loads(drawn.stdout)["plan"]


def test_whoever_imports_annotations_gets_to_training(p3iv: RunP3iv, tmp_path: Path) -> None:
    lines = [
        f"v{video},tea,{step},{at},{at + 1}" for video in range(6) for at, step in enumerate(("boil", "pour", "stir"))
    ]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "steps.csv").write_text("\n".join(["video,task,step,start_s,end_s", *lines]))
    np.savez(tmp_path / "table.npz", step=np.array(["boil", "pour", "stir"]), embedding=np.eye(3, 8))
    words, seen = ["data", "import", "folder", "mine", "data", "--language", "table.npz"], []
    while words[0] != "train":
        seen.append(words[1])
        words = next_of(p3iv(*words))
    assert seen == ["import", "check", "simulate", "stats"]
    (tmp_path / "runs" / "data").mkdir(parents=True)
    aligned = next_of(p3iv("align", "data", "--steps", "2", "--split-seed", "3"))
    assert aligned == ["train", "data", "--out", "runs/data-2", "--planner", "p3iv-plus", "--split-seed", "3"]


@pytest.mark.parametrize(("num_videos", "is_few"), [(4, False), (5, True), (30, True), (31, False)])
def test_few_videos_are_to_be_cross_validated(
    num_videos: int, is_few: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_next_training_on(tmp_path / "tea", num_videos)
    assert capsys.readouterr().err.endswith(" --planner p3iv-plus --folds 5 --fit-all\n") == is_few


def test_info_says_what_to_do_with_what_it_shows(p3iv: RunP3iv, tabletop: Path, plus_run: Path) -> None:
    assert next_of(p3iv("info")) == ["demo", "demo"]
    assert next_of(p3iv("info", tabletop))[:2] == ["train", str(tabletop)]
    assert next_of(p3iv("info", plus_run)) == ["evaluate", str(plus_run)]
    assert p3iv("info", "--json").stderr == ""


def test_a_dataset_with_errors_is_to_be_checked_again(p3iv: RunP3iv, tmp_path: Path) -> None:
    (tmp_path / "steps.csv").write_text("video,task,step\n")
    checked = p3iv("data", "check", ".")
    assert checked.returncode == 1
    assert checked.stderr == "Repair the errors, then check again.\nnext: p3iv data check .\n"


def test_a_comparison_as_json_has_every_figure_and_does_not_depend_on_the_number_of_processes(
    p3iv: RunP3iv, tabletop: Path, tmp_path: Path
) -> None:
    few = ("--planners", "random,majority", "--horizons", "3", "--seeds", "0", "--samples", "10")
    command = ("compare", tabletop, *few, "--split", "release", "--out")
    done = p3iv(*command, "two", "--jobs", "2", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(row["planner"], row["horizon"], row["seeds"]) for row in found["rows"]] == [
        ("random", 3, [0]),
        ("majority", 3, [0]),
    ]
    table = (tmp_path / "two" / "comparison.csv").read_text().splitlines()
    for row, line in zip(found["rows"], table[1:], strict=True):
        cells = dict(zip(table[0].split(","), line.split(","), strict=True))
        for metric, figure in row["metrics"].items():
            assert figure.keys() == {"value", "low", "high", "sd_over_seeds"}
            if f"{metric}_low" in cells:
                assert [figure["value"], figure["low"], figure["high"]] == pytest.approx(
                    [float(cells[f"{metric}{end}"]) for end in ("", "_low", "_high")], abs=1e-6
                )
    one = json.loads(p3iv(*command, "one", "--json").stdout)
    timed = {"training_cpu_s", "milliseconds_per_plan"}
    for row, other in zip(found["rows"], one["rows"], strict=True):
        assert {name: row["metrics"][name] for name in row["metrics"].keys() - timed} == {
            name: other["metrics"][name] for name in other["metrics"].keys() - timed
        }
    again = next_of(p3iv(*command, "one"))
    assert again[0] == "evaluate"
    assert (tmp_path / again[1] / "config.yaml").exists()


def test_the_legend_explains_what_the_line_shows_before_its_first_line(capsys: pytest.CaptureFixture[str]) -> None:
    terms = {"action": 2.0, "critic_real": 0.9, "total": 3.0}
    legend = legend_of(terms)
    assert [line.split()[0] for line in legend.splitlines()[1:]] == ["success", "mean", "action", "real"]
    show = console.plain_progress(lambda at: legend_of(at.values) if at.values else "", every_s=0.0)
    for done in (1, 2):
        show(Progress("Training epochs", done, 3, "validation: ...", terms))
    printed = capsys.readouterr().err
    assert printed.startswith(f"{legend}\nTraining epochs: 1 of 3, validation")
    assert printed.count("legend:") == 1


def test_a_run_too_short_for_a_line_has_no_legend(p3iv: RunP3iv, tabletop: Path) -> None:
    done = p3iv("train", tabletop, "--out", "run", "--preset", "tiny", "--set", "optim.epochs=2")
    assert "legend" not in done.stderr
