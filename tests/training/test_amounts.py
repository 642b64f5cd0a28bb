"""What `train` says about the amount of data, in the command and in the model card."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

from commands import RunP3iv
from p3iv.data.tensors import PlanningData, WindowTensors
from p3iv.training.amounts import count_examples, describe_amounts, warn_of_few


def some(side: WindowTensors, videos: set[str]) -> WindowTensors:
    """The windows of some videos; only their list is read here."""
    return replace(side, windows=tuple(window for window in side.windows if window.video in videos))


def first_videos(side: WindowTensors, number: int) -> set[str]:
    return set(list(dict.fromkeys(window.video for window in side.windows))[:number])


def test_examples_are_the_steps_of_the_training_videos(data: PlanningData) -> None:
    literal = Counter(action for sequence in data.train_sequences for action in sequence)
    assert count_examples(data) == literal


def test_one_line_says_what_a_planner_learns_from(data: PlanningData) -> None:
    videos = {side: len({window.video for window in data.side(side).windows}) for side in ("train", "val", "test")}
    line = describe_amounts(data)
    for side in ("train", "val", "test"):
        assert f"{side} {len(data.side(side))} windows of {videos[side]} videos" in line
    examples = sorted(count_examples(data).values())
    assert f"{len(examples)} actions in train with {examples[0]} to {examples[-1]} examples each" in line


def test_one_example_of_each_action_is_said_in_plain_words(data: PlanningData) -> None:
    window = next(window for window in data.train.windows if len(set(window.action_ids)) == 3)
    one = replace(data, train=replace(data.train, windows=(window,)))
    assert "3 actions in train with 1 example each" in describe_amounts(one)


def test_too_little_is_said_in_plain_words(data: PlanningData) -> None:
    few = replace(data, train=some(data.train, first_videos(data.train, 3)))
    (note,) = warn_of_few(few, has_epochs=False)
    assert note.startswith("too little to learn from: 1 example per action. Below 2, expect")
    assert "--planner retrieval" in note
    (note,) = warn_of_few(few, has_epochs=False, is_trained=False)
    assert "have fewer than 3 examples in train, so plans with them are often wrong" in note
    tiny = replace(data, val=some(data.val, first_videos(data.val, 1)))
    *_, note = warn_of_few(tiny, has_epochs=True)
    assert re.match(r"the best epoch is chosen on only \d+ windows of 1 video,", note)
    assert not any("epoch" in note for note in warn_of_few(tiny, has_epochs=False))
    assert not any("epoch" in note for note in warn_of_few(data, has_epochs=True))
    (note,) = warn_of_few(data, has_epochs=True)
    rare = sum(number < 3 for number in count_examples(data).values())
    assert note.startswith(f"{rare} of {len(count_examples(data))} actions have fewer than 3 examples")


def test_the_command_says_it_and_what_to_do_next(tabletop: Path, tmp_path: Path, p3iv: RunP3iv) -> None:
    done = p3iv("train", tabletop, "--out", "run", "--preset", "tiny", "--set", "optim.epochs=2")
    assert done.returncode == 0, done.stderr
    data_line = next(line for line in done.stderr.splitlines() if line.startswith("data: train "))
    assert "- " + data_line.removeprefix("data: ") in (tmp_path / "run" / "README.md").read_text()
    assert done.stderr.splitlines()[-1] == "next: p3iv evaluate run"


def test_a_planner_that_is_only_fitted_is_not_described_as_a_network(
    tabletop: Path, tmp_path: Path, p3iv: RunP3iv
) -> None:
    done = p3iv("train", tabletop, "--out", "run", "--planner", "retrieval", "--split", "release")
    assert re.match(r"Fitted without training, \d+ CPU s\. On validation: success rate ", done.stdout), done.stderr
    card = (tmp_path / "run" / "README.md").read_text()
    assert "- fitted without training, " in card
    assert "epoch" not in card
    shown = p3iv("evaluate", "run", "--samples", "5").stdout
    assert "recommended plan - nearest train window: the same success rate in all windows\n" in shown
    assert p3iv("report", "run", "--cases", "0").returncode == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.count("the same in all windows") == 3
    for words in ("preset", "epoch", "Network", "learning rate"):
        assert words not in page
