"""Suggested steps: found as they are marked in videos of the folder; before that, parts between visual changes.

Names come from the marked videos of the same procedure, or else from a planner that can follow videos.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import numpy as np

from p3iv.data.annotations import Annotation
from p3iv.errors import P3ivError
from p3iv.features.change_points import find_parts
from p3iv.plans.step_finder import (
    SECONDS_AFTER,
    MarkedStep,
    MarkedVideo,
    Name,
    Part,
    PartFinder,
    PartNamer,
    can_learn,
    videos_like,
)
from p3iv.serving.annotate_schema import SuggestedStep, SuggestionsAnswer
from p3iv.serving.annotating import Annotating, name_of
from p3iv.serving.events import OnProgress
from p3iv.serving.jobs import thumbnail_rows
from p3iv.serving.library import KnownVideo
from p3iv.serving.observations import ROWS_PER_JOB, Key, num_seconds
from p3iv.serving.schema import FollowRequest, MomentAnswer
from p3iv.serving.service import Service
from p3iv.types import Array

THUMBNAILS_PER_JOB = 60
THUMBNAILS = "thumbnails"  # in the cache, where rows have the fingerprint of their encoder
MAX_SECONDS = 1500  # of marked videos that are learned from; it takes about a minute to encode them, once


async def suggest_steps(
    service: Service, annotating: Annotating, video: KnownVideo, annotator: str, on_progress: OnProgress
) -> SuggestionsAnswer:
    """Find the steps of a video and name them.

    Args:
        service: that reads videos.
        annotating: the steps that are marked so far.
        video: where steps are looked for.
        annotator: whose steps count.
        on_progress: is called with what is done, how much of it is, and how much there is.

    Raises:
        P3ivError: the video cannot be read.
    """
    facts, has_encoder = await service.media.facts(video), service.observer.has_encoder
    task, marked = await asyncio.to_thread(_find_marked, service, annotating, video, annotator)
    total = num_seconds(facts) + sum(seconds for *_, seconds in marked)
    reader = _RowReader(service, total, on_progress)
    rows = await reader.read(video, num_seconds(facts))
    known = [found for one in marked if (found := await _read_marked(reader, *one))]
    parts = await asyncio.to_thread(_find_parts, rows, known)
    if has_encoder and (like := videos_like(known, task)):  # small pictures tell steps apart too rarely
        names = await asyncio.to_thread(lambda: PartNamer(like)(rows, parts))
    else:
        moments = await _follow(service, video, len(rows), on_progress)
        names = [_most_probable([moments[second] for second in range(*part) if second in moments]) for part in parts]
    return SuggestionsAnswer(
        suggestions=tuple(_suggest(part, name, facts.length_s) for part, name in zip(parts, names, strict=True)),
        source="features" if has_encoder else "thumbnails",
        learned_from=len(known) if can_learn(known) else 0,
    )


def _find_marked(
    service: Service, annotating: Annotating, video: KnownVideo, annotator: str
) -> tuple[str, list[tuple[KnownVideo, Annotation, int]]]:
    """The procedure of a video, and videos with steps and how many seconds to read: itself, those like it, others."""
    videos, own = {name_of(one): one for one in service.media.library.annotated()}, name_of(video)
    read = annotating.store.read_all(annotator, list(videos))
    found = {name: one for name, one in read.items() if isinstance(one, Annotation)}
    task, left, marked = found[own].task if own in found else "", MAX_SECONDS, []
    for name in sorted(found, key=lambda name: (name != own, found[name].task != task)):
        if found[name].steps and left > 0:
            last_s = max(step.end_s for step in found[name].steps)
            marked.append((videos[name], found[name], min(left, int(last_s) + 1 + SECONDS_AFTER)))
            left -= marked[-1][2]
    return task, marked


class _RowReader:
    """Reads the rows of videos, and says how far it is."""

    def __init__(self, service: Service, total: int, on_progress: OnProgress) -> None:
        self._service, self._total, self._on_progress, self._done = service, total, on_progress, 0

    async def read(self, video: KnownVideo, number: int) -> Array:
        """A row for each of the first seconds: features, or pixels of small pictures without an encoder; (N, F)."""
        has_encoder, found = self._service.observer.has_encoder, []
        facts = await self._service.media.facts(video)
        number = min(number, num_seconds(facts))
        size = ROWS_PER_JOB if has_encoder else THUMBNAILS_PER_JOB
        for first in range(0, number, size):
            self._on_progress("seconds", self._done, self._total)
            seconds = tuple(range(first, min(first + size, number)))
            if has_encoder:
                found.append(await self._service.observer.rows(video, facts, seconds))
            else:
                found.append(await self._thumbnails(video, facts.length_s, seconds))
            self._done += len(seconds)
        return np.concatenate(found)

    async def _thumbnails(self, video: KnownVideo, length_s: float, seconds: tuple[int, ...]) -> Array:
        cache, keys = self._service.observer.cache, [_key(video, second) for second in seconds]
        rows = [row for key in keys if (row := cache.get(key)) is not None]
        if len(rows) < len(keys):
            rows = list(await self._service.pool.run(thumbnail_rows, video.path, length_s, seconds))
            for key, row in zip(keys, rows, strict=True):
                cache.put(key, row)
        return np.stack(rows)


def _key(video: KnownVideo, second: int) -> Key:
    return video.content_key, THUMBNAILS, second


async def _read_marked(
    reader: _RowReader, video: KnownVideo, annotation: Annotation, seconds: int
) -> MarkedVideo | None:
    """A video with its steps; None if it cannot be read, since suggestions can do without it."""
    try:
        rows = await reader.read(video, seconds)
    except P3ivError:
        return None
    steps = [MarkedStep(step.step, step.start_s, step.end_s) for step in annotation.steps if step.start_s < len(rows)]
    return MarkedVideo(annotation.task, tuple(steps), rows) if steps else None


def _find_parts(rows: Array, known: Sequence[MarkedVideo]) -> Sequence[Part]:
    return PartFinder(known)(rows) if can_learn(known) else find_parts(rows)


async def _follow(service: Service, video: KnownVideo, number: int, on_progress: OnProgress) -> dict[int, MomentAnswer]:
    """What the planner says is under way in every second; nothing, if it cannot follow videos."""
    if not service.info().can_follow or not service.observer.has_encoder:
        return {}
    moments: dict[int, MomentAnswer] = {}
    async for moment in await service.following.open(FollowRequest(video=video.id, number=1)):
        moments[moment.second] = moment
        on_progress("steps", moment.second, number)
    return moments


def _suggest(part: Part, name: Name, length_s: float) -> SuggestedStep:
    first, end = part
    step, probability = name or (None, None)
    end_s = round(min(float(end), length_s), 2)
    return SuggestedStep(start_s=float(first), end_s=end_s, step=step, probability=probability)


def _most_probable(moments: Sequence[MomentAnswer]) -> Name:
    """The step that is most probable in the mean of some seconds; None if that is no step."""
    total: Counter[str | None] = Counter()
    for moment in moments:
        for item in moment.now:
            total[item.step] += item.probability  # type: ignore[assignment] # a Counter of numbers
    if not total:
        return None
    (step, sum_), *_ = total.most_common(1)
    return (step, sum_ / len(moments)) if step else None
