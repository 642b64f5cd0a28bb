"""WLTDO: Ehsani et al., "Who let the dogs out? Modeling dog behavior from visual data", CVPR 2018.

A recurrent encoder reads the observations; a recurrent decoder predicts one action after another, each from the one
before. In the paper it plans the joints of a dog between two images. Our choices for a start and a goal of
instructional video: both observations are encoded as in P3IV; an LSTM of the planner's width reads start, then goal,
and passes its state to the decoder, which begins with a learned token. Trained by cross-entropy with the true actions
forced; at inference it takes its own most likely actions. `categorical` samples are drawn at `baseline.temperature`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from p3iv.config import Config
from p3iv.data.tensors import PlanningData
from p3iv.planners.base import Batch, Sync
from p3iv.planners.baselines.autoregressive import Autoregressive, Memory
from p3iv.planners.baselines.base import LossLearner
from p3iv.planners.header import PlannerShape
from p3iv.planners.layers import mlp
from p3iv.planners.p3iv.losses import action_loss


class Wltdo(Autoregressive):
    """An LSTM encoder and an LSTM decoder."""

    own_settings = ("baseline.temperature",)

    def __init__(self, shape: PlannerShape, config: Config) -> None:
        super().__init__(shape, config)
        width = config.model.width
        self.encode_observation = mlp(shape.feature_width, config.model.encoder_hidden, width)
        self.drop = nn.Dropout(config.model.dropout)
        self.encoder = nn.LSTMCell(width, width)
        self.decoder = nn.LSTMCell(width, width)
        self.embed_action = nn.Embedding(shape.num_actions, width)
        self.first_token = nn.Parameter(torch.zeros(width))
        self.action_head = mlp(width, config.model.head_hidden, shape.num_actions)

    def begin(self, start: Tensor, goal: Tensor) -> Memory:
        observed = self.drop(self.encode_observation(self.standardise(torch.stack((start, goal)))))  # (2, B, D)
        state = self.encoder(observed[1], self.encoder(observed[0]))
        return self._tell(self.first_token.expand(len(start), -1), state)

    def act(self, memory: Memory) -> Tensor:
        logits: Tensor = self.action_head(self.drop(memory[0]))
        return logits

    def move(self, memory: Memory, action_ids: Tensor) -> Memory:
        return self._tell(self.embed_action(action_ids), memory)

    def _tell(self, token: Tensor, memory: Memory) -> Memory:
        hidden, cell = self.decoder(token, memory)
        return hidden, cell

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy of the true actions, each given the true actions before it."""
        forced = self.force(batch.start, batch.goal, batch.action_ids)
        return {"action": action_loss(forced.action_logits, batch.action_ids)}

    def make_learner(self, data: PlanningData, sync: Sync) -> LossLearner:
        return LossLearner(self, sync, self.losses)
