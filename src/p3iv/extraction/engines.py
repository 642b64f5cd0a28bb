"""Who does the work: this process, several of them, or a Ray cluster; the rows are the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from functools import partial

from p3iv.encoders.base import VideoEncoder
from p3iv.extraction.request import EncodedVideo, ExtractionRequest, Recipe, VideoTask
from p3iv.extraction.worker import encode_group, encode_videos
from p3iv.parallel import Lost, run_in_pool, run_on_cluster


def run_ray(
    groups: Sequence[tuple[VideoTask, ...]], recipe: Recipe, *, address: str | None, jobs: int
) -> Iterator[EncodedVideo]:
    """Encode groups on a cluster; a video that its workers died on every time is named, the others go on."""

    def encode(group: tuple[VideoTask, ...]) -> list[EncodedVideo]:
        return encode_group(group, recipe)

    waiting = deque(groups)
    for group, result in run_on_cluster(encode, waiting, address=address, jobs=jobs):
        if not isinstance(result, Lost):
            yield from result
        elif len(group) == 1:
            task = group[0]
            yield EncodedVideo(task.video, None, fault=f"{task.path}: the workers that read it died ({result.why})")
        else:
            waiting.extend((task,) for task in group)


Group = tuple[VideoTask, ...]

_MOST_IN_GROUP = 8  # videos that a worker takes at once, so that it decodes the next while it encodes the last


def run_engine(request: ExtractionRequest, tasks: Sequence[VideoTask], encoder: VideoEncoder) -> Iterator[EncodedVideo]:
    """Encode all tasks, in whatever order they are done."""
    if not tasks:
        return iter(())
    if request.engine == "ray":
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
    encode = partial(encode_group, recipe=recipe)
    waiting = deque(groups)
    while waiting:
        suspects = yield from _results(run_in_pool(encode, waiting, jobs))
        for task in (task for group in suspects for task in group):
            again: deque[Group] = deque([(task,)])
            if (yield from _results(run_in_pool(encode, again, 1))):
                yield EncodedVideo(task.video, None, fault=f"{task.path}: the process that read it died, twice")


def _results(
    pool: Generator[tuple[Group, list[EncodedVideo]], None, list[Group]],
) -> Generator[EncodedVideo, None, list[Group]]:
    """The videos of all groups; returns the groups that were under way when a process died."""
    while True:
        try:
            _, encoded = next(pool)
        except StopIteration as end:
            suspects: list[Group] = end.value
            return suspects
        yield from encoded
