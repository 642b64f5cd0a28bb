"""Every benchmark runs, at a tiny size, and ends with a line of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TINY = {
    "conditions": ["--plans", "10", "--repeats", "1"],
    "few_videos": ["--worlds", "1", "--epochs", "1", "--fresh", "5", "--folds", "2"],
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
