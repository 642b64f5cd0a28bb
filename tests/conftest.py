"""Shared fixtures: the command line, a small dataset, a small trained run of P3IV and of P3IV+, and the demo."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from hypothesis import HealthCheck, settings

from commands import RunP3iv, run_as_process, run_in_process
from p3iv.config import Config
from p3iv.data.folder import Dataset, open_dataset
from p3iv.data.tensors import PlanningData, load_planning_data
from p3iv.evaluation.evaluate import EvaluationRequest, evaluate
from p3iv.plans.draws import SampleSettings
from p3iv.tabletop.make import make_tabletop
from p3iv.training.loop import TrainRequest, train
from runs import quick

# The same examples in every run, so that a test fails where it was written and nowhere else;
# `make test-all` draws new ones each time (--hypothesis-profile explore).
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
settings.register_profile("same", settings.get_profile("explore"), derandomize=True)
settings.load_profile("same")

# The rounding of a sum depends on the number of threads: one, here and in every process that a test starts.
os.environ["OMP_NUM_THREADS"] = "1"
torch.set_num_threads(1)

MakeOnce = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture
def p3iv(tmp_path: Path) -> RunP3iv:
    """Run `p3iv ARGS...` in an empty folder, in this process."""
    return partial(run_in_process, tmp_path)


@pytest.fixture
def p3iv_process(tmp_path: Path) -> RunP3iv:
    """Run `python -m p3iv ARGS...` in an empty folder, for tests of the process itself: its start takes seconds."""
    return partial(run_as_process, tmp_path)


@pytest.fixture(scope="session")
def make_once(tmp_path_factory: pytest.TempPathFactory) -> MakeOnce:
    """Make a folder once for all test processes of this session. Tests only read it: copy it to change it."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    shared.mkdir(exist_ok=True)

    def make(name: str, fill: Callable[[Path], object]) -> Path:
        folder, complete = shared / name, shared / f"{name}.complete"
        with FileLock(shared / f"{name}.lock"):
            if not complete.exists():
                shutil.rmtree(folder, ignore_errors=True)
                fill(folder)
                complete.touch()
        return folder

    return make


@pytest.fixture(scope="session")
def tabletop(make_once: MakeOnce) -> Path:
    """A tabletop dataset of 40 videos with features of the world's state and without pictures."""
    return make_once("tabletop", lambda folder: make_tabletop(folder, num_videos=40, render=False))


@pytest.fixture(scope="session")
def dataset(tabletop: Path) -> Dataset:
    """The tabletop dataset, opened."""
    return open_dataset(tabletop)


@pytest.fixture(scope="session")
def data(dataset: Dataset) -> PlanningData:
    """Windows of three steps of the tabletop dataset, as every planner can use them."""
    return load_planning_data(dataset, quick().data, with_steps=True, nearby_s=quick("p3iv-plus").plus.nearby)


@pytest.fixture(scope="session")
def p3iv_run(make_once: MakeOnce, dataset: Dataset) -> Path:
    """A run of P3IV, evaluated with 60 samples. Tests only read it: copy it to change it."""
    return make_once("p3iv_run", lambda folder: _train(dataset, folder, quick(model__width=64, epochs=12)))


@pytest.fixture(scope="session")
def plus_run(make_once: MakeOnce, dataset: Dataset) -> Path:
    """A run of P3IV+, evaluated with 60 samples. Tests only read it: copy it to change it."""
    return make_once("plus_run", lambda folder: _train(dataset, folder, quick("p3iv-plus", epochs=6)))


@pytest.fixture(scope="session")
def query_run(make_once: MakeOnce, dataset: Dataset) -> Path:
    """A run of P3IV+ for one to four steps, not evaluated. Tests only read it: copy it to change it."""
    config = quick("p3iv-plus", epochs=2, data__min_horizon=1, data__horizon=4)
    return make_once("query_run", lambda folder: train(TrainRequest(dataset, folder, config)))


@pytest.fixture(scope="session")
def demo(make_once: MakeOnce) -> Path:
    """The folder of `p3iv demo --quick`: videos, their features, a run of P3IV+, its report, and `printed.txt`."""

    def fill(folder: Path) -> None:
        done = run_in_process(folder.parent, "demo", folder, "--quick")
        assert done.returncode == 0, done.stderr
        (folder / "printed.txt").write_text(done.stdout)

    return make_once("demo", fill)


def _train(dataset: Dataset, folder: Path, config: Config) -> None:
    train(TrainRequest(dataset, folder, config))
    evaluate(EvaluationRequest(folder, settings=SampleSettings(60)))
