"""What a planner sees of queries, what it answers, and how much each piece of evidence adds to its scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from math import comb

import numpy as np

from p3iv.plans.chain import Chain, log_sum
from p3iv.types import Array

EVIDENCE = ("start", "goal", "history", "words", "procedure")  # in JSON, texts and reasons
START, GOAL, HISTORY, WORDS, PROCEDURE = range(len(EVIDENCE))

Addends = Mapping[str, Array]  # name -> (T, A): what adds up to the log emissions of a chain


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of N queries; all of them have the same pieces."""

    start: Array | None = None  # (N, F)
    goal: Array | None = None  # (N, F)
    history: Array | None = None  # (N, F): the mean of the video before the start
    last_step: Array | None = None  # (N, A): probabilities of the last step, from words
    procedure: Array | None = None  # (N, P): probabilities of the procedure, from its name or from words

    def __len__(self) -> int:
        return next(len(part) for part in vars(self).values() if part is not None)

    def take(self, rows: slice | Array) -> Evidence:
        """Some of the queries."""
        return Evidence(**{name: None if part is None else part[rows] for name, part in vars(self).items()})

    def split(self, size: int) -> list[Evidence]:
        """Some queries at a time."""
        return [self.take(slice(first, first + size)) for first in range(0, len(self), size)]

    @property
    def has(self) -> Array:
        """1 where a piece of evidence is there, else 0, in the order of EVIDENCE: (5,)."""
        return np.array([float(part is not None) for part in vars(self).values()])

    @property
    def is_seen(self) -> bool:
        """Whether both start and goal are seen."""
        return bool(self.has[[START, GOAL]].all())

    def filled(self, widths: Mapping[str, int]) -> dict[str, Array]:
        """What a network gets: all pieces by name, zeros of these widths for absent ones, and `has` (N, 5)."""
        given = {
            name: np.zeros((len(self), widths[name])) if part is None else part for name, part in vars(self).items()
        }
        return {**given, "has": np.tile(self.has, (len(self), 1))}


@dataclass(frozen=True, eq=False)
class Answer:
    """The plans of one query: a chain for every length."""

    chains: tuple[Chain, ...]  # of one window each, shortest first
    log_lengths: Array  # (H,): log probability of every length
    addends: Callable[[int], Addends] | None = None  # what the emissions of one of the chains consist of

    @property
    def horizons(self) -> tuple[int, ...]:
        """The lengths of plans."""
        return tuple(chain.log_emissions.shape[1] for chain in self.chains)

    def weighted(self, first: Array, later: Array) -> Answer:
        """The same plans weighted by their first step and by every later one, in logs: (A,) each.

        A length becomes more probable if its plans have larger weights. What the emissions consist of is not known.
        """
        extra = [np.stack([first, *[later] * (horizon - 1)]) for horizon in self.horizons]
        chains = tuple(
            chain.with_emissions(chain.log_emissions + more) for chain, more in zip(self.chains, extra, strict=True)
        )
        before, after = (np.array([one.log_normaliser()[0] for one in each]) for each in (self.chains, chains))
        joint = self.log_lengths + after - before
        return Answer(chains, joint - log_sum(joint))


@dataclass(frozen=True, eq=False)
class Answers:
    """The plans of N queries: for every length, the chains of all of them."""

    chains: tuple[Chain, ...]  # of N windows each, shortest first
    log_lengths: Array  # (N, H): log probability of every length

    def __len__(self) -> int:
        return len(self.log_lengths)

    @classmethod
    def of(cls, answer: Answer) -> Answers:
        """One answer as several."""
        return cls(answer.chains, answer.log_lengths[None])

    @property
    def horizons(self) -> tuple[int, ...]:
        """The lengths of plans."""
        return tuple(chain.log_emissions.shape[1] for chain in self.chains)


def shapley_addends(has: Array, score: Callable[[Array], Array]) -> Addends:
    """What every piece of evidence adds to the log emissions of a query: (T, A) each.

    Shapley values: what a piece adds on average over all orders in which the evidence could be told.

    Args:
        has: which evidence there is, (5,) of 0 and 1.
        score: from subsets of the evidence (n, 5) to the log emissions with it alone, (n, T, A).
    """
    subsets = subsets_of(has)
    return shapley_values(score(subsets), subsets)


def subsets_of(has: Array) -> Array:
    """All subsets of the evidence that is there, (2^n, 5), from none to all; `has` is (5,).

    Example:
        >>> subsets_of(np.array([1, 0, 1, 0, 0])).astype(int).tolist()
        [[0, 0, 0, 0, 0], [0, 0, 1, 0, 0], [1, 0, 0, 0, 0], [1, 0, 1, 0, 0]]
    """
    return np.array(list(product(*((0.0, 1.0) if there else (0.0,) for there in has.tolist()))))


def shapley_values(values: Array, subsets: Array) -> dict[str, Array]:
    """How much each piece of evidence adds to a value, averaged over the orders in which it could be told.

        phi_i = sum over S without i of |S|! (n - |S| - 1)! / n! * (value(S and i) - value(S))

    The value without evidence, under the name `prior`, and all phi_i add up to the value with all evidence.

    Args:
        values: of every subset of evidence, (2^n, ...).
        subsets: which, (2^n, 5), as `subsets_of` orders them.

    Example:
        >>> subsets = subsets_of(np.array([1, 1, 0, 0, 0]))
        >>> shares = shapley_values(np.array([1.0, 2.0, 3.0, 8.0]), subsets)
        >>> {name: float(value) for name, value in shares.items()}
        {'prior': 1.0, 'start': 4.0, 'goal': 3.0}
    """
    row_of = {tuple(subset): row for row, subset in enumerate(subsets.tolist())}
    there = [number for number in range(subsets.shape[1]) if bool(subsets[:, number].any())]
    found = {"prior": values[row_of[(0.0,) * subsets.shape[1]]]}
    for number in there:
        total = np.zeros_like(values[0])
        for subset, row in row_of.items():
            if subset[number]:
                others = int(sum(subset)) - 1
                without = (*subset[:number], 0.0, *subset[number + 1 :])
                total += (values[row] - values[row_of[without]]) / (len(there) * comb(len(there) - 1, others))
        found[EVIDENCE[number]] = total
    return found
