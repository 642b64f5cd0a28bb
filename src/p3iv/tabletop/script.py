"""What happens in a tabletop video and when: an execution, with a time for every step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from p3iv.tabletop.world import Execution, tabletop_world

FRAMES_PER_SECOND = 10
_TIMING = 1  # what the random generator is for, beside the one that draws the execution


@dataclass(frozen=True)
class Script:
    """One execution and when its steps happen."""

    id: str
    execution: Execution
    times: tuple[tuple[float, float], ...]  # start and end of every step
    length_s: float
    seed: tuple[int, int]  # of the dataset, of the video


def write_script(seed: int, index: int) -> Script:
    """Draw an execution and its times: steps of 2 to 5 seconds with pauses between them."""
    execution = tabletop_world().sample(np.random.default_rng([seed, index]))
    rng = np.random.default_rng([seed, index, _TIMING])
    now, times = rng.uniform(1.2, 2.5), []
    for _ in execution.steps:
        start_s = now
        now += rng.uniform(2.0, 5.0)
        times.append((_on_frame(start_s), _on_frame(now)))
        now += rng.uniform(0.4, 1.6)
    return Script(f"tabletop-{index:04d}", execution, tuple(times), _on_frame(now + 1.0), (seed, index))


def _on_frame(seconds: float) -> float:
    """The nearest moment that a frame shows."""
    return round(round(seconds * FRAMES_PER_SECOND) / FRAMES_PER_SECOND, 3)
