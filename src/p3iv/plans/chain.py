"""A chain of emissions and transitions, and the questions that planners ask it.

    p(a_1 .. a_T) = emission_1(a_1) * prod_t transition(a_{t-1}, a_t) * emission_t(a_t) / Z

`best_paths` is Viterbi (section 3.5, supplement B), `best_plans` its n best, `draw` samples exactly, `log_normaliser`
is log Z, `marginals` the probability of every action at every position. All in log space and float64, so that zero
probabilities are minus infinity and nothing underflows; on the CPU, since some devices have no float64. A planner that
is trained through its chain asks on its own device and in its own precision. Shapes: N windows, T positions, A actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from p3iv.errors import PlanError

_MOST_ELEMENTS = 2**21  # of one (windows, A, A) block: 16 MB, whatever the vocabulary


@dataclass(frozen=True)
class Chain:
    """One chain per window; the transitions are shared."""

    log_emissions: Tensor  # (N, T, A) float64
    log_transitions: Tensor  # (A, A) float64: from row to column

    @classmethod
    def of(cls, emissions: Tensor, transitions: Tensor) -> Chain:
        """From probabilities, or any weights from 0: (N, T, A) and (A, A)."""
        return cls(emissions.cpu().double().log(), transitions.cpu().double().log())

    @classmethod
    def stack(cls, chains: Sequence[Chain]) -> Chain:
        """One of several, whose transitions are the same."""
        return Chain(torch.cat([chain.log_emissions for chain in chains]), chains[0].log_transitions)

    def best_paths(self) -> tuple[Tensor, Tensor]:
        """The most probable plan of every window (N, T), and log p of each without Z (N,); Viterbi.

        Where no plan is possible the score is minus infinity and the plan means nothing.
        """
        num_actions = len(self.log_transitions)
        size = max(1, _MOST_ELEMENTS // num_actions**2)
        into = self.log_transitions.T.contiguous()  # (A to, A from): the maximum is then over neighbours in memory
        parts = [_viterbi(part, into) for part in self.log_emissions.split(size)]
        return torch.cat([paths for paths, _ in parts]), torch.cat([scores for _, scores in parts])

    def best_plans(self, number: int) -> tuple[Tensor, Tensor]:
        """The n most probable plans of every window, best first (N, n, T), and log p of each (N, n); list Viterbi.

        Where fewer plans are possible, the rest have a log p of minus infinity and mean nothing.
        """
        num_actions = len(self.log_transitions)
        size = max(1, _MOST_ELEMENTS // (num_actions * max(num_actions, number)))
        parts = [_list_viterbi(part, self.log_transitions, number) for part in self.log_emissions.split(size)]
        plans, scores = torch.cat([plans for plans, _ in parts]), torch.cat([scores for _, scores in parts])
        return plans, scores - self.log_normaliser()[:, None]

    def log_normaliser(self) -> Tensor:
        """Log Z of every window: (N,)."""
        return self._log_forward[:, -1].logsumexp(dim=1)

    def log_messages(self) -> tuple[Tensor, Tensor]:
        """Logs of the weight of all beginnings that end in an action and of all ends that follow: (N, T, A) each."""
        return self._log_forward, _log_backward(self.log_emissions, self.transitions)

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
            uniforms: (K, T) in [0, 1), the same for every window; more columns are not looked at.

        Returns:
            (N, K, T) int64. A window's plans do not depend on its neighbours: each is drawn by itself.
        """
        forwards = (_log_forward(window[None], self.transitions)[0] for window in self.log_emissions)
        return torch.stack([_draw_one(forward, self.log_transitions, uniforms) for forward in forwards])

    @cached_property
    def transitions(self) -> Tensor:
        """The weights of the transitions themselves: (A, A)."""
        return self.log_transitions.exp()

    @cached_property
    def _log_forward(self) -> Tensor:
        return _log_forward(self.log_emissions, self.transitions)


def _viterbi(log_emissions: Tensor, into: Tensor) -> tuple[Tensor, Tensor]:
    score = log_emissions[:, 0]  # (n, A)
    came_from = []
    for emission in log_emissions.unbind(dim=1)[1:]:
        best, where = (score[:, None, :] + into).max(dim=2)  # over (n, A to, A from)
        score = best + emission
        came_from.append(where)
    final, last = score.max(dim=1)
    path = [last]
    for where in reversed(came_from):
        path.append(where.gather(1, path[-1][:, None])[:, 0])
    return torch.stack(path[::-1], dim=1), final


