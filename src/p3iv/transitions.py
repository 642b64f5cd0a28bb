"""Which action follows which: transition matrices counted in training data."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from p3iv.observations import PlanningData

SMOOTHING = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
Sequences = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Transitions:
    """The two matrices that plans are decoded with; they travel in the checkpoint."""

    row: Tensor  # (A, A) float32, rows sum to 1: the default
    paper: Tensor  # (A, A) float32
    smoothing: float  # of `row`

    def kind(self, name: str) -> Tensor:
        """The matrix `row`, `paper` or `uniform`."""
        return {"row": self.row, "paper": self.paper, "uniform": uniform_transitions(len(self.row))}[name]


def fit_transitions(data: PlanningData) -> Transitions:
    """Count both matrices in the training videos of a dataset."""
    row, smoothing = row_transitions(data.train_sequences, data.val_sequences, len(data.names))
    return Transitions(row.float(), paper_transitions(data.train.action_ids, len(data.names)).float(), smoothing)


def row_transitions(train: Sequences, val: Sequences, num_actions: int) -> tuple[Tensor, float]:
    """Transition probabilities from the action sequences of whole training videos, (A, A), and their smoothing.

    P(j | i) = (C_ij + s / A) / (C_i + s), with the s under which the sequences of the validation videos are most
    probable. The choice knows no planner, so every planner and horizon decodes with the same matrix.
    """
    counts = count_transitions(train, num_actions)
    held_out = count_transitions(val, num_actions)
    likelihoods = [(held_out * _smooth(counts, s).log()).sum().item() for s in SMOOTHING]
    best = SMOOTHING[max(range(len(SMOOTHING)), key=likelihoods.__getitem__)] if held_out.sum() else 1.0
    return _smooth(counts, best), best


def paper_transitions(plans: Tensor, num_actions: int) -> Tensor:
    """Supplement B: counts in the training plans (N, T), rows L1-normalised, then a softmax: (A, A).

    The softmax takes probabilities for logits, so entries of a row differ by at most a factor of e.
    """
    counts = count_transitions(plans.tolist(), num_actions)
    return (counts / counts.sum(dim=1, keepdim=True).clamp(min=1)).softmax(dim=1)


def uniform_transitions(num_actions: int) -> Tensor:
    """Every action may follow every action: (A, A)."""
    return torch.full((num_actions, num_actions), 1 / num_actions)


def count_transitions(sequences: Sequences, num_actions: int) -> Tensor:
    """How often an action (row) is followed by another (column): (A, A) float64."""
    pairs = [(a, b) for sequence in sequences for a, b in itertools.pairwise(sequence)]
    counts = torch.zeros(num_actions**2, dtype=torch.float64)
    if pairs:
        index = torch.tensor(pairs)
        counts.index_add_(0, index[:, 0] * num_actions + index[:, 1], torch.ones(len(pairs), dtype=torch.float64))
    return counts.view(num_actions, num_actions)


def _smooth(counts: Tensor, smoothing: float) -> Tensor:
    return (counts + smoothing / len(counts)) / (counts.sum(dim=1, keepdim=True) + smoothing)
