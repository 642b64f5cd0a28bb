from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from p3iv.metrics import score_plans

pairs = st.integers(1, 5).flatmap(
    lambda horizon: st.lists(
        st.tuples(*[st.lists(st.integers(0, 4), min_size=horizon, max_size=horizon)] * 2), min_size=1, max_size=8
    )
)


@given(pairs)
def test_scores_equal_their_definitions_written_with_sets(plans: list[tuple[list[int], list[int]]]) -> None:
    scores = score_plans(torch.tensor([p for p, _ in plans]), torch.tensor([r for _, r in plans]))
    count, horizon = len(plans), len(plans[0][0])
    assert abs(scores.success_rate - sum(p == r for p, r in plans) / count) < 1e-12
    right = sum(a == b for p, r in plans for a, b in zip(p, r, strict=True))
    assert abs(scores.mean_accuracy - right / count / horizon) < 1e-12
    iou = sum(len(set(p) & set(r)) / len(set(p) | set(r)) for p, r in plans) / count
    assert abs(scores.mean_iou - iou) < 1e-12
