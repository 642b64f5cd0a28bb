"""Long runs in one process: memory and open files do not grow."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from p3iv.errors import P3ivError
from p3iv.features.video import VideoReader
from p3iv.planner import Planner
from soak.inputs import VIDEOS
from soak.mutations import mutate_bytes
from soak.processes import start
from soak.report import Failure, Part

NUMBER = 10_000
MAX_GROWTH_MB = 16.0  # FFmpeg keeps 150 bytes of each video that was not read to its end: 1.5 MB of 10,000 videos


def run_long_runs(part: Part, examples: Path, work: Path, number: int = NUMBER) -> None:
    """Plan many times, and open many videos, good and damaged ones."""
    for name in ("plans", "videos"):
        result = work / f"{name}.json"
        process = start(_measure, name, examples, part.seed, number, result)
        process.join()
        if process.exitcode != 0:
            part.fail(Failure(name, f"the process ended with {process.exitcode}", {"seed": part.seed}))
            continue
        found = json.loads(result.read_text())
        part.count(name, calls=number, **{key: round(value) for key, value in found.items()})
        if found["growth_mb"] > MAX_GROWTH_MB or found["new_handles"] > 0:
            part.fail(Failure(name, f"{number} calls: {found}", {"seed": part.seed}))


def _measure(name: str, examples: Path, seed: int, number: int, result: Path) -> None:
    """Call something many times; growth is counted after the first tenth, when all is loaded."""
    call = _planning(examples) if name == "plans" else _opening(examples, seed, result.parent)
    for at in range(number // 10):
        call(at)
    before_mb, handles = _resident_mb(), _num_handles()
    for at in range(number // 10, number):
        call(at)
    found = {"growth_mb": max(0.0, _resident_mb() - before_mb), "new_handles": max(0, _num_handles() - handles)}
    result.write_text(json.dumps(found))


def _planning(examples: Path) -> Callable[[int], None]:
    planner = Planner.from_pretrained(examples / "run")
    moments = np.random.default_rng(0).normal(size=(64, planner.header.shape.feature_width))

    def plan(number: int) -> None:
        planner.plan(moments[number % 64], moments[(number + 7) % 64], num_samples=10, seed=number % 3)

    return plan


def _opening(examples: Path, seed: int, work: Path) -> Callable[[int], None]:
    rng = random.Random(seed)

    def read(number: int) -> None:
        path = examples / VIDEOS[number % len(VIDEOS)]
        if number % 3 == 0:
            damaged = work / f"damaged{path.suffix}"
            damaged.write_bytes(mutate_bytes(rng, path.read_bytes()))
            path = damaged
        with suppress(P3ivError), VideoReader(path) as reader:
            list(reader.frames_at([0.0, 1.0]))

    return read


def _resident_mb() -> float:
    """What is in use: memory that was freed is given back to the system first."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _num_handles() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
