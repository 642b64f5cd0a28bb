"""UAAA: Abu Farha and Gall, "Uncertainty-aware anticipation of activities", ICCV workshops 2019.

A recurrent network predicts a distribution over the next action; drawing from it repeatedly gives many futures. In the
paper it continues observed actions and their lengths, and has no goal. Our choices: a GRU of the planner's width gets
the encoded [start; goal] and the previous action at every step; lengths are not modelled. Trained by cross-entropy with
the true actions forced. Samples are drawn from the softmax at `baseline.temperature`; the recommended plan takes the
most likely actions.
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


class Uaaa(Autoregressive):
    """One GRU, conditioned on start and goal."""

    own_settings = ("baseline.temperature",)
    draws_samples = True

    def __init__(self, shape: PlannerShape, config: Config) -> None:
        super().__init__(shape, config)
        width = config.model.width
        self.encode_ends = mlp(2 * shape.feature_width, config.model.encoder_hidden, width)
        self.drop = nn.Dropout(config.model.dropout)
        self.embed_action = nn.Embedding(shape.num_actions, width)
        self.first_token = nn.Parameter(torch.zeros(width))
        self.cell = nn.GRUCell(2 * width, width)
        self.action_head = mlp(width, config.model.head_hidden, shape.num_actions)

    def begin(self, start: Tensor, goal: Tensor) -> Memory:
        ends = self.drop(self.encode_ends(self.standardise(torch.stack((start, goal), dim=1)).flatten(1)))  # (B, D)
        token = self.first_token.expand(len(start), -1)
        return self.cell(torch.cat((token, ends), dim=1)), ends

    def act(self, memory: Memory) -> Tensor:
        logits: Tensor = self.action_head(self.drop(memory[0]))
        return logits

    def move(self, memory: Memory, action_ids: Tensor) -> Memory:
        hidden, ends = memory
        return self.cell(torch.cat((self.embed_action(action_ids), ends), dim=1), hidden), ends

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy of the true actions, each given the true actions before it."""
        forced = self.force(batch.start, batch.goal, batch.action_ids)
        return {"action": action_loss(forced.action_logits, batch.action_ids)}

    def make_learner(self, data: PlanningData, sync: Sync) -> LossLearner:
        return LossLearner(self, sync, self.losses)
