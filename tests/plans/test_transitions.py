"""Transition matrices: what is counted and where, how it is smoothed, and the back-off of P3IV+."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from p3iv.config import DataConfig
from p3iv.data.folder import open_dataset
from p3iv.data.tensors import PlanningData, load_planning_data
from p3iv.data.windows import curate_windows
from p3iv.plans.transitions import (
    SMOOTHING,
    Transitions,
    backoff_transitions,
    log_transitions,
    paper_transitions,
    row_transitions,
)
from p3iv.types import Array

SEQUENCES = ((0, 1, 2, 1), (0, 2), (3, 3))  # of the back-off

TRAIN = [(0, 1, 2), (0, 1), (0, 2, 1), (3,)]


def test_rows_are_smoothed_counts_of_whole_videos() -> None:
    matrix, smoothing = row_transitions(TRAIN, [(0, 1, 2)], 4)
    counts = [[0, 2, 1, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    expected = [[(n + smoothing / 4) / (sum(row) + smoothing) for n in row] for row in counts]
    np.testing.assert_allclose(matrix, expected)


def test_the_smoothing_is_the_one_under_which_validation_is_most_probable() -> None:
    held_out: list[list[tuple[int, ...]]] = [[(0, 1, 2)], [(0, 3, 0, 2)], [(2, 0), (1, 3), (0, 1)]]
    for val in held_out:
        chosen = row_transitions(TRAIN, val, 4)[1]
        counts = np.zeros((4, 4))
        for sequence in TRAIN:
            for a, b in itertools.pairwise(sequence):
                counts[a, b] += 1

        def likelihood(s: float, val: list[tuple[int, ...]] = val, counts: Array = counts) -> float:
            pairs = [(a, b) for sequence in val for a, b in itertools.pairwise(sequence)]
            return sum(math.log((counts[a, b] + s / 4) / (counts[a].sum() + s)) for a, b in pairs)

        assert likelihood(chosen) >= max(map(likelihood, SMOOTHING)) - 1e-6


def test_without_validation_sequences_the_smoothing_is_one() -> None:
    assert row_transitions(TRAIN, [(1,)], 4)[1] == 1.0


def test_the_papers_matrix_is_a_softmax_of_normalised_counts() -> None:
    matrix = paper_transitions([[0, 1, 2], [0, 2, 1]], 4)
    weights = np.exp(np.array([[0, 0.5, 0.5, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]))
    np.testing.assert_allclose(matrix, weights / weights.sum(axis=1, keepdims=True))
    assert (matrix.max(axis=1) / matrix.min(axis=1)).max() <= math.e + 1e-9


def test_transitions_are_counted_in_training_videos_alone(tabletop: Path) -> None:
    dataset = open_dataset(tabletop)
    data = load_planning_data(dataset, DataConfig(split="release"))
    assert dataset.split is not None
    training = set(dataset.split.train)
    expected = sum(len(v.steps) - 1 for v in dataset.videos if v.id in training)
    assert sum(len(s) - 1 for s in data.train_sequences) == expected
    fitted = Transitions.fit(data.train_sequences, data.val_sequences, data.train.action_ids.tolist(), len(data.names))
    np.testing.assert_allclose(fitted.row.sum(axis=1), 1, rtol=1e-5)


def test_a_split_by_window_counts_what_training_windows_cover(tabletop: Path) -> None:
    dataset = open_dataset(tabletop)
    sets = curate_windows(dataset.videos, dataset.vocabulary, DataConfig(split="window"))
    covered = {(w.video, w.first_step + i) for w in sets.train for i in range(len(w.action_ids) - 1)}
    assert sum(len(s) - 1 for s in sets.train_sequences) == len(covered)


def test_the_back_off_is_its_definition_on_three_sequences() -> None:
    """Together: 0 with 1 once, 0 with 2 twice, 1 with 2 once; counts from 1: once to 2."""
    found = backoff_transitions(SEQUENCES, 4, weight=5.0)
    fourth = 1 / 4
    from_one = np.array([1 + fourth, 0, 1 + fourth, fourth]) / (2 + 3 * fourth)
    np.testing.assert_allclose(found[1], (np.array([0, 0, 1, 0]) + 5 * from_one) / 6)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert found[3, 3] == 1 / 6
    assert found[0, 0] == 0


def test_an_unseen_transition_within_a_procedure_is_likelier_than_one_across() -> None:
    found = backoff_transitions(((0, 1, 2), (3, 4, 5)), 6, weight=5.0)
    assert found[0, 2] > 5 * found[0, 4] > 0


@pytest.mark.parametrize("weight", [0.0, 5.0])
def test_no_transition_is_impossible(data: PlanningData, weight: float) -> None:
    assert np.isfinite(log_transitions(((0, 1),), data.val_sequences, len(data.names), weight)).all()
