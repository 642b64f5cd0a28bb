"""Encoding over Ray; rows come back through it, so that only the machine that was asked writes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from p3iv.cluster import Lost, run_on_cluster
from p3iv.extraction.request import EncodedVideo, Recipe, VideoTask
from p3iv.extraction.worker import encode_group


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
