"""Two processes with the same global batch and seed see the same losses as one.

To 1e-7 in float64. In float32 to 1e-4, with a larger epsilon: with Adam's usual one, moving the first parameters by one
part in ten million moves the losses of one and the same process by more than 1e-3 within 50 steps, because the first
updates are gradients divided by their own size, however small that is.
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
from p3iv.data.folder import open_dataset
from p3iv.data.tensors import load_planning_data
from p3iv.training.loop import TrainRequest, train

torch.set_num_threads(1)
dataset, run, kind = open_dataset(Path(sys.argv[1])), Path(sys.argv[2]), sys.argv[3]
settings = {"optim.epochs": 3, "optim.batch_size": 8, "optim.max_cpu_s": 1000.0}
settings |= {"model.dropout": 0.0, "data.split": "release", "loss.latents": 6}
if kind == "float32":
    settings |= {"optim.epsilon": 1e-5, "optim.batch_size": 32, "optim.epochs": 10}
else:
    settings |= {"optim.precision": "float64"}
config = override(preset_config("p3iv"), settings)
if kind == "odd":  # a last batch of one window leaves the second process without any
    size = len(load_planning_data(dataset, config.data).train) - 1
    config = override(config, {"optim.batch_size": size, "optim.epochs": 1})
steps = []

def note(report):
    terms = {name: value.item() for name, value in report.terms.items()}
    steps.append(terms | {"last": report.step == report.num_steps})

train(TrainRequest(dataset, run, config, on_step=note))
Path(f"{run}-{os.environ.get('RANK', '0')}.json").write_text(json.dumps(steps))
"""


def run_driver(tmp_path: Path, tabletop: Path, name: str, kind: str, *, processes: int) -> list[list[dict[str, float]]]:
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [sys.executable, *(launcher if processes > 1 else []), str(driver), str(tabletop), str(tmp_path / name)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, kind], env=environment, capture_output=True, text=True, check=False, timeout=150)
    assert done.returncode == 0, done.stderr
    return [json.loads((tmp_path / f"{name}-{rank}.json").read_text()) for rank in range(processes)]


@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-7), ("float32", 1e-4)])
def test_two_processes_see_the_losses_of_one(tabletop: Path, tmp_path: Path, precision: str, tolerance: float) -> None:
    (alone,) = run_driver(tmp_path, tabletop, "one", precision, processes=1)
    shared = run_driver(tmp_path, tabletop, "two", precision, processes=2)
    assert len(alone) >= 50
    for number in range(50):
        if alone[number].pop("last"):
            continue  # its windows are not dealt out evenly; what it changed is seen in the steps after it
        for term, value in alone[number].items():
            mean = sum(steps[number][term] for steps in shared) / 2
            assert mean == pytest.approx(value, rel=tolerance, abs=tolerance), (number, term)
    folders = sorted(path.name for path in tmp_path.iterdir())
    assert folders == ["driver.py", "one", "one-0.json", "two", "two-0.json", "two-1.json"]


def test_a_process_without_a_window_in_the_last_batch_does_no_harm(tabletop: Path, tmp_path: Path) -> None:
    run_driver(tmp_path, tabletop, "odd", "odd", processes=2)
    assert (tmp_path / "odd" / "README.md").exists()
