"""Follow a video for a request: the planner sees every second once, not faster than the client reads.

Seconds are encoded in jobs of a few, like all that the service encodes, so that other requests have their turn between
two jobs; a second that was encoded before, for a plan or for another client, is taken from the cache.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from functools import partial
from typing import Final, TypeVar

from p3iv.following import Follower
from p3iv.planner import Planner
from p3iv.plans.following import FollowedMoment
from p3iv.serving.jobs import VideoFacts
from p3iv.serving.library import KnownVideo
from p3iv.serving.media import Media
from p3iv.serving.observations import ROWS_PER_JOB, Observer, StoredVideo, num_seconds
from p3iv.serving.problems import ServiceError, as_service_error
from p3iv.serving.requests import QueryMoments, RequestReader
from p3iv.serving.schema import FollowRequest, MomentAnswer
from p3iv.serving.workers import QueueFullError
from p3iv.types import Array

FIRST_ROWS: Final = 2  # of the first job, so that the first moment comes soon; each job has twice as many as the last
BUSY_S: Final = 0.5  # until a full queue is asked again

Result = TypeVar("Result")
Moments = AsyncGenerator[MomentAnswer]
Looks = AsyncGenerator[Callable[[], FollowedMoment | None]]  # each looks at the next second, in the thread of planning


class Following:
    """Follows videos.

    Args:
        planner: that follows.
        media: finds videos by their ids.
        observer: encodes them, or has their features.
        moments: reads goals that are moments.
        requests: reads the others, and computes in its thread.
    """

    def __init__(
        self,
        planner: Planner,
        media: Media,
        observer: Observer,
        moments: QueryMoments,
        requests: RequestReader,
    ) -> None:
        self._planner, self._media, self._observer = planner, media, observer
        self._goals, self._requests, self._limits = moments, requests, requests.limits
        self.number = 0  # of videos that are followed now
        self.is_ending = False  # whether the service is being stopped

    async def open(self, request: FollowRequest) -> Moments:
        """The moments of a video, each computed when it is asked for.

        Raises:
            P3ivError: naming what cannot be used, before the video is looked at.
        """
        self._check(request)
        options = await self._requests.read_options(request)
        look = await self._open_video(self._media.library.find_video(request.video))
        goal = await self._goals.observe_goal(request.goal)
        make = partial(self._planner.follower, goal, number=request.number, **options)
        return self._moments(look(await self._requests.compute(make)), request.from_s)

    def _check(self, request: FollowRequest) -> None:
        if not self._planner.can_follow:
            raise ServiceError(
                422,
                "This planner cannot follow videos.",
                "Train one that can, on videos whose steps have times: p3iv train DIR --planner p3iv-plus "
                "--horizon 1-6.",
            )
        self._requests.check_limits(number=request.number)
        if self.number >= self._limits.follows:
            raise ServiceError(503, f"{self.number} videos are followed already.", "Try again later.", retry_after_s=5)

    async def _open_video(self, video: KnownVideo) -> Callable[[Follower], Looks]:
        """How to look at a video: with the features of the dataset; with the file where these are not complete."""
        stored = self._observer.open_stored(video)
        if stored and (stored.is_complete or video.path is None or not self._observer.has_encoder):
            return partial(_look_at_stored, stored)
        facts = await self._media.facts(video)
        self._observer.require_encoder()
        return partial(self._look_at_file, video, facts)

    async def _moments(self, looks: Looks, from_s: float) -> Moments:
        self.number += 1
        try:
            async for look in looks:
                if self.is_ending:
                    raise ServiceError(503, "The service is being stopped.", retry_after_s=10)
                moment = await self._in_turn(partial(self._requests.compute, look))
                if moment is not None and moment.second >= from_s:
                    yield MomentAnswer(**moment.to_dict())
        finally:
            self.number -= 1
            await looks.aclose()

    async def _look_at_file(self, video: KnownVideo, facts: VideoFacts, follower: Follower) -> Looks:
        """While the rows of one job are looked at, the next job is under way."""
        jobs = job_seconds(num_seconds(facts))
        coming: asyncio.Task[Array] | None = asyncio.create_task(self._encode(video.id, facts, next(jobs)))
        try:
            while coming is not None:
                rows, seconds = await coming, next(jobs, None)
                coming = asyncio.create_task(self._encode(video.id, facts, seconds)) if seconds else None
                for row in rows:
                    yield partial(follower.add, row)
            yield follower.finish
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)

    async def _encode(self, video_id: str, facts: VideoFacts, seconds: range) -> Array:
        video = self._media.library.find_video(video_id)  # every time, because an upload stays as long as it is used
        return await self._in_turn(partial(self._observer.rows, video, facts, seconds))

    async def _in_turn(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """The result of some work; where the queue is full, it waits, since its client is being answered already.

        Raises:
            P3ivError: of the work, or because it took too long.
        """
        limit = self._limits.request_s
        try:
            async with asyncio.timeout(limit):
                while True:
                    try:
                        return await work()
                    except (QueueFullError, ServiceError) as error:
                        if as_service_error(error).code != "busy":
                            raise
                    await asyncio.sleep(BUSY_S)
        except TimeoutError as error:
            raise ServiceError(
                503, f"The next second of the video took longer than {limit} seconds.", "Try again.", code="too_long"
            ) from error


async def _look_at_stored(video: StoredVideo, follower: Follower) -> Looks:
    for second in range(video.num_seconds):
        yield partial(_see, follower, video, second)


def _see(follower: Follower, video: StoredVideo, second: int) -> FollowedMoment | None:
    """Runs in the thread of planning."""
    if (seen := video.observe(second)) is None:
        follower.skip()
        return None
    return follower.see(*seen)


def job_seconds(number: int) -> Iterator[range]:
    """The seconds from 0 to `number` in groups.

    >>> list(job_seconds(9))
    [range(0, 2), range(2, 6), range(6, 9)]
    """
    first, size = 0, FIRST_ROWS
    while first < number:
        yield range(first, min(first + size, number))
        first, size = first + size, min(2 * size, ROWS_PER_JOB)
