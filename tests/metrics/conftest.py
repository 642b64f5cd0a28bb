"""What the tests of metrics share: sampled plans and the plans of windows, drawn by hypothesis."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from p3iv.plans.distribution import PlanCounts, count_plans


@dataclass(frozen=True)
class Case:
    num_actions: int
    references: list[tuple[int, ...]]  # one per window
    samples: list[list[tuple[int, ...]]]  # K per window

    @property
    def counts(self) -> PlanCounts:
        return count_plans(torch.tensor(self.samples))

    @property
    def action_ids(self) -> Tensor:
        return torch.tensor(self.references)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Few actions, so that windows share their ends and samples hit references."""
    horizon, num_actions, num_samples = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 6))
    plan = st.tuples(*[st.integers(0, num_actions - 1)] * horizon)
    references = draw(st.lists(plan, min_size=1, max_size=8))
    sampled = st.lists(plan | st.sampled_from(references), min_size=num_samples, max_size=num_samples)
    return Case(num_actions, references, [draw(sampled) for _ in references])
