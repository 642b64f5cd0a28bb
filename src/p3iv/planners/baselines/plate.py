"""PlaTe: Sun et al., "PlaTe: visually-grounded planning with transformers in procedural tasks", RA-L 2022 (2021).

DDN's two branches as causal transformers over tokens of states and actions: one predicts the next action, the other
imagines the next state. The loss is cross-entropy plus 0.1 times the squared error of states; plans come from a beam
search, or are drawn at a temperature. The paper leaves open the sizes, how the goal is used, whether the branches share
parameters, and whether states in training are true or imagined. Our choices:

- The sequence is goal, state, action, state, ...; both branches read all of it and share its embeddings; each has the
  layers, heads and widths of P3IV's decoder (`model.layers`, ...), with cosine positions and a causal mask.
- Training forces the true actions, and uses the states that the second branch imagines, as at inference.
- The recommended plan comes from the beam search of DDN (`baseline.beam`), which weighs the distance to the goal by
  `baseline.goal_weight`, or by a weight chosen on validation windows after every epoch. Samples are drawn at
  `baseline.temperature`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from p3iv.config import Config, ModelConfig
from p3iv.planners.baselines.autoregressive import Memory, Searching
from p3iv.planners.header import PlannerShape
from p3iv.planners.layers import cosine_positions, mlp


class CausalTransformer(nn.Module):
    """Post-norm blocks in which a token attends to itself and to earlier tokens."""

    positions: Tensor
    mask: Tensor

    def __init__(self, config: ModelConfig, max_tokens: int) -> None:
        super().__init__()
        block = nn.TransformerEncoderLayer(
            config.width, config.heads, config.feed_forward, config.dropout, batch_first=True
        )
        self.blocks = nn.TransformerEncoder(block, config.layers, enable_nested_tensor=False)
        is_later = torch.ones(max_tokens, max_tokens, dtype=torch.bool).triu(diagonal=1)
        self.register_buffer("positions", cosine_positions(max_tokens, config.width), persistent=False)
        self.register_buffer("mask", is_later, persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, L, D) -> (B, L, D)."""
        length = tokens.shape[1]
        mixed: Tensor = self.blocks(tokens + self.positions[:length], mask=self.mask[:length, :length])
        return mixed


class Plate(Searching):
    """Two causal transformers over one sequence."""

    draws_samples = True
    state_weight = 0.1  # as in the paper

    def __init__(self, shape: PlannerShape, config: Config) -> None:
        super().__init__(shape, config)
        width, max_tokens = config.model.width, 2 * shape.horizon + 2
        self.encode_observation = mlp(shape.feature_width, config.model.encoder_hidden, width)
        self.embed_action = nn.Embedding(shape.num_actions, width)
        self.kinds = nn.Parameter(torch.randn(3, width) / width**0.5)  # of goal, state and action tokens
        self.action_branch = CausalTransformer(config.model, max_tokens)
        self.state_branch = CausalTransformer(config.model, max_tokens)
        self.action_head = mlp(width, config.model.head_hidden, shape.num_actions)
        self.state_head = mlp(width, config.model.head_hidden, width)

    def begin(self, start: Tensor, goal: Tensor) -> Memory:
        state, target = self.encode(start), self.encode(goal)
        return state, target, torch.stack((target + self.kinds[0], state + self.kinds[1]), dim=1)

    def act(self, memory: Memory) -> Tensor:
        logits: Tensor = self.action_head(self.action_branch(memory[2])[:, -1])
        return logits

    def move(self, memory: Memory, action_ids: Tensor) -> Memory:
        state, target, tokens = memory
        action = self.embed_action(action_ids) + self.kinds[2]
        tokens = torch.cat((tokens, action[:, None]), dim=1)
        state = state + self.state_head(self.state_branch(tokens)[:, -1])
        return state, target, torch.cat((tokens, (state + self.kinds[1])[:, None]), dim=1)

    def encode(self, observations: Tensor) -> Tensor:
        encoded: Tensor = self.encode_observation(self.standardise(observations))
        return encoded
