"""Graph for plans of every length: the best path of the transition matrix between the predicted first and last action.

A length T is as probable as it is frequent among the training windows, times the probability that a path of T actions
from the first ends in the last: p(T) = frequency_T * Z_T / sum of the same over all lengths.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from p3iv.config import Config
from p3iv.data.tensors import PlanningData
from p3iv.errors import PlanError
from p3iv.metrics.plans import score_plans
from p3iv.planners.baselines.base import BaselineSampler
from p3iv.planners.baselines.graph import Graph
from p3iv.planners.header import PlannerShape
from p3iv.plans.chain import log_of, log_sum
from p3iv.plans.draws import SampleSettings
from p3iv.plans.evidence import Answer, Evidence
from p3iv.types import Array, PlanScores, mean_scores


class GraphOfLengths(Graph):
    """The two classifiers and the matrix of `graph`, and how frequent every length is."""

    frequency: Tensor  # (H,)

    def __init__(self, shape: PlannerShape, config: Config) -> None:
        super().__init__(shape, config)
        self.horizons = config.data.horizons
        self.register_buffer("frequency", torch.ones(len(self.horizons)))

    def fit(self, data: PlanningData) -> None:
        super().fit(data)
        counts = data.train.lengths.bincount(minlength=self.horizons[-1] + 1)[list(self.horizons)]
        self.frequency.copy_(counts / counts.sum())

    def answer(self, evidence: Evidence) -> Answer:
        """The paths of every length between the predicted ends of one query."""
        if evidence.start is None or evidence.goal is None:
            raise PlanError("planner=graph needs a picture of the start and one of the goal.")
        start, goal = (torch.as_tensor(part).to(self.feature_mean) for part in (evidence.start, evidence.goal))
        chains = tuple(self.paths(start, goal, horizon) for horizon in self.horizons)
        log_z = np.array([chain.log_normaliser()[0] for chain in chains])
        first, last = self.predict_ends(start, goal)[0].tolist()
        if self.horizons[0] == 1 and first != last:  # one action cannot be both
            log_z[0] = -np.inf
        return Answer(chains, self._log_lengths(log_z))

    def _log_lengths(self, log_z: Array) -> Array:
        joint = log_of(self.frequency.double().cpu().numpy()) + (log_z if np.isfinite(log_z).any() else 0.0)
        found: Array = joint - log_sum(joint)
        return found

    def score_validation(self, data: PlanningData, transitions: object) -> PlanScores:
        """The scores of the best paths of the validation windows, each of its own length."""
        parts = [data.val.of_length(horizon)[0] for horizon in self.horizons]
        place = self.feature_mean
        return mean_scores(
            score_plans(
                torch.from_numpy(self.paths(part.start.to(place), part.goal.to(place), horizon).best_paths()[0]),
                part.action_ids,
            )
            for part, horizon in zip(parts, self.horizons, strict=True)
            if len(part)
        )

    def sampler(self, settings: SampleSettings) -> BaselineSampler:
        return BaselineSampler(_Slice(self, settings.horizon or self.shape.horizon), settings)


class _Slice(Graph):
    """The planner of one of the lengths, with the tables of the planner of all."""

    def __init__(self, whole: GraphOfLengths, horizon: int) -> None:
        shape = PlannerShape(horizon, whole.shape.num_actions, whole.shape.feature_width, whole.shape.target_width)
        super().__init__(shape, whole.config)
        for name in ("feature_mean", "feature_scale", "end_weights", "transitions"):
            setattr(self, name, getattr(whole, name))
