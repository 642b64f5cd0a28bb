"""What the planners to compare with share: observations in, one plan of their own, K plans drawn pair by pair."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from p3iv.config import Config
from p3iv.data.tensors import PlanningData
from p3iv.errors import DatasetError
from p3iv.planners.base import Batch, Learner, PlannerKind, PlannerShape, Standardised, Sync
from p3iv.plans.draws import BLOCK, Draws, SampleSettings, blocks_of, refuse_noise, seed_of
from p3iv.plans.transitions import Transitions

PENALTIES = (1.0, 10.0, 100.0, 1_000.0, 10_000.0)


def fit_classes(train: tuple[Tensor, Tensor], val: tuple[Tensor, Tensor], num_classes: int) -> Tensor:
    """Weights (2F + 1, C) of a linear classifier, from inputs (N, 2F) with class ids (N,) of two sides.

    Least squares onto one-hot classes, with a squared penalty on all weights but the intercept.
    """
    (inputs, ids), (val_inputs, val_ids) = train, val
    rows = with_intercept(inputs.double())
    targets = functional.one_hot(ids, num_classes).double()
    gram, moments = rows.T @ rows, rows.T @ targets
    spare = torch.ones(len(gram), dtype=torch.float64)
    spare[-1] = 1e-6  # the intercept is as good as free
    candidates = [torch.linalg.solve(gram + torch.diag(penalty * spare), moments) for penalty in PENALTIES]
    asked = with_intercept(val_inputs.double())
    hits = [int(((asked @ weights).argmax(dim=1) == val_ids).sum()) for weights in candidates]
    best: Tensor = candidates[max(range(len(hits)), key=hits.__getitem__)]
    return best.float()


def with_intercept(inputs: Tensor) -> Tensor:
    """A column of ones at the end: (N, 2F + 1)."""
    return torch.cat((inputs, inputs.new_ones(len(inputs), 1)), dim=1)


class Remembering(nn.Module):
    """A module whose buffers take the sizes of what is loaded into them."""

    def remember(self, **tables: Tensor) -> None:
        """Keep tensors under names; a second time they replace those of the first."""
        for name, table in tables.items():
            self.register_buffer(name, table.detach().clone())

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        for name in self._buffers:
            if f"{prefix}{name}" in state_dict:
                self._buffers[name] = torch.empty_like(state_dict[f"{prefix}{name}"])
        super()._load_from_state_dict(state_dict, prefix, *rest)


def states_of(batch: Batch) -> Tensor:
    """What is seen before the first action, between actions, and after the last: (B, T + 1, F)."""
    if batch.steps is None:
        raise DatasetError(
            "This planner learns from what is seen at every step in between, and these windows hold start and goal "
            "only. Use a dataset with start_s and end_s in steps.csv, or a planner that learns from step lists alone: "
            "--planner p3iv."
        )
    return torch.cat((batch.start[:, None], batch.steps[:, 1:], batch.goal[:, None]), dim=1)


def state_loss(predicted: Tensor, states: Tensor) -> Tensor:
    """Squared error per dimension, summed over the T positions, mean over the windows: (B, T, D) twice.

    The encoded states are targets, not parts, of the loss: pulled towards what is easily predicted they would all end
    in one place.
    """
    return (predicted - states.detach()).square().mean(dim=-1).sum(dim=1).mean()


@dataclass(frozen=True)
class Sampled:
    """Plans of one pair, one per row of uniform numbers."""

    plans: Tensor  # (k, T): the planner's samples; k times its one plan where it has no others
    drawn: Tensor  # (k, T): drawn action by action from its probabilities, or the samples where it has none
    probabilities: Tensor  # (k or 1, T, A): their mean over k are the marginals


@dataclass(frozen=True)
class Prepared:
    """One pair, looked at once: the plan to follow, and what draws more."""

    best: Tensor  # (T,)
    draw: Callable[[Tensor], Sampled]  # from uniform numbers (k, num_uniforms)


class Baseline(Standardised, ABC):
    """A planner of its own mind: it says which plan it would follow."""

    def __init__(self, shape: PlannerShape, config: Config) -> None:
        super().__init__(shape.feature_width)
        self.shape, self.config = shape, config

    @property
    def num_uniforms(self) -> int:
        """How many uniform numbers a sampled plan is drawn with."""
        return self.shape.horizon

    def fit(self, data: PlanningData) -> None:
        """Take from the training windows what is known before the first step."""
        self.fit_scale(torch.cat((data.train.start, data.train.goal)))

    def forward(self, start: Tensor, goal: Tensor) -> Tensor:
        """Scores of the actions along its own plan, (B, T, A); by default 1 for those of the plan."""
        return functional.one_hot(self.plan(start, goal), self.shape.num_actions).to(start.dtype)

    @abstractmethod
    def plan(self, start: Tensor, goal: Tensor) -> Tensor:
        """The plans that it would follow: (B, F) twice -> (B, T)."""

    @abstractmethod
    def prepare(self, start: Tensor, goal: Tensor) -> Prepared:
        """Look at one pair, (1, F) twice."""


class BaselineSampler:
    """Draws pair by pair and in blocks of one shape, so that neither other pairs nor K change a product."""

    def __init__(self, planner: Baseline, settings: SampleSettings) -> None:
        refuse_noise(settings, planner.config.planner)
        self.planner, self.num_samples = planner.eval(), settings.num_samples
        number, horizon = settings.num_samples, planner.shape.horizon
        self._uniforms = blocks_of(torch.rand, number, planner.num_uniforms, seed=seed_of(settings, "categorical"))
        chain = blocks_of(torch.rand, number, horizon, seed=seed_of(settings, "chain"), dtype=torch.float64)
        self._chain_uniforms = chain.flatten(0, 1)[: settings.num_samples]

    @torch.no_grad()
    def draw(self, start: Tensor, goal: Tensor) -> Draws:
        """Draw for pairs of observations (N, F)."""
        place = self.planner.feature_mean
        pairs = [
            self._draw_one(one[None].to(place), other[None].to(place)) for one, other in zip(start, goal, strict=True)
        ]
        best, marginals, plans, drawn = (torch.stack(parts) for parts in zip(*pairs, strict=True))
        return Draws(marginals, plans, drawn, self._chain_uniforms, best)

    def _draw_one(self, start: Tensor, goal: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Its own plan (T,), marginals (T, A), samples (K, T) and draws (K, T) of one pair."""
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
        return pair.best.cpu(), total / total.sum(dim=-1, keepdim=True), plans, drawn


