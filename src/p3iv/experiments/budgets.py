"""How much a reproduction may cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from p3iv.errors import ConfigError


@dataclass(frozen=True)
class Budget:
    """Settings of every run, seeds unless told otherwise, and what a table that varies K draws."""

    settings: Mapping[str, Any]
    seeds: tuple[int, ...]
    independent_draws: int  # of 2,500 latents; with one, deviations come from resamples of it
    run_s: float  # CPU seconds of a run, for estimates: its limit, or what the paper's run on CrossTask takes
    score_s: float  # of one evaluation


BUDGETS = {
    "small": Budget({"optim.max_cpu_s": 20.0}, (0,), independent_draws=1, run_s=20, score_s=15),
    # Measured on simulated CrossTask with one thread: 22 s per epoch with all losses, 200 epochs; 4,665 test windows.
    "paper": Budget({}, (0, 1, 2), independent_draws=20, run_s=4300, score_s=300),
}


def budget_of(name: str) -> Budget:
    """The budget of a name.

    Raises:
        ConfigError: naming those that there are.
    """
    if name not in BUDGETS:
        raise ConfigError(f"--budget {name}, but it is one of {', '.join(BUDGETS)}.")
    return BUDGETS[name]
