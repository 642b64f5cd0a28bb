"""Plans made one action after another: greedily, drawn, or by beam search; the truth is forced in training only.

A planner says how it begins, which action it would take next, and what taking one does to its memory. All three work
on a batch, whose rows may be windows, samples of one window, or the beams of many.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from p3iv.baselines.baseline import Baseline, Prepared, Sampled
from p3iv.sampling import pick

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
