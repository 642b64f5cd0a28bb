"""The metrics of released code equal that code, written out step by step."""

from __future__ import annotations

import math
from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from metrics.conftest import Case, cases
from p3iv.metrics import distributions
from p3iv.metrics.counts import count_plans
from p3iv.metrics.distributions import cosine_distances
from p3iv.metrics.references import references_of
from p3iv.metrics.released import batch_ious, bitwise_ious, macro_precision, marginal_divergences

plan_lists = st.integers(1, 4).flatmap(
    lambda horizon: st.lists(
        st.tuples(*[st.lists(st.integers(0, 200), min_size=horizon, max_size=horizon)] * 2), min_size=1, max_size=9
    )
)


def literal_macro_precision(predicted: list[int], true: list[int]) -> float:
    precisions = []
    for action in set(predicted) | set(true):
        where = [at for at, one in enumerate(predicted) if one == action]
        precisions.append(sum(true[at] == action for at in where) / len(where) if where else 0.0)
    return sum(precisions) / len(precisions)


def literal_batch_iou(predictions: list[list[int]], references: list[list[int]], batch_size: int) -> float:
    total, number = 0.0, 0
    for start in range(0, len(predictions), batch_size):
        said, done = (
            list(chain.from_iterable(plans[start : start + batch_size])) for plans in (predictions, references)
        )
        size = len(predictions[start : start + batch_size])
        total += size * len(set(said) & set(done)) / len(set(said) | set(done))
        number += size
    return total / number


def literal_marginals(plans: list[tuple[int, ...]], num_actions: int) -> list[list[float]]:
    """Softmax over actions of ten times their share at every position."""
    rows = []
    for position in range(len(plans[0])):
        shares = [sum(plan[position] == action for plan in plans) / len(plans) for action in range(num_actions)]
        total = sum(math.exp(10 * share) for share in shares)
        rows.append([math.exp(10 * share) / total for share in shares])
    return rows


@given(plan_lists, st.integers(1, 4))
def test_scores_of_plans_equal_the_released_code_written_out(
    plans: list[tuple[list[int], list[int]]], batch_size: int
) -> None:
    said, done = [p for p, _ in plans], [r for _, r in plans]
    predictions, references = torch.tensor(said), torch.tensor(done)
    bitwise = [
        (sum(a & b for a, b in zip(p, r, strict=True)) + 1e-6) / (sum(a | b for a, b in zip(p, r, strict=True)) + 1e-6)
        for p, r in plans
    ]
    assert bitwise_ious(predictions, references).tolist() == pytest.approx(bitwise, abs=1e-12)
    macro = literal_macro_precision(list(chain.from_iterable(said)), list(chain.from_iterable(done)))
    assert macro_precision(predictions, references) == pytest.approx(macro, abs=1e-12)
    batch = literal_batch_iou(said, done, batch_size)
    assert batch_ious(predictions, references, batch_size).mean().item() == pytest.approx(batch, abs=1e-12)


@given(cases())
def test_marginal_divergences_equal_the_released_code_written_out(case: Case) -> None:
    found = marginal_divergences(case.counts, references_of(case.action_ids), case.num_actions)
    for number, samples in enumerate(case.samples):
        mine = case.references[number]
        alike = [plan for plan in case.references if plan[0] == mine[0] and plan[-1] == mine[-1]]
        p, q = literal_marginals(alike, case.num_actions), literal_marginals(samples, case.num_actions)
        positions = [list(zip(*rows, strict=True)) for rows in zip(p, q, strict=True)]
        kl = sum(a * math.log(a / b) for row in positions for a, b in row) / len(mine)
        nll = -sum(a * math.log(b) for row in positions for a, b in row) / len(mine)
        assert found.kl[number].item() == pytest.approx(kl, abs=1e-9)
        assert found.nll[number].item() == pytest.approx(nll, abs=1e-9)


def test_windows_processed_in_parts_score_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    references = references_of(torch.randint(0, 3, (20, 3), generator=generator))
    counts = count_plans(torch.randint(0, 3, (20, 4, 3), generator=generator))
    whole = marginal_divergences(counts, references, 5), cosine_distances(counts, 5)
    monkeypatch.setattr(distributions, "MAX_ENTRIES", 45)  # 3 windows
    parts = marginal_divergences(counts, references, 5), cosine_distances(counts, 5)
    torch.testing.assert_close(vars(whole[0]), vars(parts[0]))
    torch.testing.assert_close(whole[1], parts[1])


def test_batch_iou_grows_with_the_batch_where_set_iou_does_not() -> None:
    predictions = torch.randint(0, 20, (64, 3), generator=torch.Generator().manual_seed(0))
    references = torch.randint(0, 20, (64, 3), generator=torch.Generator().manual_seed(1))
    ious = [batch_ious(predictions, references, size).mean().item() for size in (1, 4, 16, 64)]
    assert ious == sorted(ious)
    assert ious[0] < 0.15
    assert ious[-1] > 0.95
