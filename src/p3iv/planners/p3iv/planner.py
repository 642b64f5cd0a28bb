"""P3IV behind the interface of all planners: how it is fitted, trained, decoded and described."""

from __future__ import annotations

import torch
from torch import Tensor

from p3iv.catalogue import LOSS_TERMS
from p3iv.config import Config
from p3iv.data.tensors import PlanningData
from p3iv.planners.base import BasePlanner, Sync
from p3iv.planners.header import PlannerShape
from p3iv.planners.p3iv.learner import P3IVLearner
from p3iv.planners.p3iv.network import P3IVNetwork
from p3iv.planners.p3iv.sampler import PlanSampler
from p3iv.plans.draws import SampleSettings


class P3IV(P3IVNetwork, BasePlanner):
    """The planner of the paper; Viterbi decodes its samples.

    In validation, Viterbi decodes the plan at z = 0: K latents after every epoch would cost more than the epoch.
    """

    chosen_buffers = ()

    def __init__(self, shape: PlannerShape, config: Config) -> None:
        super().__init__(shape, config.model)
        self.config = config

    @classmethod
    def describe(cls, config: Config) -> str:
        weighted = [name for name in LOSS_TERMS if hasattr(config.loss, name)]
        weights = ", ".join(f"{name} {getattr(config.loss, name):g}" for name in weighted)
        return f"losses: {weights}; chosen by Viterbi at z = 0"

    @classmethod
    def is_visual(cls, config: Config) -> bool:
        return config.loss.supervision == "visual"

    def fit(self, data: PlanningData) -> None:
        self.fit_scale(torch.cat((data.train.start, data.train.goal)))

    def make_learner(self, data: PlanningData, sync: Sync) -> P3IVLearner:
        language = None if data.language is None else data.language.to(self.queries)
        return P3IVLearner(self, self.config, language, sync=sync)

    def sampler(self, settings: SampleSettings) -> PlanSampler:
        return PlanSampler(self, settings)

    def action_logits(self, start: Tensor, goal: Tensor) -> Tensor:
        logits: Tensor = self(start, goal).action_logits
        return logits
