"""What a planner sees of a moment: the rows around it, joined to one observation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from p3iv.types import Array

AROUND = (-1, 0, 1)  # rows around a moment


def rows_around(place: float, num_rows: int) -> NDArray[np.int64]:
    """The rows that show a moment of a video, (3,); at its start and end, one row is used twice, after it the last."""
    near: NDArray[np.int64] = np.clip(int(min(place, num_rows)) + np.array(AROUND), 0, num_rows - 1)
    return near


def rows_before(place: float, num_rows: int) -> int:
    """How many rows of a video lie before those that show a moment: its history."""
    return max(0, min(int(min(place, num_rows)) + AROUND[0], num_rows))


def join_rows(rows: Array, observation: str) -> Array:
    """The rows of a moment, (N, F), as its observation: their mean (F,) or, with "concat", side by side (3F,).

    A single row, such as that of a picture, stands for all three.
    """
    if observation != "concat":
        mean: Array = rows.mean(axis=0)
        return mean
    return np.repeat(rows, len(AROUND), axis=0).reshape(-1) if len(rows) == 1 else rows.reshape(-1)
