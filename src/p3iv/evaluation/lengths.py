"""What a planner for several lengths says about every window, with one mix of evidence, and how right it is.

Each window is asked about twice: as if its number of steps were known (its slice), and as if it were not. One pass over
the answers gives both, because the answer to a query has a chain for every length and the probability of every length.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from p3iv.data.padding import PAD, plan_lengths, widen
from p3iv.data.tensors import WindowTensors
from p3iv.evaluation.asking import AnsweredWindows
from p3iv.evaluation.tally import Values, log_probability
from p3iv.metrics.distributions import exact_divergences, open_nll
from p3iv.metrics.plans import length_values, plan_values
from p3iv.metrics.references import ReferencePlans, references_of
from p3iv.plans.chain import Chain
from p3iv.plans.evidence import Answers
from p3iv.types import Array

ALL = slice(None)
EXACT, TRUTH = "exact", "truth"  # what the probabilities of plans are compared with: references, or the known truth


@dataclass(frozen=True)
class TrainedLengths:
    """The lengths of the training windows: what the baselines know of them."""

    horizons: tuple[int, ...]
    shares: Tensor  # (H,) float64: of the training windows that have each length

    @classmethod
    def of(cls, train: WindowTensors, horizons: tuple[int, ...]) -> TrainedLengths:
        counts = torch.stack([(train.lengths == horizon).sum() for horizon in horizons]).double()
        return cls(horizons, counts / counts.sum())

    @property
    def most_frequent(self) -> int:
        """The length that most windows have; the shortest among ties."""
        return self.horizons[int(self.shares.argmax())]


@dataclass(frozen=True, eq=False)
class BestPlans:
    """The most probable plan of every length of some windows."""

    plans: Array  # (n, H, T) int64, padded
    logs: Array  # (n, H): log p(plan | length); minus infinity where no plan is possible

    @classmethod
    def of(cls, part: AnsweredWindows) -> BestPlans:
        chains, width = part.answers.chains, max(part.answers.horizons)
        plans = np.full((len(part.answers), len(chains), width), PAD)
        logs = np.full((len(part.answers), len(chains)), -np.inf)
        for number, chain in enumerate(chains):
            found, scores = chain.best_paths()
            plans[:, number, : found.shape[1]] = found
            possible = scores > -np.inf
            logs[possible, number] = (scores - chain.log_normaliser())[possible]
        return cls(plans[part.query], logs[part.query])

    def choose(self, number: Array) -> Tensor:
        """The plans of one length of every window (n,): (n, T) padded."""
        return torch.from_numpy(self.plans[np.arange(len(self.plans)), number])


@dataclass(frozen=True)
class KnownTruth:
    """The known distributions of plans of all windows; what is not known for every one of them is left out."""

    slices: Mapping[int, ReferencePlans]  # of known length -> those of the windows of this length
    unknown: ReferencePlans | None  # of unknown length


class LengthTally:
    """Collects the plans and probabilities of all windows, some at a time, in any order.

    Args:
        windows: of several lengths.
        trained: the lengths of the training windows.
        num_actions: A, actions that the planner does not know among them.
        compares_unknown: also compare the distribution over plans of all lengths with the references, exactly.
        truth: where it is known.
    """

    def __init__(
        self,
        windows: WindowTensors,
        trained: TrainedLengths,
        num_actions: int,
        *,
        compares_unknown: bool = False,
        truth: KnownTruth | None = None,
    ) -> None:
        number, width = len(windows), trained.horizons[-1]
        self.trained, self.num_actions = trained, num_actions
        self.action_ids = widen(windows.action_ids, width)
        self.lengths = plan_lengths(self.action_ids)  # (N,)
        self.plans, self.known_plans, self.frequent_plans = (torch.full((number, width), PAD) for _ in range(3))
        self.log_plan, self.log_reference = (torch.zeros(number).double() for _ in range(2))
        self.log_lengths = torch.zeros(number, len(trained.horizons)).double()
        self._place = torch.zeros(number, dtype=torch.int64)  # among the windows of its length
        for horizon in self.horizons:
            self._place[self.rows_of(horizon)] = torch.arange(len(self.rows_of(horizon)))
        own = {horizon: references_of(self._slice_ids(horizon)) for horizon in self.horizons}
        self._slices = {EXACT: own} | ({TRUTH: truth.slices} if truth else {})
        self._unknown = {EXACT: references_of(self.action_ids)} if compares_unknown else {}
        if truth and truth.unknown:
            self._unknown[TRUTH] = truth.unknown
        self._values: dict[str, Values] = defaultdict(dict)

    @property
    def horizons(self) -> tuple[int, ...]:
        """The lengths that windows have."""
        return tuple(self.lengths.unique().tolist())

    def rows_of(self, horizon: int) -> Tensor:
        """The windows of one length."""
        return (self.lengths == horizon).nonzero()[:, 0]

    def add(self, part: AnsweredWindows) -> None:
        """Add some windows."""
        rows, best = part.rows, BestPlans.of(part)
        log_lengths = part.answers.log_lengths[part.query]  # (n, H)
        joint, first = log_lengths + best.logs, self.trained.horizons[0]
        chosen = joint.argmax(axis=1)
        self.plans[rows] = best.choose(chosen)
        self.known_plans[rows] = best.choose((self.lengths[rows] - first).numpy())
        self.frequent_plans[rows] = best.choose(np.full(len(rows), self.trained.most_frequent - first))
        self.log_plan[rows] = torch.from_numpy(joint[np.arange(len(rows)), chosen])
        self.log_lengths[rows] = torch.from_numpy(log_lengths)
        for number, horizon in enumerate(self.trained.horizons):
            here = (self.lengths[rows] == horizon).nonzero()[:, 0]
            if len(here):
                self._add_slice(rows[here], part.answers.chains[number], part.query[here.numpy()])
        for name, references in self._unknown.items():
            log = partial(_log_unknown, part.answers, part.query)
            self._compare(f"unknown {name}", rows, log, replace(references, group=references.group[rows]))

    def unknown_values(self, rows: Tensor | slice = ALL) -> Values:
        """Every metric of plans of unknown length, (n,) each."""
        own = self.log_lengths.gather(1, (self.lengths - self.trained.horizons[0])[:, None])[:, 0]
        return length_values(self.plans[rows], self.action_ids[rows]) | {"open_nll": self._open_nll(own, rows)}

    def frequent_values(self) -> Values:
        """The same for plans of the most frequent length, and for lengths as probable as they are in training."""
        own = self.trained.shares.log()[self.lengths - self.trained.horizons[0]]
        return length_values(self.frequent_plans, self.action_ids) | {"open_nll": self._open_nll(own, ALL)}

    def slice_values(self, horizon: int) -> Values:
        """Every metric of the plans of known length of the windows of one length, (n,) each."""
        plans = self.known_plans[self.rows_of(horizon), :horizon]
        return plan_values(plans, self._slice_ids(horizon)) | self.exact_values(horizon)

    def exact_values(self, horizon: int | None, against: str = EXACT) -> Values:
        """Exact KL and NLL against the references or the truth; None: of unknown length. Empty if not compared."""
        if horizon is None:
            return self._values[f"unknown {against}"]
        known, rows = horizon in self._slices.get(against, {}), self.rows_of(horizon)
        return {name: values[rows] for name, values in self._values[f"slice {against}"].items() if known}

    def likely_lengths(self) -> Tensor:
        """The most probable length of every window: (N,)."""
        return self.log_lengths.argmax(dim=1) + self.trained.horizons[0]

    def _slice_ids(self, horizon: int) -> Tensor:
        return self.action_ids[self.rows_of(horizon), :horizon]

    def _open_nll(self, log_length: Tensor, rows: Tensor | slice) -> Tensor:
        log = (log_length + self.log_reference)[rows]
        return open_nll(log, self.trained.horizons, self.num_actions, self.lengths[rows])

    def _add_slice(self, rows: Tensor, chain: Chain, query: Array) -> None:
        """How probable the references of windows of one length are, given that length."""
        horizon = chain.log_emissions.shape[1]
        ids = self.action_ids[rows, :horizon]
        self.log_reference[rows] = torch.from_numpy(log_probability(chain, ids.numpy(), query))
        for name, by_length in self._slices.items():
            if horizon in by_length:
                references = by_length[horizon]
                here = replace(references, group=references.group[self._place[rows]])
                self._compare(f"slice {name}", rows, partial(_log_known, chain, query), here)

    def _compare(
        self, group: str, rows: Tensor, log: Callable[[Array, Array], Array], references: ReferencePlans
    ) -> None:
        found = exact_divergences(log, references, self.num_actions)
        for name, values in (("exact_kl", found.kl), ("exact_nll", found.nll)):
            table = self._values[group].setdefault(name, torch.full((len(self.lengths),), torch.nan).double())
            table[rows] = values


def _log_known(chain: Chain, query: Array, plans: Array, window: Array) -> Array:
    """Log probabilities of plans (E, T), each in its window (E,), given their length."""
    return log_probability(chain, plans, query[window])


def _log_unknown(answers: Answers, query: Array, plans: Array, window: Array) -> Array:
    """Log probabilities of padded plans (E, T) over all lengths, each in its window (E,)."""
    lengths, found = (plans != PAD).sum(axis=1), np.full(len(plans), -np.inf)
    for number, (horizon, chain) in enumerate(zip(answers.horizons, answers.chains, strict=True)):
        here = np.flatnonzero(lengths == horizon)
        own = query[window[here]]
        found[here] = answers.log_lengths[own, number] + log_probability(chain, plans[here, :horizon], own)
    return found
