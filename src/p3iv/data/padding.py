"""Plans of several lengths as one tensor: (N, T), where T is the longest length and `PAD` follows the end of a plan.

    [3 5 9] [4] [1 2]    ->    3  5  9
                               4 -1 -1
                               1  2 -1

A plan has at least one action, and plans of one length have no `PAD` at all, so they need no case of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

import numpy as np
import torch
from numpy.typing import DTypeLike
from torch import Tensor

from p3iv.types import Array

PAD: Final = -1  # never the id of an action


def pad_plans(plans: Sequence[Sequence[int]], width: int | None = None) -> Tensor:
    """Plans of any lengths as one tensor, (N, width) int64; the longest plan decides where `width` is not given.

    >>> pad_plans([(3, 5, 9), (4,), (1, 2)])
    tensor([[ 3,  5,  9],
            [ 4, -1, -1],
            [ 1,  2, -1]])
    """
    lengths = [len(plan) for plan in plans]
    return torch.from_numpy(pad_ids(chain.from_iterable(plans), lengths, width=width, dtype=np.int64))


def pad_ids(ids: Iterable[int], lengths: Sequence[int], *, width: int | None = None, dtype: DTypeLike) -> Array:
    """The same for the ids of all plans, one after another: (N, width)."""
    table = np.full((len(lengths), max(lengths) if width is None else width), PAD, dtype=dtype)
    table[np.arange(table.shape[1]) < np.array(lengths)[:, None]] = np.fromiter(ids, dtype, count=sum(lengths))
    return table


def unpad_plans(plans: Tensor) -> list[tuple[int, ...]]:
    """The plans of padded rows (N, T).

    >>> unpad_plans(torch.tensor([[3, 5, 9], [4, -1, -1]]))
    [(3, 5, 9), (4,)]
    """
    return [tuple(row[:length]) for row, length in zip(plans.tolist(), plan_lengths(plans).tolist(), strict=True)]


def plan_lengths(plans: Tensor) -> Tensor:
    """The number of actions of every plan: (..., T) -> (...)."""
    return (plans != PAD).sum(dim=-1)


def has_one_length(*tables: Tensor) -> bool:
    """Whether the tables (N, T) are equally wide, and all their plans as long as that."""
    return len({table.shape[1] for table in tables}) == 1 and not any(bool((table == PAD).any()) for table in tables)


def widen(plans: Tensor, width: int) -> Tensor:
    """The same plans in rows of `width` columns."""
    return torch.nn.functional.pad(plans, (0, width - plans.shape[1]), value=PAD)


def same_width(*tables: Tensor) -> tuple[Tensor, ...]:
    """The tables (N, T), each as wide as the widest."""
    width = max(table.shape[1] for table in tables)
    return tuple(table if table.shape[1] == width else widen(table, width) for table in tables)
