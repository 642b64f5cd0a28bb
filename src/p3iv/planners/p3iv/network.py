"""The network of the paper: start and goal in, actions and imagined states in between out (section 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from p3iv.config import ModelConfig
from p3iv.planners.header import PlannerShape
from p3iv.planners.layers import Standardised, cosine_positions, mlp
from p3iv.planners.p3iv.decoder import MemoryDecoder


@dataclass(frozen=True)
class PlanOutput:
    """What the network predicts for a batch of start/goal pairs."""

    action_logits: Tensor  # (B, T, A)
    state_embeddings: Tensor  # (B, T, D), in the space of the projected step descriptions
    tokens: Tensor  # (B, T + 1, D), the query input without noise, for decoding other latents of the same pairs


class P3IVNetwork(Standardised):
    """Encoders, conditioned queries, memory decoder and the two heads h_a and h_v."""

    positions: Tensor

    def __init__(self, shape: PlannerShape, sizes: ModelConfig) -> None:
        super().__init__(shape.feature_width)
        self.shape, self.sizes = shape, sizes
        width = sizes.width
        self.encode_observation = mlp(shape.feature_width, sizes.encoder_hidden, width)
        self.encode_target = mlp(shape.target_width, sizes.encoder_hidden, width)
        self.queries = nn.Parameter(torch.randn(shape.horizon - 1, width) / math.sqrt(width))  # q_1 .. q_{T-1}
        self.join = nn.Linear(width + sizes.noise_width, width)  # [q_t; z] -> D, eq. 4
        self.decoder = MemoryDecoder(sizes)
        self.action_head = mlp(width, sizes.head_hidden, shape.num_actions)
        self.state_head = mlp(width, sizes.head_hidden, width)
        self.register_buffer("positions", cosine_positions(shape.horizon + 1, width), persistent=False)

    def forward(self, start: Tensor, goal: Tensor, noise: Tensor | None = None) -> PlanOutput:
        """Predict one plan per window; `noise` (B, Z) is z, and None means z = 0."""
        tokens = self.tokens(start, goal)
        hidden = self.decode(tokens, None if noise is None else noise[:, None])[:, 0]  # (B, T, D)
        return PlanOutput(self.action_head(hidden), self.state_head(hidden), tokens)

    def tokens(self, start: Tensor, goal: Tensor) -> Tensor:
        """The query input of eq. 1 without its noise: (B, F) twice -> (B, T + 1, D)."""
        return self.tokens_of(self.encode(start, goal))

    def encode(self, start: Tensor, goal: Tensor) -> Tensor:
        """The two observations in the width of the network: (B, F) twice -> (B, 2, D)."""
        observed: Tensor = self.encode_observation(self.standardise(torch.stack((start, goal), dim=1)))
        return observed

    def tokens_of(self, observed: Tensor, horizon: int | None = None) -> Tensor:
        """The query input from encoded observations: (B, 2, D) -> (B, T + 1, D); of fewer positions, if asked for."""
        between = (horizon or self.shape.horizon) - 1
        queries = self.queries[:between].expand(len(observed), -1, -1)
        joined = torch.cat((observed[:, :1], queries, observed[:, 1:]), dim=1) + self.positions[: between + 2]
        return nn.functional.linear(joined, self.join.weight[:, : self.sizes.width], self.join.bias)

    def decode(self, tokens: Tensor, noise: Tensor | None) -> Tensor:
        """Hidden states of the T actions for every latent: (B, T + 1, D) and (B or 1, S, Z) -> (B, S, T, D)."""
        if noise is not None:
            noise = nn.functional.linear(noise, self.join.weight[:, self.sizes.width :])
        return self.decoder(tokens, noise)  # type: ignore[no-any-return]
