"""Functions that run in a child process, which is killed before its n-th change of a file."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from p3iv.config import Config
from p3iv.data.folder import open_dataset
from p3iv.evaluation.evaluate import EvaluationRequest, evaluate
from p3iv.plans.draws import SampleSettings
from p3iv.training.loop import TrainRequest, train

_processes = multiprocessing.get_context("forkserver")
# Imported once for all children.
_processes.set_forkserver_preload(["p3iv.evaluation.evaluate", "p3iv.training.loop", "torch._dynamo"])

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_MOVES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir")


def evaluate_run(run: Path, settings: SampleSettings) -> None:
    evaluate(EvaluationRequest(run, settings=settings))


def train_run(dataset: Path, run: Path, config: Config, *, overwrite: bool = False) -> None:
    train(TrainRequest(open_dataset(dataset), run, config, overwrite=overwrite))


def kill_at_every_change(folder: Path, function: Callable[..., object], *args: Any, **settings: Any) -> Iterator[int]:
    """Call the function again and again, killed before its 1st, 2nd, ... change of a file below `folder`.

    Yields the number of the change after every kill, and ends when a call comes to its own end.
    """
    number = 1
    while _run_until(number, folder, partial(function, *args, **settings)):
        yield number
        number += 1


def _run_until(number: int, folder: Path, function: Callable[[], object]) -> bool:
    """Whether the call was killed before it ended."""
    process = _processes.Process(target=_count_and_call, args=(number, folder, function))
    process.start()
    process.join(120)
    if process.exitcode not in (0, -signal.SIGKILL):
        raise RuntimeError(f"The call ended with exit code {process.exitcode}; its error is above.")
    return process.exitcode != 0


def _count_and_call(number: int, folder: Path, function: Callable[[], object]) -> None:
    seen = 0

    def count(event: str, details: tuple[Any, ...]) -> None:
        nonlocal seen
        path = _changed_path(event, details)
        if path is not None and path.is_relative_to(folder):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    function()


def _changed_path(event: str, details: tuple[Any, ...]) -> Path | None:
    """The path that is about to be opened for writing, moved, made or deleted."""
    if event == "open" and isinstance(details[0], str) and details[2] & _WRITES:
        path = Path(details[0])
        return None if path.suffix == ".part" and path.exists() else path  # nobody reads an unfinished file
    if event not in _MOVES:
        return None
    at = details[-1]  # a folder handle, which shutil.rmtree uses
    above = Path() if at == -1 else Path(f"/proc/self/fd/{at}").readlink()
    return above / str(details[0])
