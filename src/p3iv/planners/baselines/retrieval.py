"""Retrieval (supplement F): the plan of the training window whose start and goal look most alike.

The paper leaves open which similarity is used, and what happens with ties. Our choices: the cosine of [start; goal] in
float64, of features that are standardised, only centred, or as observed, whichever is right more often on validation
windows. A part that all features have in common hides their differences, but where the dimensions are scores of
classes, standardising makes the rare ones loud. Cosines that agree to nine decimals are ties, which go to the lower
index. With `baseline.neighbours` above 1, the plans of that many neighbours are a distribution, and the most frequent
plan is recommended, the nearest among ties.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from p3iv.config import Config
from p3iv.data.tensors import PlanningData, WindowTensors
from p3iv.metrics.plans import score_plans
from p3iv.planners.baselines.base import Baseline, Prepared, ResizableBuffers, Sampled, require_range
from p3iv.planners.header import PlannerShape
from p3iv.planners.layers import Standardised

_BLOCK = 1024  # windows prepared at a time
_MAX_ELEMENTS = 2**22  # cosines computed at a time: 32 MB

_NUM_VALIDATED = 1000  # validation windows that decide about the scale, so that it costs little on large datasets


class Retrieval(ResizableBuffers, Baseline):
    """Keeps every training window."""

    own_settings = ("baseline.neighbours",)

    known: Tensor  # (N_train, 2F)
    known_plans: Tensor  # (N_train, T)

    def __init__(self, shape: PlannerShape, config: Config) -> None:
        super().__init__(shape, config)
        nothing = torch.zeros(0, shape.horizon, dtype=torch.int64)
        self.store(known=torch.zeros(0, 2 * shape.feature_width), known_plans=nothing)
        self._unit = self.known, self.known  # a table of features, and the same rows as `_unit_pairs`

    def fit(self, data: PlanningData) -> None:
        chosen = _choose_scale(data, self.config.baseline.neighbours)
        self.feature_mean.copy_(chosen.feature_mean)
        self.feature_scale.copy_(chosen.feature_scale)
        known = torch.cat((data.train.start, data.train.goal), dim=1)
        self.store(known=known, known_plans=data.train.action_ids)

    def check_loaded(self) -> None:
        require_range(self.known_plans, self.shape.num_actions, "plans")
        if len(self.known) != len(self.known_plans) or not len(self.known):
            raise ValueError("it has no plans, or not as many as windows")

    def plan(self, start: Tensor, goal: Tensor) -> Tensor:
        return _most_frequent(self._neighbours(start, goal))

    def prepare(self, start: Tensor, goal: Tensor) -> Prepared:
        neighbours = self._neighbours(start, goal)  # (1, k, T)
        shares = functional.one_hot(neighbours[0], self.shape.num_actions).double().mean(dim=0, keepdim=True)

        def draw(uniforms: Tensor) -> Sampled:
            plans = neighbours[0][(uniforms[:, 0].double() * neighbours.shape[1]).long()]
            return Sampled(plans, plans, shares)

        return Prepared(_most_frequent(neighbours)[0], draw)

    def _neighbours(self, start: Tensor, goal: Tensor) -> Tensor:
        """Plans of the nearest training windows, (B, k, T)."""
        if self._unit[0] is not self.known:
            self._unit = self.known, _unit_pairs(self, *self.known.chunk(2, dim=1))
        asked = _unit_pairs(self, start, goal)
        return self.known_plans[nearest_windows(self._unit[1], asked, self.config.baseline.neighbours)]


def nearest_plans(data: PlanningData, windows: WindowTensors, *, skip_own_video: bool = False) -> Tensor:
    """The plans that `Retrieval` recommends with one neighbour: (N, T).

    With `skip_own_video`, windows of the same video are ignored; use it for windows that are in train themselves.
    """
    train, scale = data.train, _choose_scale(data, 1)
    known = _unit_pairs(scale, train.start, train.goal)
    number_of = {video: number for number, video in enumerate(dict.fromkeys(w.video for w in train.windows))}
    owner = torch.tensor([number_of[w.video] for w in train.windows]) if skip_own_video else None  # (N_train,)
    asker = torch.tensor([number_of.get(w.video, -1) for w in windows.windows])
    nearest = [
        nearest_windows(known, _unit_pairs(scale, start, goal), 1, owner=owner, asker=own)
        for start, goal, own in zip(*(side.split(_BLOCK) for side in (windows.start, windows.goal, asker)), strict=True)
    ]
    return train.action_ids[torch.cat(nearest)[:, 0]]


def _choose_scale(data: PlanningData, neighbours: int) -> Standardised:
    """The scale of the features with the best plans on validation windows; the first among ties, and without any."""
    train, val = data.train, data.val
    standardised, centred, observed = (Standardised(train.start.shape[1]) for _ in range(3))
    for scale in (standardised, centred):
        scale.fit_scale(torch.cat((train.start, train.goal)))
    centred.feature_scale.fill_(1.0)
    if not len(val):
        return standardised
    some = torch.linspace(0, len(val) - 1, min(len(val), _NUM_VALIDATED)).long()

    def success(scale: Standardised) -> tuple[float, float]:
        known = _unit_pairs(scale, train.start, train.goal)
        asked = _unit_pairs(scale, val.start[some], val.goal[some])
        plans = _most_frequent(train.action_ids[nearest_windows(known, asked, neighbours)])
        scores = score_plans(plans, val.action_ids[some])
        return scores.success_rate, scores.mean_accuracy

    return max((standardised, centred, observed), key=success)


def nearest_windows(
    known: Tensor, asked: Tensor, number: int, *, owner: Tensor | None = None, asker: Tensor | None = None
) -> Tensor:
    """Indices of the nearest rows, nearest first: unit rows (N_train, 2F) and (N, 2F) -> (N, k or N_train).

    If both are given, rows whose owner (N_train,) is the asker (N,) are ignored.
    """
    found, size = [], max(1, _MAX_ELEMENTS // len(known))
    for start in range(0, len(asked), size):
        cosine = (asked[start : start + size] @ known.T).round_(decimals=9)
        if owner is not None and asker is not None:
            cosine[asker[start : start + size, None] == owner] = -torch.inf
        first = cosine.argmax(dim=1, keepdim=True)
        found.append(first if number == 1 else cosine.argsort(dim=1, descending=True, stable=True)[:, :number])
    return torch.cat(found)


def _most_frequent(neighbours: Tensor) -> Tensor:
    """The most frequent plan of (B, k, T), the nearest among ties: (B, T)."""
    same = (neighbours[:, :, None] == neighbours[:, None]).all(dim=-1).sum(dim=-1)  # (B, k): how often each occurs
    return neighbours[torch.arange(len(neighbours)), same.argmax(dim=1)]


def _unit_pairs(scale: Standardised, start: Tensor, goal: Tensor) -> Tensor:
    """The standardised [start; goal] with length 1: (N, F) twice -> (N, 2F) float64."""
    pairs = torch.stack((start, goal), dim=1).double()
    return functional.normalize(scale.standardise(pairs).flatten(1), dim=1)
