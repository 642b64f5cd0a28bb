"""The moments of a request as observations of a planner, and what came before its start."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import numpy as np

from p3iv.extraction.moment import seconds_before
from p3iv.serving.events import OnProgress
from p3iv.serving.jobs import VideoFacts
from p3iv.serving.library import KnownVideo
from p3iv.serving.media import Media
from p3iv.serving.observations import Observer, num_seconds
from p3iv.serving.schema import FeatureMoment, Moment, PictureMoment, Query, TextGoal, VideoMoment
from p3iv.types import Array


@dataclass(frozen=True, eq=False)
class Observed:
    """What a query shows, as observations (F,)."""

    start: Array
    goal: Array | None
    history: Array | None  # the mean of the video before the start


@dataclass(frozen=True)
class _History:
    """The part of a video before a moment."""

    video: KnownVideo
    until_s: float
    facts: VideoFacts | None = None  # None: the dataset has its features
    seconds: tuple[int, ...] = ()  # to be encoded


class _Count:
    """Tells how many moments and seconds of a query are there."""

    def __init__(self, on_progress: OnProgress, total: int) -> None:
        self._on_progress, self._total, self._done = on_progress, total, 0
        self.add(0)

    def add(self, number: int) -> None:
        self._done += number
        self._on_progress("encoding", self._done, self._total)


class QueryMoments:
    """Observes the moments of requests.

    Args:
        media: finds videos and pictures by their ids.
        observer: encodes them.
        has_history: whether the planner understands what came before the start.
    """

    def __init__(self, media: Media, observer: Observer, *, has_history: bool) -> None:
        self._media, self._observer, self._has_history = media, observer, has_history

    async def observe(self, query: Query, on_progress: OnProgress) -> Observed:
        """The moments of a query and what came before its start, at the same time.

        Raises:
            P3ivError: naming what cannot be used.
        """
        goal = None if isinstance(query.goal, TextGoal) else query.goal
        history = await self._find_history(query)
        count = _Count(on_progress, 1 + (goal is not None) + (len(history.seconds) if history else 0))
        start = asyncio.ensure_future(self._observe_one(query.start, count))
        end = asyncio.ensure_future(self._observe_goal(goal, count))
        before = asyncio.ensure_future(self._observe_history(history, count))
        try:
            return Observed(*await asyncio.gather(start, end, before))
        finally:
            for task in (start, end, before):
                task.cancel()

    async def _observe_goal(self, goal: Moment | None, count: _Count) -> Array | None:
        return None if goal is None else await self._observe_one(goal, count)

    async def _observe_one(self, moment: Moment, count: _Count) -> Array:
        found = await self._look_at(moment)
        count.add(1)
        return found

    async def _look_at(self, moment: Moment) -> Array:
        if isinstance(moment, FeatureMoment):
            return np.array(moment.features, dtype=np.float32)
        if isinstance(moment, PictureMoment):
            return await self._observer.observe_picture(self._media.library.find_picture(moment.picture))
        video = self._media.library.find_video(moment.video)
        if self._observer.is_stored(video, moment.t):
            return self._observer.observe_stored(video, moment.t)
        return await self._observer.observe_video(video, await self._media.facts(video), moment.t)

    async def _find_history(self, query: Query) -> _History | None:
        """What came before the start, where it counts."""
        start = query.start
        if not (self._has_history and query.history and isinstance(start, VideoMoment)):
            return None
        video = self._media.library.find_video(start.video)
        if self._observer.is_stored(video, start.t):
            return _History(video, start.t)
        facts = await self._media.facts(video)
        return _History(video, start.t, facts, tuple(seconds_before(start.t, num_seconds(facts))))

    async def _observe_history(self, history: _History | None, count: _Count) -> Array | None:
        if history is None:
            return None
        if history.facts is None:
            return self._observer.observe_stored_before(history.video, history.until_s)
        if not history.seconds:
            return None
        return await self._observer.observe_before(history.video, history.facts, history.seconds, count.add)
