"""DDN: Chang et al., "Procedure planning in instructional videos", ECCV 2020 (dual dynamics networks).

States and actions are embedded; forward dynamics T(x, a) -> x' imagine what an action leads to, and conjugate dynamics
P(a | x, history, goal) which action comes next. Trained on both, planned by a search for the plan that ends nearest to
the goal. Left open there: sizes, the weight of the two losses, whether P is trained on true or on imagined states, and
how the search weighs likelihood against distance. Settled:

- T is one hidden layer on [x; a], added to x; P a GRU on [x; last action; goal] with a head on [its state; x; goal].
- Both losses have weight 1: cross-entropy, and the squared error of imagined states, a mean over dimensions.
- In training the true actions are forced, and states are those that T imagines from the start, as at inference.
- Beam search (`baseline.beam`) keeps the likeliest beginnings; whole plans are ranked by log probability minus
  `baseline.goal_weight` times the squared distance per dimension between the state that they end in and the goal's.
  That weight is chosen on validation windows after every epoch, unless it is given. This choice is ours: no weight
  suits all data. Of one run's test plans on the tabletop (T = 3), 49.9 % were right at 1 and 59.3 % at 100; on
  CaptainCook4D, 3.1 % at 1 and 1.0 % at 100.
- It has no samples but its plan; `categorical` ones are drawn at `baseline.temperature`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from p3iv.config import Config
from p3iv.data.tensors import PlanningData
from p3iv.planners.base import Batch, PlannerShape, Sync, mlp
from p3iv.planners.baselines.autoregressive import Memory, Searching
from p3iv.planners.baselines.base import LossLearner, state_loss, states_of
from p3iv.planners.p3iv.losses import action_loss


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
        """Observations as latent states: (..., F) -> (..., D)."""
        encoded: Tensor = self.drop(self.encode_observation(self.standardise(observations)))
        return encoded

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy of the true actions, and how far imagined states are from what was seen."""
        states = self.encode(states_of(batch)[:, 1:])
        forced = self.force(batch.start, batch.goal, batch.action_ids)
        imagined = torch.stack([memory[0] for memory in forced.memories], dim=1)  # (B, T, D)
        return {
            "action": action_loss(forced.action_logits, batch.action_ids),
            "state": state_loss(imagined, states),
        }

    def make_learner(self, data: PlanningData, sync: Sync) -> LossLearner:
        return LossLearner(self, sync, self.losses)
