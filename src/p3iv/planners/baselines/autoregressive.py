"""Planners that choose one action after another; beam search ranked by the distance to the goal, for DDN and PlaTe.

The search (`baseline.beam`) keeps the most likely beginnings; whole plans are ranked by log probability minus
`baseline.goal_weight` times the squared distance per dimension between the state that they end in and the goal's. No
weight suits all data, so by default (null) it is chosen after every epoch: of a short list, the one with the highest
success rate, then mean accuracy, on at most 512 validation windows; among equals the smallest. The chosen weight is
saved in the checkpoint. A number fixes it.
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
from p3iv.planners.base import Batch, Sync
from p3iv.planners.baselines.base import Baseline, LossLearner, Prepared, Sampled, pick, state_loss, states_of
from p3iv.planners.header import PlannerShape
from p3iv.planners.p3iv.losses import action_loss

Memory = tuple[Tensor, ...]  # (B, ...) each


@dataclass(frozen=True)
class Rollout:
    """A plan, with the logits and memories at each of its positions."""

    action_ids: Tensor  # (B, T)
    action_logits: Tensor  # (B, T, A)
    memories: tuple[Memory, ...]  # T memories, each after the action of its position


@dataclass(frozen=True)
class Beams:
    """The result of a beam search: the best plans first."""

    plans: Tensor  # (B, W, T)
    log_probabilities: Tensor  # (B, W)
    arrivals: Tensor  # (B, W)

    @property
    def scores(self) -> Tensor:
        """The scores by which plans are ranked: (B, W)."""
        return self.log_probabilities + self.arrivals


class Autoregressive(Baseline):
    """Base class of planners that choose one action after another."""

    draws_samples = False  # whether samples are drawn from its probabilities; otherwise all are the recommended plan

    @abstractmethod
    def begin(self, start: Tensor, goal: Tensor) -> Memory:
        """The memory before the first action, from start and goal: (B, F) twice."""

    @abstractmethod
    def act(self, memory: Memory) -> Tensor:
        """Logits of the next action: (B, A)."""

    @abstractmethod
    def move(self, memory: Memory, action_ids: Tensor) -> Memory:
        """The memory after an action, (B,)."""

    def arrival(self, memory: Memory) -> Tensor:
        """What a beam search adds to the log probability of a plan for the state it ends in, (B,); 0 by default."""
        return memory[0].new_zeros(len(memory[0]))

    def forward(self, start: Tensor, goal: Tensor) -> Tensor:
        return self.follow(start, goal).action_logits

    def plan(self, start: Tensor, goal: Tensor) -> Tensor:
        return self.follow(start, goal).action_ids

    def follow(self, start: Tensor, goal: Tensor) -> Rollout:
        """Take the most likely action at every position."""
        return self.roll_out(self.begin(start, goal), lambda logits, _: logits.argmax(dim=-1))

    def force(self, start: Tensor, goal: Tensor, action_ids: Tensor) -> Rollout:
        """Teacher forcing: take the given actions (B, T)."""
        return self.roll_out(self.begin(start, goal), lambda _, position: action_ids[:, position])

    def roll_out(self, memory: Memory, choose: Callable[[Tensor, int], Tensor]) -> Rollout:
        """Plan action by action; `choose` picks an action from the logits (B, A) of a position."""
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
        """Sample plans (k, T) action by action; also returns the probabilities at every position (k, T, A).

        Samples with the same first actions share the computation after them.
        """
        actions: list[Tensor] = []
        shares: list[Tensor] = []
        row = torch.zeros(len(uniforms), dtype=torch.int64, device=uniforms.device)  # of `memory`, per sample
        for position in range(self.shape.horizon):
            if position:
                beginnings, row = (row * self.shape.num_actions + actions[-1]).unique(return_inverse=True)
                kept, action = beginnings // self.shape.num_actions, beginnings % self.shape.num_actions
                memory = self.move(tuple(part[kept] for part in memory), action)
            shares.append((self.act(memory) / self.config.baseline.temperature).softmax(dim=-1)[row])
            actions.append(pick(shares[-1], uniforms[:, position]))
        return torch.stack(actions, dim=1), torch.stack(shares, dim=1)


def beam_search(planner: Autoregressive, start: Tensor, goal: Tensor, width: int) -> Beams:
    """Keep the `width` most likely beginnings, then rank whole plans by log probability plus `arrival`.

    With a width of A^T nothing is dropped, so the first plan is the best of all A^T plans.
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

_AT_ONCE = 128  # windows per search


class Searching(Autoregressive):
    """Base class of planners with imagined states and a beam search towards the goal.

    The first two entries of the memory are the current latent state and that of the goal, (B, D) each.
    """

    own_settings = ("baseline.beam", "baseline.goal_weight", "baseline.temperature")

    goal_weight: Tensor  # (): saved in the checkpoint if it was chosen, in the configuration if it is fixed
    state_weight = 1.0  # of the loss of imagined states

    def __init__(self, shape: PlannerShape, config: Config) -> None:
        super().__init__(shape, config)
        weight = config.baseline.goal_weight
        self.register_buffer("goal_weight", torch.tensor(weight or 0.0), persistent=weight is None)

    @abstractmethod
    def encode(self, observations: Tensor) -> Tensor:
        """Observations as latent states: (..., F) -> (..., D)."""

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy of the true actions, and the weighted error of the imagined states."""
        states = self.encode(states_of(batch)[:, 1:])
        forced = self.force(batch.start, batch.goal, batch.action_ids)
        imagined = torch.stack([memory[0] for memory in forced.memories], dim=1)  # (B, T, D)
        return {
            "action": action_loss(forced.action_logits, batch.action_ids),
            "state": self.state_weight * state_loss(imagined, states),
        }

    def make_learner(self, data: PlanningData, sync: Sync) -> LossLearner:
        return LossLearner(self, sync, self.losses)

    def arrival(self, memory: Memory) -> Tensor:
        """Minus the weighted distance between the state that a plan ends in and the goal."""
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
    """Choose the goal weight with the best plans for validation windows; one search serves all weights."""
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
