"""Planners that choose one action after another; beam search ranked by the distance to the goal, for DDN and PlaTe.

The search (`baseline.beam`) keeps the likeliest beginnings; whole plans are ranked by log probability minus
`baseline.goal_weight` times the squared distance per dimension between the state that they end in and the goal's. No
weight suits all data, so by default (null) it is chosen after every epoch: of a short list, the one with the highest
success rate, then mean accuracy, on at most 512 validation windows; of equals the smallest. The chosen weight travels
in the checkpoint. A number fixes it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from p3iv.config import Config
from p3iv.data.tensors import PlanningData
from p3iv.metrics.plans import score_plans
from p3iv.planners.base import PlannerShape
from p3iv.planners.baselines.base import Baseline, Prepared, Sampled
from p3iv.plans.draws import pick

Memory = tuple[Tensor, ...]  # (B, ...) each


@dataclass(frozen=True)
class Rollout:
    """What was met on the way of a plan."""

    action_ids: Tensor  # (B, T)
    action_logits: Tensor  # (B, T, A)
    memories: tuple[Memory, ...]  # T of them, each after the action of its position


@dataclass(frozen=True)
class Beams:
    """The plans that a beam search ends with, best first."""

    plans: Tensor  # (B, W, T)
    log_probabilities: Tensor  # (B, W)
    arrivals: Tensor  # (B, W)

    @property
    def scores(self) -> Tensor:
        """What they are ranked by: (B, W)."""
        return self.log_probabilities + self.arrivals


class Autoregressive(Baseline):
    """Action by action."""

    draws_samples = False  # whether its samples are drawn from its probabilities, or all are the plan that it follows

    @abstractmethod
    def begin(self, start: Tensor, goal: Tensor) -> Memory:
        """What is in mind before the first action: (B, F) twice."""

    @abstractmethod
    def act(self, memory: Memory) -> Tensor:
        """Logits of the next action: (B, A)."""

    @abstractmethod
    def move(self, memory: Memory, action_ids: Tensor) -> Memory:
        """What is in mind after an action, (B,)."""

    def arrival(self, memory: Memory) -> Tensor:
        """What a beam search adds to the log probability of a plan for where it led, (B,); by default nothing."""
        return memory[0].new_zeros(len(memory[0]))

    def forward(self, start: Tensor, goal: Tensor) -> Tensor:
        return self.follow(start, goal).action_logits

    def plan(self, start: Tensor, goal: Tensor) -> Tensor:
        return self.follow(start, goal).action_ids

    def follow(self, start: Tensor, goal: Tensor) -> Rollout:
        """Take the likeliest action at every position."""
        return self.roll_out(self.begin(start, goal), lambda logits, _: logits.argmax(dim=-1))

    def force(self, start: Tensor, goal: Tensor, action_ids: Tensor) -> Rollout:
        """Take the given actions (B, T), whatever the planner would do: teacher forcing."""
        return self.roll_out(self.begin(start, goal), lambda _, position: action_ids[:, position])

    def roll_out(self, memory: Memory, choose: Callable[[Tensor, int], Tensor]) -> Rollout:
        """Take the actions that are chosen from logits (B, A) at a position."""
        actions, logits, memories = [], [], []
        for position in range(self.shape.horizon):
            logits.append(self.act(memory))
            actions.append(choose(logits[-1], position))
            memory = self.move(memory, actions[-1])
            memories.append(memory)
        return Rollout(torch.stack(actions, dim=1), torch.stack(logits, dim=1), tuple(memories))

    def prepare(self, start: Tensor, goal: Tensor) -> Prepared:
        begun, best = self.begin(start, goal), self.plan(start, goal)

        def draw(uniforms: Tensor) -> Sampled:
            drawn, shares = self.draw_from(begun, uniforms)
            return Sampled(drawn if self.draws_samples else best.expand(len(uniforms), -1), drawn, shares)

        return Prepared(best[0], draw)

    def draw_from(self, memory: Memory, uniforms: Tensor) -> tuple[Tensor, Tensor]:
        """Plans (k, T) drawn action by action from one beginning, and the probabilities on their way (k, T, A).

        Draws that agree in their first actions share what is computed after them.
        """
        actions: list[Tensor] = []
        shares: list[Tensor] = []
        row = torch.zeros(len(uniforms), dtype=torch.int64, device=uniforms.device)  # of a draw's beginning in `memory`
        for position in range(self.shape.horizon):
            if position:
                beginnings, row = (row * self.shape.num_actions + actions[-1]).unique(return_inverse=True)
                kept, action = beginnings // self.shape.num_actions, beginnings % self.shape.num_actions
                memory = self.move(tuple(part[kept] for part in memory), action)
            shares.append((self.act(memory) / self.config.baseline.temperature).softmax(dim=-1)[row])
            actions.append(pick(shares[-1], uniforms[:, position]))
        return torch.stack(actions, dim=1), torch.stack(shares, dim=1)


def beam_search(planner: Autoregressive, start: Tensor, goal: Tensor, width: int) -> Beams:
    """Keep the `width` likeliest beginnings, then rank whole plans by log probability plus `arrival`.

    With a width of A^T nothing is dropped, and the first plan is the best of all A^T.
    """
    memory, num_windows = planner.begin(start, goal), len(start)
    scores = start.new_zeros(num_windows, 1)
    plans = torch.zeros(num_windows, 1, 0, dtype=torch.int64, device=start.device)
    window = torch.arange(num_windows, device=start.device)[:, None]
    for _ in range(planner.shape.horizon):
        log_probabilities = planner.act(memory).log_softmax(dim=-1).view(*scores.shape, -1)  # (B, W, A)
        ranked, order = (scores[:, :, None] + log_probabilities).flatten(1).sort(dim=1, descending=True, stable=True)
        scores, order = ranked[:, :width], order[:, :width]
        parent, action = order // planner.shape.num_actions, order % planner.shape.num_actions
        rows = (window * plans.shape[1] + parent).flatten()
        plans = torch.cat((plans[window, parent], action[:, :, None]), dim=2)
        memory = planner.move(tuple(part[rows] for part in memory), action.flatten())
    arrivals = planner.arrival(memory).view_as(scores)
    order = (scores + arrivals).sort(dim=1, descending=True, stable=True).indices
    return Beams(plans[window, order], scores[window, order], arrivals[window, order])


WEIGHTS = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)

MAX_WINDOWS = 512

_AT_ONCE = 128  # windows of one search


class Searching(Autoregressive):
    """A planner whose memory begins with its current latent state and that of the goal, (B, D) each."""

    own_settings = ("baseline.beam", "baseline.goal_weight", "baseline.temperature")

    goal_weight: Tensor  # (): a fixed one is kept by the configuration, a chosen one by the checkpoint

    def __init__(self, shape: PlannerShape, config: Config) -> None:
        super().__init__(shape, config)
        weight = config.baseline.goal_weight
        self.register_buffer("goal_weight", torch.tensor(weight or 0.0), persistent=weight is None)

    def arrival(self, memory: Memory) -> Tensor:
        """Minus the weighted distance between where a plan ends and the goal."""
        return -self.goal_weight * (memory[0] - memory[1]).square().mean(dim=1)

    @classmethod
    def is_visual(cls, config: Config) -> bool:
        return True

    def plan(self, start: Tensor, goal: Tensor) -> Tensor:
        return beam_search(self, start, goal, self.config.baseline.beam).plans[:, 0]

    def calibrate(self, data: PlanningData) -> None:
        if self.config.baseline.goal_weight is None:
            choose_goal_weight(self, data)


@torch.no_grad()
def choose_goal_weight(planner: Searching, data: PlanningData) -> None:
    """Choose the weight with the best plans for validation windows; the search itself does not depend on it."""
    planner.eval()
    planner.goal_weight.fill_(1.0)
    rows = torch.randperm(len(data.val), generator=torch.Generator().manual_seed(0))[:MAX_WINDOWS]
    found: list[list[Tensor]] = [[] for _ in WEIGHTS]
    for some in rows.split(_AT_ONCE):
        start, goal = (side[some].to(planner.goal_weight) for side in (data.val.start, data.val.goal))
        beams = beam_search(planner, start, goal, planner.config.baseline.beam)
        for plans, weight in zip(found, WEIGHTS, strict=True):
            best = (beams.log_probabilities + weight * beams.arrivals).argmax(dim=1)
            plans.append(beams.plans[torch.arange(len(some)), best].cpu())
    scores = [score_plans(torch.cat(plans), data.val.action_ids[rows]) for plans in found]
    ranks = [(score.success_rate, score.mean_accuracy) for score in scores]
    planner.goal_weight.fill_(WEIGHTS[ranks.index(max(ranks))])
