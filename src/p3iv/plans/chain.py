"""A chain of emissions and transitions: its best plans, exact samples, marginals and probabilities.

    p(a_1 .. a_T) = emission_1(a_1) * prod_t transition(a_{t-1}, a_t) * emission_t(a_t) / Z

`best_paths` is Viterbi (section 3.5, supplement B), `best_plans` its n best, `draw` samples exactly, `log_normaliser`
is log Z, `marginals` the probability of every action at every position. All in log space and float64, so that zero
probabilities are minus infinity and nothing possible becomes zero; on the CPU, since some devices have no float64. A
planner that is trained through its chain uses its own device and precision. Shapes: N windows, T positions, A actions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional

from p3iv.errors import PlanError
from p3iv.plans.viterbi import MAX_ELEMENTS, Tables, best_path, best_plans

NUM_RESCORED = 50  # plans that a `RescoredChain` rescores
UNCHANGED_SHARE = 0.1  # of their joint probability, which stays as it was


@dataclass(frozen=True)
class Chain:
    """One chain per window; the transitions are shared."""

    log_emissions: Tensor  # (N, T, A) float64
    log_transitions: Tensor  # (A, A) float64: from row to column
    _tables: Tables = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tables", Tables(self.log_transitions))

    @classmethod
    def of(cls, emissions: Tensor, transitions: Tensor) -> Chain:
        """From probabilities, or any weights from 0: (N, T, A) and (A, A)."""
        return cls(emissions.cpu().double().log(), transitions.cpu().double().log())

    def best_paths(self) -> tuple[Tensor, Tensor]:
        """The most probable plan of every window (N, T), and log p of each without Z (N,); Viterbi.

        If no plan is possible, the score is minus infinity and the plan has no meaning.
        """
        plans, scores = best_path(self.log_emissions, self._tables)
        return plans[:, 0], scores[:, 0]

    def best_plans(self, number: int) -> tuple[Tensor, Tensor]:
        """The n most probable plans of every window, best first (N, n, T), and log p of each (N, n); list Viterbi.

        If fewer plans are possible, the rest have a log p of minus infinity and no meaning.
        """
        plans, scores = best_plans(self.log_emissions, self._tables, number)
        return plans, scores - self.log_normaliser()[:, None]

    def log_normaliser(self) -> Tensor:
        """Log Z of every window: (N,)."""
        return self._log_forward[:, -1].logsumexp(dim=1)

    def log_messages(self) -> tuple[Tensor, Tensor]:
        """Logs of the weight of all beginnings that end in an action and of all ends that follow: (N, T, A) each."""
        return self._log_forward, _log_backward(self.log_emissions, self.log_transitions, self.transitions)

    def marginals(self) -> Tensor:
        """The probability of every action at every position: (N, T, A)."""
        begin, end = self.log_messages()
        log_joint = begin + end
        return (log_joint - self.log_normaliser()[:, None, None]).exp()

    def log_probability(self, plans: Tensor, window: Tensor) -> Tensor:
        """Log p of plans (R, T), each in the chain of its window (R,): (R,)."""
        position = torch.arange(plans.shape[1])
        score = self.log_emissions[window[:, None], position, plans].sum(dim=1)
        score = score + self.log_transitions[plans[:, :-1], plans[:, 1:]].sum(dim=1)
        return score - self.log_normaliser()[window]

    def draw(self, uniforms: Tensor) -> Tensor:
        """Plans drawn exactly, by forward filtering and backward sampling.

        Args:
            uniforms: (K, T) in [0, 1), the same for every window; further columns are ignored.

        Returns:
            (N, K, T) int64. A window's plans do not depend on its neighbours: each is drawn by itself.
        """
        transitions = self.log_transitions, self.transitions
        forwards = (_log_forward(window[None], *transitions)[0] for window in self.log_emissions)
        return torch.stack([_draw_one(forward, self._tables.into, uniforms) for forward in forwards])

    def split(self) -> list[Self]:
        """One chain per window."""
        return [self._share(log_emissions=emissions) for emissions in self.log_emissions.split(1)]

    def with_emissions(self, log_emissions: Tensor) -> Self:
        """The same transitions with other emissions of as many windows."""
        return self._share(log_emissions=log_emissions)

    @property
    def transitions(self) -> Tensor:
        """The weights of the transitions themselves: (A, A)."""
        return self._tables.weights

    def _share(self, **changes: Any) -> Self:
        """A chain with the same transitions, which uses what was already computed from them."""
        other = replace(self, **changes)
        object.__setattr__(other, "_tables", self._tables)
        return other

    @cached_property
    def _log_forward(self) -> Tensor:
        return _log_forward(self.log_emissions, self.log_transitions, self.transitions)


@dataclass(frozen=True)
class RescoredChain(Chain):
    """A chain whose likeliest plans are rescored by how well all their actions fit together, which a chain cannot tell.

    The actions a_1 .. a_T of a plan have a fit to which every pair of positions adds, not only neighbours:

        fit = sum_t each(a_t) - sum_s sum_t both(a_s, a_t)

    The `NUM_RESCORED` likeliest plans of the chain redistribute their joint probability: `UNCHANGED_SHARE`, a tenth,
    stays as it was, the rest is in proportion to p(plan) exp(fit). All other plans keep theirs. So every result stays
    exact, all plans add up to 1, and a plan that does not fit loses at most a factor of 10. The most probable plan is
    still among them: the best of them has at least their mean, which is more than any other plan has.
    """

    log_each: Tensor  # (N, A) float64
    log_both: Tensor  # (A, A) float64, symmetric

    @classmethod
    def over(cls, chain: Chain, log_each: Tensor, log_both: Tensor) -> RescoredChain:
        """Rescore the likeliest plans of a chain."""
        rescored = cls(chain.log_emissions, chain.log_transitions, log_each, log_both)
        object.__setattr__(rescored, "_tables", chain._tables)
        return rescored

    def best_paths(self) -> tuple[Tensor, Tensor]:
        """The most probable plan of every window (N, T), and log p of each without Z (N,)."""
        plans, logs = self.best_plans(1)
        return plans[:, 0], logs[:, 0] + self.log_normaliser()

    def best_plans(self, number: int) -> tuple[Tensor, Tensor]:
        """The n most probable plans of every window, best first (N, n, T), and log p of each (N, n)."""
        plans, _, logs = self._rescored
        if number > 1:  # another plan may now be likelier than some of these
            more, more_logs = super().best_plans(NUM_RESCORED + number)
            # By comparison, not by rank: of plans that are equally probable, the longer list may begin with others.
            is_rescored = (more[:, :, None] == plans[:, None]).all(dim=3).any(dim=2)
            plans = torch.cat((plans, more), dim=1)
            logs = torch.cat((logs, more_logs.masked_fill(is_rescored, -torch.inf)), dim=1)
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
        """Exact samples: draw from the chain, then redraw samples that fall among the rescored plans.

        Args:
            uniforms: (K, T + 1) in [0, 1), the same for every window.

        Returns:
            (N, K, T) int64. A window's plans do not depend on its neighbours: each is drawn by itself.
        """
        drawn = super().draw(uniforms)
        horizon = drawn.shape[2]
        listed, before, after = self._rescored
        total = after.exp().cumsum(dim=1)  # (N, n)
        place = torch.searchsorted(total, total[:, -1:] * uniforms[:, horizon], right=True).clamp(max=NUM_RESCORED - 1)
        for row, plans in enumerate(drawn):
            known = listed[row][before[row] > -torch.inf]
            is_listed = (plans[:, None] == known).all(dim=2).any(dim=1)
            plans[is_listed] = listed[row, place[row, is_listed]]
        return drawn

    def split(self) -> list[Self]:
        """One chain per window."""
        parts = zip(self.log_emissions.split(1), self.log_each.split(1), strict=True)
        return [self._share(log_emissions=emissions, log_each=each) for emissions, each in parts]

    @cached_property
    def _rescored(self) -> tuple[Tensor, Tensor, Tensor]:
        """The likeliest plans (N, n, T), and log p of each before and after (N, n)."""
        plans, logs = super().best_plans(NUM_RESCORED)
        return plans, logs, redistribute(logs, fit_of(plans, self.log_each, self.log_both))


def fit_of(plans: Tensor, each: Tensor, both: Tensor) -> Tensor:
    """The fit of plans (N, n, T), from terms (N, A) of single actions and (A, A) of pairs: (N, n)."""
    alone = each[:, None].expand(-1, plans.shape[1], -1).gather(2, plans).sum(dim=2)
    together = both[plans[..., :, None], plans[..., None, :]].sum(dim=(2, 3))
    return alone - together


def redistribute(logs: Tensor, fit: Tensor) -> Tensor:
    """Redistribute the joint probability of plans, mostly in proportion to p exp(fit): log p (N, n) -> (N, n)."""
    reweighted = logs + fit
    shares = reweighted - reweighted.logsumexp(dim=1, keepdim=True) + logs.logsumexp(dim=1, keepdim=True)
    mixed = torch.logaddexp(shares + math.log(1 - UNCHANGED_SHARE), logs + math.log(UNCHANGED_SHARE))
    return torch.where(logs > -torch.inf, mixed, logs)  # impossible plans stay impossible


def _log_forward(log_emissions: Tensor, log_transitions: Tensor, transitions: Tensor) -> Tensor:
    """Log of the weight of all beginnings that end in an action: (n, T, A)."""
    steps = [log_emissions[:, 0]]
    for emission in log_emissions.unbind(dim=1)[1:]:
        steps.append(_log_product(steps[-1], log_transitions, transitions) + emission)
    return torch.stack(steps, dim=1)


def _log_backward(log_emissions: Tensor, log_transitions: Tensor, transitions: Tensor) -> Tensor:
    """Log of the weight of all ends that follow an action: (n, T, A)."""
    steps = [torch.zeros_like(log_emissions[:, 0])]
    for emission in reversed(log_emissions.unbind(dim=1)[1:]):
        steps.append(_log_product(steps[-1] + emission, log_transitions.T, transitions.T))
    return torch.stack(steps[::-1], dim=1)


def _log_product(log_weights: Tensor, log_matrix: Tensor, matrix: Tensor) -> Tensor:
    """Log of exp(log_weights) @ matrix: (n, A).

    A product of matrices, shifted so that the largest weight is 1. Sums that are so small that some of their terms may
    have become zero are computed again one by one, each shifted by its own largest term.
    """
    number = torch.finfo(log_weights.dtype)
    shift = log_weights.amax(dim=1, keepdim=True).clamp_min(number.min)  # finite where every weight is zero
    product = (log_weights - shift).exp() @ matrix
    limit = number.tiny / number.eps
    if product.detach().amin() >= limit:
        return product.log() + shift
    is_small = product < limit
    row, column = is_small.nonzero(as_tuple=True)
    size = max(1, MAX_ELEMENTS // len(matrix))
    pairs = zip(row.split(size), column.split(size), strict=True)
    exact = torch.cat([(log_weights[i] + log_matrix.T[j]).logsumexp(dim=1) for i, j in pairs])
    return (product.masked_fill(is_small, 1.0).log() + shift).index_put((row, column), exact)


def _draw_one(forward: Tensor, into: Tensor, uniforms: Tensor) -> Tensor:
    """The log weights of the beginnings of one window (T, A) and uniforms (K, T) -> plans (K, T).

    `into` are the log transitions from column to row.
    """
    if forward[-1].max() == -torch.inf:
        raise PlanError("No plan is possible under these emissions and transitions, so none can be drawn.")
    drawn = [_pick(forward[-1][None], torch.zeros(len(uniforms), dtype=torch.int64), uniforms[:, len(forward) - 1])]
    for position in range(len(forward) - 2, -1, -1):
        following, row = drawn[-1].unique(return_inverse=True)
        picked = torch.empty_like(row)
        for part in torch.arange(len(following)).split(max(1, MAX_ELEMENTS // forward.shape[1])):
            here = ((row >= part[0]) & (row <= part[-1])).nonzero()[:, 0]
            weights = forward[position] + into[following[part]]  # (distinct following actions, A)
            picked[here] = _pick(weights, row[here] - part[0], uniforms[here, position])
        drawn.append(picked)
    return torch.stack(drawn[::-1], dim=1)


def _pick(log_weights: Tensor, row: Tensor, uniform: Tensor) -> Tensor:
    """For every k an entry of its row of (J, A), by inverting the cumulative distribution; never one of weight 0."""
    total = (log_weights - log_weights.amax(dim=1, keepdim=True)).exp().cumsum(dim=1)  # (J, A)
    wanted = uniform * total[row, -1]
    steps = [2**power for power in reversed(range(total.shape[1].bit_length()))]  # 64, 32, .. 1: a binary search
    padded = functional.pad(total, (0, sum(steps) - total.shape[1]), value=torch.inf)
    begin, entries = row * padded.shape[1], padded.flatten()
    place = begin.clone()
    for step in steps:
        place += step * (entries[place + (step - 1)] <= wanted)
    return place - begin
