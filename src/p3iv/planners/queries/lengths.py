"""The numbers of `plans.lengths`, which says how probable every length of a plan is, fitted to validation windows.

Every window of every length counts once.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from p3iv.data.tensors import WindowTensors
from p3iv.planners.header import PlannerShape
from p3iv.planners.queries.evidence import QueryTensors, query_of_windows
from p3iv.plans.lengths import KINDS, NUM_CLUES, LengthWeights
from p3iv.types import Array

_MAX_WINDOWS = 400  # of each kind
_MAX_QUERIES = 128  # at a time
_PENALTY = 1e-3  # on squared parameters, in nats per window


class LengthNetwork(Protocol):
    """What the lengths of plans are inferred from."""

    shape: PlannerShape
    log_transitions: Tensor
    horizons: tuple[int, ...]

    def length_clues(self, query: QueryTensors) -> Array:
        """What speaks for every length: (B, NUM_CLUES, H)."""


class LengthModel(nn.Module):
    """The numbers of the formula."""

    bias: Tensor  # (3, H)
    slope: Tensor  # (3, NUM_CLUES)

    def __init__(self, number: int) -> None:
        super().__init__()
        self.register_buffer("bias", torch.zeros(len(KINDS), number))
        self.register_buffer("slope", torch.zeros(len(KINDS), NUM_CLUES))

    @property
    def weights(self) -> LengthWeights:
        """The numbers, for numpy."""
        return LengthWeights(*(part.detach().double().cpu().numpy() for part in (self.bias, self.slope)))

    def fit(self, planner: LengthNetwork, val: WindowTensors) -> None:
        """Fit to validation windows of all lengths."""
        rows = torch.randperm(len(val), generator=torch.Generator().manual_seed(1))[:_MAX_WINDOWS]
        counts = torch.stack([(val.lengths == horizon).sum() for horizon in planner.horizons]).double() + 1
        self.bias.copy_((counts / counts.sum()).log().expand(len(KINDS), -1))
        self.slope.zero_()
        target = val.lengths[rows] - planner.horizons[0]
        for kind, wanted in enumerate(KINDS[:2]):
            parts = [
                planner.length_clues(query_of_windows(val.take(row), planner.shape, planner.log_transitions, wanted))
                for row in rows.split(_MAX_QUERIES)
            ]
            self._fit_kind(kind, torch.from_numpy(np.concatenate(parts)), target)

    @torch.enable_grad()
    def _fit_kind(self, kind: int, clues: Tensor, target: Tensor) -> None:
        """Logistic regression of the lengths (N,) on the clues (N, NUM_CLUES, H)."""
        start = self.bias[kind].double().cpu()
        spread = clues.std(dim=(0, 2)).clamp_min(1e-6)
        parameters = torch.cat((start, start.new_zeros(NUM_CLUES))).requires_grad_()
        optimizer = torch.optim.LBFGS([parameters], max_iter=100, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            bias, slope = parameters[:-NUM_CLUES], parameters[-NUM_CLUES:] / spread
            logits = bias + torch.einsum("nch,c->nh", clues, slope)
            far = (bias - start).square().sum() + parameters[-NUM_CLUES:].square().sum()
            return functional.cross_entropy(logits, target) + _PENALTY * far

        def step() -> float:
            optimizer.zero_grad()
            value = loss()
            torch.autograd.backward(value)
            return float(value.detach())

        optimizer.step(step)
        found = parameters.detach()
        if bool(found.isfinite().all()):
            self.bias[kind], self.slope[kind] = found[:-NUM_CLUES], found[-NUM_CLUES:] / spread
