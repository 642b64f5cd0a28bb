"""The network of P3IV+: one score for every action at every position, from three paths, and the chain they feed.

    e_t = gain_t * h_a(h_t) + scale_t * R_t           and at t = 1 and t = T also
        + gain * <MLP(encoded start or goal), projected step descriptions>

h_t are the hidden states of the paper's decoder without noise, R_t the scores of the linear path. The linear path is
not trained with the rest, so that an encoder that overfits its few examples cannot destroy it. A second network
(`second_expert.py`) scores the same positions, and the chain takes a weighted mean of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from p3iv.config import Config, PlusConfig
from p3iv.data.tensors import PlanningData, WindowTensors
from p3iv.errors import ConfigError
from p3iv.planners.header import PlannerShape
from p3iv.planners.layers import mlp
from p3iv.planners.p3iv.network import P3IVNetwork
from p3iv.planners.plus.second_expert import SecondExpert
from p3iv.planners.ridge import PENALTIES, GroupedRidge, RidgeFit
from p3iv.plans.chain import Chain, RescoredChain
from p3iv.plans.transitions import log_transitions
from p3iv.types import Array

NEIGHBOURS = (-1, 1, 2)  # horizons T - 1, T + 1 and T + 2
NUM_PAIRS = 1024  # that go through the network at a time


@dataclass(frozen=True)
class EndPairs:
    """Pairs whose first and last actions are known; the training windows themselves come first."""

    start: Tensor  # (n,) row of the training windows whose start is seen
    goal: Tensor  # (n,) row of the training windows whose goal is seen
    groups: Tensor  # (n,) number of the video
    num_windows: int  # how many of them are the training windows


def pair_ends(windows: WindowTensors, neighbours: tuple[int, ...] = NEIGHBOURS) -> EndPairs:
    """The pairs of the windows and of neighbouring horizons; with no neighbours, the windows alone."""
    row_of = {(w.video, w.first_step): row for row, w in enumerate(windows.windows)}
    horizon = windows.action_ids.shape[1]
    pairs = [(row, row) for row in range(len(windows))]
    for shift in neighbours:
        if horizon + shift >= 1:
            pairs += [
                (row, row_of[video, first + shift])
                for (video, first), row in row_of.items()
                if (video, first + shift) in row_of
            ]
    start, goal = torch.tensor(pairs).T
    groups = video_numbers(windows)
    return EndPairs(start, goal, groups[start], len(windows))


def video_numbers(windows: WindowTensors) -> Tensor:
    """The number of every window's video, in the order of their first windows: (N,)."""
    number_of: dict[str, int] = {}
    return torch.tensor([number_of.setdefault(w.video, len(number_of)) for w in windows.windows])


class LinearPath(nn.Module):
    """One linear classifier per position, fitted in closed form and not trained."""

    mean: Tensor  # (2F,)
    weights: Tensor  # (T, 2F, A)

    def __init__(self, shape: PlannerShape) -> None:
        super().__init__()
        width = 2 * shape.feature_width
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("weights", torch.zeros(shape.horizon, width, shape.num_actions))

    def forward(self, start: Tensor, goal: Tensor) -> Tensor:
        """Scores of every action at every position: (B, F) twice -> (B, T, A)."""
        return torch.einsum("bf,tfa->bta", self.inputs(start, goal), self.weights)

    def inputs(self, start: Tensor, goal: Tensor) -> Tensor:
        """The inputs of the regression: [start; goal] minus its training mean, scaled to length 1, (B, 2F)."""
        return functional.normalize(torch.cat((start, goal), dim=1) - self.mean, dim=1)


def fit_linear_path(path: LinearPath, data: PlanningData, config: PlusConfig) -> Tensor:
    """Fit every position; returns the scores that training uses, (N, T, A): without a window's own video.

    The observation at an end depends on where a window begins or ends and not on its length, so the first and the last
    position also learn from pairs of neighbouring horizons. And a step looks much the same a second earlier or later,
    so all positions also learn from the windows observed then.
    """
    train, num_actions = data.train, len(data.names)
    horizon = train.action_ids.shape[1]
    path.mean.copy_(torch.cat((train.start, train.goal), dim=1).double().mean(dim=0))
    nearby = train.nearby if config.nearby and train.nearby is not None else ()
    fits: dict[int, RidgeFit] = {}
    for is_end in (True, False) if config.neighbours else (False,):
        pairs = pair_ends(train) if is_end else pair_ends(train, ())
        positions = [p for p in range(horizon) if not config.neighbours or (p in (0, horizon - 1)) == is_end]
        if not positions:
            continue
        rows = [path.inputs(train.start[pairs.start], train.goal[pairs.goal])]
        rows += [path.inputs(start, goal) for start, goal in nearby]
        again = torch.arange(len(train)).repeat(len(nearby))  # the windows come first among the pairs
        ridge = GroupedRidge(torch.cat(rows), torch.cat([pairs.groups, pairs.groups[again]]))
        for position in positions:
            ids = train.action_ids[pairs.start if position == 0 else pairs.goal, position]
            fits[position] = ridge.choose(torch.cat([ids, ids[again]]), num_actions, num_scored=pairs.num_windows)
    path.weights.copy_(torch.stack([fits[p].weights for p in range(horizon)]))
    if not config.held_out:
        seen: Tensor = path(train.start, train.goal)
        return seen
    return torch.stack([fits[p].held_out for p in range(horizon)], dim=1).float()


