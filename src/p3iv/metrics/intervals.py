"""95 % intervals of scores and of differences: how far other videos of the same kind, and other seeds, could move them.

Windows of one video are alike, so the unit is the video (a cluster of windows). The variance of a mean over windows and
seeds is the sum of two parts, less what both of them contain:

    videos   delete-one jackknife over videos, of the values averaged over seeds
    seeds    variance of the seeds' means / number of seeds
    both     the interaction of videos and seeds, which each part contains once

Each part has Student's quantile for its own degrees of freedom (the effective number of videos - 1, the number of seeds
- 1), and the squares of their half-widths add up (Howe 1974). One quantile for both, with Welch and Satterthwaite's
degrees of freedom, held the truth in 86 to 92 % of the trials where seeds vary more than videos. Resampling seeds would
not do: the variance of three resampled seeds is 2/3 of the right one. Shares get Wilson's interval with an effective
number of observations, so that a score of 0 has an upper end; `tests/metrics/test_coverage.py` simulates how often the
intervals hold the truth. The reference plans of a window are always those of the whole set.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import BeforeValidator, PlainSerializer
from torch import Tensor

from p3iv.catalogue import METRICS
from p3iv.types import counted

FEW_VIDEOS = 10  # with as many equal videos, the interval of a success rate of 50 % is 30 to 42 points wide
_CONFIDENCE = 0.95
_NORMAL = 1.959963984540054  # the quantile with infinitely many degrees of freedom
_PULL = 0.05  # with 0, intervals of a success rate of 10 % held the truth in only 90 % of some simulations
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)


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
        """Whether there is an interval."""
        return not math.isnan(self.low + self.high)


@dataclass(frozen=True)
class Clusters:
    """The clusters of N windows, usually their videos."""

    number: Tensor  # (N,) int64: the cluster of every window, from 0

    @classmethod
    def of(cls, labels: Sequence[Hashable]) -> Clusters:
        """The clusters of windows with these labels, for example the ids of their videos."""
        number_of = {label: number for number, label in enumerate(dict.fromkeys(labels))}
        return cls(torch.tensor([number_of[label] for label in labels]))

    def __len__(self) -> int:
        return int(self.number.max()) + 1

    def add_up(self, values: Tensor) -> Tensor:
        """Sums per cluster (..., V) of values per window (..., N)."""
        sums = torch.zeros(*values.shape[:-1], len(self), dtype=torch.float64)
        return sums.index_add(-1, self.number, values.double())

    @cached_property
    def effective_number(self) -> float:
        """How many clusters of equal size would be as informative: (sum of sizes)² / sum of squared sizes.

        >>> Clusters.of("aabbcc").effective_number, round(Clusters.of("aaaabc").effective_number, 2)
        (3.0, 2.0)
        """
        return _effective_number(self.add_up(torch.ones(len(self.number))))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of intervals should know where there are few videos."""
        if len(self) < 2:
            return ("no intervals: they need at least two videos",)
        if self.effective_number >= FEW_VIDEOS:
            return ()
        uneven = self.effective_number < len(self) - 0.5
        alike = f", as informative as {self.effective_number:.1f} with equally many windows" if uneven else ""
        few = f"only {counted(len(self), 'video')}{alike}"
        return (f"{few}, so the intervals are wide and few planners can be distinguished",)


@dataclass(frozen=True)
class Estimate:
    """A score with the variance of its error."""

    value: float
    variance: float
    quantile: float  # half of the interval, in standard errors
    effective_number: float  # of clusters

    def interval(self, *, is_share: bool) -> Interval:
        """The interval of a score that is never negative and, if it is a share, at most 1."""
        if not self.effective_number > 1:
            return Interval(self.value)
        if is_share:
            return self._wilson()
        half = self.quantile * math.sqrt(self.variance)
        return Interval(self.value, max(self.value - half, 0.0), self.value + half)

    def difference_interval(self, *, is_share: bool) -> Interval:
        """The interval of a difference between two scores."""
        if not self.effective_number > 1:
            return Interval(self.value)
        half, limit = self.quantile * math.sqrt(self.variance), math.inf
        if is_share:
            limit = 1.0
            if self.variance == 0:  # no window differs, say; then as for a share of 0
                half = self.quantile**2 / (self.effective_number + self.quantile**2)
        return Interval(self.value, max(self.value - half, -limit), min(self.value + half, limit))

    def _wilson(self) -> Interval:
        """Wilson's interval, with the number of independent observations that has the same variance.

        Where nearly nothing was hit, or missed, the variance says little about how alike the windows of a video are. So
        the number is pulled to that of videos, as if all windows of a video were hit or missed together.
        """
        p, pull = min(max(self.value, 0.0), 1.0), _PULL / self.effective_number
        number = (p * (1 - p) + pull) / (self.variance + pull / self.effective_number)
        k = self.quantile**2 / number
        middle, half = p + k / 2, math.sqrt(k * p * (1 - p) + k**2 / 4)
        low, high = (middle - half) / (1 + k), (middle + half) / (1 + k)
        return Interval(self.value, min(max(low, 0.0), p), max(min(high, 1.0), p))


