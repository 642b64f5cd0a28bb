"""Two processes with the same global batch and seed see the same losses as one.

To 1e-7 in float64. In float32 to 1e-4, with a larger epsilon: with Adam's usual one, moving the first parameters by one
part in ten million moves the losses of one and the same process by more than 1e-3 within 50 steps, because the first
updates are gradients divided by their own size, however small that is.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from p3iv.data.tensors import PlanningData
from runs import quick
from training.children import train_and_note, train_in_two_processes

PRECISE = {"optim__precision": "float64", "optim__batch_size": 8, "epochs": 2}
USUAL = {"optim__epsilon": 1e-5, "optim__batch_size": 32, "epochs": 6}


@pytest.mark.parametrize(("settings", "tolerance"), [(PRECISE, 1e-7), (USUAL, 1e-4)], ids=["float64", "float32"])
def test_two_processes_have_the_losses_of_one(
    tabletop: Path, tmp_path: Path, settings: dict[str, Any], tolerance: float
) -> None:
    config = quick(model__dropout=0.0, loss__latents=6, **settings)
    alone = train_and_note(tabletop, tmp_path / "one", config)
    shared = train_in_two_processes(tabletop, tmp_path / "two", config)
    assert len(alone) >= 30
    for number, terms in enumerate(alone):
        if terms.pop("last"):
            continue  # its windows are not divided evenly; its update shows in the steps after it
        for term, value in terms.items():
            mean = sum(steps[number][term] for steps in shared) / 2
            assert mean == pytest.approx(value, rel=tolerance, abs=tolerance), (number, term)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two", "two-0.json", "two-1.json"]


def test_a_process_without_a_window_in_the_last_batch_does_no_harm(
    tabletop: Path, data: PlanningData, tmp_path: Path
) -> None:
    config = quick(optim__batch_size=len(data.train) - 1, epochs=1)  # a last batch of one window
    train_in_two_processes(tabletop, tmp_path / "run", config, track=("tensorboard",))
    assert (tmp_path / "run" / "README.md").exists()
    assert len(list((tmp_path / "run" / "tensorboard").iterdir())) == 1  # only the first process tracks


@pytest.mark.slow
def test_torchrun_starts_the_command(tabletop: Path, tmp_path: Path) -> None:
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "p3iv"]
    arguments = ["train", str(tabletop), "--out", "run", "--preset", "tiny", "--set", "optim.epochs=1"]
    command = [sys.executable, *launcher, *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=150)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "README.md").exists()
