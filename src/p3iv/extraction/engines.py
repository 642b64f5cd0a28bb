"""Encode videos in this process, in several processes, or on a Ray cluster; the rows are the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from p3iv.encoders.base import VideoEncoder
from p3iv.extraction.request import EncodedVideo, ExtractionRequest, Recipe, VideoTask
from p3iv.extraction.worker import encode_group, encode_videos
from p3iv.parallel import WorkerLost, run

Group = tuple[VideoTask, ...]

_MAX_GROUP = 8  # videos that a worker takes at once, so that it decodes the next while it encodes the last


def run_engine(request: ExtractionRequest, tasks: Sequence[VideoTask], encoder: VideoEncoder) -> Iterator[EncodedVideo]:
    """Encode all tasks, in the order in which they finish."""
    if not tasks:
        return iter(())
    if request.engine == "local" and request.jobs == 1:
        return encode_videos(tasks, encoder, request.dtype)
    groups = make_groups(tasks, request.jobs)
    return encode_groups(groups, request.recipe, engine=request.engine, jobs=request.jobs, address=request.address)


def make_groups(tasks: Sequence[VideoTask], jobs: int) -> list[Group]:
    """Make groups small enough that all workers end at about the same time."""
    size = max(1, min(_MAX_GROUP, len(tasks) // (4 * jobs)))
    return [tuple(tasks[first : first + size]) for first in range(0, len(tasks), size)]


def encode_groups(
    groups: Sequence[Group], recipe: Recipe, *, engine: str, jobs: int, address: str | None = None
) -> Iterator[EncodedVideo]:
    """Encode groups of videos. A video that kills its worker is returned with a fault; the others are encoded."""
    encode = partial(encode_group, recipe=recipe)
    todo = list(groups)
    while todo:
        lost: list[Group] = []
        for group, result in run(encode, todo, engine=engine, jobs=jobs, address=address, finish_started=True):
            if not isinstance(result, WorkerLost):
                yield from result
            elif len(group) == 1:
                fault = f"{group[0].path}: cannot be encoded: {result.reason}"
                yield EncodedVideo(group[0].video, None, fault=fault)
            else:
                lost += [(task,) for task in group]
        todo = lost
