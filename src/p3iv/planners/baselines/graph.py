"""Graph: the best path of the transition matrix between the predicted first and last action.

The procedural-knowledge-graph baseline of recent papers, without their networks. They leave open what predicts the two
ends, and how transitions are counted and smoothed. Our choices: two linear classifiers (ridge regression from [start;
goal] onto actions, closed form, scale and penalty chosen on validation windows), and the transitions that P3IV is
decoded with by default. `argmax` samples are the best path; `categorical` samples are drawn exactly from all paths
between the two ends.

`GraphOfLengths` plans for every length. A length T is as probable as it is frequent among the training windows, times
the probability that a path of T actions from the first ends in the last: p(T) = frequency_T * Z_T / sum of the same
over all lengths.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from p3iv.config import Config
from p3iv.data.tensors import PlanningData, WindowTensors
from p3iv.errors import PlanError
from p3iv.metrics.plans import score_plans
from p3iv.planners.baselines.base import Baseline, BaselineSampler, Prepared, Sampled
from p3iv.planners.header import PlannerShape
from p3iv.planners.ridge import fit_on_validation, with_intercept
from p3iv.plans.chain import Chain, log_of, log_sum
from p3iv.plans.draws import SampleSettings
from p3iv.plans.evidence import Answer, Evidence
from p3iv.plans.transitions import row_transitions
from p3iv.types import Array, PlanScores, mean_scores


class Graph(Baseline):
    """Two classifiers for the ends, and a matrix of transitions."""

    end_weights: Tensor  # (2, 2F + 1, A): for the first and the last action
    transitions: Tensor  # (A, A)

    def __init__(self, shape: PlannerShape, config: Config) -> None:
        super().__init__(shape, config)
        self.register_buffer("end_weights", torch.zeros(2, 2 * shape.feature_width + 1, shape.num_actions))
        self.register_buffer("transitions", torch.ones(shape.num_actions, shape.num_actions))

    def fit(self, data: PlanningData) -> None:
        super().fit(data)
        train, val = (self._inputs(side.start, side.goal) for side in (data.train, data.val))
        ends = list(zip(_ends_of(data.train), _ends_of(data.val), strict=True))
        spread = self.feature_scale.repeat(2)
        self.end_weights.copy_(fit_on_validation(train, val, ends, self.shape.num_actions, spread))
        rows = row_transitions(data.train_sequences, data.val_sequences, len(data.names))[0]
        self.transitions.copy_(torch.from_numpy(rows))

    def plan(self, start: Tensor, goal: Tensor) -> Tensor:
        return torch.from_numpy(self._paths(start, goal).best_paths()[0]).to(start.device)

    def prepare(self, start: Tensor, goal: Tensor) -> Prepared:
        paths = self._paths(start, goal)
        best, shares = torch.from_numpy(paths.best_paths()[0]), torch.from_numpy(paths.marginals())

        def draw(uniforms: Tensor) -> Sampled:
            drawn = torch.from_numpy(paths.draw(uniforms.cpu().double().numpy())[0])
            return Sampled(best.expand(len(uniforms), -1), drawn, shares)

        return Prepared(best[0], draw)

    def predict_ends(self, start: Tensor, goal: Tensor) -> Tensor:
        """The first and the last action: (B, 2)."""
        return (with_intercept(self._inputs(start, goal)) @ self.end_weights).argmax(dim=-1).T

    def _paths(self, start: Tensor, goal: Tensor) -> Chain:
        return self.paths(start, goal, self.shape.horizon)

    def paths(self, start: Tensor, goal: Tensor, horizon: int) -> Chain:
        """All plans between the predicted ends; for plans of one action, only the predicted first action."""
        ends = functional.one_hot(self.predict_ends(start, goal), self.shape.num_actions).double()
        emissions = torch.ones(len(start), horizon, self.shape.num_actions, dtype=torch.float64)
        emissions[:, -1] = ends[:, 1]
        emissions[:, 0] = ends[:, 0]
        return Chain.of(emissions.numpy(), self.transitions.cpu().numpy())

    def _inputs(self, start: Tensor, goal: Tensor) -> Tensor:
        return self.standardise(torch.stack((start, goal), dim=1)).flatten(1)


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


def _ends_of(windows: WindowTensors) -> tuple[Tensor, Tensor]:
    """The first and the last action of every window: (N,) each."""
    last = windows.action_ids.gather(1, windows.lengths[:, None] - 1)
    return windows.action_ids[:, 0], last[:, 0]
