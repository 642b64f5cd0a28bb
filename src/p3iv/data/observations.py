"""Observations of a dataset's videos: the rows around a moment, read from the packed store."""

from __future__ import annotations

import math
from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

from p3iv.data.folder import Dataset, find_videos, require_features
from p3iv.errors import DatasetError
from p3iv.features.observation import AROUND, join_rows, rows_around, rows_before
from p3iv.types import Array
from p3iv.validation import shown


def observe_moments(dataset: Dataset, moments: Sequence[tuple[str, float]], observation: str) -> Array:
    """The observations at moments (video, second) of a dataset's videos: (N, F), or (N, 3F) with "concat".

    Raises:
        DatasetError: naming the moment that has no features.
    """
    reader = ObservationReader(dataset, observation)
    for video, second in moments:
        reader.check_moment(video, second)
    return reader.observe(moments)


class ObservationReader:
    """Reads the observations at moments of videos, as a planner sees them."""

    def __init__(self, dataset: Dataset, observation: str) -> None:
        self._folder = dataset.folder
        self._store = require_features(dataset)
        self._per_second = dataset.card.features_per_second
        self._observation = observation
        self._last: tuple[str, Array] | None = None  # a video and the running sums of its rows

    def check_moment(self, video: str, second: float) -> None:
        """Refuse a moment without features."""
        if video not in self._store:
            near = get_close_matches(video, self._store.videos)
            hint = f" Did you mean {' or '.join(sorted(near))}?" if near else ""
            raise DatasetError(
                f"There is no file {shown(video)}, and {self._folder} has no features of such a video.{hint}"
            )
        length = self._store.num_rows(video) / self._per_second
        if not 0 <= second <= length:
            raise DatasetError(
                f"{video}@{second:g}, but the features of this video end at {length:g} seconds: give a time from 0 to "
                f"{length:g}."
            )
        if not self.is_seen(video, second):
            near_rows = self._near_rows(video, second)
            file = find_videos(self._folder / "videos").get(video)
            raise DatasetError(
                f"{video}@{second:g} needs the seconds {near_rows[0]} to {near_rows[-1]} of the video, and "
                f"{self._folder} does not have the features of all of them (extract --only-needed). "
                f"{f'Type {file}@{second:g}, or extract' if file else 'Extract'} the features of all seconds: "
                f"p3iv extract {self._folder} --overwrite."
            )

    def is_seen(self, video: str, second: float) -> bool:
        """Whether the store has all rows around a moment; one of `extract --only-needed` lacks some."""
        kept = self._store.kept(video)
        return kept is None or bool(np.isin(self._near_rows(video, second), kept.seconds).all())

    def _near_rows(self, video: str, second: float) -> NDArray[np.int64]:
        return rows_around(second * self._per_second, self._store.num_rows(video))

    def observe(self, moments: Sequence[tuple[str, float]], shift_s: int = 0) -> Array:
        """The rows around each moment, shifted by some seconds and clipped to the video: (N, F), or (N, 3F).

        A store of `extract --only-needed` may lack rows of a shifted moment: the nearest of those that it has are used,
        and without any, the rows of the moment itself.
        """
        width = self._store.width * (len(AROUND) if self._observation == "concat" else 1)
        observed = np.empty((len(moments), width), dtype=np.float32)
        for number, (video, second) in enumerate(moments):
            num_rows = self._store.num_rows(video)
            place = num_rows - 1 if second == math.inf else second * self._per_second
            near = rows_around(place, num_rows)
            if shift_s:
                near = self._there(video, rows_around(place + shift_s * self._per_second, num_rows), near)
            seen = self._store.rows_at(video, near).astype(np.float32)
            observed[number] = join_rows(seen, self._observation)
        return observed

    def observe_before(self, moments: Sequence[tuple[str, float]]) -> tuple[Array, NDArray[np.bool_]]:
        """The mean of the rows before each moment, those around it left out, and whether there are any.

        Returns:
            (N, F), or (N, 3F) with "concat": zeros where there is nothing before; and (N,).
        """
        by_video = sorted(range(len(moments)), key=lambda number: moments[number][0])
        mean_of = {number: self._mean_before(*moments[number]) for number in by_video}
        found = [mean_of[number] for number in range(len(moments))]
        is_there = np.array([mean is not None for mean in found], dtype=bool)
        width = self._store.width
        means = np.stack([np.zeros(width, np.float32) if mean is None else mean for mean in found])
        repeats = len(AROUND) if self._observation == "concat" else 1
        return np.tile(means, (1, repeats)), is_there

    def _mean_before(self, video: str, second: float) -> Array | None:
        number = rows_before(second * self._per_second, self._store.num_rows(video))
        if number < 1:
            return None
        totals = self._totals_of(video)
        kept = self._store.kept(video)
        count = number if kept is None else int(np.searchsorted(kept.seconds, number))
        mean: Array | None = (totals[count - 1] / count).astype(np.float32) if count else None
        return mean

    def _totals_of(self, video: str) -> Array:
        """The running sums of a video's rows; those of the last video are kept, because moments are read by video."""
        if self._last is None or self._last[0] != video:
            self._last = video, self._store.packed_rows(video).astype(np.float64).cumsum(axis=0)
        return self._last[1]

    def _there(self, video: str, wanted: NDArray[np.int64], known: NDArray[np.int64]) -> NDArray[np.int64]:
        """The wanted rows, (3,), each replaced by the nearest one that the store has; `known` if it has none."""
        kept = self._store.kept(video)
        if kept is None:
            return wanted
        there = wanted[np.isin(wanted, kept.seconds)]
        return there[np.abs(wanted[:, None] - there).argmin(axis=1)] if len(there) else known
