"""Follow a video: what was probably done, what is under way, and what is left, second by second.

A second is read as a planner reads a start: the mean of its row and of its neighbours, and the mean of all rows before
as history. `plans.step_filter` says from it what was done and what is under way; then the planner is asked what is
left, with plans weighted by how probable their first step is, and by which steps are still to be done.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import BinaryIO

import numpy as np

from p3iv.answering import Answering
from p3iv.errors import DatasetError, PlanError
from p3iv.features.observation import AROUND, join_rows
from p3iv.moments import MomentReader
from p3iv.planners.header import Backend
from p3iv.plans.answered import ReadQuery
from p3iv.plans.following import DoneStep, FollowedMoment
from p3iv.plans.step_filter import StepFilter
from p3iv.shipped import shipped_clip
from p3iv.types import Array
from p3iv.validation import shown

NEXT_STEPS = 3  # that are planned if there is no goal
NUM_NOW = 3  # steps that may be under way, of which a moment tells


class Follower:
    """Takes the seconds of one video one by one.

    Args:
        backend: a planner that can follow.
        answering: of the same planner.
        query: the goal, the length and the conditions of what is left.
        number: of plans, at most.
    """

    def __init__(self, backend: Backend, answering: Answering, query: ReadQuery, number: int) -> None:
        check_follows(backend)
        self._backend, self._answering, self._number = backend, answering, number
        self._names, horizons = backend.header.names, backend.header.config.data.horizons
        is_open = query.horizon is None and query.evidence.goal is None and query.evidence.last_step is None
        self._query = replace(query, horizon=max(horizons[0], min(NEXT_STEPS, horizons[-1]))) if is_open else query
        procedure = query.evidence.procedure
        numbers = backend.follow_numbers
        if numbers is None:
            raise AssertionError("check_follows refuses such a planner")
        self._filter = StepFilter(numbers, None if procedure is None else procedure[0])
        self._rows = _RowWindow(backend.header.config.data.observation)

    @property
    def understood(self) -> tuple[str, ...]:
        """How the words of the goal were understood."""
        return self._query.understood

    def add(self, row: Array | None) -> FollowedMoment | None:
        """Take the features of the next second, (F,); returns what is known at the second before it.

        None for the first second, and for one that cannot be seen because a row is missing.
        """
        return self._see(self._rows.add(row))

    def finish(self) -> FollowedMoment | None:
        """What is known at the last second."""
        return self._see(self._rows.finish())

    def see(self, start: Array, history: Array | None) -> FollowedMoment:
        """Take the observation of the next second and what came before it, (F,) each, instead of rows."""
        parts = {"start": start[None]} | ({} if history is None else {"history": history[None]})
        evidence = replace(self._query.evidence, **parts)
        self._filter.add(self._backend.score_under_way(evidence)[0])
        query = replace(self._query, evidence=evidence, weights=self._filter.plan_weights())
        left = self._answering.plan(query, self._number)
        return FollowedMoment(self._filter.second, self._done(), self._now(), left)

    def skip(self) -> None:
        """The next second cannot be seen."""
        self._filter.add(None)

    def _see(self, seen: tuple[Array, Array | None] | bool) -> FollowedMoment | None:
        if isinstance(seen, tuple):
            return self.see(*seen)
        if seen:
            self.skip()
        return None

    def _done(self) -> tuple[DoneStep, ...]:
        return tuple(
            DoneStep(self._names[step.action], step.start, step.end, step.probability) for step in self._filter.finished
        )

    def _now(self) -> tuple[tuple[str | None, float], ...]:
        names = (*self._names, None)
        best = np.argsort(-self._filter.now, kind="stable")[:NUM_NOW].tolist()
        return tuple((names[action], float(self._filter.now[action])) for action in best)


class _RowWindow:
    """The rows around a second, and the mean of those before them."""

    def __init__(self, observation: str) -> None:
        self._observation = observation
        self._near: deque[Array | None] = deque(maxlen=len(AROUND))
        self._total: Array | float = 0.0
        self._before = 0  # rows that are no longer near
        self._number = 0

    def add(self, row: Array | None) -> tuple[Array, Array | None] | bool:
        """Take a row; the observation and history of the second before it, or whether there is one without them."""
        if len(self._near) == len(AROUND) and (oldest := self._near[0]) is not None:
            self._total = self._total + oldest.astype(np.float64)
            self._before += 1
        self._near.append(None if row is None else np.asarray(row, dtype=np.float32))
        self._number += 1
        if self._number == 1:
            return False
        return self._observe(list(self._near)[-3:] if self._number > 2 else [self._near[0], *self._near])

    def finish(self) -> tuple[Array, Array | None] | bool:
        """The same for the last second."""
        if not self._number:
            return False
        if self._number == 1:
            return self._observe([self._near[0]] * 3)
        if self._number > 2 and (oldest := self._near[0]) is not None:
            self._total, self._before = self._total + oldest.astype(np.float64), self._before + 1
        return self._observe([self._near[-2], self._near[-1], self._near[-1]])

    def _observe(self, near: list[Array | None]) -> tuple[Array, Array | None] | bool:
        rows = [row for row in near if row is not None]
        if len(rows) < len(near):
            return True
        start = join_rows(np.stack(rows), self._observation)
        if not self._before:
            return start, None
        mean = (self._total / self._before).astype(np.float32)  # type: ignore[union-attr]
        return start, join_rows(mean[None], self._observation)


def check_follows(backend: Backend) -> None:
    """Refuse a planner that cannot follow videos.

    Raises:
        PlanError: saying which one can.
    """
    if backend.follow_numbers is None:
        raise PlanError(
            "This planner cannot follow videos. Train one that can, on videos with start_s and end_s in steps.csv: "
            "p3iv train DIR --planner p3iv-plus --horizon 1-6."
        )


def follow_video(follower: Follower, reader: MomentReader, video: str | Path | BinaryIO) -> Iterator[FollowedMoment]:
    """Follow a file, a video of the dataset, or a stream of bytes.

    Raises:
        P3ivError: naming the video.
    """
    if not isinstance(video, str | Path):
        return _follow_stream(follower, reader, video)
    file = shipped_clip(str(video)) or Path(video)
    return _follow_file(follower, reader, file) if file.is_file() else _follow_dataset(follower, reader, str(video))


def _follow_file(follower: Follower, reader: MomentReader, file: Path) -> Iterator[FollowedMoment]:
    from p3iv.extraction.moment import clips_of
    from p3iv.features.video import VideoReader  # needs PyAV

    encoder = reader.encoder
    with VideoReader(file) as frames:
        yield from _follow_rows(follower, map(encoder.encode, clips_of(frames, range(frames.num_seconds), encoder)))


def _follow_stream(follower: Follower, reader: MomentReader, source: BinaryIO) -> Iterator[FollowedMoment]:
    from p3iv.extraction.moment import clips_of
    from p3iv.features.video_stream import VideoStreamReader

    encoder = reader.encoder
    clips = clips_of(VideoStreamReader(source), count(), encoder)
    yield from _follow_rows(follower, map(encoder.encode, clips))


def _follow_rows(follower: Follower, rows: Iterable[Array]) -> Iterator[FollowedMoment]:
    """Follow rows (1, F) of the seconds of a video."""
    for row in rows:
        if (moment := follower.add(row[0])) is not None:
            yield moment
    if (moment := follower.finish()) is not None:
        yield moment


def _follow_dataset(follower: Follower, reader: MomentReader, video: str) -> Iterator[FollowedMoment]:
    from p3iv.data.observations import ObservationReader

    dataset = reader.find_dataset()
    if dataset is None or dataset.features is None or video not in dataset.features:
        known = "" if dataset is None else f", and {dataset.folder} has no features of such a video"
        raise (PlanError if dataset is None else DatasetError)(f"There is no file {shown(video)}{known}.")
    observations = ObservationReader(dataset, reader.observation)
    for second in range(max(1, math.floor(dataset.features.num_rows(video) / dataset.card.features_per_second))):
        if not observations.is_seen(video, second):
            follower.skip()
            continue
        history, is_there = observations.observe_before([(video, second)])
        start = observations.observe([(video, second)])[0]
        yield follower.see(start, history[0] if is_there[0] else None)
