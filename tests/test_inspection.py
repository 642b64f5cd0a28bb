from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from p3iv.curation import CurationSettings
from p3iv.dataset import open_dataset
from p3iv.inspection import check_dataset, describe_dataset


@pytest.fixture
def dataset(tabletop: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tabletop, tmp_path / "tabletop"))


def test_a_tabletop_is_sound(dataset: Path) -> None:
    assert check_dataset(dataset) == []


def cut_features(folder: Path) -> None:
    rows = folder / "features" / "rows.npy"
    rows.write_bytes(rows.read_bytes()[:-3])


def flip_a_bit(folder: Path) -> None:
    rows = folder / "features" / "rows.npy"
    content = bytearray(rows.read_bytes())
    content[-1] ^= 1
    rows.write_bytes(content)


def leak(folder: Path) -> None:
    split = json.loads((folder / "split.json").read_text())
    split["test"].append(split["train"][0])
    (folder / "split.json").write_text(json.dumps(split))


def spoil_truth(folder: Path) -> None:
    lines = (folder / "truth.jsonl").read_text().splitlines()
    line = json.loads(lines[4])
    line["plans"][0][1] += 0.5
    lines[4] = json.dumps(line)
    (folder / "truth.jsonl").write_text("\n".join(lines))


def repeat_truth(folder: Path) -> None:
    text = (folder / "truth.jsonl").read_text()
    (folder / "truth.jsonl").write_text(text + text.splitlines()[0] + "\n")


def spoil_steps(folder: Path) -> None:
    with (folder / "steps.csv").open("a") as lines:
        lines.write("tabletop-0000,make tea,set out a mug,9,3\n")


def unknown_step(folder: Path) -> None:
    with (folder / "steps.csv").open("a") as lines:
        lines.write("new-video,make tea,dance,900,903\n")


def spoil_card(folder: Path) -> None:
    (folder / "dataset.yaml").write_text("simulated: yes\nname: 3\n")


def swap_features(folder: Path) -> None:
    card = yaml.safe_load((folder / "dataset.yaml").read_text())
    card["feature_fingerprint"] = "f" * 64
    (folder / "dataset.yaml").write_text(yaml.safe_dump(card))


def empty_video(folder: Path) -> None:
    (folder / "videos").mkdir()
    (folder / "videos" / "tabletop-0000.mp4").touch()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (cut_features, "rows.npy"),
        (flip_a_bit, "fingerprint"),
        (leak, "under train and again under test"),
        (spoil_truth, "truth.jsonl:5.*sum to 1.5"),
        (repeat_truth, "twice"),
        (spoil_steps, "steps.csv"),
        (unknown_step, "dance"),
        (spoil_card, "dataset.yaml"),
        (swap_features, "replaced"),
        (empty_video, "empty"),
    ],
)
def test_check_names_what_is_wrong(dataset: Path, spoil: Callable[[Path], None], message: str) -> None:
    spoil(dataset)
    errors = [finding.message for finding in check_dataset(dataset) if finding.severity == "error"]
    assert len(errors) == 1
    assert re.search(message, errors[0])


def test_missing_parts_are_warnings(dataset: Path) -> None:
    shutil.rmtree(dataset / "features")
    (dataset / "language.npz").unlink()
    (dataset / "split.json").unlink()
    (dataset / "truth.jsonl").unlink()
    findings = check_dataset(dataset)
    assert [finding.severity for finding in findings] == ["warning", "warning"]
    assert "no features" in findings[0].message
    assert "no language.npz" in findings[1].message


def test_stats_count_what_a_plain_loop_counts(dataset: Path) -> None:
    opened = open_dataset(dataset)
    stats = describe_dataset(opened, CurationSettings(split="release"), horizons=(3,))
    plans = [
        (video.id, tuple(step.action for step in video.steps[first : first + 3]))
        for video in opened.videos
        for first in range(len(video.steps) - 2)
    ]
    pairs = {(plan[0], plan[-1]) for _, plan in plans}
    sharing = {pair: len({plan for _, plan in plans if (plan[0], plan[-1]) == pair}) for pair in pairs}
    of_3 = stats.horizons[3]
    assert stats.windows == {3: len(plans)}
    assert opened.split is not None
    assert of_3.by_side["test"] == sum(video in opened.split.test for video, _ in plans)
    assert sum(of_3.by_side.values()) == len(plans)
    assert of_3.repeated_action_share == sum(len(set(plan)) < 3 for _, plan in plans) / len(plans)
    assert of_3.plans_per_pair == pytest.approx(sum(sharing.values()) / len(pairs))
    assert of_3.plans_per_window == pytest.approx(sum(sharing[plan[0], plan[-1]] for _, plan in plans) / len(plans))
