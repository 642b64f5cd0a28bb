"""A chain whose likeliest plans are weighed again, by something that a chain cannot say: how all their actions fit.

A plan's actions a_1 .. a_T are worth

    fit = sum_t each(a_t) - sum_s sum_t both(a_s, a_t)

to which every pair of positions adds, not only neighbours. The `RESCORED` likeliest plans of the chain share out the
probability that they have together anew: a tenth (`KEPT`) as before, the rest in proportion to p(plan) exp(fit). All
others keep theirs. So every answer is exact, all plans add up to 1 as before, and a plan that does not fit loses at
most ln 10. The plan to follow is still among those few: the best of them has at least their mean, and that is more than
any other has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from p3iv.plans.chain import Chain

RESCORED, KEPT = 50, 0.1


@dataclass(frozen=True)
class RescoredChain(Chain):
    """One such chain per window; `log_both` is shared."""

    log_each: Tensor  # (N, A) float64
    log_both: Tensor  # (A, A) float64, symmetric

    @classmethod
    def over(cls, chain: Chain, log_each: Tensor, log_both: Tensor) -> RescoredChain:
        """Weigh the likeliest plans of a chain again."""
        return cls(chain.log_emissions, chain.log_transitions, log_each, log_both)

    @classmethod
    def stack(cls, chains: Sequence[RescoredChain]) -> RescoredChain:  # type: ignore[override]
        """One of several, whose transitions and `log_both` are the same."""
        each = torch.cat([chain.log_each for chain in chains])
        return cls.over(Chain.stack(chains), each, chains[0].log_both)

    def best_paths(self) -> tuple[Tensor, Tensor]:
        """The most probable plan of every window (N, T), and log p of each without Z (N,)."""
        plans, logs = self.best_plans(1)
        return plans[:, 0], logs[:, 0] + self.log_normaliser()

    def best_plans(self, number: int) -> tuple[Tensor, Tensor]:
        """The n most probable plans of every window, best first (N, n, T), and log p of each (N, n)."""
        plans, _, logs = self._rescored
        if number > 1:  # another plan may be likelier than what some of these now are
            more, more_logs = super().best_plans(RESCORED + number)
            plans = torch.cat((plans, more[:, RESCORED:]), dim=1)
            logs = torch.cat((logs, more_logs[:, RESCORED:]), dim=1)
        ranked, order = logs.sort(dim=1, descending=True, stable=True)
        window = torch.arange(len(plans))[:, None]
        return plans[window, order[:, :number]], ranked[:, :number]

    def marginals(self) -> Tensor:
        """The probability of every action at every position: (N, T, A)."""
        plans, before, after = self._rescored
        moved = (after.exp() - before.exp())[:, None].expand(-1, plans.shape[2], -1)  # (N, T, n)
        return super().marginals().scatter_add(2, plans.transpose(1, 2), moved).clamp_min(0.0)

    def log_probability(self, plans: Tensor, window: Tensor) -> Tensor:
        """Log p of plans (R, T), each in the chain of its window (R,): (R,)."""
        listed, before, after = self._rescored
        is_it = (listed[window] == plans[:, None]).all(dim=2) & (before[window] > -torch.inf)  # (R, n)
        place = is_it.long().argmax(dim=1)
        return torch.where(is_it.any(dim=1), after[window, place], super().log_probability(plans, window))

    def draw(self, uniforms: Tensor) -> Tensor:
        """Plans drawn exactly: from the chain, and what is one of its likeliest plans is then drawn anew among those.

        Args:
            uniforms: (K, T + 1) in [0, 1), the same for every window.

        Returns:
            (N, K, T) int64. A window's plans do not depend on its neighbours: each is drawn by itself.
        """
        drawn = super().draw(uniforms)
        horizon = drawn.shape[2]
        listed, before, after = self._rescored
        total = after.exp().cumsum(dim=1)  # (N, n)
        place = torch.searchsorted(total, total[:, -1:] * uniforms[:, horizon], right=True).clamp(max=RESCORED - 1)
        for row, plans in enumerate(drawn):
            known = listed[row][before[row] > -torch.inf]
            is_listed = (plans[:, None] == known).all(dim=2).any(dim=1)
            plans[is_listed] = listed[row, place[row, is_listed]]
        return drawn

    @cached_property
    def _rescored(self) -> tuple[Tensor, Tensor, Tensor]:
        """The likeliest plans (N, n, T), and log p of each before and after (N, n)."""
        plans, logs = super().best_plans(RESCORED)
        return plans, logs, share_anew(logs, fit_of(plans, self.log_each, self.log_both))


def fit_of(plans: Tensor, each: Tensor, both: Tensor) -> Tensor:
    """How the actions of plans (N, n, T) fit, by (N, A) and (A, A): (N, n)."""
    alone = each[:, None].expand(-1, plans.shape[1], -1).gather(2, plans).sum(dim=2)
    together = both[plans[..., :, None], plans[..., None, :]].sum(dim=(2, 3))
    return alone - together


def share_anew(logs: Tensor, fit: Tensor) -> Tensor:
    """Share out what plans have together, mostly in proportion to p exp(fit): log p (N, n) before -> (N, n) after."""
    weighed = logs + fit
    shares = weighed - weighed.logsumexp(dim=1, keepdim=True) + logs.logsumexp(dim=1, keepdim=True)
    mixed = torch.logaddexp(shares + math.log(1 - KEPT), logs + math.log(KEPT))
    return torch.where(logs > -torch.inf, mixed, logs)  # where nothing is possible there is nothing to share
