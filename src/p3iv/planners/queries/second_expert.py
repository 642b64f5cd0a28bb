"""A second network beside the sum of scores in `network.py`: built otherwise and trained by itself, so that it errs
in other windows.

    e_t =   W (gate_t * join(encoded start, goal, history, procedure)) + bias_t
          + linear scores of the encoded start at the first position, and of the goal at the last one
          + linear scores of the encoded history and procedure at every position
          + log p(last step)                      at the last position, from words

Encoders are linear, on features of which training drops many: without that dropout they learn the training videos by
heart. The chain that decodes takes a weighted mean of both networks' scores and transitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from p3iv.planners.header import PlannerShape
from p3iv.planners.layers import at_position
from p3iv.planners.queries.evidence import QueryTensors
from p3iv.plans.evidence import GOAL, HISTORY, PROCEDURE, START

SEEN = (START, GOAL, HISTORY, PROCEDURE)  # the evidence that is encoded
DROPPED = 0.4  # share of the features that training drops
DROPPED_HIDDEN = 0.2


@dataclass(frozen=True)
class SecondOutput:
    """What the network predicts for queries of one length."""

    emissions: Tensor  # (B, T, A)
    end_scores: Tensor  # (B, 2, A): of the first and the last action
    procedure_scores: Tensor  # (B, P): an auxiliary task of training


class SecondExpert(nn.Module):
    """Scores every action at every position of every length.

    Args:
        shape: sizes of the data.
        horizons: all lengths.
        width: D.
        learns_beta: whether the exponent of its transitions is learned.
    """

    mean: Tensor  # (F,)

    def __init__(self, shape: PlannerShape, horizons: Sequence[int], width: int, *, learns_beta: bool) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(shape.feature_width))
        self.moment = _encoder(shape.feature_width, width, DROPPED)
        self.history = _encoder(shape.feature_width, width, DROPPED)
        self.procedure = _encoder(shape.num_procedures, width, 0.0)
        self.absent = nn.Parameter(torch.randn(len(SEEN), width) / width**0.5)
        self.join = nn.Sequential(nn.Linear(len(SEEN) * width, 2 * width), nn.ReLU(), nn.Dropout(DROPPED_HIDDEN))
        self.gates = nn.Parameter(torch.ones(sum(horizons), 2 * width))
        self.biases = nn.Parameter(torch.zeros(sum(horizons), shape.num_actions))
        self.score = nn.Linear(2 * width, shape.num_actions)
        self.ends = nn.ModuleList(nn.Linear(width, shape.num_actions) for _ in range(2))
        self.everywhere = nn.ModuleList(nn.Linear(width, shape.num_actions, bias=False) for _ in range(2))
        self.name_procedure = nn.Linear(2 * width, shape.num_procedures)
        self.log_beta = nn.Parameter(torch.zeros(()), requires_grad=learns_beta)

    @property
    def beta(self) -> Tensor:
        """The exponent of its transitions: ()."""
        return self.log_beta.exp()

    def fit(self, features: Tensor) -> None:
        """Take the mean of training observations, (n, F)."""
        self.mean.copy_(features.double().mean(dim=0))

    def forward(self, query: QueryTensors, positions: slice) -> SecondOutput:
        """Score plans of one length, whose positions these are among those of all lengths."""
        start, goal = (self.moment(self.inputs(part)) for part in (query.start, query.goal))  # (B, D) each
        history, procedure = self.history(self.inputs(query.history)), self.procedure(query.procedure)
        ends = torch.stack([head(end) for head, end in zip(self.ends, (start, goal), strict=True)], dim=1)  # (B, 2, A)
        there = query.has[:, SEEN, None]
        seen = there * torch.stack((start, goal, history, procedure), dim=1) + (1 - there) * self.absent
        hidden = self.join(seen.flatten(1))  # (B, 2D)
        horizon = positions.stop - positions.start
        emissions = self.score(hidden[:, None] * self.gates[positions]) + self.biases[positions]
        for number, (head, one) in enumerate(zip(self.everywhere, (history, procedure), strict=True)):
            emissions = emissions + there[:, [2 + number]] * head(one)[:, None]
        emissions = emissions + at_position(there[:, 0] * ends[:, 0], 0, horizon)
        emissions = emissions + at_position(there[:, 1] * ends[:, 1], horizon - 1, horizon)
        emissions = emissions + at_position(query.word_scores(), horizon - 1, horizon)
        return SecondOutput(emissions, ends, self.name_procedure(hidden))

    def inputs(self, features: Tensor) -> Tensor:
        """Features minus their training mean, with a mean square of 1 in every row: (B, F) -> (B, F)."""
        rows: Tensor = functional.normalize(features - self.mean, dim=1) * len(self.mean) ** 0.5
        return rows


def _encoder(width_in: int, width: int, dropped: float) -> nn.Sequential:
    return nn.Sequential(nn.Dropout(dropped), nn.Linear(width_in, width), nn.LayerNorm(width))
