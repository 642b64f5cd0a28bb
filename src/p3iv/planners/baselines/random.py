"""Random (supplement F): actions drawn uniformly and independently from the vocabulary.

The random numbers depend on the run's seed and on the pair itself: two pairs have different plans, and a pair always
has the same plan. Samples use the random numbers of all planners, shifted (modulo 1) by numbers of the pair.
"""

from __future__ import annotations

import torch
from torch import Tensor

from p3iv.planners.baselines.base import Baseline, Prepared, Sampled
from p3iv.types import hash_number


class RandomPlanner(Baseline):
    """Draws plans from the vocabulary without looking at the observations."""

    def forward(self, start: Tensor, goal: Tensor) -> Tensor:
        return start.new_zeros(len(start), self.shape.horizon, self.shape.num_actions)

    def plan(self, start: Tensor, goal: Tensor) -> Tensor:
        pairs = [self._uniforms("plan", *pair) for pair in zip(start, goal, strict=True)]
        return self._actions(torch.stack(pairs)).to(start.device)

    def prepare(self, start: Tensor, goal: Tensor) -> Prepared:
        shift = self._uniforms("samples", start[0], goal[0])
        shares = self(start, goal).softmax(dim=-1)

        def draw(uniforms: Tensor) -> Sampled:
            plans = self._actions((uniforms.cpu() + shift) % 1.0)
            return Sampled(plans, plans, shares)

        return Prepared(self.plan(start, goal)[0], draw)

    def _uniforms(self, purpose: str, start: Tensor, goal: Tensor) -> Tensor:
        """Numbers in [0, 1) that depend on the run's seed and a pair: (T,)."""
        seen = torch.cat((start, goal)).float().cpu().numpy().tobytes()
        generator = torch.Generator().manual_seed(hash_number(f"{self.config.seed}/{purpose}/".encode() + seen) >> 1)
        return torch.rand(self.shape.horizon, generator=generator)

    def _actions(self, uniforms: Tensor) -> Tensor:
        return (uniforms.double() * self.shape.num_actions).long()
