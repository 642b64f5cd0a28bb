"""Sampled plans as distributions: distinct plans with their counts, for many windows at once or for one user's pair."""

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

Plan = tuple[int, ...]


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
    """The plausible plans between one start and one goal, each with its share of the samples."""

    names: tuple[str, ...]  # the vocabulary
    plans: tuple[Plan, ...]  # distinct, most frequent first
    counts: tuple[int, ...]  # how often each was drawn
    plan: Plan  # the recommended plan
    plan_probability: float  # of the recommended plan; see `p3iv.plans.decoding.plan_probability`

    def __post_init__(self) -> None:
        horizons = {len(plan) for plan in (*self.plans, self.plan)}
        if len(self.plans) != len(self.counts) or not self.plans or len(horizons) != 1:
            raise PlanError("A plan distribution needs as many counts as plans, at least one, all of one length.")
        if any(not 0 <= action < len(self.names) for plan in (*self.plans, self.plan) for action in plan):
            raise PlanError(f"A plan names an action outside the vocabulary of {len(self.names)}.")
        if len(set(self.names)) != len(self.names):
            raise PlanError("Two actions of the vocabulary have the same name.")
        if any(count < 1 for count in self.counts):
            raise PlanError(f"counts={self.counts}, but every count must be at least 1.")
        if not 0 <= self.plan_probability <= 1:
            raise PlanError(f"plan_probability={self.plan_probability}, but it must be from 0 to 1.")

    @property
    def horizon(self) -> int:
        return len(self.plan)

    @cached_property
    def num_samples(self) -> int:
        return sum(self.counts)

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """The share of the samples that are each plan; they sum to 1."""
        return tuple(count / self.num_samples for count in self.counts)

    @cached_property
    def entropy(self) -> float:
        """In nats: 0 if every sample is the same plan."""
        return -sum(share * math.log(share) for share in self.shares) + 0.0

    @cached_property
    def marginals(self) -> Tensor:
        """How often each action was drawn at each position: (T, A), rows sum to 1."""
        table = torch.zeros(self.horizon, len(self.names), dtype=torch.float64)
        for plan, share in zip(self.plans, self.shares, strict=True):
            for position, action in enumerate(plan):
                table[position, action] += share
        return table

    def top(self, number: int = 5) -> Iterator[tuple[tuple[str, ...], float]]:
        """The most frequent sampled plans, in words, each with its share of the samples."""
        for plan, share in zip(self.plans[:number], self.shares, strict=False):
            yield self.words(plan), share

    def words(self, plan: Plan) -> tuple[str, ...]:
        return tuple(self.names[action] for action in plan)

    def share_of(self, plan: Plan) -> float:
        """The share of the samples that are this plan; 0 if it was never sampled."""
        return dict(zip(self.plans, self.shares, strict=True)).get(plan, 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Steps in words, for JSON; `from_dict` reads it back to an equal distribution."""
        return {
            "horizon": self.horizon,
            "num_samples": self.num_samples,
            "entropy": self.entropy,
            "plan": list(self.words(self.plan)),
            "plan_probability": self.plan_probability,
            "plans": [
                {"steps": list(self.words(plan)), "count": count, "share": share}
                for plan, count, share in zip(self.plans, self.counts, self.shares, strict=True)
            ],
            "marginals": [self._marginal(row) for row in self.marginals],
            "vocabulary": list(self.names),
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
        """Read the output of `to_dict`; what follows from the counts is computed again."""
        try:
            names = tuple(content["vocabulary"])
            id_of = {name: number for number, name in enumerate(names)}
            return cls(
                names=names,
                plans=tuple(tuple(id_of[step] for step in plan["steps"]) for plan in content["plans"]),
                counts=tuple(_count(plan["count"]) for plan in content["plans"]),
                plan=tuple(id_of[step] for step in content["plan"]),
                plan_probability=float(content["plan_probability"]),
            )
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise PlanError(f"This is not a plan distribution as `to_dict` makes it: {cut(repr(error))}") from error

    def _marginal(self, row: Tensor) -> dict[str, float]:
        likely = row.argsort(descending=True, stable=True)[: int((row > 0).sum())]
        return {self.names[int(action)]: float(row[action]) for action in likely}


def distribution_of(
    counts: PlanCounts, number: int, *, names: tuple[str, ...], plan: Tensor, plan_probability: float
) -> PlanDistribution:
    """The distribution of one window, in the form that users get."""
    plans, drawn = counts.rows(number)
    return PlanDistribution(
        names=names,
        plans=tuple(map(_as_plan, plans.tolist())),
        counts=tuple(drawn.tolist()),
        plan=_as_plan(plan.tolist()),
        plan_probability=plan_probability,
    )


def _count(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"a count of {shown(value)}")
    return value


def _as_plan(ids: list[Any]) -> Plan:
    return tuple(int(action) for action in ids)
