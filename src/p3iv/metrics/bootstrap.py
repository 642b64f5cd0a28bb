"""Confidence intervals: how much a score would change with other videos of the same kind.

Windows of one video are alike, so whole videos are drawn with replacement, and the score is computed for each draw.
The interval holds the middle 95 % of these scores. The reference plans of a window are always those of the whole set.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import BeforeValidator, PlainSerializer
from torch import Tensor

NUM_RESAMPLES = 10_000  # an end of the interval then moves by 3 % of a standard error from seed to seed
_PERCENTILES = (2.5, 97.5)
_MAX_DRAWS = 50_000_000  # of all resamples together: about a second
_MIN_RESAMPLES = 200
_BLOCK = 4_000_000  # draws, or sums, held at a time


def _null_as_nan(value: Any) -> Any:
    return math.nan if value is None else value


Number = Annotated[  # nan is null in JSON
    float,
    BeforeValidator(_null_as_nan),
    PlainSerializer(lambda value: None if math.isnan(value) else value, return_type=float | None),
]


@dataclass(frozen=True)
class Interval:
    """A score and its 95 % interval; the ends are nan where fewer than two videos have a value."""

    value: Number
    low: Number = math.nan
    high: Number = math.nan

    @property
    def has_ends(self) -> bool:
        return not math.isnan(self.low + self.high)


@dataclass(frozen=True)
class Resamples:
    """How often each of V clusters of windows, usually videos, is drawn in each of B resamples."""

    cluster: Tensor  # (N,) int64: the cluster of every window
    draws: Tensor  # (B, V) uint8

    def add_up(self, values: Tensor) -> Tensor:
        """Sums per cluster (V, M) of values per window (N, M)."""
        return torch.zeros(self.draws.shape[1], values.shape[1], dtype=torch.float64).index_add(0, self.cluster, values)

    def sums(self, totals: Tensor) -> Tensor:
        """Sums per resample (B, M) of sums per cluster (V, M)."""
        return torch.cat([part.double() @ totals for part in self.draws.split(1 + _BLOCK // self.draws.shape[1])])


def draw_resamples(clusters: Sequence[Hashable], num_resamples: int = NUM_RESAMPLES, seed: int = 0) -> Resamples:
    """Draw B times as many clusters as there are.

    With more than 5,000 clusters fewer resamples are drawn (at least 200), so that there are at most 50 million draws.

    Args:
        clusters: the cluster of every window, for example the id of its video.
        num_resamples: B.
        seed: the draws depend on it and on the number of clusters alone.
    """
    number_of = {cluster: number for number, cluster in enumerate(dict.fromkeys(clusters))}
    size = len(number_of)
    num_resamples = min(num_resamples, max(_MIN_RESAMPLES, _MAX_DRAWS // size))
    rng, step = np.random.default_rng(seed), 1 + _BLOCK // size
    draws = np.empty((num_resamples, size), dtype=np.uint8)
    for start in range(0, num_resamples, step):
        num_rows = min(step, num_resamples - start)
        drawn = rng.integers(0, size, (num_rows, size), dtype=np.int32)
        drawn += np.arange(0, num_rows * size, size, dtype=np.int32)[:, None]
        draws[start : start + num_rows] = np.bincount(drawn.ravel(), minlength=num_rows * size).reshape(-1, size)
    return Resamples(torch.tensor([number_of[cluster] for cluster in clusters]), torch.from_numpy(draws))


def bootstrap_means(values: Mapping[str, Tensor], resamples: Resamples) -> dict[str, Interval]:
    """Means over windows of several metrics (N,); windows in which a metric is nan do not count."""
    table = torch.stack([column.double() for column in values.values()], dim=1)  # (N, M)
    defined = ~table.isnan()
    totals = resamples.add_up(torch.cat((table.nan_to_num(0.0), defined.double()), dim=1))  # (V, 2 M)
    sums, counts = resamples.sums(totals).chunk(2, dim=1)  # (B, M)
    means = totals.sum(dim=0).view(2, -1)
    num_clusters = (totals[:, table.shape[1] :] > 0).sum(dim=0)
    return {
        name: interval_of((means[0, i] / means[1, i]).item(), sums[:, i] / counts[:, i], int(num_clusters[i]))
        for i, name in enumerate(values)
    }


def bootstrap_differences(
    ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], resamples: Resamples
) -> dict[str, Interval]:
    """Mean of ours minus theirs over the windows where both are defined."""
    return bootstrap_means({name: ours[name].double() - theirs[name].double() for name in ours}, resamples)


def interval_of(value: float, scores: Tensor, num_clusters: int) -> Interval:
    """The middle 95 % of the scores of resamples, (B,)."""
    scores = scores[~scores.isnan()]  # resamples in which no window has the metric
    if num_clusters < 2 or not len(scores):
        return Interval(value, float("nan"), float("nan"))
    low, high = np.percentile(scores.numpy(), _PERCENTILES)
    return Interval(value, float(low), float(high))
