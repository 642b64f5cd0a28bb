"""What the baselines share: they choose a plan themselves, draw K plans pair by pair, and train on a sum of losses."""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from p3iv.config import Config
from p3iv.data.tensors import PlanningData
from p3iv.errors import DatasetError
from p3iv.planners.base import BasePlanner, Batch, Learner, Sync
from p3iv.planners.header import PlannerShape
from p3iv.planners.layers import Standardised, adam, mixed_precision
from p3iv.plans.draws import BLOCK, Draws, SampleSettings, chain_uniforms, refuse_noise, uniform_blocks
from p3iv.types import Array


class ResizableBuffers(nn.Module):
    """A module whose buffers take the sizes of the tensors loaded into them."""

    def store(self, **tables: Tensor) -> None:
        """Keep tensors as buffers by name, replacing earlier ones."""
        for name, table in tables.items():
            self.register_buffer(name, table.detach().clone())

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        for name in self._buffers:
            if f"{prefix}{name}" in state_dict:
                self._buffers[name] = torch.empty_like(state_dict[f"{prefix}{name}"])
        super()._load_from_state_dict(state_dict, prefix, *rest)


def require_range(table: Tensor, end: int, what: str) -> None:
    """Check numbers of a loaded table: from 0 to below `end`.

    Raises:
        ValueError: naming the table.
    """
    if table.dtype != torch.int64 or not bool(((table >= 0) & (table < end)).all()):
        raise ValueError(f"its table of {what} has numbers outside 0 to {end - 1}")


def states_of(batch: Batch) -> Tensor:
    """The observations before the first action, between actions, and after the last: (B, T + 1, F)."""
    if batch.steps is None:
        raise DatasetError(
            "This planner learns from observations at every step in between, but these windows have start and goal "
            "only. Use a dataset with start_s and end_s in steps.csv, or a planner that learns from step lists alone: "
            "--planner p3iv."
        )
    return torch.cat((batch.start[:, None], batch.steps[:, 1:], batch.goal[:, None]), dim=1)


def state_loss(predicted: Tensor, states: Tensor) -> Tensor:
    """Squared error per dimension, summed over the T positions, mean over the windows: (B, T, D) twice.

    No gradient reaches the encoded states: otherwise they would all collapse to one point, which is easy to predict.
    """
    return (predicted - states.detach()).square().mean(dim=-1).sum(dim=1).mean()


@dataclass(frozen=True)
class Sampled:
    """Plans of one pair, one per row of uniform numbers."""

    plans: Tensor  # (k, T): the planner's samples; k times its plan if it has no others
    drawn: Tensor  # (k, T): drawn action by action from its probabilities, or `plans` if it has none
    probabilities: Tensor  # (k or 1, T, A): their mean over k gives the marginals


@dataclass(frozen=True)
class Prepared:
    """What is computed once for one pair: the recommended plan, and a function that draws samples."""

    plan: Tensor  # (T,)
    draw: Callable[[Tensor], Sampled]  # from uniform numbers (k, num_uniforms)


class Baseline(Standardised, BasePlanner):
    """Base class of the baselines, which return a plan themselves instead of being decoded by Viterbi.

    By default it is only fitted; one that is trained overrides `make_learner`.
    """

    def __init__(self, shape: PlannerShape, config: Config) -> None:
        super().__init__(shape.feature_width)
        self.shape, self.config = shape, config

    @classmethod
    def describe(cls, config: Config) -> str:
        """The first paragraph of the planner's file."""
        about = sys.modules[cls.__module__].__doc__ or ""
        return " ".join(about.partition("\n\n")[0].split())

    @classmethod
    def is_trained(cls) -> bool:
        return cls.make_learner is not Baseline.make_learner

    @property
    def num_uniforms(self) -> int:
        """The number of uniform random numbers that one sampled plan needs."""
        return self.shape.horizon

    def fit(self, data: PlanningData) -> None:
        self.fit_scale(torch.cat((data.train.start, data.train.goal)))

    def make_learner(self, data: PlanningData, sync: Sync) -> Learner:
        return NothingToTrain(self)

    def sampler(self, settings: SampleSettings) -> BaselineSampler:
        return BaselineSampler(self, settings)

    def action_logits(self, start: Tensor, goal: Tensor) -> Tensor:
        scores: Tensor = self(start, goal)
        return scores

    def forward(self, start: Tensor, goal: Tensor) -> Tensor:
        """Scores of the actions along the planner's own plan, (B, T, A); by default 1 for the actions of the plan."""
        return functional.one_hot(self.plan(start, goal), self.shape.num_actions).to(start.dtype)

    @abstractmethod
    def plan(self, start: Tensor, goal: Tensor) -> Tensor:
        """The recommended plans: (B, F) twice -> (B, T)."""

    @abstractmethod
    def prepare(self, start: Tensor, goal: Tensor) -> Prepared:
        """Compute what all samples of one pair share, (1, F) twice."""


