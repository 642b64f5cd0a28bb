"""Plans drawn from the chain of P3IV+: the network runs once a pair, whatever the number of plans."""

from __future__ import annotations

import torch
from torch import Tensor

from p3iv.plus.network import P3IVPlus
from p3iv.sampling import Draws, SampleSettings, blocks_of, refuse_noise, seed_of


class ChainSampler:
    """Draws exactly, by forward filtering and backward sampling; all modes are this one."""

    def __init__(self, planner: P3IVPlus, settings: SampleSettings) -> None:
        refuse_noise(settings, planner.config.planner)
        self.planner = planner.eval()
        columns = (("chain", planner.shape.horizon), ("rescored", 1))
        uniforms = [
            blocks_of(torch.rand, settings.num_samples, width, seed=seed_of(settings, name), dtype=torch.float64)
            for name, width in columns
        ]
        self._uniforms = torch.cat(uniforms, dim=2).flatten(0, 1)[: settings.num_samples]  # (K, T + 1)

    @torch.no_grad()
    def draw(self, start: Tensor, goal: Tensor) -> Draws:
        """Draw for pairs of observations (N, F), each computed by itself so that its neighbours change nothing."""
        place = self.planner.scale
        chains = [
            self.planner.chain(one[None].to(place), other[None].to(place))
            for one, other in zip(start, goal, strict=True)
        ]
        plans = torch.cat([part.draw(self._uniforms) for part in chains])
        best = torch.cat([part.best_paths()[0] for part in chains])
        marginals = torch.cat([part.marginals() for part in chains])
        return Draws(marginals, plans, plans, self._uniforms, best, type(chains[0]).stack(chains))