class Fitted:
    """The learner of a planner that needs no steps."""

    optimizers: Mapping[str, Optimizer] = {}
    rates: Mapping[str, float] = {}

    def __init__(self, planner: nn.Module) -> None:
        self.modules: Mapping[str, nn.Module] = {"planner": planner}

    def train_step(self, batch: Batch, latents: Tensor | None) -> dict[str, Tensor]:  # noqa: ARG002 - the interface
        raise AssertionError("a planner without optimisers is not taught")


class Gradients:
    """The learner of a planner with one loss: one optimiser, one update per batch."""

    def __init__(
        self,
        planner: Baseline,
        config: Config,
        sync: Sync,
        losses: Callable[[Batch], dict[str, Tensor]],
        *,
        longest_step: float = math.inf,  # the norm that gradients are cut to
    ) -> None:
        self._longest_step = longest_step
        self.planner, self._losses, self._sync = planner, losses, sync
        self.optimizer = adam(planner, config, config.optim.learning_rate)
        self._cast = torch.autocast(
            planner.feature_mean.device.type, torch.bfloat16, enabled=config.optim.precision == "mixed"
        )
        self.modules: Mapping[str, nn.Module] = {"planner": planner}
        self.optimizers: Mapping[str, Optimizer] = {"optimizer": self.optimizer}
        self.rates: Mapping[str, float] = {"optimizer": config.optim.learning_rate}

    def train_step(self, batch: Batch, latents: Tensor | None) -> dict[str, Tensor]:  # noqa: ARG002 - the interface
        """Update once on the sum of the planner's losses, already weighted."""
        self.planner.train()
        with self._cast:
            terms = self._losses(batch)
            total = torch.stack(list(terms.values())).sum()
        self.optimizer.zero_grad(set_to_none=True)
        (total * batch.share).backward()
        self._sync(self.planner)
        if self._longest_step < math.inf:
            nn.utils.clip_grad_norm_(self.planner.parameters(), self._longest_step)
        self.optimizer.step()
        return {name: term.detach() for name, term in {"total": total, **terms}.items()}


def adam(module: nn.Module, config: Config, rate: float) -> Optimizer:
    """The optimiser that all planners are trained with."""
    fused = next(module.parameters()).device.type in ("cpu", "cuda")
    return torch.optim.Adam(module.parameters(), lr=rate, eps=config.optim.epsilon, fused=fused)


def kind(
    build: Callable[[PlannerShape, Config], Baseline],
    teach: Callable[[Any, PlanningData, Config, Sync], Learner] | None = None,
    *,
    about: str | None,
    reads: tuple[str, ...] = (),
    is_visual: bool = False,
    settle: Callable[[Any, PlanningData], None] = lambda *_: None,
) -> PlannerKind[Any]:
    """A baseline as a planner of the house, `about` its file's docstring; without `teach` it is fitted at once."""
    summary = " ".join((about or "").partition("\n\n")[0].split())
    return PlannerKind(
        build=build,
        fit=_fit,
        teach=teach or _no_steps,
        sampler=BaselineSampler,
        scores=_scores,
        predict=_predict,
        describe=lambda _: summary,
        reads=reads,
        is_visual=lambda _: is_visual,
        settle=settle,
    )


def _fit(planner: Baseline, data: PlanningData) -> None:
    planner.fit(data)


def _no_steps(planner: Baseline, data: PlanningData, config: Config, sync: Sync) -> Learner:  # noqa: ARG001
    return Fitted(planner)


def _scores(planner: Baseline, start: Tensor, goal: Tensor) -> Tensor:
    scores: Tensor = planner(start, goal)
    return scores


def _predict(planner: Baseline, transitions: Transitions, start: Tensor, goal: Tensor) -> Tensor:  # noqa: ARG001
    return planner.plan(start, goal)