def pick(probabilities: Tensor, uniforms: Tensor) -> Tensor:
    """Actions (k, T): the inverse of the cumulative (k, T, A) at uniforms (k, T); never one of weight 0."""
    total = probabilities.cumsum(dim=-1)
    return (total <= uniforms[..., None] * total[..., -1:]).sum(dim=-1)


class BaselineSampler:
    """Draws pair by pair and in blocks of one shape, so that neither other pairs nor K change the results."""

    def __init__(self, planner: Baseline, settings: SampleSettings) -> None:
        refuse_noise(settings, planner.config.planner)
        self.planner, self.num_samples = planner.eval(), settings.num_samples
        self._uniforms = torch.from_numpy(uniform_blocks(settings, "categorical", planner.num_uniforms))
        self._chain_uniforms = chain_uniforms(settings, planner.shape.horizon)

    @torch.no_grad()
    def draw(self, start: Array, goal: Array) -> Draws:
        """Draw for pairs of observations (N, F)."""
        starts, goals = (torch.as_tensor(side).to(self.planner.feature_mean) for side in (start, goal))
        pairs = [self._draw_one(one[None], other[None]) for one, other in zip(starts, goals, strict=True)]
        best, marginals, plans, drawn = (torch.stack(parts).numpy() for parts in zip(*pairs, strict=True))
        return Draws(marginals, plans, drawn, self._chain_uniforms, best)

    def _draw_one(self, start: Tensor, goal: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The plan (T,), marginals (T, A), samples (K, T) and draws (K, T) of one pair."""
        pair = self.planner.prepare(start, goal)
        blocks = [pair.draw(uniforms.to(start)) for uniforms in self._uniforms]
        plans, drawn = (
            torch.cat([part.cpu() for part in parts])[: self.num_samples]
            for parts in zip(*((block.plans, block.drawn) for block in blocks), strict=True)
        )
        total = torch.zeros(self.planner.shape.horizon, self.planner.shape.num_actions, dtype=torch.float64)
        for number, block in enumerate(blocks):
            wanted = min(BLOCK, self.num_samples - number * BLOCK)
            total += block.probabilities.expand(BLOCK, -1, -1)[:wanted].double().sum(dim=0).cpu()
        return pair.plan.cpu(), total / total.sum(dim=-1, keepdim=True), plans, drawn


class NothingToTrain(Learner):
    """The learner of a planner that is only fitted."""

    def __init__(self, planner: Baseline) -> None:
        super().__init__(planner.config, modules={"planner": planner}, optimizers={})

    def train_step(self, batch: Batch) -> dict[str, Tensor]:
        raise AssertionError("a planner without optimisers has no training steps")


class LossLearner(Learner):
    """The learner of a planner with one sum of losses: one optimiser, one update per batch."""

    def __init__(
        self,
        planner: BasePlanner,
        sync: Sync,
        losses: Callable[[Batch], dict[str, Tensor]],  # already weighted
        *,
        max_grad_norm: float = math.inf,
        weight_decay: float = 0.0,
    ) -> None:
        config = planner.config
        self.planner, self._losses, self._sync, self._max_grad_norm = planner, losses, sync, max_grad_norm
        self.optimizer = adam(planner, config, config.optim.learning_rate, weight_decay=weight_decay)
        self._autocast = mixed_precision(planner, config)
        super().__init__(config, modules={"planner": planner}, optimizers={"optimizer": self.optimizer})

    def train_step(self, batch: Batch) -> dict[str, Tensor]:
        self.planner.train()
        with self._autocast:
            terms = self._losses(batch)
            total = torch.stack(list(terms.values())).sum()
        self.optimizer.zero_grad(set_to_none=True)
        (total * batch.loss_weight).backward()
        self._sync(self.planner)
        if self._max_grad_norm < math.inf:
            nn.utils.clip_grad_norm_(self.planner.parameters(), self._max_grad_norm)
        self.optimizer.step()
        return {name: term.detach() for name, term in {"total": total, **terms}.items()}
