"""Confidence intervals: what a score would have been with other videos of the same kind.

Windows of one video are alike, so whole videos are drawn, with replacement, and the score is computed anew. The
interval holds the middle 95 % of such scores. The right plans of a window stay those of the whole set.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from p3iv.metrics.published import macro_precision

NUM_RESAMPLES = 10_000  # an end of the interval then moves by 3 % of a standard error from seed to seed
_PERCENTILES = (2.5, 97.5)
_MOST_DRAWS = 50_000_000  # of all resamples together: a second's work
_FEWEST_RESAMPLES = 200
_BLOCK = 4_000_000  # draws, or sums, held at a time
_CLASSES = 128  # actions counted at a time


@dataclass(frozen=True)
class Interval:
    """A score and its 95 % interval; the ends are nan where fewer than two videos have a say."""

    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float | None]:
        """For JSON, which has no nan: None where an end, or the score itself, is not defined."""
        return {name: None if math.isnan(end) else end for name, end in vars(self).items()}


@dataclass(frozen=True)
class Resamples:
    """How often each of V clusters of windows, such as videos, is drawn in each of B resamples."""

    cluster: Tensor  # (N,) int64: the cluster of every window
    draws: Tensor  # (B, V) uint8

    def add_up(self, values: Tensor) -> Tensor:
        """Sums per cluster (V, M) of values per window (N, M)."""
        return torch.zeros(self.draws.shape[1], values.shape[1], dtype=torch.float64).index_add(0, self.cluster, values)

    def sums(self, totals: Tensor) -> Tensor:
        """Sums per resample (B, M) of sums per cluster (V, M)."""
        return torch.cat([part.double() @ totals for part in self.draws.split(1 + _BLOCK // self.draws.shape[1])])


def draw_resamples(clusters: Sequence[Hashable], num_resamples: int = NUM_RESAMPLES, seed: int = 0) -> Resamples:
    """Draw as many clusters as there are, again and again.

    Where there are more than 5,000 clusters, fewer resamples are drawn (200 at least): draws times clusters stay below
    50 million.

    Args:
        clusters: the cluster of every window, such as the name of its video.
        num_resamples: B.
        seed: of the draws, which depend on nothing else but the number of clusters.
    """
    number_of = {cluster: number for number, cluster in enumerate(dict.fromkeys(clusters))}
    size = len(number_of)
    num_resamples = min(num_resamples, max(_FEWEST_RESAMPLES, _MOST_DRAWS // size))
    rng, step = np.random.default_rng(seed), 1 + _BLOCK // size
    draws = np.empty((num_resamples, size), dtype=np.uint8)
    for start in range(0, num_resamples, step):
        num_rows = min(step, num_resamples - start)
        drawn = rng.integers(0, size, (num_rows, size), dtype=np.int32)
        drawn += np.arange(0, num_rows * size, size, dtype=np.int32)[:, None]
        draws[start : start + num_rows] = np.bincount(drawn.ravel(), minlength=num_rows * size).reshape(-1, size)
    return Resamples(torch.tensor([number_of[cluster] for cluster in clusters]), torch.from_numpy(draws))


def bootstrap_means(values: Mapping[str, Tensor], resamples: Resamples) -> dict[str, Interval]:
    """Means over windows of several metrics (N,) at once; windows where a metric is nan are left out of its mean."""
    table = torch.stack([column.double() for column in values.values()], dim=1)  # (N, M)
    defined = ~table.isnan()
    totals = resamples.add_up(torch.cat((table.nan_to_num(0.0), defined.double()), dim=1))  # (V, 2 M)
    sums, counts = resamples.sums(totals).chunk(2, dim=1)  # (B, M)
    means = totals.sum(dim=0).view(2, -1)
    num_clusters = (totals[:, table.shape[1] :] > 0).sum(dim=0)
    return {
        name: _interval((means[0, i] / means[1, i]).item(), sums[:, i] / counts[:, i], int(num_clusters[i]))
        for i, name in enumerate(values)
    }


def bootstrap_differences(
    ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], resamples: Resamples
) -> dict[str, Interval]:
    """Mean of ours minus theirs over the windows where both are defined: one planner against another, pair by pair."""
    return bootstrap_means({name: ours[name].double() - theirs[name].double() for name in ours}, resamples)


def bootstrap_macro_precision(predictions: Tensor, references: Tensor, resamples: Resamples) -> Interval:
    """Macro precision, which is no mean over windows: from the counts of every action in every video.

    Rare actions drop out of resamples, which moves the whole distribution (in a trial on 100 videos by -0.7 standard
    errors), so the interval is shifted to where the resamples' mean is the score.
    """
    value = macro_precision(predictions, references)
    actions, ids = torch.unique(torch.stack((predictions, references)), return_inverse=True)  # (2, N, T)
    total, number = (torch.zeros(len(resamples.draws), dtype=torch.float64) for _ in range(2))
    for start in range(0, len(actions), _CLASSES):
        hits, predicted, occurring = _class_counts(ids - start, min(_CLASSES, len(actions) - start), resamples)
        total += (hits / predicted.clamp_min(1)).sum(dim=1)
        number += (occurring > 0).sum(dim=1)
    scores = total / number
    return _interval(value, (scores - scores.mean() + value).clamp(0, 1), resamples.draws.shape[1])


def _class_counts(ids: Tensor, num_actions: int, resamples: Resamples) -> tuple[Tensor, ...]:
    """How often actions 0 to C - 1 are hit, predicted, and predicted or referred to, in every resample: (B, C) each."""
    predicted, referred = ids
    cluster = resamples.cluster[:, None].expand_as(predicted)
    tables = []
    for chosen in (torch.where(predicted == referred, predicted, -1), predicted, referred):
        here = (chosen >= 0) & (chosen < num_actions)
        places = cluster[here] * num_actions + chosen[here]
        counts = torch.bincount(places, minlength=resamples.draws.shape[1] * num_actions)
        tables.append(counts.view(-1, num_actions))
    tables[2] += tables[1]
    return resamples.sums(torch.cat(tables, dim=1).double()).chunk(3, dim=1)


def _interval(value: float, scores: Tensor, num_clusters: int) -> Interval:
    scores = scores[~scores.isnan()]  # resamples in which no window has the metric
    if num_clusters < 2 or not len(scores):
        return Interval(value, float("nan"), float("nan"))
    low, high = np.percentile(scores.numpy(), _PERCENTILES)
    return Interval(value, float(low), float(high))
