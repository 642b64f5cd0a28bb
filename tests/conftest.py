"""What the tests share: small videos, a small dataset folder, and the command line as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from p3iv.tabletop.make import make_tabletop

# The same examples in every run, so that a test fails where it was written and nowhere else;
# `make test-all` draws new ones each time (--hypothesis-profile explore).
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
settings.register_profile("same", settings.get_profile("explore"), derandomize=True)
settings.load_profile("same")

# Sums are rounded by how they are shared between threads: one, here and in all that tests start.
os.environ["OMP_NUM_THREADS"] = "1"
torch.set_num_threads(1)

RunP3iv = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def p3iv(tmp_path: Path) -> RunP3iv:
    """Run `p3iv ARGS...` in an empty folder, as its own process."""

    def run(*args: str | Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "p3iv", *map(str, args)]
        environment = {**os.environ, "COLUMNS": "160"}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="session")
def tabletop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tabletop dataset of 40 videos without the pictures."""
    folder = tmp_path_factory.mktemp("data") / "tabletop"
    make_tabletop(folder, num_videos=40, render=False)
    return folder
