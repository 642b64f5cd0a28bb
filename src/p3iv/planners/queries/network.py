"""The network of the planner of queries: P3IV+ for every length and every mix of evidence, as one sum of scores.

    e_t =   scale_t * pair_t(start, goal)        if both are seen, else scale_t * start_t(start)
          + scale_t * history_t(history)
          + gain_t  * log sum_p q(p) usage(p, a)  q: the procedure as it was named, or inferred from what is seen
          + log p(last step)                      at the last position, from words
          + gain_t  * h_a(h_t)                    the paper's decoder
          + end heads                             at the first and the last position

A second network (`second_expert.py`) scores the same positions, and the chain takes a weighted mean of both.

Every length has its own positions t. A piece of evidence that is absent adds nothing; the decoder gets a learned vector
in its place. Training leaves out each piece at random, so the planner answers with any mix of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from p3iv.config import Config
from p3iv.data.tensors import PlanningData
from p3iv.errors import ConfigError
from p3iv.planners.header import PlannerShape
from p3iv.planners.layers import at_position, mlp
from p3iv.planners.p3iv.network import P3IVNetwork
from p3iv.planners.plus.network import ChainNetwork, Effects
from p3iv.planners.queries.evidence import QueryTensors
from p3iv.planners.queries.experts import ClosedScores, Experts, HeldOutScores
from p3iv.planners.queries.following import FollowModel
from p3iv.planners.queries.second_expert import SecondQueryExpert
from p3iv.plans.evidence import GOAL, HISTORY, PROCEDURE, START
from p3iv.plans.transitions import log_transitions

PROCEDURE_GAIN = 5.0  # initial factor of the scores that infer the procedure
NAMED_GAIN = 0.6  # initial factor of what a named procedure uses
INFERRED_GAIN = 0.1  # the same for one that is inferred: what is seen speaks for actions in other ways, too
BETA = 1.2  # initial exponent of the transitions


@dataclass(frozen=True)
class OwnVideo:
    """The video of every training window, whose own steps must not tell what its procedure uses."""

    procedure: Tensor  # (B,)
    counts: Tensor  # (B, A)


@dataclass(frozen=True)
class QueryOutput:
    """What the network predicts for queries of one length."""

    emissions: Tensor  # (B, T, A)
    states: Tensor  # (B, T, D), in the space of the projected step descriptions
    end_scores: Tensor  # (B, 2, A): of the first and the last action, by the end heads
    descriptions: Tensor  # (A, D): the projected step descriptions


class QueryNetwork(ChainNetwork):
    """The parts above, and the transitions of their chain."""

    language: Tensor  # (A, F_l)
    second: SecondQueryExpert | None

    def __init__(self, shape: PlannerShape, config: Config) -> None:
        super().__init__()
        if config.loss.supervision != "language":
            raise ConfigError(
                f"loss.supervision={config.loss.supervision}, but planner={config.planner} learns from step texts: "
                f"leave it at language."
            )
        self.shape, self.config, self.horizons = shape, config, config.data.horizons
        plus, width, positions = config.plus, config.model.width, torch.ones(sum(self.horizons), 1)
        self.base = P3IVNetwork(shape, config.model)
        self.experts = Experts(shape.feature_width, shape.num_actions, shape.num_procedures, self.horizons)
        self.effects = Effects(shape)
        self.following = FollowModel(self.experts.projection, shape.num_actions)
        self.pair_scale = nn.Parameter(plus.scale * positions)
        self.start_scale = nn.Parameter(plus.scale * positions)
        self.history_scale = nn.Parameter(plus.scale * positions)
        self.procedure_gain = nn.Parameter(torch.full((3, 1, 1), PROCEDURE_GAIN))  # of start, goal and history
        self.named_gain = nn.Parameter(NAMED_GAIN * positions)
        self.inferred_gain = nn.Parameter(INFERRED_GAIN * positions)
        self.gain = nn.Parameter(plus.gain * positions)
        self.absent = nn.Parameter(torch.randn(2, width) / width**0.5)  # in place of a start and a goal
        self.log_beta = nn.Parameter(torch.tensor(math.log(BETA)), requires_grad=plus.learned_beta)
        self.end_gain = nn.Parameter(torch.full((2, 1), plus.gain))
        self.end_heads = nn.ModuleList(mlp(width, config.model.head_hidden, width) for _ in range(2))
        self.second = (
            SecondQueryExpert(shape, self.horizons, width, learns_beta=plus.learned_beta) if plus.second else None
        )
        self.register_buffer("second_weight", torch.tensor(0.5) if plus.second else None)
        self.register_buffer("language", torch.zeros(shape.num_actions, shape.target_width))
        self.register_buffer("log_transitions", torch.zeros(shape.num_actions, shape.num_actions))

    def fit(self, data: PlanningData) -> None:
        """Fit what is not trained: feature scale, transitions, closed-form parts and effects."""
        if data.language is None:
            raise ConfigError(
                "A planner for several lengths learns from the texts of the steps, and this dataset has no "
                "language.npz. Make it with `p3iv data embed DIR`."
            )
        observations = torch.cat((data.train.start, data.train.goal))
        self.base.fit_scale(observations)
        if self.second is not None:
            self.second.fit(observations)
        sequences = data.train_sequences, data.val_sequences
        matrix = log_transitions(*sequences, len(data.names), self.config.plus.backoff)
        self.log_transitions.copy_(torch.from_numpy(matrix))
        self.language.copy_(data.language)
        self.held_out: HeldOutScores | None = self.experts.fit(data)
        if self.config.plus.effects:
            self.effects.fit(data.train)
        if data.follow is not None:
            log_next = self.beta.detach() * self.log_transitions
            self.following.fit(data.follow, self.experts.projection, self.experts.usage(), log_next)

    def forward(
        self, query: QueryTensors, horizon: int, closed: ClosedScores | None = None, own: OwnVideo | None = None
    ) -> QueryOutput:
        """Score every action at every position of plans of one length.

        Args:
            query: B queries.
            horizon: T.
            closed: scores that replace those of the closed-form parts, for training.
            own: the training windows' own videos.
        """
        here = self.positions(horizon)
        found = closed or self.experts(query.start, query.goal, query.history, horizon)
        has_start, has_goal, has_history = (query.mask(number) for number in (START, GOAL, HISTORY))
        emissions = has_start * has_goal * self.pair_scale[here] * found.pair
        emissions = emissions + has_start * (1 - has_goal) * self.start_scale[here] * found.start
        emissions = emissions + has_history * self.history_scale[here] * found.history
        emissions = emissions + self._usage_scores(query, found, own, here)
        emissions = emissions + at_position(query.word_scores(), horizon - 1, horizon)
        observed = self._observe(query)
        descriptions = self.base.encode_target(self.language)
        hidden = self.base.decode(self.base.tokens_of(observed, horizon), None)[:, 0]  # (B, T, D)
        emissions = emissions + self.gain[here] * self.base.action_head(hidden)
        ends = self._score_ends(observed, descriptions)
        emissions = emissions + at_position(has_start[:, 0] * ends[:, 0], 0, horizon)
        emissions = emissions + at_position(has_goal[:, 0] * ends[:, 1], horizon - 1, horizon)
        return QueryOutput(emissions, self.base.state_head(hidden), ends, descriptions)

    def emissions(self, query: QueryTensors, horizon: int) -> Tensor:
        """The scores of the chain that decodes: (B, T, A)."""
        first: Tensor = self(query, horizon).emissions
        if self.second is None:
            return first
        return first.lerp(self.second.score_query(query, self.positions(horizon)).emissions, self.second_weight)

    def infer_procedure(self, query: QueryTensors, found: ClosedScores) -> Tensor:
        """The probabilities of the procedures: as given, or inferred from what is seen, (B, P)."""
        seen = query.has[:, [START, GOAL, HISTORY]].T[:, :, None]  # (3, B, 1)
        inferred = (seen * self.procedure_gain * found.procedure).sum(dim=0).softmax(dim=1)
        named = query.has[:, PROCEDURE, None]
        return named * query.procedure + (1 - named) * inferred

    def score_step_under_way(self, query: QueryTensors) -> Tensor:
        """Scores of the step under way at the start, from start and history, the last one for no step: (B, A + 1)."""
        start, history = (self.experts.projection(part) for part in (query.start, query.history))
        scores: Tensor = self.following(start, history, query.has[:, [HISTORY]])
        return scores

    def positions(self, horizon: int) -> slice:
        """The positions of one length among those of all lengths."""
        first = self.experts.first_of[horizon]
        return slice(first, first + horizon)

    def _usage_scores(self, query: QueryTensors, found: ClosedScores, own: OwnVideo | None, here: slice) -> Tensor:
        """What the procedure says about every position: (B, T, A)."""
        own_parts = (None, None) if own is None else (own.counts, own.procedure)
        usage = self.experts.log_usage(self.infer_procedure(query, found), *own_parts)[:, None]
        named = query.mask(PROCEDURE)
        return (named * self.named_gain[here] + (1 - named) * self.inferred_gain[here]) * usage

    def _observe(self, query: QueryTensors) -> Tensor:
        """Start and goal in the width of the network, or what stands in their places: (B, 2, D)."""
        there = query.has[:, [START, GOAL], None]
        return there * self.base.encode(query.start, query.goal) + (1 - there) * self.absent

    def _score_ends(self, observed: Tensor, descriptions: Tensor) -> Tensor:
        """Scores of the first and the last action from start and goal alone: (B, 2, D) -> (B, 2, A)."""
        states = [head(end) for head, end in zip(self.end_heads, observed.unbind(dim=1), strict=True)]
        scores: Tensor = self.end_gain * (torch.stack(states, dim=1) @ descriptions.T)
        return scores


def closed_scores_of(held_out: HeldOutScores, rows: Tensor, horizon: int) -> ClosedScores:
    """What the closed-form parts say about training windows of one length without their own videos."""
    start, goal = held_out.start_row[rows], held_out.goal_row[rows]
    by_start, by_goal, by_history = held_out.procedure
    return ClosedScores(
        pair=held_out.pair[horizon][held_out.place[rows]],
        start=held_out.start[start, :horizon],
        history=held_out.history[start, :horizon],
        procedure=torch.stack((by_start[start], by_goal[goal], by_history[start])),
    )


def place_scores(scores: ClosedScores, like: Tensor) -> ClosedScores:
    """The same scores on the device and in the precision of a tensor."""
    return ClosedScores(*(part.to(like) for part in (scores.pair, scores.start, scores.history, scores.procedure)))
