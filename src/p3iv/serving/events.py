"""Answers as server-sent events: progress first, then one result or one error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from fastapi.sse import EventSourceResponse, format_sse_event
from pydantic import BaseModel

from p3iv.serving.problems import ServiceError

KEEP_ALIVE_S = 1.0  # the last progress is sent again after this time, so that both sides know that the other is there

OnProgress = Callable[[str, int, int], None]  # stage, done, total
Work = Callable[[OnProgress], Coroutine[Any, Any, BaseModel]]


class ProgressEvent(BaseModel):
    """How far the work on an answer is."""

    stage: str
    done: int
    total: int


def stream_events(work: Work, as_error: Callable[[Exception], ServiceError]) -> EventSourceResponse:
    """Run `work` with a callback for progress; it is cancelled when the client goes away."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the second for proxies that collect answers
    return EventSourceResponse(_events(work, as_error), headers=headers)


async def _events(work: Work, as_error: Callable[[Exception], ServiceError]) -> AsyncIterator[bytes]:
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
