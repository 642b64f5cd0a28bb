"""The network of P3IV+: one score for every action at every position, from three paths, and the chain they feed.

    e_t = gain_t * h_a(h_t) + scale_t * R_t           and at t = 1 and t = T also
        + gain * <MLP(encoded start or goal), projected step descriptions>

h_t are the hidden states of the paper's decoder without noise, R_t the scores of the linear path. The linear path is
not trained with the rest, so that an encoder that learns its few examples by heart cannot destroy it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from p3iv.chain import Chain
from p3iv.config import Config
from p3iv.errors import ConfigError
from p3iv.models import P3IV, PlannerShape
from p3iv.models.p3iv import mlp
from p3iv.observations import PlanningData
from p3iv.plus.backoff import fit_log_transitions
from p3iv.plus.effects import Effects
from p3iv.plus.linear_path import LinearPath, fit_linear_path


@dataclass(frozen=True)
class PlusOutput:
    """What the network says of a batch of start/goal pairs."""

    emissions: Tensor  # (B, T, A)
    states: Tensor | None  # (B, T, D), in the space of the projected step descriptions; None without the decoder
    end_scores: Tensor | None  # (B, 2, A): of the first and the last action, by the end heads; None without them
    descriptions: Tensor  # (A, D): the projected step descriptions


class P3IVPlus(nn.Module):
    """The paper's planner, a linear path, two end heads, and transitions."""

    language: Tensor  # (A, F_l)
    log_transitions: Tensor  # (A, A), of exponent 1
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
        self.base = P3IV(shape, config.model)
        self.linear = LinearPath(shape)
        self.effects = Effects(shape)
        self.scale = nn.Parameter(plus.scale * positions)
        self.gain = nn.Parameter(plus.gain * positions)
        self.log_beta = nn.Parameter(torch.zeros(()), requires_grad=plus.learned_beta)
        self.end_gain = nn.Parameter(torch.full((2, 1), plus.gain))
        self.end_heads = nn.ModuleList(mlp(width, config.model.head_hidden, width) for _ in range(2))
        self.register_buffer("language", torch.zeros(shape.num_actions, shape.target_width))
        self.register_buffer("log_transitions", torch.zeros(shape.num_actions, shape.num_actions))
        self.register_buffer("temperature", torch.ones(()))
        self.held_out: Tensor | None = None  # (N, T, A): linear scores of the training windows, for their training

    def fit(self, data: PlanningData) -> None:
        """Take from the training data what is known before the first step."""
        plus = self.config.plus
        self.base.fit_scale(torch.cat((data.train.start, data.train.goal)))
        self.log_transitions.copy_(fit_log_transitions(data, plus.backoff))
        if data.language is not None:
            self.language.copy_(data.language)
        elif plus.end_heads or self.config.loss.language:
            raise ConfigError(
                "plus.end_heads and loss.language need language.npz. Import it, or set them to false and 0."
            )
        if plus.linear:
            self.held_out = fit_linear_path(self.linear, data, plus)
        if plus.effects:
            self.effects.fit(data.train)

    def forward(self, start: Tensor, goal: Tensor, linear_scores: Tensor | None = None) -> PlusOutput:
        """Score every action at every position; `linear_scores` (B, T, A) take the place of the linear path's own."""
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

    def chain(self, start: Tensor, goal: Tensor) -> Chain:
        """The chain that decodes and draws, one per pair: on the CPU and in float64, as chains are."""
        emissions = self(start, goal).emissions / self.temperature
        chain = Chain(emissions.cpu().double(), (self.beta * self.log_transitions).cpu().double())
        return self.effects.rescore(chain, start, goal)

    @property
    def beta(self) -> Tensor:
        """The exponent of the transitions: ()."""
        return self.log_beta.exp()

    def _score_ends(self, observed: Tensor, descriptions: Tensor) -> Tensor:
        """What each of the two moments (B, 2, D) says by itself of the action that it shows: (B, 2, A)."""
        states = [head(end) for head, end in zip(self.end_heads, observed.unbind(dim=1), strict=True)]
        scores: Tensor = self.end_gain * (torch.stack(states, dim=1) @ descriptions.T)
        return scores
