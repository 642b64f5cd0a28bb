"""Every benchmark runs, at a tiny size, and ends with a line of JSON."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.fitted_features import Fit, write_fitted
from p3iv.config import CurationSettings
from p3iv.data.folder import open_dataset, require_features
from p3iv.data.windows import choose_split, tasks_of
from p3iv.errors import DatasetError
from p3iv.features.store import FeatureStore

TINY = {
    "conditions": ["--plans", "10", "--repeats", "1"],
    "few_videos": ["--worlds", "1", "--epochs", "1", "--fresh", "5", "--folds", "2"],
    "fitted_features": ["--epochs", "1"],
    "following": ["--hours", "0.01", "--actions", "20", "--height", "90"],
    "exported_encoder": ["--videos", "8", "--epochs", "1"],
    "extraction": ["--videos", "3", "--encoders", "efficientnet-lite0", "--repeats", "1"],
    "import_features": ["--videos", "3", "--rows", "4", "--width", "8", "--repeats", "1"],
    "planners": ["--repeats", "1", "--samples", "10"],
    "planning": ["--windows", "2", "--repeats", "1"],
    "random_plans": ["--windows", "100"],
    "scale": [
        *("--windows", "4", "8", "--actions", "260", "300", "--horizon", "2", "3", "--videos", "8", "16"),
        *("--planner", "retrieval", "--samples", "10", "--side", "4"),
    ],
    "serving": ["--requests", "20", "--memory-requests", "20", "--seconds", "10", "--clients", "1"],
    "shift": ["--videos", "12", "--planners", "retrieval"],
    "startup": ["--repeats", "1"],
    "thumbnail_probe": ["--videos", "12"],
    "suggestions": ["--videos", "3", "--seeds", "1", "--rounds", "1"],
    "training": ["--windows", "64", "--steps", "1"],
}


def test_the_list_is_complete() -> None:
    files = (Path(__file__).parents[1] / "benchmarks").glob("*.py")
    assert set(TINY) == {path.stem for path in files} - {"__init__", "timing"}


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_a_benchmark_runs(name: str) -> None:
    command = [sys.executable, "-m", f"benchmarks.{name}", *TINY[name]]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])


def fit(source: Path, folder: Path) -> dict[str, float]:
    return write_fitted(source, folder, split="video", split_seed=3, fit=Fit(width=64, epochs=40), overwrite=False)


def test_fitted_features_separate_the_seen_videos_better_and_keep_the_rest(tabletop: Path, tmp_path: Path) -> None:
    named = fit(tabletop, tmp_path / "fitted")
    assert min(named["train"], named["val"]) > named["test"] + 0.05
    source, made = open_dataset(tabletop), open_dataset(tmp_path / "fitted")
    assert made.videos == source.videos
    assert made.vocabulary == source.vocabulary
    expected, _ = choose_split(
        tasks_of(source.videos), CurationSettings(split="video", split_seed=3), release_split=None
    )
    assert made.split == expected
    rows = require_features(made)
    assert {video: rows.num_rows(video) for video in rows.videos} == {
        video: require_features(source).num_rows(video) for video in rows.videos
    }
    assert "fitted to train and val" in made.card.label


def test_fitted_features_do_not_depend_on_the_steps_of_test_videos(tabletop: Path, tmp_path: Path) -> None:
    fit(tabletop, tmp_path / "one")
    split = open_dataset(tmp_path / "one").split
    assert split is not None
    changed = {"test": split.test[0], "val": split.val[0]}
    for side, video in changed.items():
        source = tmp_path / f"source {side}"
        shutil.copytree(tabletop, source)
        lines = (source / "steps.csv").read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if not line.startswith(f"{video},")]
        moved = [line for line in lines if line.startswith(f"{video},")]
        (source / "steps.csv").write_text("\n".join([*kept, *moved[:1]]) + "\n", encoding="utf-8")
        fit(source, tmp_path / side)
    one, test, val = (FeatureStore.open(tmp_path / name / "features") for name in ("one", *changed))
    assert all(np.array_equal(one.rows(video), test.rows(video)) for video in one.videos)
    assert not all(np.array_equal(one.rows(video), val.rows(video)) for video in one.videos)


def test_fitted_features_need_times_of_the_steps(tabletop: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(tabletop, source, ignore=shutil.ignore_patterns("truth.jsonl"))
    lines = (source / "steps.csv").read_text(encoding="utf-8").splitlines()
    untimed = [f"{','.join(line.split(',')[:3])},," for line in lines[1:]]
    (source / "steps.csv").write_text("\n".join([lines[0], *untimed]) + "\n", encoding="utf-8")
    with pytest.raises(DatasetError, match="has features and times of its steps"):
        fit(source, tmp_path / "fitted")
    assert not (tmp_path / "fitted").exists()
