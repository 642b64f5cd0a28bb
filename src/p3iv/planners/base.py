"""What a planner is to the rest of the house: something that is built, fitted, asked for plans, saved and loaded.

Training, evaluation and the user's door know planners by this page only. A planner is a module, so that saving and
loading are its state dict. `PlannerKind` says how it is built from sizes and settings, what it takes from the training
data before the first step, who teaches it, how plans are drawn from it, and which plan it would follow. Which kinds
there are stands in one table (`p3iv.training.builders`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from p3iv.config import Config
from p3iv.data.tensors import PlanningData
from p3iv.metrics.plans import PlanScores
from p3iv.plans.draws import Sampler, SampleSettings
from p3iv.plans.transitions import Transitions


@dataclass(frozen=True)
class PlannerShape:
    """Sizes that come with the data."""

    horizon: int  # T, positions that are predicted
    num_actions: int  # A
    feature_width: int  # F, of one observation
    target_width: int  # F_l, of a step description (or of a visual feature under strong supervision)


def mlp(width_in: int, hidden: int, width_out: int) -> nn.Sequential:
    """One hidden layer with a ReLU."""
    return nn.Sequential(nn.Linear(width_in, hidden), nn.ReLU(), nn.Linear(hidden, width_out))


def cosine_positions(num_tokens: int, width: int) -> Tensor:
    """The fixed sine and cosine positions of Vaswani et al., (num_tokens, width)."""
    rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    angle = torch.arange(num_tokens)[:, None] * rate  # (N, width / 2)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)


class Standardised(nn.Module):
    """A network that knows the mean and the spread of the features that it was trained on."""

    feature_mean: Tensor
    feature_scale: Tensor

    def __init__(self, feature_width: int) -> None:
        super().__init__()
        self.register_buffer("feature_mean", torch.zeros(feature_width))
        self.register_buffer("feature_scale", torch.ones(feature_width))

    def standardise(self, features: Tensor) -> Tensor:
        """Zero mean and unit spread per dimension: (..., F)."""
        return (features - self.feature_mean) / self.feature_scale

    @torch.no_grad()
    def fit_scale(self, features: Tensor) -> None:
        """Take the statistics of the training observations, (N, F)."""
        mean, spread = features.double().mean(dim=0), features.double().std(dim=0)
        is_constant = spread <= 1e-6 * (1.0 + mean.abs())  # up to rounding; such a dimension is left as it is
        self.feature_mean.copy_(mean)
        self.feature_scale.copy_(torch.where(is_constant, torch.ones_like(spread), spread))


Sync = Callable[[nn.Module], None]  # averages gradients over processes; does nothing in one

Module = TypeVar("Module", bound=nn.Module)

OF_SOME = ("baseline.", "plus.")  # how settings begin that not all planners read

Merit = tuple[float, ...]  # of two epochs, the one with the larger is kept


@dataclass(frozen=True)
class Batch:
    """Windows of one step."""

    start: Tensor  # (B, F)
    goal: Tensor  # (B, F)
    action_ids: Tensor  # (B, T)
    noise: Tensor | None  # (B, Z), one latent per window; None where the planner has no noise
    steps: Tensor | None = None  # (B, T, F): what is seen as each step starts, strong supervision only
    share: float = 1.0  # of this process's windows in the global batch, times the number of processes
    rows: Tensor | None = None  # (B,): which of the training windows these are


class Learner(Protocol):
    """Teaches a planner, batch by batch; one without optimisers has nothing to teach, and its run is one epoch."""

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        """What a resumed run needs, by the name that it is saved under; the planner is `planner`."""

    @property
    def optimizers(self) -> Mapping[str, Optimizer]:
        """By the name that their state is saved under."""

    @property
    def rates(self) -> Mapping[str, float]:
        """The learning rate that every optimiser starts with."""

    def train_step(self, batch: Batch, latents: Tensor | None) -> dict[str, Tensor]:
        """Update once, with `latents` (1, S, Z) to compare plans under; returns named terms, the total among them."""


def success_first(planner: nn.Module, data: PlanningData, val: PlanScores) -> Merit:  # noqa: ARG001 - the interface
    """The merit of an epoch by its plans to follow: success rate, then accuracy."""
    return val.success_rate, val.mean_accuracy


@dataclass(frozen=True)
class PlannerKind(Generic[Module]):
    """One kind of planner, as a row of functions."""

    build: Callable[[PlannerShape, Config], Module]
    fit: Callable[[Module, PlanningData], None]  # what is known before the first step: scales, counts, neighbours
    teach: Callable[[Module, PlanningData, Config, Sync], Learner]
    sampler: Callable[[Module, SampleSettings], Sampler]
    scores: Callable[[Module, Tensor, Tensor], Tensor]  # (B, F) twice -> (B, T, A), finite as long as all is well
    predict: Callable[[Module, Transitions, Tensor, Tensor], Tensor]  # the plans to follow, (B, T): for validation
    describe: Callable[[Config], str]  # a line for the model card
    reads: tuple[str, ...] = OF_SOME  # which of those settings it reads, by the beginnings of their names
    is_visual: Callable[[Config], bool] = lambda _: False  # whether it learns from what is seen at every step
    nearby_s: Callable[[Config], int] = lambda _: 0  # how far from its windows' moments it looks in training, seconds
    settle: Callable[[Module, PlanningData], None] = lambda *_: None  # what it chooses on validation after an epoch
    merit: Callable[[Module, PlanningData, PlanScores], Merit] = success_first  # of an epoch, on validation
    preset: str = "p3iv"  # whose settings it is trained with unless told otherwise

    def ignores(self, setting: str) -> bool:
        """Whether it does not read a setting, given by its dotted name."""
        return setting.startswith(OF_SOME) and not setting.startswith(self.reads)
