"""Moments of requests as observations of a planner: features are computed once per video, encoder and second."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from p3iv.data.folder import Dataset
from p3iv.data.observations import ObservationReader
from p3iv.errors import DatasetError
from p3iv.features.observation import join_rows, rows_around
from p3iv.serving.jobs import EncoderFacts, VideoFacts, encode_picture_file, encode_seconds
from p3iv.serving.library import KnownVideo
from p3iv.serving.problems import ServiceError, found_file
from p3iv.serving.uploads import Upload
from p3iv.serving.workers import WorkerPool
from p3iv.types import Array

MAX_ROWS: Final = 8192  # kept in memory: 42 MB of 1,280 values each
ROWS_PER_JOB: Final = 12  # of what came before a moment; other requests wait for the end of such a job

Key = tuple[str, str | None, int]  # content of a file, fingerprint of the encoder, second


class RowCache:
    """Rows of features by their key; the least recently used is dropped first."""

    def __init__(self, max_rows: int = MAX_ROWS) -> None:
        self._rows: OrderedDict[Key, Array] = OrderedDict()
        self._max_rows = max_rows

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: Key) -> Array | None:
        if (row := self._rows.get(key)) is not None:
            self._rows.move_to_end(key)
        return row

    def put(self, key: Key, row: Array) -> None:
        self._rows[key] = row
        self._rows.move_to_end(key)
        while len(self._rows) > self._max_rows:
            self._rows.popitem(last=False)


@dataclass(frozen=True, eq=False)
class StoredVideo:
    """A video whose features the dataset has."""

    name: str
    num_seconds: int
    is_complete: bool  # whether there are features of every second
    reader: ObservationReader  # which remembers what it read last, so it is for one thread

    def observe(self, second: int) -> tuple[Array, Array | None] | None:
        """The observation of a second and the mean of what came before it; None where features are missing."""
        if not self.reader.is_seen(self.name, second):
            return None
        moment = [(self.name, float(second))]
        before, is_there = self.reader.observe_before(moment)
        return self.reader.observe(moment)[0], before[0] if is_there[0] else None


class Observer:
    """Turns moments into observations.

    Args:
        pool: the processes that decode and encode.
        encoder: that they have; None if there is none.
        observation: how the planner joins the rows around a moment.
        dataset: whose stored features are used for its videos, if there is one.
    """

    def __init__(
        self, pool: WorkerPool, encoder: EncoderFacts | None, observation: str, dataset: Dataset | None
    ) -> None:
        self._pool, self._encoder, self._observation = pool, encoder, observation
        self._dataset = dataset if dataset and dataset.features is not None else None
        self._stored = ObservationReader(self._dataset, observation) if self._dataset else None
        self.cache = RowCache()
        self._pending: dict[Key, asyncio.Future[None]] = {}

    def is_stored(self, video: KnownVideo, second: float) -> bool:
        """Whether the dataset has the features of a moment.

        Raises:
            ServiceError: it does not, and there is no file to compute them from.
        """
        if video.dataset_video is None or self._stored is None:
            return False
        try:
            self._stored.check_moment(video.dataset_video, second)
        except DatasetError as error:
            if video.path is not None:
                return False
            raise ServiceError(422, f"The dataset has no features at {second:g} s of this video.") from error
        return True

    def observe_stored(self, video: KnownVideo, second: float) -> Array:
        """The observation of a moment that is stored."""
        reader, name = self._stored_video(video)
        found: Array = reader.observe([(name, second)])[0]
        return found

    def observe_stored_before(self, video: KnownVideo, second: float) -> Array | None:
        """The mean of what came before a moment that is stored; None if nothing did."""
        reader, name = self._stored_video(video)
        means, is_there = reader.observe_before([(name, second)])
        return means[0] if is_there[0] else None

    def open_stored(self, video: KnownVideo) -> StoredVideo | None:
        """The features of all seconds of a video, if the dataset has them."""
        dataset, name = self._dataset, video.dataset_video
        if dataset is None or dataset.features is None or name is None or name not in dataset.features:
            return None
        length = max(1, math.floor(dataset.features.num_rows(name) / dataset.card.features_per_second))
        is_complete = dataset.features.kept(name) is None
        return StoredVideo(name, length, is_complete, ObservationReader(dataset, self._observation))

    def _stored_video(self, video: KnownVideo) -> tuple[ObservationReader, str]:
        if self._stored is None or video.dataset_video is None:
            raise ServiceError(422, "The dataset has no features of this video.")
        return self._stored, video.dataset_video

    async def observe_video(self, video: KnownVideo, facts: VideoFacts, second: float) -> Array:
        """The observation at a second of a video file."""
        if not 0 <= second <= facts.length_s:
            length = math.floor(10 * facts.length_s) / 10
            raise ServiceError(
                422, f"The video is {length:g} s long, asked for {second:g} s.", f"Give 0 to {length:g}."
            )
        seconds = [int(each) for each in rows_around(second, num_seconds(facts))]
        rows = await self.rows(video, facts, seconds)
        return join_rows(rows, self._observation)

    async def observe_before(
        self, video: KnownVideo, facts: VideoFacts, seconds: Sequence[int], on_rows: Callable[[int], object]
    ) -> Array:
        """The mean of some seconds of a video file, in the form of an observation; one job after the other.

        Args:
            video: whose file it is.
            facts: of the file.
            seconds: at least one.
            on_rows: is called with the number of rows that are there now.
        """
        parts = []
        for first in range(0, len(seconds), ROWS_PER_JOB):
            some = seconds[first : first + ROWS_PER_JOB]
            parts.append(await self.rows(video, facts, some))
            on_rows(len(some))
        return join_rows(np.concatenate(parts).mean(axis=0)[None], self._observation)

    async def observe_picture(self, picture: Upload) -> Array:
        """The observation of a picture."""
        key = (picture.id, self.require_encoder().fingerprint, 0)
        if (row := self.cache.get(key)) is None:
            with found_file("picture", picture.path):
                [row] = await self._pool.run(encode_picture_file, picture.path)
            self.cache.put(key, row)
        return join_rows(row[None], self._observation)

    async def rows(self, video: KnownVideo, facts: VideoFacts, seconds: Sequence[int]) -> Array:
        """The rows of some seconds of a video file, (N, F).

        They come from the cache, from a request that is computing them, or are computed now.
        """
        content, fingerprint = video.content_key, self.require_encoder().fingerprint
        keys: list[Key] = [(content, fingerprint, second) for second in seconds]
        found: dict[Key, Array] = {}
        while missing := [key for key in dict.fromkeys(keys) if key not in found]:
            for key in missing:
                if (row := self.cache.get(key)) is not None:
                    found[key] = row
            wanted = [key for key in missing if key not in found and key not in self._pending]
            if wanted:
                assert video.path is not None  # noqa: S101 a video without a file is answered by observe_stored
                found |= await self._encode(video.path, facts, wanted)
            elif others := [self._pending[key] for key in missing if key in self._pending]:
                await asyncio.wait(others)
        return np.stack([found[key] for key in keys])

    async def _encode(self, path: Path, facts: VideoFacts, keys: Sequence[Key]) -> dict[Key, Array]:
        """Encode some seconds of a video; other requests for the same ones wait for the end of this."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending |= dict.fromkeys(keys, done)
        try:
            seconds = tuple(second for *_, second in keys)
            with found_file("video", path):
                rows = await self._pool.run(encode_seconds, path, facts.length_s, seconds)
            found = dict(zip(keys, rows, strict=True))
            for key, row in found.items():
                self.cache.put(key, row)
            return found
        finally:
            for key in keys:
                del self._pending[key]
            done.set_result(None)

    @property
    def has_encoder(self) -> bool:
        """Whether new videos and pictures can be encoded."""
        return self._encoder is not None

    def require_encoder(self) -> EncoderFacts:
        """What is known about the encoder.

        Raises:
            ServiceError: there is none.
        """
        if self._encoder is None:
            raise ServiceError(
                422,
                "This service has no encoder for videos and pictures.",
                "Take a moment of the dataset, or give features.",
            )
        return self._encoder


def num_seconds(facts: VideoFacts) -> int:
    """The number of seconds that begin before a video ends, as `VideoReader` counts them."""
    return max(1, math.ceil(facts.length_s))
