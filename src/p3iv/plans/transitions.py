"""Transition probabilities between actions, counted in training plans (the paper's) or in training videos (ours).

The transitions of P3IV+ back off to co-occurrence. Most pairs of actions never follow each other in the few training
videos of a procedure, but actions of one procedure occur in the same videos, so that an unseen transition between them
is far more likely than one across procedures:

    P(j | i) = (C_ij + w * Pco(j | i)) / (C_i + w)

with Pco the share of j among the actions that occur in the videos of i: a pair counts once per video, one pseudo-count
is spread over all actions, and i itself is left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from p3iv.plans.chain import log_of
from p3iv.types import Array

SMOOTHING = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)

Sequences = Sequence[Sequence[int]]


@dataclass(frozen=True, eq=False)
class Transitions:
    """The two matrices that plans are decoded with; both are part of the checkpoint."""

    row: Array  # (A, A) float32, rows sum to 1: the default
    paper: Array  # (A, A) float32
    smoothing: float  # of `row`

    @classmethod
    def fit(
        cls, train: Sequences, val: Sequences, plans: Sequences, num_actions: int, *, smoothing: float | None = None
    ) -> Transitions:
        """Count both matrices: in the sequences of whole videos, and in the training plans.

        The smoothing is chosen on the validation sequences if it is not given.
        """
        row, smoothing = row_transitions(train, val, num_actions, smoothing)
        paper = paper_transitions(plans, num_actions)
        return cls(row.astype(np.float32), paper.astype(np.float32), smoothing)

    def kind(self, name: str) -> Array:
        """The matrix `row`, `paper` or `uniform`."""
        return uniform_transitions(len(self.row)) if name == "uniform" else {"row": self.row, "paper": self.paper}[name]


def row_transitions(
    train: Sequences, val: Sequences, num_actions: int, smoothing: float | None = None
) -> tuple[Array, float]:
    """Transition probabilities from the action sequences of whole training videos, (A, A), and their smoothing.

    P(j | i) = (C_ij + s / A) / (C_i + s), with the s under which the sequences of the validation videos are most
    probable, unless it is given. The choice does not depend on a planner, so every planner and horizon decodes with the
    same matrix.
    """
    counts = count_transitions(train, num_actions)
    held_out = count_transitions(val, num_actions)
    totals, (row, column) = counts.sum(axis=1, keepdims=True), np.nonzero(held_out)
    times, seen, out_of = held_out[row, column], counts[row, column], totals[row, 0]  # of the pairs that occur in val
    likelihoods = [float((times * np.log(_smooth(seen, out_of, s, num_actions))).sum()) for s in SMOOTHING]
    best = SMOOTHING[max(range(len(SMOOTHING)), key=likelihoods.__getitem__)] if len(row) else 1.0
    best = best if smoothing is None else smoothing
    return _smooth(counts, totals, best, num_actions), best


def paper_transitions(plans: Sequences, num_actions: int) -> Array:
    """Supplement B: counts in the training plans, rows L1-normalised, then a softmax: (A, A).

    The softmax takes probabilities for logits, so entries of a row differ by at most a factor of e.
    """
    counts = count_transitions(plans, num_actions)
    weights = np.exp(counts / counts.sum(axis=1, keepdims=True).clip(min=1))
    return weights / weights.sum(axis=1, keepdims=True)


def uniform_transitions(num_actions: int) -> Array:
    """Every action may follow every action: (A, A)."""
    return np.full((num_actions, num_actions), 1 / num_actions, dtype=np.float32)


def count_transitions(sequences: Sequences, num_actions: int) -> Array:
    """How often an action (row) is followed by another (column): (A, A) float64."""
    pairs = [(a, b) for sequence in sequences for a, b in itertools.pairwise(sequence)]
    counts = np.zeros((num_actions, num_actions))
    if pairs:
        np.add.at(counts, tuple(np.array(pairs).T), 1.0)
    return counts


def _smooth(counts: Array, totals: Array, smoothing: float, num_actions: int) -> Array:
    return (counts + smoothing / num_actions) / (totals + smoothing)


FLOOR = 1e-6  # an action that never repeated itself may still do so


def backoff_transitions(sequences: Sequences, num_actions: int, weight: float) -> Array:
    """P(j | i) of the module docstring: (A, A) float64, rows sum to 1."""
    counts = count_transitions(sequences, num_actions)
    together = count_together(sequences, num_actions) + 1 / num_actions
    np.fill_diagonal(together, 0.0)
    shares = together / together.sum(axis=1, keepdims=True).clip(min=1e-300)  # a single action has no other
    return (counts + weight * shares) / (counts.sum(axis=1, keepdims=True) + weight)


def count_together(sequences: Sequences, num_actions: int) -> Array:
    """The number of sequences in which both of two actions occur: (A, A) float64."""
    occurs = np.zeros((len(sequences), num_actions))
    for row, ids in enumerate(sequences):
        occurs[row, list(ids)] = 1.0
    return occurs.T @ occurs


def log_transitions(sequences: Sequences, val: Sequences, num_actions: int, weight: float) -> Array:
    """Log probabilities with back-off of this weight (A, A); with weight 0, the `row` matrix of the other planners."""
    if weight:
        return np.log(backoff_transitions(sequences, num_actions, weight).clip(min=FLOOR))
    return log_of(row_transitions(sequences, val, num_actions)[0])
