"""Plans as distributions: distinct samples with their counts for many windows, and the plans that one user gets."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from p3iv.errors import PlanError
from p3iv.validation import cut, shown

Plan = tuple[int, ...]  # action ids
Steps = tuple[str, ...]  # a plan in words
SOURCES = ("chain", "samples")  # probabilities computed exactly by a chain, or shares of samples


@dataclass(frozen=True)
class PlanCounts:
    """The distinct plans of every window with how often each was drawn, most frequent first (ties by action ids).

    Windows have different numbers of distinct plans, so their rows lie one after another:

        samples of window 0: [1 2] [1 2] [1 3]    plans  [1 2] [1 3] [4 0]
        samples of window 1: [4 0] [4 0] [4 0]    counts   2     1     3
                                                  first  [0, 2, 3]
    """

    plans: Tensor  # (U, T) int64
    counts: Tensor  # (U,) int64
    first: Tensor  # (N + 1,) int64: rows first[i] to first[i + 1] are those of window i

    def __len__(self) -> int:
        return len(self.first) - 1

    @cached_property
    def window(self) -> Tensor:
        """The window of every row: (U,)."""
        return torch.repeat_interleave(torch.arange(len(self)), self.first.diff())

    @cached_property
    def totals(self) -> Tensor:
        """Samples per window: (N,)."""
        return torch.zeros(len(self), dtype=torch.int64).index_add(0, self.window, self.counts)

    def rows(self, number: int) -> tuple[Tensor, Tensor]:
        """Plans (u, T) and counts (u,) of one window."""
        here = slice(int(self.first[number]), int(self.first[number + 1]))
        return self.plans[here], self.counts[here]

    @property
    def modes(self) -> Tensor:
        """The most frequent plan of every window: (N, T)."""
        return self.plans[self.first[:-1]]


def count_plans(samples: Tensor) -> PlanCounts:
    """Distinct plans and counts of samples (N, K, T)."""
    num_windows, num_samples, horizon = samples.shape
    size = max(int(samples.max()) + 1, 2)
    # Plans as numbers in base `size`; where one number cannot hold a plan, ranks of its prefix take the prefix's place.
    keys = samples[:, :, 0].long()
    for position in range(1, horizon):
        if int(keys.max()) >= (2**62) // size:
            keys = torch.unique(keys, return_inverse=True)[1]
        keys = keys * size + samples[:, :, position]
    order_keys, order = keys.sort(dim=1)  # (N, K)
    is_first = torch.ones_like(order_keys, dtype=torch.bool)
    is_first[:, 1:] = order_keys[:, 1:] != order_keys[:, :-1]
    window, place = is_first.nonzero(as_tuple=True)  # (U,) each
    flat = window * num_samples + place
    counts = torch.cat((flat[1:], flat.new_tensor([num_windows * num_samples]))) - flat
    plans = samples[window, order[window, place]].long()
    # Stable, so that equal counts stay in the order of their action ids.
    by_count = (window * (num_samples + 1) + (num_samples - counts)).argsort(stable=True)
    first = torch.zeros(num_windows + 1, dtype=torch.int64)
    first[1:] = is_first.sum(dim=1).cumsum(0)
    return PlanCounts(plans[by_count], counts[by_count], first)


@dataclass(frozen=True)
class PlanDistribution:
    """The most probable plans between one start and one goal, in words."""

    plans: tuple[Steps, ...]  # distinct: the recommended plan, then the others, most probable first
    probabilities: tuple[float, ...]  # of each plan
    source: str  # of the probabilities, one of SOURCES
    samples: tuple[tuple[Steps, int], ...] = ()  # if asked for: distinct plans with their counts, most frequent first

    def __post_init__(self) -> None:
        sampled = [plan for plan, _ in self.samples]
        if len(self.plans) != len(self.probabilities) or not self.plans:
            raise PlanError("A plan distribution needs as many probabilities as plans, at least one.")
        if len({len(plan) for plan in (*self.plans, *sampled)}) != 1:
            raise PlanError("The plans of a distribution must have the same number of steps.")
        if len(set(self.plans)) != len(self.plans) or len(set(sampled)) != len(sampled):
            raise PlanError("A plan distribution contains a plan twice.")
        if not all(0 <= probability <= 1 for probability in self.probabilities) or self.other_plans < -1e-6:
            raise PlanError("Probabilities of plans must be from 0 to 1 and sum to at most 1.")
        if any(type(count) is not int or count < 1 for _, count in self.samples):
            raise PlanError("Every count of samples must be a whole number from 1.")
        if self.source not in SOURCES:
            raise PlanError(f"source={shown(self.source)}, but it must be {' or '.join(SOURCES)}.")

    @property
    def plan(self) -> Steps:
        """The recommended plan."""
        return self.plans[0]

    @property
    def plan_probability(self) -> float:
        """The probability of the recommended plan."""
        return self.probabilities[0]

    @property
    def other_plans(self) -> float:
        """The joint probability of all plans that are not in the list."""
        return 1 - math.fsum(self.probabilities)

    @property
    def num_samples(self) -> int:
        return sum(count for _, count in self.samples)

    def top(self, number: int = 5) -> Iterator[tuple[Steps, float]]:
        """The recommended plan and the next most probable ones, each with its probability."""
        return zip(self.plans[:number], self.probabilities, strict=False)

    def to_dict(self) -> dict[str, Any]:
        """The fields of the JSON of `p3iv plan`; `from_dict` reads them back to an equal distribution."""
        return {
            "plan": list(self.plan),
            "plan_probability": self.plan_probability,
            "source": self.source,
            "plans": [{"steps": list(steps), "probability": share} for steps, share in self.top(len(self.plans))],
            "samples": [{"steps": list(steps), "count": count} for steps, count in self.samples],
        }

    def to_json(self) -> str:
        """One JSON object; `from_json` reads it back to an equal distribution."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> PlanDistribution:
        """Read the output of `to_json`."""
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise PlanError(f"This is not a plan distribution as `to_json` writes it: {cut(repr(error))}") from error
        return cls.from_dict(content)

    @classmethod
    def from_dict(cls, content: Any) -> PlanDistribution:
        """Read the output of `to_dict`."""
        try:
            return cls(
                plans=tuple(tuple(map(str, plan["steps"])) for plan in content["plans"]),
                probabilities=tuple(float(plan["probability"]) for plan in content["plans"]),
                source=content["source"],
                samples=tuple((tuple(map(str, plan["steps"])), plan["count"]) for plan in content["samples"]),
            )
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise PlanError(f"This is not a plan distribution as `to_dict` makes it: {cut(repr(error))}") from error
