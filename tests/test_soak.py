"""A share of `make soak` with a fixed seed: kills, damaged inputs, bombs, full disks and long runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conftest import MakeOnce
from p3iv.errors import P3ivError
from soak.bombs import run_bombs
from soak.disk import run_disk
from soak.fuzz import run_fuzz
from soak.inputs import files_of, input_types, make_examples
from soak.kills import make_trials, run_kills
from soak.long_runs import run_long_runs
from soak.report import Part
from soak.scenarios import scenarios

SEED = 16
COMMANDS = [scenario.name for scenario in scenarios()]
KILLS = {"evaluate": 20, "train": 5, "train --overwrite": 5, "make": 1, "compare": 1, "reproduce": 1}  # default: 2
TYPES = [kind.name for kind in input_types()]
SLOW = ["report", "report run", "resumed run", "command line", "checkpoint"]  # to read


@pytest.fixture(scope="session")
def examples(make_once: MakeOnce) -> Path:
    """A sound file of every type."""

    def fill(folder: Path) -> None:
        folder.mkdir()
        make_examples(folder)

    return make_once("examples", fill)


@pytest.mark.parametrize("commands", [COMMANDS[first::5] for first in range(5)], ids=" ".join)
def test_a_killed_command_can_be_run_again(commands: list[str], tmp_path: Path) -> None:
    part = Part(SEED)
    for trials in make_trials(part, tmp_path, commands):
        run_kills(replace(part, size=KILLS.get(trials.scenario.name, 2)), [trials])
        run_disk(replace(part, size=1), [trials], mount=False)
    assert part.failures == []
    total = part.to_dict()["total"]
    assert total["kills"] > 0
    assert total["ended with an error"] > 0  # on a full disk


def test_sound_examples_are_read(examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(examples)
    refused = []
    for kind in input_types():
        for path in files_of(examples, kind.paths):
            try:
                kind.read(examples, path)
            except P3ivError as error:
                refused.append((path, str(error)))
    assert refused == []


@pytest.mark.parametrize(
    ("types", "number"), [([name for name in TYPES if name not in SLOW], 50), (SLOW, 15)], ids=["quick", "slow"]
)
def test_a_damaged_input_is_read_or_refused(types: list[str], number: int, examples: Path, tmp_path: Path) -> None:
    part = Part(SEED, size=number)
    run_fuzz(part, examples, tmp_path, types)
    assert part.failures == []
    assert part.to_dict()["total"]["inputs"] == number * len(types)


def test_a_bomb_is_refused_with_one_sentence(examples: Path, tmp_path: Path) -> None:
    part = Part(SEED)
    run_bombs(part, examples, tmp_path, max_cpu_s=5)  # a second on a quiet machine; these tests run anywhere
    assert part.failures == []


def test_long_runs_take_no_more_memory(examples: Path, tmp_path: Path) -> None:
    part = Part(SEED)
    run_long_runs(part, examples, tmp_path, number=200)
    assert part.failures == []