MIN_VARIANCE = 1e-3  # added to the variance of every feature, relative to their mean


class Effects(nn.Module):
    """The effect of every action on the features, fitted and not trained."""

    units: Tensor  # (F,): scale of every feature
    offset: Tensor  # (F,): the change without any action
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
        """Fit to the training windows, with the penalty that predicts left-out videos best."""
        num_actions = len(self.effects)
        scale = torch.cat((train.start, train.goal)).double().std(dim=0).clamp_min(1e-6)
        changes = (train.goal.double() - train.start.double()) / scale  # (N, F)
        ids = train.action_ids
        counts = (functional.one_hot(ids.clamp_min(0), num_actions) * (ids >= 0)[..., None]).sum(dim=1).double()
        ridge = GroupedRidge(functional.pad(counts, (0, 1), value=1.0), video_numbers(train))
        fits = [ridge.fit(changes, penalty) for penalty in PENALTIES]
        best = min(fits, key=lambda fit: float((changes - fit.held_out).square().sum()))
        variance = (changes - best.held_out).square().mean(dim=0)
        variance = (variance + MIN_VARIANCE * variance.mean()).clamp_min(1e-12)
        units = (variance * len(variance)).rsqrt()  # so that the squared distance is a mean over features
        effects = best.weights[:-1] * units
        self.units.copy_(units / scale)
        self.offset.copy_(best.weights[-1] * units)
        self.effects.copy_(effects)
        self.overlap.copy_(effects @ effects.T)

    def terms(self, start: Tensor, goal: Tensor) -> tuple[Array, Array]:
        """What single actions (B, A) and pairs of actions (A, A) add to the fit of a plan at weight 1."""
        return self.each(start, goal), as_array(self.overlap)

    def rescore(self, chain: Chain, pairs: Sequence[tuple[Tensor, Tensor]]) -> Chain:
        """Rescore the likeliest plans of a chain by their fit; the chain itself if the weight is 0."""
        weight = float(self.weight)
        if not weight:
            return chain
        each = np.concatenate([self.each(*pair) for pair in pairs])
        return RescoredChain.over(chain, weight * each, weight * as_array(self.overlap))

    def each(self, start: Tensor, goal: Tensor) -> Array:
        """What single actions add to the fit of a plan at weight 1: (B, A).

        In double precision: weights of up to 300 would magnify the rounding of sums over features.
        """
        change = as_array(goal - start) * as_array(self.units) - as_array(self.offset)
        return 2 * change @ as_array(self.effects).T


@dataclass(frozen=True)
class PlusOutput:
    """What the network predicts for a batch of start/goal pairs."""

    emissions: Tensor  # (B, T, A)
    states: Tensor | None  # (B, T, D), in the space of the projected step descriptions; None without the decoder
    end_scores: Tensor | None  # (B, 2, A): of the first and the last action, by the end heads; None without them
    descriptions: Tensor  # (A, D): the projected step descriptions


class ChainNetwork(nn.Module):
    """Two networks whose scores and transitions, joined, form a chain; the second one may be missing."""

    config: Config
    log_transitions: Tensor  # (A, A), of exponent 1
    log_beta: nn.Parameter
    second: SecondExpert | None
    second_weight: Tensor  # () of the second network, if there is one: its share in the chain that decodes

    @property
    def first_beta(self) -> Tensor:
        """The exponent of the transitions without the second network: ()."""
        return self.log_beta.exp()

    @property
    def beta(self) -> Tensor:
        """The exponent of the transitions of the chain that decodes: ()."""
        return self.first_beta if self.second is None else self.first_beta.lerp(self.second.beta, self.second_weight)


