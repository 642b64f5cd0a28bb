"""Who does the work: this process, several of them, or a Ray cluster; the rows are the same."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from p3iv.extraction.request import EncodedVideo, ExtractionRequest, Recipe, VideoTask
from p3iv.extraction.worker import encode_group, encode_videos
from p3iv.features.encoders import VideoEncoder
from p3iv.processes import follow_parent

Group = tuple[VideoTask, ...]
_MOST_IN_GROUP = 8  # videos that a worker takes at once, so that it decodes the next while it encodes the last


def run_engine(request: ExtractionRequest, tasks: Sequence[VideoTask], encoder: VideoEncoder) -> Iterator[EncodedVideo]:
    """Encode all tasks, in whatever order they are done."""
    if not tasks:
        return iter(())
    if request.engine == "ray":
        from p3iv.extraction.ray_engine import run_ray  # noqa: PLC0415 - needs Ray

        return run_ray(deal(tasks, request.jobs), request.recipe, address=request.address, jobs=request.jobs)
    if request.jobs == 1:
        return encode_videos(tasks, encoder, request.dtype)
    return run_processes(deal(tasks, request.jobs), request.recipe, jobs=request.jobs)


def deal(tasks: Sequence[VideoTask], jobs: int) -> list[Group]:
    """Groups small enough that all workers end at about the same time."""
    size = max(1, min(_MOST_IN_GROUP, len(tasks) // (4 * jobs)))
    return [tuple(tasks[first : first + size]) for first in range(0, len(tasks), size)]


def run_processes(groups: Sequence[Group], recipe: Recipe, *, jobs: int) -> Iterator[EncodedVideo]:
    """Over processes of this machine; a video on which a process dies is left out and named, the others go on."""
    waiting = deque(groups)
    while waiting:
        suspects = yield from _run_pool(waiting, recipe, jobs)
        for task in suspects:
            again: deque[Group] = deque([(task,)])
            if (yield from _run_pool(again, recipe, 1)):
                yield EncodedVideo(task.video, None, fault=f"{task.path}: the process that read it died, twice")


def _run_pool(waiting: deque[Group], recipe: Recipe, jobs: int) -> Generator[EncodedVideo, None, list[VideoTask]]:
    """Take groups from `waiting` until it is empty, or a process dies: then return what was under way."""
    under_way: dict[Future[list[EncodedVideo]], Group] = {}
    initializer = (os.getpid(),)
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=follow_parent, initargs=initializer) as pool:
        try:
            while waiting or under_way:
                while waiting and len(under_way) < jobs:
                    group = waiting.popleft()
                    under_way[pool.submit(encode_group, group, recipe)] = group
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    result = future.result()
                    del under_way[future]
                    yield from result
        except BrokenProcessPool:
            return [task for group in under_way.values() for task in group]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return []
