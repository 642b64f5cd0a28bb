"""How far a video is followed: as far as its client reads, in turn with others, and no longer than somebody reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

from clips import write_clip
from p3iv.moments import EncoderChoice
from p3iv.planner import Planner
from p3iv.serving.app import make_app
from p3iv.serving.following import job_seconds
from p3iv.serving.observations import ROWS_PER_JOB
from p3iv.serving.problems import ServiceError
from p3iv.serving.schema import FollowRequest, VideoAnswer
from p3iv.serving.service import Service
from p3iv.serving.settings import ServiceSettings
from p3iv.serving.workers import QueueFullError
from serving.pools import until
from serving.test_observations import with_service

SECONDS = 100


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A video of 100 seconds."""
    path = tmp_path_factory.mktemp("video") / "long.mp4"
    write_clip(path, range(0, 1000 * SECONDS, 500))
    return path.read_bytes()


async def send(service: Service, content: bytes) -> VideoAnswer:
    async def chunks() -> AsyncIterator[bytes]:
        yield content

    video, _ = await service.media.add_video(chunks(), "long.mp4")
    return video


def ask_to_follow(video: VideoAnswer) -> FollowRequest:
    return FollowRequest.model_validate({"video": video.id})


def test_a_client_that_does_not_read_holds_the_work_up(queries_run: Path, content: bytes) -> None:
    async def check(service: Service, jobs: list[str]) -> None:
        video = await send(service, content)
        sent: list[bytes] = []
        may_read, is_gone = asyncio.Semaphore(5), asyncio.Event()
        body = [{"type": "http.request", "body": f'{{"video": "{video.id}"}}'.encode()}]

        async def receive() -> Message:
            if body:
                return body.pop()
            await is_gone.wait()
            return {"type": "http.disconnect"}

        async def take(message: Message) -> None:
            if message["type"] == "http.response.body" and message["body"].startswith(b"event"):
                await may_read.acquire()
                sent.append(message["body"])

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/v1/follow", "raw_path": b"/v1/follow"}
        scope |= {"headers": headers, "query_string": b"", "client": ("127.0.0.1", 1), "asgi": {"spec_version": "2.3"}}
        answering = asyncio.ensure_future(make_app(service)(scope, receive, take))
        await until(lambda: len(sent) == 5)
        await asyncio.sleep(1)
        assert len(sent) == 5
        assert len(service.observer.cache) <= 2 + 4 + 8 + ROWS_PER_JOB  # the jobs of 14 seconds, and the next one
        assert service.following.number == 1
        for _ in range(20):
            may_read.release()
        await until(lambda: len(sent) == 25)
        is_gone.set()
        await answering
        assert service.following.number == 0
        number = jobs.count("encode_seconds")
        await asyncio.sleep(0.5)
        assert jobs.count("encode_seconds") == number
        assert len(service.observer.cache) < SECONDS

    with_service(check, str(queries_run))


def test_a_full_queue_is_waited_for(queries_run: Path, content: bytes) -> None:
    async def check(service: Service, jobs: list[str]) -> None:
        video, run = await send(service, content), service.pool.run
        refused: list[object] = []

        async def busy(work: Callable[..., Any], *arguments: object) -> Any:
            if len(refused) < 2:
                refused.append(work)
                raise QueueFullError("The service is busy")
            return await run(work, *arguments)

        service.pool.run = busy  # type: ignore[method-assign]
        async with aclosing(await service.following.open(ask_to_follow(video))) as moments:
            assert (await anext(moments)).second == 0
        assert len(refused) == 2
        assert jobs.count("encode_seconds") >= 1

    with_service(check, str(queries_run))


def test_only_so_many_videos_are_followed_at_the_same_time(queries_run: Path, content: bytes) -> None:
    async def check(service: Service, jobs: list[str]) -> None:
        del jobs
        question, limit = ask_to_follow(await send(service, content)), service.settings.limits.follows
        started = [await service.following.open(question) for _ in range(limit)]
        firsts = [await anext(moments) for moments in started]
        assert firsts == [firsts[0]] * limit
        with pytest.raises(ServiceError, match=f"{limit} videos are followed already") as refused:
            await service.following.open(question)
        assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "5"})
        await started[0].aclose()
        async with aclosing(await service.following.open(question)) as moments:
            assert await anext(moments) == firsts[0]
        for moments in started[1:]:
            await moments.aclose()
        assert service.following.number == 0

    with_service(check, str(queries_run))


def test_seconds_without_features_have_no_moment_where_nothing_can_be_encoded(queries_run: Path) -> None:
    async def scenario() -> None:
        service = Service(ServiceSettings(str(queries_run), encoder=EncoderChoice("s3d", "/missing.pth")))
        await service.start()
        try:
            video = service.media.listed()[0]
            moments = [each async for each in await service.following.open(ask_to_follow(video))]
        finally:
            await service.stop()
        expected = list(Planner.from_pretrained(queries_run).follow(video.name))
        assert [each.model_dump(exclude_unset=True, mode="json") for each in moments] == [
            each.to_dict() for each in expected
        ]
        assert 5 < len(moments) < (video.length_s or 0)

    asyncio.run(scenario())


def test_jobs_grow_and_cover_every_second() -> None:
    sizes = [len(seconds) for seconds in job_seconds(SECONDS)]
    assert sizes[:4] == [2, 4, 8, ROWS_PER_JOB]
    assert [second for seconds in job_seconds(SECONDS) for second in seconds] == list(range(SECONDS))
    assert [list(seconds) for seconds in job_seconds(1)] == [[0]]
