"""`p3iv score`, as a user runs it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from commands import RunP3iv

LINES = [
    {"window": "v1:0", "plan": [3, 5, 9], "reference": [9, 5, 3], "video": "v1"},
    {"window": "v1:1", "plan": [104, 105, 103], "reference": [96, 97, 99], "video": "v1"},
    {"window": "v2:0", "plan": [1, 1, 9], "reference": [1, 1, 2], "video": "v2"},
]
SAMPLES = [[[[9, 5, 3], 1], [[3, 5, 9], 2]], [[[96, 97, 99], 5]], [[[1, 1, 2], 1]]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    lines = [line | {"samples": samples} for line, samples in zip(LINES, SAMPLES, strict=True)]
    (tmp_path / "predictions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return tmp_path / "predictions.jsonl"


def test_scores_as_json(p3iv: RunP3iv, file: Path) -> None:
    done = p3iv("score", file, "--actions", "106", "--batch-size", "2", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    scores = json.loads(done.stdout)
    assert set(scores["plans"]["success_rate"]) == {"value", "low", "high"}
    values = {
        name: interval["value"]
        for group in ("plans", "distribution", "released")
        for name, interval in scores[group].items()
    }
    assert values["success_rate"] == 0
    assert values["mean_accuracy"] == pytest.approx((1 / 3 + 0 + 2 / 3) / 3)
    assert values["mean_iou"] == pytest.approx((1 + 0 + 1 / 3) / 3)
    assert values["mode_precision"] == pytest.approx((1 / 3 + 1 + 1) / 3)
    assert values["mode_recall"] == 1
    assert values["cosine_distance"] == pytest.approx((2 / 3 * 2 / 3 + 0) / 2)
    assert values["bitwise_iou"] == pytest.approx((7 / 27 + 292 / 312 + 2 / 13) / 3, abs=1e-6)
    assert values["batch_iou"] == pytest.approx((2 * 3 / 9 + 1 / 3) / 3)
    assert (scores["num_windows"], scores["num_videos"], scores["batch_size"]) == (3, 2, 2)
    assert scores["notes"] == [
        "only 2 videos, so the intervals are wide and few planners can be distinguished",
        "cosine_distance leaves out 1 window with one sample",
    ]


def test_scores_as_tables(p3iv: RunP3iv, file: Path) -> None:
    shown = p3iv("score", file, "--actions", "106").stdout
    assert shown.startswith("3 windows of 2 videos, 106 actions\n")
    assert [line.split("  ")[0] for line in shown.splitlines() if "95 % interval" in line] == [
        "plans",
        "distribution of the samples",
        "as released code computes it",
    ]
    assert "not comparable between vocabularies" in shown
    (iou,) = (line.split() for line in shown.splitlines() if line.startswith("mean IoU, %"))
    assert iou[3:] == ["44.4", "1.4", "to", "97.9"]


def test_plans_of_several_lengths(p3iv: RunP3iv, tmp_path: Path) -> None:
    lines = [
        {"window": "a", "plan": [1, 2, 3], "reference": [2, 3], "video": "v1", "samples": [[[2, 3], 1], [[2], 3]]},
        {"window": "b", "plan": [4], "reference": [4], "video": "v2", "samples": [[[4], 2]]},
    ]
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, lines)))
    scores = json.loads(p3iv("score", "p.jsonl", "--actions", "5", "--json").stdout)
    assert {name: each["value"] for name, each in scores["plans"].items()} == pytest.approx(
        {"success_rate": 1 / 2, "mean_iou": (2 / 3 + 1) / 2, "edit_score": (2 / 3 + 1) / 2, "length_accuracy": 1 / 2}
    )
    found = scores["distribution"]
    nll = [-math.log(0.99 / 4 + 0.01 / 2 / 5**2), -math.log(0.99 + 0.01 / 2 / 5)]  # two lengths, of 5^2 and 5 plans
    assert found["nll"]["value"] == pytest.approx(sum(nll) / 2)
    assert (found["mode_precision"]["value"], found["mode_recall"]["value"]) == ((1 / 4 + 1) / 2, 1)
    assert (scores["released"], "cosine_distance" in found) == ({}, False)
    shown = p3iv("score", "p.jsonl", "--actions", "5").stdout
    assert "as released code computes it" not in shown
    (edit,) = (line.split() for line in shown.splitlines() if line.startswith("edit score, %"))
    assert edit[3] == "83.3"
    note = " ".join(shown.split("note: plans, references and samples have 1 to 3 actions; ")[1].split())
    assert note.startswith("left out, because they are defined for one length: mean_accuracy, cosine_distance, macro")


def test_names_and_references_from_files_of_their_own(p3iv: RunP3iv, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("boil\npour water\nstir\n")
    (tmp_path / "p.csv").write_text('window,plan\na,"[""boil"", ""pour water""]"\nb,boil stir\n')
    (tmp_path / "r.csv").write_text('window,reference\nb,0 2\na,"[0, 2]"\n')
    done = p3iv("score", "p.csv", "--actions", "names.txt", "--references", "r.csv", "--json")
    scores = json.loads(done.stdout)
    assert (scores["plans"]["success_rate"]["value"], scores["num_actions"]) == (0.5, 3)
    assert scores["distribution"] is None
    assert scores["notes"][0].startswith("no `video` is given")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predictions.jsonl", "--actions", "105"], "predictions.jsonl:2: `plan`: 105 is not an action"),
        (["predictions.jsonl", "--actions", "0"], "--actions 0: expected a number from 1 to"),
    ],
)
def test_a_mistake_gets_one_sentence(p3iv: RunP3iv, file: Path, arguments: list[str], message: str) -> None:
    assert file.exists()
    done = p3iv("score", *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {message}")
    assert done.stderr.count("\n") == 1


def test_help_shows_a_line_and_a_command(p3iv: RunP3iv) -> None:
    shown = " ".join(p3iv("score", "--help").stdout.split())
    assert "Example: p3iv score predictions.jsonl --actions 105" in shown
    assert '{"window": "v1:0", "plan": [3, 5]' in shown
