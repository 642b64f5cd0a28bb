"""DDN: Chang et al., "Procedure planning in instructional videos", ECCV 2020 (dual dynamics networks).

States and actions are embedded. Forward dynamics T(x, a) -> x' imagine the state after an action; conjugate dynamics
P(a | x, history, goal) predict the next action. Both are trained, and a search finds the plan that ends nearest to the
goal. The paper leaves open the sizes, the weights of the two losses, whether P is trained on true or on imagined
states, and how the search weighs likelihood against distance. Our choices:

- T is one hidden layer on [x; a], added to x; P a GRU on [x; last action; goal] with a head on [its state; x; goal].
- Both losses have weight 1: cross-entropy, and the mean squared error of imagined states.
- Training forces the true actions, and uses the states that T imagines from the start, as at inference.
- Beam search (`baseline.beam`) keeps the most likely beginnings; whole plans are ranked by log probability minus
  `baseline.goal_weight` times the squared distance per dimension between the state that they end in and the goal's.
  That weight is chosen on validation windows after every epoch, unless it is given, because no weight suits all data:
  in one run on the tabletop (T = 3), 49.9 % of the test plans were right at 1 and 59.3 % at 100; on CaptainCook4D
  3.1 % at 1 and 1.0 % at 100.
- All `argmax` samples are the recommended plan; `categorical` samples are drawn at `baseline.temperature`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from p3iv.config import Config
from p3iv.planners.baselines.autoregressive import Memory, Searching
from p3iv.planners.header import PlannerShape
from p3iv.planners.layers import mlp


class Ddn(Searching):
    """Forward and conjugate dynamics in one latent space."""

    def __init__(self, shape: PlannerShape, config: Config) -> None:
        super().__init__(shape, config)
        width = config.model.width
        self.encode_observation = mlp(shape.feature_width, config.model.encoder_hidden, width)
        self.drop = nn.Dropout(config.model.dropout)
        self.embed_action = nn.Embedding(shape.num_actions, width)
        self.first_token = nn.Parameter(torch.zeros(width))
        self.forward_dynamics = mlp(2 * width, config.model.head_hidden, width)
        self.cell = nn.GRUCell(3 * width, width)
        self.action_head = mlp(3 * width, config.model.head_hidden, shape.num_actions)

    def begin(self, start: Tensor, goal: Tensor) -> Memory:
        state, target = self.encode(start), self.encode(goal)
        token = self.first_token.expand(len(start), -1)
        return state, target, self.cell(torch.cat((state, token, target), dim=1))

    def act(self, memory: Memory) -> Tensor:
        state, target, history = memory
        logits: Tensor = self.action_head(self.drop(torch.cat((history, state, target), dim=1)))
        return logits

    def move(self, memory: Memory, action_ids: Tensor) -> Memory:
        state, target, history = memory
        action = self.embed_action(action_ids)
        state = state + self.forward_dynamics(torch.cat((state, action), dim=1))
        return state, target, self.cell(torch.cat((state, action, target), dim=1), history)

    def encode(self, observations: Tensor) -> Tensor:
        encoded: Tensor = self.drop(self.encode_observation(self.standardise(observations)))
        return encoded
