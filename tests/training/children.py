"""Training in child processes: one that kills itself, or several that share the work as torchrun starts them."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

import torch

from p3iv.config import Config
from p3iv.data.folder import open_dataset
from p3iv.training.loop import StepValues, TrainRequest, train
from p3iv.types import Progress
from soak.processes import start


def train_run(dataset: Path, run: Path, config: Config, *, overwrite: bool = False) -> None:
    train(TrainRequest(open_dataset(dataset), run, config, overwrite=overwrite))


def train_until_killed(dataset: Path, run: Path, config: Config, *, step: int = 0, flush: int = 0) -> None:
    """Resume a run and kill this process in its n-th step, or when it flushes to the disk for the n-th time.

    A file is flushed before it is moved into place, and its folder after that: odd numbers kill before the move, even
    numbers after it.
    """
    steps, flushes, fsync = 0, 0, os.fsync

    def count_step(at: Progress) -> None:
        nonlocal steps
        steps += isinstance(at.values, StepValues)
        if 0 < steps == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def count_flush(handle: int) -> None:
        nonlocal flushes
        flushes += 1
        if flushes == flush:
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(handle)

    with patch.object(os, "fsync", count_flush):
        train(TrainRequest(open_dataset(dataset), run, config, resume=True, on_progress=count_step))


def train_in_two_processes(
    dataset: Path, run: Path, config: Config, track: tuple[str, ...] = ()
) -> list[list[dict[str, float]]]:
    """The loss terms of every step in each of two processes."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    world = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    children = [
        start(_train_in_world, dataset, run, config, track, world | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(2)
    ]
    for child in children:
        child.join(300)
        if child.exitcode != 0:
            for other in children:
                other.kill()
            raise RuntimeError(f"A process ended with exit code {child.exitcode}; its error is above.")
    return [json.loads(run.with_name(f"{run.name}-{rank}.json").read_text()) for rank in range(2)]


def train_and_note(dataset: Path, run: Path, config: Config, track: tuple[str, ...] = ()) -> list[dict[str, float]]:
    """Train and return the loss terms of every step, and whether it was the last of its epoch."""
    steps: list[dict[str, float]] = []

    def note(at: Progress) -> None:
        if isinstance(at.values, StepValues):
            steps.append({**at.values, "last": at.done == int(at.done)})

    train(TrainRequest(open_dataset(dataset), run, config, track=track, on_progress=note))
    return steps


def _train_in_world(dataset: Path, run: Path, config: Config, track: tuple[str, ...], world: Mapping[str, str]) -> None:
    torch.set_num_threads(1)
    os.environ.update(world)
    result = run.with_name(f"{run.name}-{world['RANK']}.json")
    result.write_text(json.dumps(train_and_note(dataset, run, config, track)))
