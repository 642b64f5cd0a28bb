"""Metrics of sampled plans, or of a model that gives every plan a probability, against the reference plans of a window.

P are the probabilities of the reference plans (`ReferencePlans`), Q the shares of the samples, and

    Q~ = 0.99 Q + 0.01 uniform over all A^T plans,

so that a reference plan that was never sampled costs much, but not infinitely much. The paper defines neither the
smoothing nor the logarithm; this smoothing and nats are our choice. For plans of several lengths, which are padded
(`data.padding`), the 1 % is uniform over the lengths that occur among the references, and then over the A^T plans of
each. With one length, that is the same.

The released code departs from the paper: its KL compares a tensor with itself, and its NLL is that of the samples under
the references. PDPP and SCHEMA compare single positions instead (`released.marginal_divergences`). In all three, mode
recall counts a reference plan as often as it occurs in the test set, where the paper says unique plans.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from p3iv.data.padding import has_one_length
from p3iv.errors import PlanError
from p3iv.metrics.counts import PlanCounts
from p3iv.metrics.references import ReferencePlans, match_plans
from p3iv.types import Array

SMOOTHING = 0.01
MAX_ENTRIES = 2**22  # of a table at a time: 32 MB


def count_actions(plans: Tensor, weights: Tensor, owner: Tensor, num_owners: int, num_actions: int) -> Tensor:
    """Sum the weights (U,) of plans (U, T) by owner (U,), position and action: (num_owners, T, A) float64."""
    tables = [
        torch.bincount(owner * num_actions + actions, weights=weights, minlength=num_owners * num_actions)
        for actions in plans.unbind(dim=1)
    ]
    return torch.stack(tables).view(len(tables), num_owners, num_actions).transpose(0, 1)


def sampled_actions(samples: PlanCounts, num_actions: int) -> Iterator[tuple[slice, Tensor]]:
    """Yield some windows at a time, and how often each action was sampled at each of their positions: (n, T, A)."""
    step = max(1, MAX_ENTRIES // (samples.plans.shape[1] * num_actions))
    for start in range(0, len(samples), step):
        stop = min(start + step, len(samples))
        rows = slice(int(samples.first[start]), int(samples.first[stop]))
        counts, owner = samples.counts[rows].double(), samples.window[rows] - start
        yield slice(start, stop), count_actions(samples.plans[rows], counts, owner, stop - start, num_actions)


@dataclass(frozen=True)
class Divergences:
    """Divergences of every window, in nats."""

    kl: Tensor  # (N,) float64: sum of P log(P / Q~)
    nll: Tensor  # (N,) float64: -sum of P log Q~


@dataclass(frozen=True)
class DistributionValues:
    """Every metric of every window, (N,) float64 each: a new metric of samples is added here and to the catalogue."""

    kl: Tensor  # nats
    nll: Tensor  # nats
    mode_precision: Tensor  # share of the samples that are reference plans
    mode_recall: Tensor  # share of the reference plans that were sampled
    cosine_distance: Tensor  # between two of the samples, on average; nan where there is only one, or several lengths
    distinct_plans: Tensor  # among the samples


def distribution_values(samples: PlanCounts, references: ReferencePlans, num_actions: int) -> DistributionValues:
    """Compare the samples of every window with its reference plans."""
    row = match_plans(samples, references)  # (U,)
    right = row >= 0
    window, counts, totals = samples.window[right], samples.counts[right].double(), samples.totals.double()
    divergences = _sampled_divergences(window, counts / totals[window], row[right], references, num_actions)
    return DistributionValues(
        kl=divergences.kl,
        nll=divergences.nll,
        mode_precision=_add_up(window, counts, len(samples)) / totals,
        mode_recall=_add_up(window, torch.ones_like(counts), len(samples)) / references.num_plans,
        cosine_distance=cosine_distances(samples, num_actions),
        distinct_plans=samples.first.diff().double(),
    )


def exact_divergences(
    log_probability: Callable[[Array, Array], Array], references: ReferencePlans, num_actions: int
) -> Divergences:
    """The same KL and NLL for a model that gives any plan a probability, for example a chain.

    Args:
        log_probability: of plans (E, T), each in its window (E,): (E,), -inf where impossible. The plans are padded
            where the references have several lengths, and the probability is that over plans of all lengths.
        references: the reference plans.
        num_actions: A.
    """
    nll = torch.zeros(len(references), dtype=torch.float64)
    log_uniform = _log_uniform(references.lengths, references.num_lengths, num_actions)
    for window, row in references.pairs():
        log = torch.from_numpy(log_probability(references.plans[row].numpy(), window.numpy()))
        nll.index_add_(0, window, references.probabilities[row] * _smoothed(log, log_uniform[row]), alpha=-1)
    return _divergences(nll, references)


def open_nll(log_probability: Tensor, horizons: Collection[int], num_actions: int, lengths: Tensor) -> Tensor:
    """-log Q~ of every window's own reference over plans of all allowed lengths, in nats: (N,) float64.

    Q~ = 0.99 p(T) p(plan | T) + 0.01 uniform over the allowed lengths and then over the A^T plans of each. With one
    allowed length, it is the NLL above of a window whose only reference plan is its own.

    Args:
        log_probability: of the reference, log p(T) + log p(plan | T): (N,), -inf where impossible.
        horizons: the allowed lengths.
        num_actions: A.
        lengths: of the references: (N,).

    Raises:
        PlanError: for a reference whose length is not allowed, which would cost infinitely much.
    """
    other = sorted(set(lengths.tolist()) - set(horizons))
    if other:
        raise PlanError(f"A reference has length {other[0]}, but the allowed lengths are {sorted(set(horizons))}.")
    return -_smoothed(log_probability, _log_uniform(lengths, len(set(horizons)), num_actions))


def cosine_distances(samples: PlanCounts, num_actions: int) -> Tensor:
    """Mean over pairs of samples of 1 - (matching positions) / T: (N,), nan where a window has one sample.

    That is the cosine distance of plans written as T one-hot rows. An action that occurs n times at a position makes
    n (n - 1) / 2 matching pairs there, so there is no loop over the K (K - 1) / 2 pairs. Plans of several lengths have
    no common T: then all are nan.

    >>> samples = PlanCounts(torch.tensor([[1, 2], [1, 3]]), torch.tensor([2, 1]), torch.tensor([0, 2]))
    >>> cosine_distances(samples, num_actions=4)  # [1 2] [1 2] [1 3]: 0, 1/2 and 1/2
    tensor([0.3333], dtype=torch.float64)
    """
    if not has_one_length(samples.plans):
        return torch.full((len(samples),), torch.nan, dtype=torch.float64)
    matching = torch.empty(len(samples), dtype=torch.float64)
    for windows, counts in sampled_actions(samples, num_actions):
        matching[windows] = (counts * (counts - 1)).sum(dim=(1, 2))
    totals = samples.totals.double()
    pairs = totals * (totals - 1)
    return torch.where(pairs > 0, 1 - matching / (samples.plans.shape[1] * pairs), torch.nan)


def _sampled_divergences(
    window: Tensor, shares: Tensor, row: Tensor, references: ReferencePlans, num_actions: int
) -> Divergences:
    """Divergences from the reference plans that were sampled; the others get the probability of an unsampled plan."""
    never = _log_uniform(references.lengths, references.num_lengths, num_actions)  # (R,)
    gain = _smoothed(shares.log(), never[row]) - never[row]
    # The mean of `never` over the plans of a group, as a distance to one of them: without rounding where all are equal.
    more = _add_up(references.group_of_row, references.probabilities * (never - never[0]), len(references.first) - 1)
    nll = -(never[0] + more[references.group])
    return _divergences(nll - _add_up(window, references.probabilities[row] * gain, len(references)), references)


def _log_uniform(lengths: Tensor, num_lengths: int, num_actions: int) -> Tensor:
    """What the smoothing adds to plans of these lengths, in log space because A^T may be larger than any float."""
    return math.log(SMOOTHING) - math.log(num_lengths) - lengths.double() * math.log(num_actions)


def _smoothed(log_probabilities: Tensor, log_uniform: Tensor) -> Tensor:
    """Logarithm of Q~."""
    return torch.logaddexp(math.log1p(-SMOOTHING) + log_probabilities.double(), log_uniform)


def _divergences(nll: Tensor, references: ReferencePlans) -> Divergences:
    return Divergences(kl=(nll - references.entropies).clamp_min(0), nll=nll)  # below 0 only by rounding


def _add_up(window: Tensor, values: Tensor, num_windows: int) -> Tensor:
    return torch.zeros(num_windows, dtype=torch.float64).index_add(0, window, values)
