"""Transitions that fall back on what happens in the same videos.

Most pairs of actions never follow one another in the few training videos of a procedure, but actions of one procedure
stand in the same videos, so that an unseen transition between them is far more likely than one across procedures:

    P(j | i) = (C_ij + w * Pco(j | i)) / (C_i + w)

with Pco the share of j among the actions that stand in the videos of i: a pair counts once a video, one pseudo-count is
spread over all actions, and i itself is none of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from p3iv.observations import PlanningData
from p3iv.transitions import Sequences, count_transitions, row_transitions

FLOOR = 1e-6  # an action that never repeats itself may yet do so


def fit_log_transitions(data: PlanningData, weight: float) -> Tensor:
    """Log probabilities (A, A) from all training videos; with weight 0, those that other planners decode with."""
    return _log_transitions(data.train_sequences, data, weight)


def fit_fold_transitions(data: PlanningData, weight: float, num_folds: int) -> tuple[Tensor, Tensor]:
    """Log probabilities without the videos of each fold (folds, A, A), and the fold of every training window (N,).

    A window's own transitions are among the counts, and trained with them a chain trusts them more than it should. One
    fold is all videos, with nothing left out.
    """
    names = dict.fromkeys((*data.train_sequence_videos, *(w.video for w in data.train.windows)))
    fold_of = {video: number % num_folds for number, video in enumerate(names)}
    fold = torch.tensor([fold_of[w.video] for w in data.train.windows])
    if num_folds == 1:
        return fit_log_transitions(data, weight)[None], fold
    owned = list(zip(data.train_sequence_videos, data.train_sequences, strict=True))
    left = [[ids for video, ids in owned if fold_of[video] != number] for number in range(num_folds)]
    return torch.stack([_log_transitions(sequences, data, weight) for sequences in left]), fold


def backoff_transitions(sequences: Sequences, num_actions: int, weight: float) -> Tensor:
    """P(j | i) of the head of this page: (A, A) float64, rows sum to 1."""
    counts = count_transitions(sequences, num_actions)
    together = count_together(sequences, num_actions) + 1 / num_actions
    together.fill_diagonal_(0.0)
    shares = together / together.sum(dim=1, keepdim=True).clamp_min(1e-300)  # a single action has no other
    return (counts + weight * shares) / (counts.sum(dim=1, keepdim=True) + weight)


def count_together(sequences: Sequences, num_actions: int) -> Tensor:
    """In how many sequences two actions both stand: (A, A) float64."""
    stands = torch.zeros(len(sequences), num_actions, dtype=torch.float64)
    for row, ids in enumerate(sequences):
        stands[row, list(ids)] = 1.0
    return stands.T @ stands


def _log_transitions(sequences: Sequence[Sequence[int]], data: PlanningData, weight: float) -> Tensor:
    size = len(data.names)
    if weight:
        return backoff_transitions(sequences, size, weight).clamp_min(FLOOR).log()
    return row_transitions(sequences, data.val_sequences, size)[0].log()
