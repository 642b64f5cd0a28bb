"""The interface that every planner implements: build, fit, train, sample, plan.

A planner is an `nn.Module` that is built from the sizes of the data and the settings of a run, so that saving and
loading it means saving and loading its state dict. Training, evaluation and `p3iv.Planner` use the methods of
`BasePlanner` and nothing else. `p3iv.planners.registry` lists the planners by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from p3iv.config import PLANNER_SECTIONS, Config
from p3iv.data.tensors import PlanningData
from p3iv.metrics.plans import score_plans
from p3iv.planners.header import PlannerShape, SelectionScore
from p3iv.plans.chain import Chain
from p3iv.plans.draws import Draws, Sampler, SampleSettings, chain_uniforms, draws_of, refuse_noise
from p3iv.plans.evidence import Answer, Answers, Evidence
from p3iv.plans.step_filter import FollowNumbers
from p3iv.plans.transitions import Transitions
from p3iv.types import Array, PlanScores

VALIDATION_BATCH = 1024  # windows

Sync = Callable[[nn.Module], None]  # averages gradients over processes; does nothing in a single process


@dataclass(frozen=True)
class Batch:
    """The windows of one training step."""

    start: Tensor  # (B, F)
    goal: Tensor  # (B, F)
    action_ids: Tensor  # (B, T)
    noise: Tensor | None = None  # (B, Z), one latent per window; None if the planner has no noise
    latents: Tensor | None = None  # (1, S, Z): the latents that the diversity loss compares
    steps: Tensor | None = None  # (B, T, F): the observation at the start of each step, strong supervision only
    rows: Tensor | None = None  # (B,): the index of each window among the training windows
    evidence: Tensor | None = None  # (B, 5) uniform numbers that decide which evidence a query has
    loss_weight: float = 1.0  # this process's share of the global batch, times the number of processes


class Learner(ABC):
    """Trains a planner batch by batch.

    A learner without optimisers has nothing to train: its run is a single epoch.
    """

    def __init__(self, config: Config, modules: Mapping[str, nn.Module], optimizers: Mapping[str, Optimizer]) -> None:
        """Keep what a resumed run needs, by the names that it is saved under; `planner` is one of the modules."""
        self.config, self.modules, self.optimizers = config, modules, optimizers
        self._first_rates = {name: optimizer.param_groups[0]["lr"] for name, optimizer in optimizers.items()}

    @property
    def learning_rate(self) -> float:
        """The current rate of the first optimiser; 0 without one."""
        return next((float(o.param_groups[0]["lr"]) for o in self.optimizers.values()), 0.0)

    def start_epoch(self, epoch: int) -> None:
        """Set the learning rates of an epoch, counted from 1: they fall by `optim.decay` every `decay_every` epochs."""
        decay = self.config.optim.decay ** ((epoch - 1) // self.config.optim.decay_every)
        for name, optimizer in self.optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] = self._first_rates[name] * decay

    @abstractmethod
    def train_step(self, batch: Batch) -> dict[str, Tensor]:
        """Update once; returns the loss terms by name, with their sum under `total`."""


class BasePlanner(nn.Module, ABC):
    """A planner for pairs of observations, built from (shape, config)."""

    preset: ClassVar[str] = "p3iv"  # the preset that it is trained with by default
    sees: ClassVar[tuple[str, ...]] = ("start", "goal")  # the pieces of evidence that it can use, of `EVIDENCE`
    own_settings: ClassVar[tuple[str, ...]] = ()  # settings of PLANNER_SECTIONS that it reads; `plus.` is a section
    unused_settings: ClassVar[tuple[str, ...]] = ()  # beginnings of settings of other sections that it does not read
    # The buffers that `calibrate` and `finish` choose; None if validation windows choose more than them and the epoch.
    chosen_buffers: ClassVar[tuple[str, ...] | None] = None

    shape: PlannerShape
    config: Config

    @classmethod
    @abstractmethod
    def describe(cls, config: Config) -> str:
        """One line about the method, for the model card and the report."""

    @classmethod
    def is_trained(cls) -> bool:
        """Whether it is trained in epochs; otherwise it is only fitted and has no network."""
        return True

    @classmethod
    def is_visual(cls, config: Config) -> bool:
        """Whether it learns from the observations at every step (strong supervision)."""
        return False

    @classmethod
    def nearby_s(cls, config: Config) -> int:
        """Up to how many seconds before and after a window's two moments it looks in training."""
        return 0

    @classmethod
    def reads_history(cls) -> bool:
        """Whether it looks at the video before the start of a window."""
        return False

    @classmethod
    def ignores(cls, setting: str) -> bool:
        """Whether a setting, given by its dotted name, does not change this planner."""
        section = setting.partition(".")[0]
        is_foreign = section in PLANNER_SECTIONS and not setting.startswith(cls.own_settings)
        return is_foreign or setting.startswith(cls.unused_settings)

    @abstractmethod
    def fit(self, data: PlanningData) -> None:
        """Compute what is known before the first training step: feature scales, counts, neighbours."""

    def check_loaded(self) -> None:
        """Raise a ValueError if tables that were loaded contradict each other; by default nothing can."""
        return

    @abstractmethod
    def make_learner(self, data: PlanningData, sync: Sync) -> Learner:
        """The learner that trains this planner on these data."""

    @abstractmethod
    def sampler(self, settings: SampleSettings) -> Sampler:
        """The sampler that draws plans from this planner."""

    @abstractmethod
    def action_logits(self, start: Tensor, goal: Tensor) -> Tensor:
        """Scores of all actions at all positions: (B, F) twice -> (B, T, A)."""

    def answer(self, evidence: Evidence) -> Answer:
        """The chains of one query; only planners for several lengths have one for every length."""
        raise AssertionError(f"planner={self.config.planner} plans for one length")

    def answers(self, evidence: Evidence) -> Iterator[Answers]:
        """The chains of many queries, some at a time, in their order."""
        return (Answers.of(self.answer(one)) for one in evidence.split(1))

    @property
    def follow_numbers(self) -> FollowNumbers | None:
        """The numbers with which the planner follows a video; None if it cannot."""
        return None

    def score_under_way(self, evidence: Evidence) -> Array:
        """Scores of the step under way at moments, the last one for no step: (N, A + 1)."""
        raise AssertionError(f"planner={self.config.planner} cannot follow videos")

    def plan(self, start: Tensor, goal: Tensor) -> Tensor | None:
        """The recommended plans (B, T), if the planner chooses them itself; None if Viterbi decodes its logits."""
        return None

    def recommend(self, start: Tensor, goal: Tensor, transitions: Transitions) -> Tensor:
        """The recommended plans without sampling, for validation: (B, F) twice -> (B, T)."""
        own = self.plan(start, goal)
        if own is not None:
            return own
        emissions = self.action_logits(start, goal).softmax(dim=-1).cpu().double().numpy()
        return torch.from_numpy(Chain.of(emissions, transitions.row).best_paths()[0])

    def score_validation(self, data: PlanningData, transitions: Transitions) -> PlanScores:
        """The scores of the recommended plans of the validation windows."""
        val, place = data.val, next(iter(self.state_dict().values()))
        self.eval()
        with torch.no_grad():
            parts = [
                self.recommend(start.to(place), goal.to(place), transitions).cpu()
                for start, goal in zip(val.start.split(VALIDATION_BATCH), val.goal.split(VALIDATION_BATCH), strict=True)
            ]
        return score_plans(torch.cat(parts), val.action_ids)

    def check_finite(self, data: PlanningData) -> bool:
        """Whether the scores of a few validation windows, or without any of training windows, are finite."""
        some, place = data.val if len(data.val) else data.train, next(iter(self.state_dict().values()))
        self.eval()
        with torch.no_grad():
            return bool(self.action_logits(some.start[:64].to(place), some.goal[:64].to(place)).isfinite().all())

    def calibrate(self, data: PlanningData) -> None:
        """Choose on validation windows, after every epoch, what is not trained; by default nothing."""
        return

    def finish(self, data: PlanningData) -> None:
        """Fit what the choice of an epoch does not depend on, for an epoch that is kept; by default nothing."""
        return

    def set_chosen(self, values: Mapping[str, Tensor]) -> None:
        """Set what `calibrate` and `finish` choose, by the names of the buffers; without validation windows."""
        for name, value in values.items():
            self.get_buffer(name).copy_(value)

    def selection_score(self, data: PlanningData, val: PlanScores) -> SelectionScore:
        """How good an epoch is on validation windows; by default success rate, then accuracy."""
        return val.success_rate, val.mean_accuracy


