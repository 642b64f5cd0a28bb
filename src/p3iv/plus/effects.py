"""What actions change, as it is seen: ridge regression from the counts of a window's actions to goal minus start.

    goal - start  ~  sum_t effect(a_t) + offset

in closed form, from step lists alone: nobody looks between start and goal. A plan fits where its actions together make
the change that is seen. The misfit is a squared distance, every feature in units of what the regression cannot explain
in videos that it was fitted without, so that features in which nothing adds up hardly count:

    |change - sum_t effect(a_t)|^2 = |change|^2 - 2 sum_t <change, effect(a_t)> + sum_s sum_t <effect(a_s), effect(a_t)>

How much it counts, `weight`, is chosen on validation windows, and is 0 where it does not clearly help.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from p3iv.chain import Chain
from p3iv.models import PlannerShape
from p3iv.observations import WindowTensors
from p3iv.plus.pairs import video_numbers
from p3iv.plus.ridge import PENALTIES, GroupedRidge
from p3iv.rescored import RescoredChain

_SMALLEST = 1e-3  # of the mean variance: what a feature's is taken to be at least


class Effects(nn.Module):
    """The effect of every action, fitted and not trained."""

    units: Tensor  # (F,): of one unit of a feature
    offset: Tensor  # (F,): what changes anyway
    effects: Tensor  # (A, F)
    overlap: Tensor  # (A, A): their inner products
    weight: Tensor  # ()

    def __init__(self, shape: PlannerShape) -> None:
        super().__init__()
        width, number = shape.feature_width, shape.num_actions
        self.register_buffer("units", torch.zeros(width))
        self.register_buffer("offset", torch.zeros(width))
        self.register_buffer("effects", torch.zeros(number, width))
        self.register_buffer("overlap", torch.zeros(number, number))
        self.register_buffer("weight", torch.zeros(()))

    def fit(self, train: WindowTensors) -> None:
        """Fit to the training windows, with the penalty that explains most of videos left out."""
        num_actions = len(self.effects)
        scale = torch.cat((train.start, train.goal)).double().std(dim=0).clamp_min(1e-6)
        changes = (train.goal.double() - train.start.double()) / scale  # (N, F)
        counts = functional.one_hot(train.action_ids, num_actions).sum(dim=1).double()
        ridge = GroupedRidge(functional.pad(counts, (0, 1), value=1.0), video_numbers(train))
        fits = [ridge.fit(changes, penalty) for penalty in PENALTIES]
        best = min(fits, key=lambda fit: float((changes - fit.held_out).square().sum()))
        variance = (changes - best.held_out).square().mean(dim=0)
        variance = (variance + _SMALLEST * variance.mean()).clamp_min(1e-12)
        units = (variance * len(variance)).rsqrt()  # so that the squared distance is a mean over features
        effects = best.weights[:-1] * units
        self.units.copy_(units / scale)
        self.offset.copy_(best.weights[-1] * units)
        self.effects.copy_(effects)
        self.overlap.copy_(effects @ effects.T)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        for name, none in self.named_buffers(recurse=False):
            state_dict.setdefault(prefix + name, none)  # of a planner that was saved before there were effects
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def terms(self, start: Tensor, goal: Tensor) -> tuple[Tensor, Tensor]:
        """What each action (B, A) and every two together (A, A) add to the fit of a plan, at weight 1: float64, CPU."""
        change = (goal - start) * self.units - self.offset
        return (2 * change @ self.effects.T).cpu().double(), self.overlap.cpu().double()

    def rescore(self, chain: Chain, start: Tensor, goal: Tensor) -> Chain:
        """Weigh the likeliest plans of a chain by how they fit; the chain itself where that does not count."""
        weight = float(self.weight)
        if not weight:
            return chain
        each, both = self.terms(start, goal)
        return RescoredChain.over(chain, weight * each, weight * both)
