"""Where the features of a video change: its parts, each of which is as uniform as possible.

The parts minimise the sum of squared distances to the mean of each part, plus a penalty per part. Dynamic programming
finds the exact minimum, in time that grows with the square of the number of rows.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from p3iv.types import Array

MAX_ROWS: Final = 1500  # of longer videos, neighbours are averaged first
PENALTY: Final = 0.6  # of a part, in units of `noise_of` times log(rows); chosen on ten videos of the tabletop


def find_parts(rows: Array, penalty: float | None = None) -> tuple[tuple[int, int], ...]:
    """Cut rows into parts.

    Args:
        rows: (N, F), in the order of time; at least one.
        penalty: of each part; by default, it follows from how much neighbouring rows differ.

    Returns:
        First row and end of every part; an end is the first row of the next part.

    Example:
        >>> find_parts(np.array([[0.0], [0.1], [5.0], [5.1], [5.0]]), penalty=1.0)
        ((0, 2), (2, 5))
    """
    size = -(-len(rows) // MAX_ROWS)
    pooled = np.stack([rows[first : first + size].mean(axis=0) for first in range(0, len(rows), size)])
    pooled = pooled.astype(np.float64)
    if penalty is None:
        penalty = PENALTY * noise_of(pooled) * np.log(max(2, len(pooled)))
    starts = [size * start for start in _best_starts(pooled, penalty)]
    return tuple(zip(starts, [*starts[1:], len(rows)], strict=True))


def noise_of(rows: Array) -> float:
    """How far a row is from what it would be without noise: half the median squared distance of neighbours."""
    distances = np.square(np.diff(rows, axis=0)).sum(axis=1)
    return float(np.median(distances)) / 2 if len(distances) else 0.0


def _best_starts(rows: Array, penalty: float) -> list[int]:
    """The first rows of the best parts; of equally good cuts, the one with fewer parts."""
    number = len(rows)
    rows = rows - rows.mean(axis=0)  # the differences of large sums below would lose digits
    sums = np.zeros((number + 1, number + 1))
    sums[1:, 1:] = (rows @ rows.T).cumsum(axis=0).cumsum(axis=1)  # of the products of all pairs of rows before
    squares = np.concatenate([[0.0], np.square(rows).sum(axis=1).cumsum()])
    best = np.zeros(number + 1)  # cost of the rows before
    last = np.zeros(number + 1, np.int64)  # where the last part before begins
    for end in range(1, number + 1):
        start = np.arange(end)
        products = sums[end, end] - 2 * sums[end, start] + sums[start, start]
        costs = best[:end] + squares[end] - squares[:end] - products / (end - start) + penalty
        last[end] = costs.argmin()
        best[end] = costs[last[end]]
    starts = [int(last[number])]
    while starts[-1]:
        starts.append(int(last[starts[-1]]))
    return starts[::-1]
