"""What a request asks: its moments as observations of a planner, and everything beside them as options of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from p3iv.errors import PlanError
from p3iv.extraction.moment import seconds_before
from p3iv.plans.conditions import Conditions
from p3iv.queries import Query as PlannerQuery
from p3iv.queries import QueryReader
from p3iv.serving.events import OnProgress
from p3iv.serving.jobs import VideoFacts
from p3iv.serving.library import KnownVideo
from p3iv.serving.media import Media
from p3iv.serving.observations import Observer, num_seconds
from p3iv.serving.problems import ServiceError
from p3iv.serving.schema import (
    FeatureMoment,
    Goal,
    GoalQuery,
    Moment,
    PictureMoment,
    Query,
    TextGoal,
    VideoMoment,
)
from p3iv.serving.settings import Limits
from p3iv.types import Array

HOW_TO_SAY = "Say it in other words: a step or a procedure that the planner knows."

Result = TypeVar("Result")


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

    async def observe_goal(self, goal: Goal | None) -> Array | None:
        """The moment of a goal; None for words, or without a goal.

        Raises:
            P3ivError: naming what cannot be used.
        """
        return None if goal is None or isinstance(goal, TextGoal) else await self._look_at(goal)

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


class RequestReader:
    """Reads what requests ask beside their moments, and computes for them in one thread.

    Pairs are planned one by one: computing 16 of P3IV+ together takes 94 % of the time (3.37 against 3.58 ms each), and
    would change the last digits of a probability with the number of clients.

    Args:
        queries: of the planner.
        names: of its actions.
        limits: of the service.
    """

    def __init__(self, queries: QueryReader, names: Sequence[str], limits: Limits) -> None:
        self._queries, self._names, self.limits = queries, names, limits
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="planning")
        self._words: asyncio.Future[None] | None = None  # done when texts can be compared
        self.waiting = 0  # questions that wait for the thread or are in it

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def prepare_words(self) -> asyncio.Future[None]:
        """Begin to load what compares texts, if nobody has; it takes seconds, in which plans are answered."""
        if self._words is None:
            self._words = asyncio.ensure_future(asyncio.to_thread(self._queries.words.prepare))
        return self._words

    def check_limits(self, **numbers: int | None) -> None:
        """Refuse more plans (`number`) or `samples` than the service allows."""
        for name, asked in numbers.items():
            limit = {"samples": self.limits.samples, "number": self.limits.plans}[name]
            if (asked or 0) > limit:
                raise ServiceError(422, f"{name}={asked}, but this service allows at most {limit}.")

    async def read_options(self, request: GoalQuery) -> dict[str, Any]:
        """What a request asks beside its moments, as arguments of the planner.

        Raises:
            P3ivError: naming what the planner cannot answer, whatever the moments show.
        """
        text, goal = (request.goal.text, None) if isinstance(request.goal, TextGoal) else (None, request.goal)
        options: dict[str, Any] = {
            "goal_text": text,
            "procedure": request.procedure,
            "horizon": request.horizon,
            "conditions": Conditions.from_dict(request.conditions.model_dump(by_alias=True, exclude_defaults=True)),
        }
        query = PlannerQuery(None, goal, **options)  # a start is not looked at here
        self._queries.check(query)
        query.conditions.rules(self._names)
        await self._understand(query)
        return options

    async def _understand(self, query: PlannerQuery) -> None:
        """Refuse words that mean nothing to the planner, before videos are encoded; it keeps what the others mean."""
        if query.goal_text is not None:
            await asyncio.shield(self.prepare_words())
        try:
            if query.goal_text is not None or query.procedure is not None:
                await self.compute(self._queries.understand, query)
        except PlanError as error:
            raise ServiceError(422, str(error), HOW_TO_SAY) from error

    async def compute(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Compute in the thread; a question that is cancelled before its turn is not computed.

        Raises:
            ServiceError: too many wait for the thread.
        """
        if self.waiting > self.limits.waiting:
            raise ServiceError(503, "Too many plans are being computed.", "Try again in a second.", retry_after_s=1)
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, partial(work, *arguments))
        finally:
            self.waiting -= 1
