"""`p3iv follow` and `p3iv evaluate --follow`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from commands import RunP3iv
from p3iv import Planner, evaluate_following
from p3iv.data.folder import Dataset
from p3iv.evaluation.following import NUM_MOMENTS, read_following


@pytest.fixture
def own_run(query_run: Path, tmp_path: Path) -> Path:
    """A copy of the run, to write scores into."""
    return Path(shutil.copytree(query_run, tmp_path / "run"))


def test_seconds_in_words_are_those_of_python(p3iv: RunP3iv, query_run: Path, dataset: Dataset) -> None:
    video, planner = dataset.videos[0].id, Planner.from_pretrained(query_run, device="cpu")
    done = p3iv("follow", query_run, video, "--procedure", planner.procedures[0], "--json")
    assert (done.returncode, done.stderr) == (0, "")
    expected = [moment.to_dict() for moment in planner.follow(video, procedure=planner.procedures[0])]
    assert [json.loads(line) for line in done.stdout.splitlines()] == json.loads(json.dumps(expected))


def test_only_changes_are_printed(p3iv: RunP3iv, query_run: Path, dataset: Dataset) -> None:
    video = dataset.videos[0].id
    shown = p3iv("follow", query_run, video, "--goal-text", "make tea").stdout
    assert shown.startswith('understood "make tea"')
    assert "now   " in shown
    assert "left  " in shown
    assert "done until" in shown or "Nothing was probably done" in shown
    whole = p3iv("follow", query_run, video, "--every", "1").stdout
    tenth = p3iv("follow", query_run, video, "--every", "10").stdout
    assert whole.count("now   ") > shown.count("now   ") > 1
    assert tenth.count("now   ") == -(-whole.count("now   ") // 10)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("nowhere.mp4",), "There is no file 'nowhere.mp4'"),
        (("nowhere.mp4", "--data", "nothing"), "--data nothing, but there is no such folder"),
        (("nowhere.mp4", "--at", "x", "y"), "N must be a position from 1"),
        (("nowhere.mp4", "--horizon", "9"), "horizon=9, but the plans of this planner have 1 to 4 steps"),
        (("nowhere.mp4", "--procedure", "sing"), "is not the name of a procedure"),
    ],
)
def test_mistakes(p3iv: RunP3iv, query_run: Path, options: tuple[str, ...], said: str) -> None:
    done = p3iv("follow", query_run, *options)
    assert done.returncode == 1
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_nothing_on_standard_input_is_an_error(p3iv: RunP3iv, plus_run: Path, query_run: Path) -> None:
    assert "cannot follow videos" in p3iv("follow", plus_run, "x.mp4").stderr
    assert "cannot be computed from pictures here" in " ".join(p3iv("follow", query_run, "-").stderr.split())


def test_scores_of_following(p3iv: RunP3iv, own_run: Path) -> None:
    done = p3iv("evaluate", own_run, "--follow", "--side", "val")
    assert done.returncode == 0
    assert "every moment alone" in done.stdout
    assert "name of the procedure" in done.stdout
    found = read_following(own_run / "follow_val.json")
    assert [mix.evidence for mix in found.mixes] == [(), ("procedure",)]
    assert found.num_moments == NUM_MOMENTS * found.num_videos
    assert sum(part.num_moments for part in found.mixes[0].shares) == found.num_moments
    again = evaluate_following(own_run, side="val")
    assert again == found
    as_json = json.loads(p3iv("evaluate", own_run, "--follow", "--side", "val", "--json").stdout)
    assert as_json == found.model_dump(mode="json")


def test_scores_are_those_of_what_follow_says(own_run: Path, dataset: Dataset) -> None:
    """A slow transcription from the moments of `Planner.follow`."""
    found = evaluate_following(own_run, side="val")
    planner = Planner.from_pretrained(own_run, device="cpu")
    assert dataset.split is not None
    values: dict[str, list[float]] = {"now_accuracy": [], "done_iou": [], "next_accuracy": []}
    for video in (video for video in dataset.videos if video.id in dataset.split.val):
        steps = [(step.action, step.start_s or 0.0, step.end_s or 0.0) for step in video.steps]
        moments = list(planner.follow(video.id))
        number = min(len(moments), int(steps[-1][2]))
        for place in range(NUM_MOMENTS):
            moment = moments[int((place + 0.5) / NUM_MOMENTS * number)]
            under_way = [
                a for a, start, end in steps if int(start) <= moment.second < max(int(start) + 1, np.ceil(end))
            ]
            values["now_accuracy"].append(moment.now[0][0] == (under_way[-1] if under_way else None))
            true = {a for a, _, end in steps if end <= moment.second}
            said = {step.step for step in moment.done}
            values["done_iou"].append(len(true & said) / len(true | said) if true | said else 1.0)
            left = [a for a, _, end in steps if end > moment.second]
            values["next_accuracy"].append(moment.left.plan[0] == left[0])
    for name, column in values.items():
        assert found.mixes[0].scores[name].value == pytest.approx(np.mean(column)), name


@pytest.mark.parametrize("option", [("--horizon", "3"), ("--samples", "9"), ("--dropout", "0.5")])
def test_options_of_windows_are_refused(p3iv: RunP3iv, query_run: Path, option: tuple[str, str]) -> None:
    done = p3iv("evaluate", query_run, "--follow", *option)
    assert done.returncode == 1
    assert f"{option[0]} is for the windows" in " ".join(done.stderr.split())


def test_a_planner_that_cannot_follow_has_no_such_scores(p3iv: RunP3iv, plus_run: Path) -> None:
    done = p3iv("evaluate", plus_run, "--follow")
    assert done.returncode == 1
    assert "cannot follow videos" in done.stderr
