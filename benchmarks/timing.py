"""Timers, command lines and the sizes of CrossTask, for all benchmarks."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping

from p3iv.planners.header import PlannerShape

NUM_ACTIONS, FEATURE_WIDTH = 105, 512  # CrossTask's distinct steps; S3D features
Work = Callable[[], object]


def crosstask_shape(horizon: int) -> PlannerShape:
    return PlannerShape(horizon, NUM_ACTIONS, FEATURE_WIDTH, FEATURE_WIDTH)


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser whose help is the docstring of the benchmark, as it is written."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def seconds(work: Work, *, clock: Callable[[], float]) -> float:
    began = clock()
    work()
    return clock() - began


def wall_seconds(work: Work) -> float:
    return seconds(work, clock=time.perf_counter)


def cpu_seconds(work: Work, repeats: int = 3) -> float:
    """CPU time of the fastest of several calls: other programs can only slow a call down."""
    return min(seconds(work, clock=time.process_time) for _ in range(repeats))


def median_cpu_ms(tasks: Mapping[str, Work], repeats: int) -> dict[str, float]:
    """Median CPU time of each task, in milliseconds, after two warm-up rounds.

    The tasks take turns, so that a busy moment of the machine affects all of them.
    """
    spent: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats + 2):
        for name, task in tasks.items():
            spent[name].append(1000 * seconds(task, clock=time.process_time))
    return {name: statistics.median(values[2:]) for name, values in spent.items()}
