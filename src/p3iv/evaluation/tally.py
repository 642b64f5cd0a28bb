"""The values of every window by every metric, collected while a planner is evaluated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from p3iv.catalogue import DEFAULT_NUM_SAMPLES
from p3iv.data.tensors import WindowTensors
from p3iv.metrics.counts import PlanCounts, count_plans
from p3iv.metrics.distributions import distribution_values, exact_divergences
from p3iv.metrics.plans import plan_values
from p3iv.metrics.references import ReferencePlans, references_of
from p3iv.metrics.released import marginal_values
from p3iv.planners.checkpoint import TrainedPlanner
from p3iv.plans.chain import Chain
from p3iv.plans.decoding import decode_all, has_chain, plan_chain, plan_probability, recommended_decoder
from p3iv.plans.draws import MODES, Draws, SampleSettings
from p3iv.plans.transitions import Transitions
from p3iv.types import Array

MAX_WINDOWS = 64  # at a time, with up to `DEFAULT_NUM_SAMPLES` samples each

Values = dict[str, Tensor]  # (N,) each, by metric


def draw_all(
    trained: TrainedPlanner, windows: WindowTensors, settings: SampleSettings
) -> Iterator[tuple[slice, Draws]]:
    """Yield some windows at a time, and their draws: memory grows neither with the windows nor with the samples."""
    sampler = trained.sampler(settings)
    size = max(1, min(MAX_WINDOWS, MAX_WINDOWS * DEFAULT_NUM_SAMPLES // settings.num_samples))
    for first in range(0, len(windows), size):
        here = slice(first, min(first + size, len(windows)))
        yield here, sampler.draw(windows.start[here].numpy(), windows.goal[here].numpy())


@dataclass(frozen=True)
class DecodedWindows:
    """The plans of some windows."""

    plans: dict[str, Tensor]  # (n, T) by decoder
    decoder: str  # the one whose plan is recommended
    plan_probability: Tensor  # (n,) of that plan
    samples: dict[str, PlanCounts]  # by mode
    values: dict[str, Values]  # (n,) each: of the recommended `plans`, of the samples by mode, and `exact`

    def scores(self, mode: str) -> Values:
        """Every metric of the recommended plan, of the samples in one mode, and of the chain."""
        return self.values["plans"] | self.values[mode] | self.values["exact"]


class Tally:
    """Collects the plans of all windows, and their values by every metric.

    Plans are compared with the references and, where it is known, with the true distribution of plans.
    """

    def __init__(self, action_ids: Tensor, num_actions: int, truth: ReferencePlans | None = None) -> None:
        self.num_actions = num_actions
        self._action_ids = action_ids
        self.references = references_of(action_ids)
        self.truth = truth
        self.decoder = ""  # the one whose plan is recommended
        self.has_chain = False  # whether a chain chooses that plan
        self._done = 0
        self._plans: dict[str, Tensor] = {}
        self._values: dict[str, Values] = defaultdict(dict)

    def add(self, draws: Draws, transitions: Transitions) -> DecodedWindows:
        """Add the draws of the next windows."""
        chain, decoded = plan_chain(draws, transitions), decode_all(draws, transitions)
        plans = {name: torch.from_numpy(found) for name, found in decoded.items()}
        self.decoder, self.has_chain = recommended_decoder(draws), has_chain(draws)
        samples = {mode: count_plans(torch.from_numpy(draws.plans(mode, transitions.row))) for mode in MODES}
        windows = slice(self._done, self._done + len(draws))
        self._done = windows.stop
        self._keep(self._plans, plans, windows)
        values = self._compare(samples, chain, self.references, windows, prefix="")
        if self.truth is not None:
            self._compare(samples, chain, self.truth, windows, prefix="truth ")
        probability = torch.from_numpy(plan_probability(draws, decoded[self.decoder], chain))
        self._keep(self._values["recommended"], {"plan_probability": probability}, windows)
        values["plans"] = plan_values(plans[self.decoder], self._action_ids[windows])
        return DecodedWindows(plans, self.decoder, probability, samples, values)

    def plans(self) -> dict[str, Tensor]:
        """The plans of all windows so far, (N, T) by decoder."""
        return {name: plans[: self._done] for name, plans in self._plans.items()}

    def values(self, group: str) -> Values:
        """The values of all windows so far in the group `argmax`, `categorical`, `chain`, `exact`, `marginals MODE`,
        `recommended` (plan_probability), or `truth` and one of the first four.
        """
        return {name: values[: self._done] for name, values in self._values[group].items()}

    def _compare(
        self, samples: dict[str, PlanCounts], chain: Chain, references: ReferencePlans, windows: slice, *, prefix: str
    ) -> dict[str, Values]:
        """Keep the values of some windows; returns those of the samples by mode, and `exact`."""
        here = replace(references, group=references.group[windows])
        values: dict[str, Values] = {}
        for mode, counts in samples.items():
            values[mode] = vars(distribution_values(counts, here, self.num_actions))
            if not prefix:
                marginals = marginal_values(counts, here, self.num_actions)
                self._keep(self._values[f"marginals {mode}"], marginals, windows)
        exact = exact_divergences(partial(log_probability, chain), here, self.num_actions)
        values["exact"] = {"exact_kl": exact.kl, "exact_nll": exact.nll}
        for group, found in values.items():
            self._keep(self._values[f"{prefix}{group}"], found, windows)
        return values

    def _keep(self, tables: dict[str, Tensor], found: dict[str, Tensor], windows: slice) -> None:
        """Write what was found for some windows into tables for all windows.

        A list of small tensors would not do: they lie between the large temporary ones, which then cannot be given back
        or used again, so that memory grew by 25 kB per window.
        """
        for name, values in found.items():
            if name not in tables:
                tables[name] = values.new_empty(len(self._action_ids), *values.shape[1:])
            tables[name][windows] = values


def log_probability(chain: Chain, plans: Array, window: Array) -> Array:
    """The log probabilities of plans; -inf if no plan is possible, or the planner does not know an action."""
    known = (plans < len(chain.log_transitions)).all(axis=1)
    found = np.full(len(plans), -np.inf)
    found[known] = chain.log_probability(plans[known], window[known])
    return np.where(np.isnan(found), -np.inf, found)
