"""Per-window values, gathered some windows at a time: memory grows with the windows, but not with the samples."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from p3iv.chain import Chain
from p3iv.decoding import deciding_chain, decode, followed, followed_probability
from p3iv.metrics import ReferencePlans, distribution_values, exact_divergences, marginal_divergences, references_of
from p3iv.plans import PlanCounts, count_plans
from p3iv.sampling import MODES, Draws
from p3iv.transitions import Transitions

Values = dict[str, Tensor]  # (N,) each, by metric


@dataclass(frozen=True)
class Counted:
    """What became of the draws of some windows."""

    decoded: dict[str, Tensor]  # (n, T) by decoder
    followed: str  # the decoder whose plan is the one to follow
    probability: Tensor  # (n,) of that plan
    samples: dict[str, PlanCounts]  # by mode


class Tally:
    """Counts draws against the plans that were followed and, where it is known, against the true distribution."""

    def __init__(self, action_ids: Tensor, num_actions: int, truth: ReferencePlans | None = None) -> None:
        self.num_actions = num_actions
        self.references = references_of(action_ids)
        self.truth = truth
        self._done = 0
        self._decoded: dict[str, list[Tensor]] = defaultdict(list)
        self._values: dict[str, dict[str, list[Tensor]]] = defaultdict(lambda: defaultdict(list))

    def add(self, draws: Draws, transitions: Transitions) -> Counted:
        """Take the draws of the next windows."""
        chain, decoded = deciding_chain(draws, transitions), decode(draws, transitions)
        for name, plans in decoded.items():
            self._decoded[name].append(plans)
        probability = followed_probability(draws, decoded[followed(draws)], chain)
        samples = {mode: count_plans(draws.plans(mode, transitions.row)) for mode in MODES}
        windows = slice(self._done, self._done + len(draws.marginals))
        self._done = windows.stop
        self._compare(samples, chain, self.references, windows, prefix="")
        if self.truth is not None:
            self._compare(samples, chain, self.truth, windows, prefix="truth ")
        return Counted(decoded, followed(draws), probability, samples)

    def decoded(self) -> dict[str, Tensor]:
        """The plans of all windows so far, (N, T) by decoder."""
        return {name: torch.cat(parts) for name, parts in self._decoded.items()}

    def values(self, group: str) -> Values:
        """Of all windows so far: `argmax`, `categorical`, `chain`, `exact`, `marginals MODE`, and `truth ...`."""
        return {name: torch.cat(parts) for name, parts in self._values[group].items()}

    def _compare(
        self, samples: dict[str, PlanCounts], chain: Chain, references: ReferencePlans, windows: slice, *, prefix: str
    ) -> None:
        here = replace(references, group=references.group[windows])
        for mode, counts in samples.items():
            self._keep(f"{prefix}{mode}", vars(distribution_values(counts, here, self.num_actions)))
            if not prefix:
                divergences = marginal_divergences(counts, here, self.num_actions)
                self._keep(f"marginals {mode}", {"marginal_kl": divergences.kl, "marginal_nll": divergences.nll})
        window, row = here.pairs
        exact = exact_divergences(chain.log_probability(here.plans[row], window), here, self.num_actions)
        self._keep(f"{prefix}exact", {"exact_kl": exact.kl, "exact_nll": exact.nll})

    def _keep(self, group: str, values: Values) -> None:
        for name, value in values.items():
            self._values[group][name].append(value)
