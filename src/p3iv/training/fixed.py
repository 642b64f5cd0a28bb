"""Training without validation windows: what they would choose is taken from other runs, such as the folds of a
cross-validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

import torch
from torch import Tensor

from p3iv.config import Config
from p3iv.errors import ConfigError
from p3iv.planners.checkpoint import TrainedPlanner
from p3iv.planners.registry import FOR_LENGTHS, PLANNERS, class_of
from p3iv.types import listed


@dataclass(frozen=True)
class FixedChoices:
    """What a run would choose on validation windows."""

    share_of_epochs: float  # the epoch that is kept, as a share of all epochs of the schedule
    smoothing: float  # of the transitions
    buffers: dict[str, Tensor]  # of the planner, by name: `BasePlanner.chosen_buffers`

    def epochs_of(self, scheduled: int) -> int:
        """How many of the scheduled epochs are trained."""
        return min(scheduled, max(1, round(self.share_of_epochs * scheduled)))


def choices_of(trained: TrainedPlanner, scheduled_epochs: int) -> FixedChoices:
    """What was chosen on the validation windows of a run."""
    planner, state = trained.planner, trained.planner.state_dict()
    return FixedChoices(
        share_of_epochs=trained.header.progress.best_epoch / scheduled_epochs,
        smoothing=trained.transitions.smoothing,
        buffers={name: state[name].cpu().double() for name in planner.chosen_buffers or () if name in state},
    )


def median_choices(runs: Sequence[FixedChoices]) -> FixedChoices:
    """The median of every choice: no single run with few validation windows decides it."""
    return FixedChoices(
        share_of_epochs=median(run.share_of_epochs for run in runs),
        smoothing=median(run.smoothing for run in runs),
        buffers={
            name: torch.stack([run.buffers[name] for run in runs]).quantile(0.5, dim=0) for name in runs[0].buffers
        },
    )


def can_fix(config: Config) -> bool:
    """Whether a planner needs validation windows only for its epoch and a few numbers."""
    return class_of(config).chosen_buffers is not None


def check_can_fix(config: Config) -> None:
    """Refuse planners that need validation windows for more than that.

    Raises:
        ConfigError: naming the planners that can be fitted to all videos.
    """
    if can_fix(config):
        return
    names = FOR_LENGTHS if config.data.has_lengths else PLANNERS
    can = [name for name in names if can_fix(replace(config, planner=name))]
    raise ConfigError(
        f"planner={config.planner} chooses on validation videos what it could not choose without them. "
        f"--fit-all works with {listed(can)}; or leave out --fit-all."
    )
