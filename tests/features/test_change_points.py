"""Parts of a video: the exact minimum, and cuts where rows change."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p3iv.features.change_points import MAX_ROWS, find_parts
from p3iv.types import Array

SMALL = st.integers(1, 8)


def brute_force(rows: Array, penalty: float) -> float:
    """The lowest cost of all 2^(N-1) ways to cut the rows."""
    number = len(rows)
    cuts = (chosen for size in range(number) for chosen in combinations(range(1, number), size))
    return min(cost_of(rows, list(zip((0, *cut), (*cut, number), strict=True)), penalty) for cut in cuts)


def cost_of(rows: Array, parts: list[tuple[int, int]], penalty: float) -> float:
    """Squared distances to the mean of each part, plus the penalty of each."""
    return sum(float(np.square(rows[first:end] - rows[first:end].mean(axis=0)).sum()) + penalty for first, end in parts)


@given(SMALL, st.integers(1, 3), st.floats(0, 20), st.integers(0, 2**32 - 1))
def test_no_other_cut_is_better(number: int, width: int, penalty: float, seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(number, width)) * 2 + 100
    parts = find_parts(rows, penalty)
    assert [first for first, _ in parts] == [0, *(end for _, end in parts[:-1])]
    assert parts[-1][1] == number
    assert cost_of(rows, list(parts), penalty) == pytest.approx(brute_force(rows, penalty), abs=1e-6)


def test_the_default_penalty_finds_clear_changes_at_any_scale() -> None:
    noise = np.random.default_rng(0).normal(size=(60, 5))
    rows = noise + np.repeat([[0.0], [8.0], [-8.0]], 20, axis=0)
    for scale in (1.0, 1e-4, 1e4):
        starts = {first for first, _ in find_parts(scale * rows)}
        assert {0, 20, 40} <= starts


def test_rows_that_do_not_change_are_one_part() -> None:
    assert find_parts(np.ones((30, 4))) == ((0, 30),)
    assert find_parts(np.ones((1, 4))) == ((0, 1),)


def test_long_videos_are_pooled() -> None:
    number = 2 * MAX_ROWS + 1
    rows = np.where(np.arange(number)[:, None] < number // 2, 0.0, 1.0)
    assert find_parts(rows, penalty=1.0) == ((0, MAX_ROWS), (MAX_ROWS, number))