class ChainPlanner(BasePlanner):
    """A planner that is a chain: it recommends the most probable plan of the chain and draws exactly from it."""

    @abstractmethod
    def chain(self, start: Tensor, goal: Tensor, *, size: int = VALIDATION_BATCH) -> Chain:
        """The chains of pairs (B, F), `size` of which go through the network at a time."""

    def sampler(self, settings: SampleSettings) -> ChainSampler:
        return ChainSampler(self, settings)

    def plan(self, start: Tensor, goal: Tensor) -> Tensor:
        return torch.from_numpy(self.chain(start, goal).best_paths()[0]).to(start.device)


class ChainSampler:
    """Draws exactly, by forward filtering and backward sampling; all sampling modes give the same plans."""

    def __init__(self, planner: ChainPlanner, settings: SampleSettings) -> None:
        refuse_noise(settings, planner.config.planner)
        self.planner = planner.eval()
        self._uniforms = chain_uniforms(settings, planner.shape.horizon, rescored=True)

    @torch.no_grad()
    def draw(self, start: Array, goal: Array) -> Draws:
        """Draw for pairs of observations (N, F), each computed by itself so that its neighbours change nothing."""
        place = next(iter(self.planner.state_dict().values()))
        chain = self.planner.chain(torch.as_tensor(start).to(place), torch.as_tensor(goal).to(place), size=1)
        return draws_of(chain, self._uniforms)
