"""The second network of P3IV+ for queries of any length and any evidence.

    e_t =   W (gate_t * join(encoded start, goal, history, procedure)) + bias_t
          + linear scores of the encoded start at the first position, and of the goal at the last one
          + linear scores of the encoded history and procedure at every position
          + log p(last step)                      at the last position, from words

`plus/second_expert.py` has the part that sees two pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from p3iv.planners.header import PlannerShape
from p3iv.planners.layers import at_position
from p3iv.planners.plus.second_expert import DROPPED, SecondExpert, SecondOutput, linear_encoder
from p3iv.planners.queries.evidence import QueryTensors
from p3iv.plans.evidence import GOAL, HISTORY, PROCEDURE, START

SEEN = (START, GOAL, HISTORY, PROCEDURE)  # the evidence that is encoded


@dataclass(frozen=True)
class SecondQueryOutput(SecondOutput):
    """What the network predicts for queries of one length."""

    procedure_scores: Tensor  # (B, P): an auxiliary task of training


class SecondQueryExpert(SecondExpert):
    """Scores every action at every position of every length; absent evidence is replaced by learned vectors."""

    def __init__(self, shape: PlannerShape, horizons: Sequence[int], width: int, *, learns_beta: bool) -> None:
        super().__init__(shape, sum(horizons), width, num_seen=len(SEEN), learns_beta=learns_beta)
        self.history = linear_encoder(shape.feature_width, width, DROPPED)
        self.procedure = linear_encoder(shape.num_procedures, width, 0.0)
        self.absent = nn.Parameter(torch.randn(len(SEEN), width) / width**0.5)
        self.everywhere = nn.ModuleList(nn.Linear(width, shape.num_actions, bias=False) for _ in range(2))
        self.name_procedure = nn.Linear(2 * width, shape.num_procedures)

    def score_query(self, query: QueryTensors, positions: slice) -> SecondQueryOutput:
        """Score plans of one length, whose positions these are among those of all lengths."""
        start, goal = self.encode(query.start), self.encode(query.goal)  # (B, D) each
        history, procedure = self.history(self.inputs(query.history)), self.procedure(query.procedure)
        ends = self.score_ends(start, goal)
        there = query.has[:, SEEN, None]
        seen = there * torch.stack((start, goal, history, procedure), dim=1) + (1 - there) * self.absent
        hidden = self.join(seen.flatten(1))  # (B, 2D)
        horizon = positions.stop - positions.start
        emissions = self.score_positions(hidden, positions)
        for number, (head, one) in enumerate(zip(self.everywhere, (history, procedure), strict=True)):
            emissions = emissions + there[:, [2 + number]] * head(one)[:, None]
        emissions = emissions + at_position(there[:, 0] * ends[:, 0], 0, horizon)
        emissions = emissions + at_position(there[:, 1] * ends[:, 1], horizon - 1, horizon)
        emissions = emissions + at_position(query.word_scores(), horizon - 1, horizon)
        return SecondQueryOutput(emissions, ends, self.name_procedure(hidden))