def mean_intervals(values: Mapping[str, Tensor], clusters: Clusters) -> dict[str, Interval]:
    """Means of several metrics, each (N,) by window or (S, N) by seed and window.

    Windows in which a metric is nan do not count. With one seed the interval leaves out the variation between seeds.
    """
    return {
        name: _estimate([column], clusters).interval(is_share=METRICS[name].is_share) for name, column in values.items()
    }


def difference_intervals(
    ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], clusters: Clusters
) -> dict[str, Interval]:
    """Mean of ours minus theirs over the windows where both are defined; the seeds of the two are not paired.

    To pair them, as for two decoders of the same runs, pass the differences to `paired_intervals`.
    """
    return {
        name: _estimate([ours[name], -theirs[name].double()], clusters).difference_interval(
            is_share=METRICS[name].is_share
        )
        for name in ours
    }


def paired_intervals(differences: Mapping[str, Tensor], clusters: Clusters) -> dict[str, Interval]:
    """Means of differences that were taken within every seed, (N,) or (S, N) by metric."""
    return {
        name: _estimate([column], clusters).difference_interval(is_share=METRICS[name].is_share)
        for name, column in differences.items()
    }


def jackknife_interval(value: float, without: Tensor, sizes: Tensor) -> Interval:
    """The interval of a share that is not a mean over windows, from one seed.

    Args:
        value: of all windows.
        without: (V,) the same share without each of the clusters.
        sizes: (V,) of the clusters.
    """
    effective = _effective_number(sizes)
    variance = _jackknife_variance(value, without)
    return Estimate(value, variance, t_quantile(effective - 1), effective).interval(is_share=True)


@lru_cache(maxsize=4096)
def t_quantile(degrees_of_freedom: float) -> float:
    """The 97.5 % quantile of Student's t, with at least one degree of freedom.

    With t = sqrt(df) tan(angle), the density is a power of the cosine of the angle, which is integrated numerically.

    >>> [round(t_quantile(df), 4) for df in (1, 2, 19, 1e6)]
    [12.7062, 4.3027, 2.093, 1.96]
    """
    df = min(max(degrees_of_freedom, 1.0), 1e6)
    log_scale = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(math.pi)
    t = _NORMAL
    for _ in range(60):  # Newton's method rises to the quantile, because the distribution function is concave here
        angle = math.atan(t / math.sqrt(df))
        powers = np.exp(log_scale + (df - 1) * np.log(np.cos(angle * (_NODES + 1) / 2)))
        missing = _CONFIDENCE / 2 - angle / 2 * float(_WEIGHTS @ powers)
        density = math.exp(log_scale - 0.5 * math.log(df) + (df + 1) * math.log(math.cos(angle)))
        t += missing / density
        if missing < 1e-13:
            break
    return t


def _estimate(terms: Sequence[Tensor], clusters: Clusters) -> Estimate:
    """The sum of the terms' means over seeds and windows; a term is (N,) or (S, N), with seeds of its own."""
    tables = [torch.atleast_2d(term).double() for term in terms]
    defined = ~torch.stack([table.isnan().any(dim=0) for table in tables]).any(dim=0)  # (N,)
    sizes = clusters.add_up(defined)
    used = sizes > 0
    sizes = sizes[used]  # (V,)
    sums = [clusters.add_up(torch.where(defined, table, 0.0))[:, used] for table in tables]  # (S, V) each
    total = torch.stack([each.mean(dim=0) for each in sums]).sum(dim=0)  # (V,), averaged over seeds
    value = (total.sum() / sizes.sum()).item()
    if len(sizes) < 2 or not math.isfinite(value):
        return Estimate(value, math.nan, math.nan, 0.0)
    effective = _effective_number(sizes)
    by_video = _jackknife_variance(value, (total.sum() - total) / (sizes.sum() - sizes))
    by_seeds, degrees = _seed_part([each for each in sums if len(each) > 1], sizes)
    variance, quantile = by_video + by_seeds, t_quantile(effective - 1)
    if by_seeds > 0:
        quantile = math.sqrt((quantile**2 * by_video + t_quantile(degrees) ** 2 * by_seeds) / variance)
    return Estimate(value, variance, quantile, effective)


def _jackknife_variance(value: float, without: Tensor) -> float:
    return (len(without) - 1) / len(without) * (without - value).square().sum().item()


def _seed_part(terms: Sequence[Tensor], sizes: Tensor) -> tuple[float, float]:
    """The variance that seeds add to that of videos, and its degrees of freedom, from sums (S, V) of every term."""
    by_seeds, by_both, squares = 0.0, 0.0, 0.0
    for sums in terms:
        (num_seeds, num_videos), size = sums.shape, sizes.sum()
        means = sums.sum(dim=1) / size  # (S,)
        left = sums - sums.mean(dim=0) - (means - means.mean())[:, None] * sizes  # (S, V)
        by_seed = means.var().item() / num_seeds
        by_seeds += by_seed
        squares += by_seed**2 / (num_seeds - 1)
        by_both += (left / size).square().sum().item() * num_videos / (num_videos - 1) / (num_seeds - 1) / num_seeds
    return max(by_seeds - by_both, 0.0), by_seeds**2 / squares if squares > 0 else 1.0


def _effective_number(sizes: Tensor) -> float:
    return (sizes.sum().square() / sizes.square().sum()).item()