class P3IVPlusNetwork(ChainNetwork):
    """The paper's planner, a linear path, two end heads, transitions, and a second network."""

    language: Tensor  # (A, F_l)
    temperature: Tensor  # () of the emissions

    def __init__(self, shape: PlannerShape, config: Config) -> None:
        super().__init__()
        if config.loss.supervision != "language":
            raise ConfigError(
                f"loss.supervision={config.loss.supervision}, but planner={config.planner} learns from step texts: "
                f"leave it at language."
            )
        self.shape, self.config = shape, config
        plus, width, positions = config.plus, config.model.width, torch.ones(shape.horizon, 1)
        self.base = P3IVNetwork(shape, config.model)
        self.linear = LinearPath(shape)
        self.effects = Effects(shape)
        self.scale = nn.Parameter(plus.scale * positions)
        self.gain = nn.Parameter(plus.gain * positions)
        self.log_beta = nn.Parameter(torch.zeros(()), requires_grad=plus.learned_beta)
        self.end_gain = nn.Parameter(torch.full((2, 1), plus.gain))
        self.end_heads = nn.ModuleList(mlp(width, config.model.head_hidden, width) for _ in range(2))
        self.second = SecondExpert(shape, shape.horizon, width, learns_beta=plus.learned_beta) if plus.second else None
        self.register_buffer("second_weight", torch.tensor(0.5) if plus.second else None)
        self.register_buffer("language", torch.zeros(shape.num_actions, shape.target_width))
        self.register_buffer("log_transitions", torch.zeros(shape.num_actions, shape.num_actions))
        self.register_buffer("temperature", torch.ones(()))
        self.held_out: Tensor | None = None  # (N, T, A): linear scores of the training windows, for their training

    def fit(self, data: PlanningData) -> None:
        """Fit what is not trained: feature scale, transitions, linear path and effects."""
        plus = self.config.plus
        observations = torch.cat((data.train.start, data.train.goal))
        self.base.fit_scale(observations)
        if self.second is not None:
            self.second.fit(observations)
        sequences = data.train_sequences, data.val_sequences
        self.log_transitions.copy_(torch.from_numpy(log_transitions(*sequences, len(data.names), plus.backoff)))
        if data.language is not None:
            self.language.copy_(data.language)
        elif plus.end_heads or self.config.loss.language:
            raise ConfigError(
                "plus.end_heads and loss.language need language.npz. Make it with `p3iv data embed DIR`, or set them "
                "to false and 0."
            )
        if plus.linear:
            self.held_out = fit_linear_path(self.linear, data, plus)
        if plus.effects:
            self.effects.fit(data.train)

    def forward(self, start: Tensor, goal: Tensor, linear_scores: Tensor | None = None) -> PlusOutput:
        """The scores of the first network; `linear_scores` (B, T, A) replace those of the linear path."""
        plus, emissions = self.config.plus, start.new_zeros(())
        states = ends = None
        observed, descriptions = self.base.encode(start, goal), self.base.encode_target(self.language)
        if plus.linear:
            emissions = self.scale * (self.linear(start, goal) if linear_scores is None else linear_scores)
        if plus.decoder:
            hidden = self.base.decode(self.base.tokens_of(observed), None)[:, 0]  # (B, T, D)
            emissions = emissions + self.gain * self.base.action_head(hidden)
            states = self.base.state_head(hidden)
        if plus.end_heads:
            ends = self._score_ends(observed, descriptions)
            between = self.shape.horizon - 1  # positions after the first, and before the last
            emissions = emissions + functional.pad(ends[:, :1], (0, 0, 0, between))
            emissions = emissions + functional.pad(ends[:, 1:], (0, 0, between, 0))
        return PlusOutput(emissions, states, ends, descriptions)

    def emissions(self, start: Tensor, goal: Tensor) -> Tensor:
        """The scores of the chain that decodes: (B, F) twice -> (B, T, A)."""
        first: Tensor = self(start, goal).emissions
        if self.second is None:
            return first
        return first.lerp(self.second.score_pairs(start, goal).emissions, self.second_weight)

    def chain(self, start: Tensor, goal: Tensor, *, size: int = NUM_PAIRS) -> Chain:
        """The chain that decodes and samples, one per pair.

        `size` pairs at a time go through the network. With 1, the neighbours of a pair do not change its numbers.
        """
        pairs = list(zip(start.split(size), goal.split(size), strict=True))
        emissions = np.concatenate([as_array(self.emissions(*pair) / self.temperature) for pair in pairs])
        chain = Chain(emissions, as_array(self.beta * self.log_transitions))
        return self.effects.rescore(chain, pairs)

    def _score_ends(self, observed: Tensor, descriptions: Tensor) -> Tensor:
        """Scores of the first and the last action from start and goal alone: (B, 2, D) -> (B, 2, A)."""
        states = [head(end) for head, end in zip(self.end_heads, observed.unbind(dim=1), strict=True)]
        scores: Tensor = self.end_gain * (torch.stack(states, dim=1) @ descriptions.T)
        return scores


def as_array(tensor: Tensor) -> Array:
    """A tensor in double precision, without its graph."""
    return tensor.detach().cpu().double().numpy()
