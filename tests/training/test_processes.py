"""Two processes with the same global batch and seed see the same losses as one.

In float64, because float32 cannot tell: there, moving the first parameters by one part in ten million moves the losses
of one and the same process by more than 1e-3 within 50 steps.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = """
import json, os, sys
from pathlib import Path
import torch
from p3iv.config import override, preset_config
from p3iv.dataset import open_dataset
from p3iv.training import TrainRequest, train

torch.set_num_threads(1)
data, run = map(Path, sys.argv[1:])
settings = {"optim.epochs": 3, "optim.batch_size": 8, "optim.precision": "float64"}
settings |= {"model.dropout": 0.0, "data.split": "release", "loss.latents": 6}
steps = []

def note(report):
    terms = {name: value.item() for name, value in report.terms.items()}
    steps.append(terms | {"last": report.step == report.num_steps})

train(TrainRequest(open_dataset(data), run, override(preset_config("p3iv"), settings), on_step=note))
Path(f"{run}-{os.environ.get('RANK', '0')}.json").write_text(json.dumps(steps))
"""


def test_two_processes_see_the_losses_of_one(tabletop: Path, tmp_path: Path) -> None:
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    one = [sys.executable, str(driver), str(tabletop), str(tmp_path / "one")]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    two = [*launcher, str(driver), str(tabletop), str(tmp_path / "two")]
    for command in (one, two):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    alone, *shared = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("one-0", "two-0", "two-1"))
    assert len(alone) >= 50
    for number in range(50):
        if alone[number].pop("last"):
            continue  # its windows are not dealt out evenly; what it changed is seen in the steps after it
        for term, value in alone[number].items():
            mean = sum(steps[number][term] for steps in shared) / 2
            assert mean == pytest.approx(value, abs=1e-7), (number, term)
    folders = sorted(path.name for path in tmp_path.iterdir())
    assert folders == ["driver.py", "one", "one-0.json", "two", "two-0.json", "two-1.json"]
