"""Answers as server-sent events: progress and then one result or error; or moments and then an end or error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from typing import Any

from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from pydantic import BaseModel
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from p3iv.serving.problems import ServiceError

KEEP_ALIVE_S = 1.0  # after this time something is sent again, so that both sides know that the other is there
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the second for proxies that collect answers

OnProgress = Callable[[str, int, int], None]  # stage, done, total
Work = Callable[[OnProgress], Coroutine[Any, Any, BaseModel]]
AsError = Callable[[Exception], ServiceError]


class ProgressEvent(BaseModel):
    """How far the work on an answer is."""

    stage: str
    done: int
    total: int


class EndEvent(BaseModel):
    """There are no more moments."""

    moments: int  # that were sent


class EventStream(StreamingResponse):
    """Events of a generator, which is closed as soon as the client goes away."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes]) -> None:
        super().__init__(events, headers=HEADERS)
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._events.aclose()


def stream_events(work: Work, as_error: AsError) -> EventStream:
    """Run `work` with a callback for progress; it is cancelled when the client goes away."""
    return EventStream(_events(work, as_error))


def stream_moments(moments: AsyncGenerator[BaseModel], as_error: AsError) -> EventStream:
    """Send moments as they are made; the next is asked for when the client has taken the last."""
    return EventStream(_moments(moments, as_error))


async def _moments(moments: AsyncGenerator[BaseModel], as_error: AsError) -> AsyncGenerator[bytes]:
    number = 0
    try:
        while True:
            coming = asyncio.ensure_future(anext(moments, None))
            try:
                while not (await asyncio.wait([coming], timeout=KEEP_ALIVE_S))[0]:
                    yield KEEPALIVE_COMMENT
            finally:  # also where the client is gone: a generator that runs cannot be closed
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)
            if (moment := await coming) is None:
                break
            number += 1
            yield _event("moment", moment)
        yield _event("end", EndEvent(moments=number))
    except Exception as error:
        yield _event("error", as_error(error).content)
    finally:
        await moments.aclose()


async def _events(work: Work, as_error: AsError) -> AsyncGenerator[bytes]:
    progress: asyncio.Queue[ProgressEvent | None] = asyncio.Queue()
    task = asyncio.create_task(
        work(lambda stage, done, total: progress.put_nowait(ProgressEvent(stage=stage, done=done, total=total)))
    )
    try:
        async for event in _progress_until(task, progress):
            yield _event("progress", event)
        try:
            yield _event("result", task.result())
        except Exception as error:
            yield _event("error", as_error(error).content)
    finally:
        task.cancel()


async def _progress_until(
    task: asyncio.Task[BaseModel], progress: asyncio.Queue[ProgressEvent | None]
) -> AsyncIterator[ProgressEvent]:
    """Every step of the progress as it comes, and the last one again where nothing comes, until the task ends."""

    def end(ended: asyncio.Task[BaseModel]) -> None:
        if not ended.cancelled():
            ended.exception()  # asyncio complains about one that nobody asks for, as when the client is gone
        progress.put_nowait(None)

    task.add_done_callback(end)
    last: ProgressEvent | None = None
    while True:
        try:
            async with asyncio.timeout(KEEP_ALIVE_S):
                if (event := await progress.get()) is None:
                    return
            last = event
        except TimeoutError:
            pass
        if last is not None:
            yield last


def _event(name: str, content: BaseModel) -> bytes:
    return format_sse_event(event=name, data_str=content.model_dump_json(exclude_unset=True))
