"""Step lists without times: each is one window, from the first moment of its video to the last."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch

from commands import RunP3iv
from p3iv.config import DataConfig
from p3iv.data.folder import open_dataset
from p3iv.data.tensors import load_planning_data
from p3iv.data.windows import cut_windows
from p3iv.features.store import StoreWriter

STEPS = ("boil", "pour", "stir", "serve")


def make_source(folder: Path) -> None:
    """Nine videos of three steps and three of four, none with times, and features that name their row."""
    folder.mkdir()
    lines = ["video,task,step,start_s,end_s"]
    for number in range(12):
        lines += [f"v{number},tea,{step},," for step in STEPS[: 4 if number >= 9 else 3]]
    (folder / "steps.csv").write_text("\n".join(lines) + "\n")
    (folder / "rows").mkdir()
    for number in range(12):
        rows = np.arange(20 + number, dtype=np.float32)[:, None] + np.zeros(4, np.float32)
        np.save(folder / "rows" / f"v{number}.npy", rows)


def test_a_list_without_times_is_one_window_at_its_own_length(tmp_path: Path, p3iv: RunP3iv) -> None:
    make_source(tmp_path / "source")
    done = p3iv("data", "import", "folder", "source", "data", "--features", "source/rows", "--encoder", "rows")
    assert done.returncode == 0, done.stderr
    dataset = open_dataset(tmp_path / "data")
    for horizon, number in ((2, 0), (3, 9), (4, 3), (5, 0)):
        windows = cut_windows(dataset.videos, dataset.vocabulary, DataConfig(horizon=horizon))
        assert len(windows) == number
        assert all((w.first_step, w.start_s, w.goal_s) == (0, 0.0, math.inf) for w in windows)
    assert len(cut_windows(dataset.videos, dataset.vocabulary, DataConfig(horizon=3, window="after-start"))) == 3
    data = load_planning_data(dataset, DataConfig(horizon=3))
    for side in (data.train, data.val, data.test):
        last = torch.tensor([19.0 + int(w.video[1:]) for w in side.windows])
        torch.testing.assert_close(side.start[:, 0], torch.full_like(last, 1 / 3))  # rows 0, 0 and 1
        torch.testing.assert_close(side.goal[:, 0], last - 1 / 3)
    assert any("3 videos whose steps have no times cannot be used" in note for note in data.notes)


def test_statistics_and_training_say_what_such_lists_are_good_for(tmp_path: Path, p3iv: RunP3iv) -> None:
    make_source(tmp_path / "source")
    p3iv("data", "import", "folder", "source", "data", "--features", "source/rows", "--encoder", "rows")
    done = p3iv("data", "stats", "data")
    assert "without times: 9 of 3 steps, 3 of 4 steps" in done.stdout
    settings = ("--preset", "tiny", "--set", "optim.epochs=2", "--set", "loss.language=0.0")
    done = p3iv("train", "data", "--out", "run", *settings, "--set", "loss.adversarial=0.0")
    assert done.returncode == 0, done.stderr
    assert "3 videos whose steps have no times cannot be used" in done.stderr
    done = p3iv("evaluate", "run", "--samples", "20")
    assert done.returncode == 0, done.stderr
    assert "Infinity" not in (tmp_path / "run" / "predictions.jsonl").read_text()
    assert p3iv("report", "run").returncode == 0


def test_every_planner_is_tested_on_the_same_windows(tmp_path: Path) -> None:
    """Videos without times give no training windows to a planner that learns from steps, but its tests use them."""
    lines = ["video,task,step,start_s,end_s"]
    for number in range(30):
        times = [f"{second},{second + 2}" if number % 2 else "," for second in (0, 3, 6)]
        lines += [f"v{number},tea,{step},{time}" for step, time in zip(STEPS, times, strict=False)]
    (tmp_path / "steps.csv").write_text("\n".join(lines) + "\n")
    with StoreWriter(tmp_path / "features", width=2, dtype="float32") as writer:
        for number in range(30):
            writer.add(f"v{number}", np.full((9, 2), number, np.float32))
    dataset = open_dataset(tmp_path)
    plain = load_planning_data(dataset, DataConfig(horizon=3))
    with_steps = load_planning_data(dataset, DataConfig(horizon=3), with_steps=True)
    assert with_steps.fingerprint == plain.fingerprint
    for side in ("val", "test"):
        assert with_steps.side(side).windows == plain.side(side).windows
    timed = [window for window in plain.train.windows if int(window.video[1:]) % 2]
    assert with_steps.train.windows == tuple(timed)
    assert 0 < len(timed) < len(plain.train)
    assert any("without times of their steps are left out" in note for note in with_steps.notes)