def _list_viterbi(log_emissions: Tensor, log_transitions: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """The n best plans, action by action: (m, T, A) -> (m, n, T) and (m, n).

    Of all beginnings the n are kept whose best ends make them the best plans: any other has n better plans before it.
    """
    ends = _best_ends(log_emissions, log_transitions)
    num_windows, horizon, num_actions = log_emissions.shape
    plans = torch.zeros(num_windows, 1, 0, dtype=torch.int64)
    scores = log_emissions.new_zeros(num_windows, 1)  # (m, k): of beginnings, with what they have emitted
    window = torch.arange(num_windows)[:, None]
    for position in range(horizon):
        step = log_emissions[:, None, position]  # (m, 1, A)
        if position:
            step = step + log_transitions[plans[:, :, -1]]  # (m, k, A)
        longer = (scores[:, :, None] + step).flatten(1)  # (m, k A)
        promise = longer + ends[:, position].repeat(1, scores.shape[1])
        ranked, place = promise.topk(min(number, promise.shape[1]), dim=1)
        scores = longer.gather(1, place)
        plans = torch.cat((plans[window, place // num_actions], (place % num_actions)[:, :, None]), dim=2)
    missing = number - plans.shape[1]
    return functional.pad(plans, (0, 0, 0, missing)), functional.pad(ranked, (0, missing), value=-torch.inf)


def _best_ends(log_emissions: Tensor, log_transitions: Tensor) -> Tensor:
    """The score of the best end that follows an action, (m, T, A): 0 at the last position."""
    ends = [torch.zeros_like(log_emissions[:, 0])]
    for emission in reversed(log_emissions.unbind(dim=1)[1:]):
        ends.append((log_transitions + (ends[-1] + emission)[:, None, :]).amax(dim=2))
    return torch.stack(ends[::-1], dim=1)


def _log_forward(log_emissions: Tensor, transitions: Tensor) -> Tensor:
    """Log of the weight of all beginnings that end in an action: (n, T, A)."""
    steps = [log_emissions[:, 0]]
    for emission in log_emissions.unbind(dim=1)[1:]:
        steps.append(_log_product(steps[-1], transitions) + emission)
    return torch.stack(steps, dim=1)


def _log_backward(log_emissions: Tensor, transitions: Tensor) -> Tensor:
    """Log of the weight of all ends that follow an action: (n, T, A)."""
    steps = [torch.zeros_like(log_emissions[:, 0])]
    for emission in reversed(log_emissions.unbind(dim=1)[1:]):
        steps.append(_log_product(steps[-1] + emission, transitions.T))
    return torch.stack(steps[::-1], dim=1)


def _log_product(log_weights: Tensor, matrix: Tensor) -> Tensor:
    """Log of exp(log_weights) @ matrix, shifted so that the largest weight is 1: (n, A)."""
    shift = log_weights.amax(dim=1, keepdim=True)
    shift = torch.where(shift.isinf(), torch.zeros_like(shift), shift)
    return ((log_weights - shift).exp() @ matrix).log() + shift


def _draw_one(forward: Tensor, log_transitions: Tensor, uniforms: Tensor) -> Tensor:
    """What the beginnings of one window weigh (T, A) and (K, T) -> (K, T)."""
    if forward[-1].max() == -torch.inf:
        raise PlanError("No plan is possible under these emissions and transitions, so none can be drawn.")
    drawn = [_pick(forward[-1][None], torch.zeros(len(uniforms), dtype=torch.int64), uniforms[:, len(forward) - 1])]
    for position in range(len(forward) - 2, -1, -1):
        following, row = drawn[-1].unique(return_inverse=True)
        weights = forward[position] + log_transitions[:, following].T  # (distinct following actions, A)
        drawn.append(_pick(weights, row, uniforms[:, position]))
    return torch.stack(drawn[::-1], dim=1)


def _pick(log_weights: Tensor, row: Tensor, uniform: Tensor) -> Tensor:
    """For every k an entry of its row of (J, A), by inverting the cumulative distribution; never one of weight 0."""
    total = (log_weights - log_weights.amax(dim=1, keepdim=True)).exp().cumsum(dim=1)  # (J, A)
    size = max(1, _MOST_ELEMENTS // total.shape[1])
    picked = []
    for rows, u in zip(row.split(size), uniform.split(size), strict=True):
        part = total[rows]  # (k, A)
        picked.append((part <= u[:, None] * part[:, -1:]).sum(dim=1))
    return torch.cat(picked)
