"""A second network beside the sum of scores in `network.py`: built otherwise and trained by itself, so that it errs
in other windows.

    e_t =   W (gate_t * join(encoded start, encoded goal)) + bias_t
          + linear scores of the encoded start at the first position, and of the encoded goal at the last one

Encoders are linear, on features of which training drops many: without that dropout they learn the training videos by
heart. The chain that decodes takes a weighted mean of both networks' scores and transitions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from p3iv.planners.header import PlannerShape
from p3iv.planners.layers import at_position

DROPPED = 0.4  # share of the features that training drops
DROPPED_HIDDEN = 0.2


@dataclass(frozen=True)
class SecondOutput:
    """What the network predicts for plans of one length."""

    emissions: Tensor  # (B, T, A)
    end_scores: Tensor  # (B, 2, A): of the first and the last action


class SecondExpert(nn.Module):
    """Scores every action at every position.

    Args:
        shape: sizes of the data.
        num_positions: of all plans; those of each length have their own.
        width: D.
        num_seen: pieces of evidence that are joined: start, goal and those of subclasses.
        learns_beta: whether the exponent of its transitions is learned.
    """

    mean: Tensor  # (F,)

    def __init__(
        self, shape: PlannerShape, num_positions: int, width: int, *, num_seen: int = 2, learns_beta: bool
    ) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(shape.feature_width))
        self.moment = linear_encoder(shape.feature_width, width, DROPPED)
        self.join = nn.Sequential(nn.Linear(num_seen * width, 2 * width), nn.ReLU(), nn.Dropout(DROPPED_HIDDEN))
        self.gates = nn.Parameter(torch.ones(num_positions, 2 * width))
        self.biases = nn.Parameter(torch.zeros(num_positions, shape.num_actions))
        self.score = nn.Linear(2 * width, shape.num_actions)
        self.ends = nn.ModuleList(nn.Linear(width, shape.num_actions) for _ in range(2))
        self.log_beta = nn.Parameter(torch.zeros(()), requires_grad=learns_beta)

    @property
    def beta(self) -> Tensor:
        """The exponent of its transitions: ()."""
        return self.log_beta.exp()

    def fit(self, features: Tensor) -> None:
        """Take the mean of training observations, (n, F)."""
        self.mean.copy_(features.double().mean(dim=0))

    def score_pairs(self, start: Tensor, goal: Tensor) -> SecondOutput:
        """Score plans of the only length from pairs of observations: (B, F) twice."""
        first, last = self.encode(start), self.encode(goal)  # (B, D) each
        ends, horizon = self.score_ends(first, last), len(self.gates)
        emissions = self.score_positions(self.join(torch.cat((first, last), dim=1)), slice(horizon))
        emissions = emissions + at_position(ends[:, 0], 0, horizon) + at_position(ends[:, 1], horizon - 1, horizon)
        return SecondOutput(emissions, ends)

    def encode(self, features: Tensor) -> Tensor:
        """Observations in the width of the network: (B, F) -> (B, D)."""
        encoded: Tensor = self.moment(self.inputs(features))
        return encoded

    def inputs(self, features: Tensor) -> Tensor:
        """Features minus their training mean, with a mean square of 1 in every row: (B, F) -> (B, F)."""
        rows: Tensor = functional.normalize(features - self.mean, dim=1) * len(self.mean) ** 0.5
        return rows

    def score_ends(self, start: Tensor, goal: Tensor) -> Tensor:
        """Linear scores of the first and the last action: (B, D) twice -> (B, 2, A)."""
        return torch.stack([head(end) for head, end in zip(self.ends, (start, goal), strict=True)], dim=1)

    def score_positions(self, hidden: Tensor, positions: slice) -> Tensor:
        """What the joined evidence says about positions: (B, 2D) -> (B, T, A)."""
        scores: Tensor = self.score(hidden[:, None] * self.gates[positions]) + self.biases[positions]
        return scores


def linear_encoder(width_in: int, width: int, dropped: float) -> nn.Sequential:
    """A linear layer on features of which training drops this share."""
    return nn.Sequential(nn.Dropout(dropped), nn.Linear(width_in, width), nn.LayerNorm(width))
