"""Transitions with back-off, against the definition written out."""

from __future__ import annotations

import pytest
import torch

from p3iv.data.tensors import PlanningData
from p3iv.planners.plus.learner import fit_fold_transitions
from p3iv.plans.transitions import FLOOR, backoff_transitions, log_transitions

SEQUENCES = ((0, 1, 2, 1), (0, 2), (3, 3))


def test_the_definition_on_three_sequences() -> None:
    """Together: 0 with 1 once, 0 with 2 twice, 1 with 2 once; counts from 1: once to 2."""
    found = backoff_transitions(SEQUENCES, 4, weight=5.0)
    fourth = 1 / 4
    from_one = torch.tensor([1 + fourth, 0, 1 + fourth, fourth], dtype=torch.float64) / (2 + 3 * fourth)
    counts = torch.tensor([0, 0, 1, 0], dtype=torch.float64)
    torch.testing.assert_close(found[1], (counts + 5 * from_one) / 6)
    torch.testing.assert_close(found.sum(dim=1), torch.ones(4, dtype=torch.float64))
    assert found[3, 3] == 1 / 6
    assert found[0, 0] == 0


def test_an_unseen_transition_within_a_procedure_is_likelier_than_one_across() -> None:
    found = backoff_transitions(((0, 1, 2), (3, 4, 5)), 6, weight=5.0)
    assert found[0, 2] > 5 * found[0, 4] > 0


def test_a_fold_is_counted_without_its_own_videos(data: PlanningData) -> None:
    folds, fold = fit_fold_transitions(data, 5.0, 4)
    assert folds.shape == (4, len(data.names), len(data.names))
    for number in range(4):
        videos = {w.video for w, own in zip(data.train.windows, fold.tolist(), strict=True) if own == number}
        left = [
            ids
            for video, ids in zip(data.train_sequence_videos, data.train_sequences, strict=True)
            if video not in videos
        ]
        assert len(left) < len(data.train_sequences)
        expected = backoff_transitions(left, len(data.names), 5.0).clamp_min(FLOOR).log()
        torch.testing.assert_close(folds[number], expected)


def test_one_fold_leaves_nothing_out(data: PlanningData) -> None:
    folds, _ = fit_fold_transitions(data, 5.0, 1)
    assert torch.equal(folds[0], log_transitions(data.train_sequences, data.val_sequences, len(data.names), 5.0))


@pytest.mark.parametrize("weight", [0.0, 5.0])
def test_everything_stays_possible(data: PlanningData, weight: float) -> None:
    assert log_transitions(((0, 1),), data.val_sequences, len(data.names), weight).isfinite().all()
