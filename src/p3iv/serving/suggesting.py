"""Suggested steps: parts of a video between visual changes, named by the planner where it can follow videos."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import numpy as np

from p3iv.features.change_points import find_parts
from p3iv.serving.annotate_schema import SuggestedStep, SuggestionsAnswer
from p3iv.serving.events import OnProgress
from p3iv.serving.jobs import VideoFacts, thumbnail_rows
from p3iv.serving.library import KnownVideo
from p3iv.serving.observations import ROWS_PER_JOB, num_seconds
from p3iv.serving.schema import FollowRequest, MomentAnswer
from p3iv.serving.service import Service
from p3iv.types import Array

THUMBNAILS_PER_JOB = 60


async def suggest_steps(service: Service, video: KnownVideo, on_progress: OnProgress) -> SuggestionsAnswer:
    """Cut a video into parts and name them.

    Raises:
        P3ivError: the video cannot be read.
    """
    facts = await service.media.facts(video)
    has_encoder = service.observer.has_encoder
    rows = await _read_rows(service, video, facts, on_progress)
    parts = await asyncio.to_thread(find_parts, rows)
    moments = await _follow(service, video, len(rows), on_progress)
    return SuggestionsAnswer(
        suggestions=tuple(_name(first, end, facts.length_s, moments) for first, end in parts),
        source="features" if has_encoder else "thumbnails",
    )


async def _read_rows(service: Service, video: KnownVideo, facts: VideoFacts, on_progress: OnProgress) -> Array:
    """A row for every second: features, or the pixels of small pictures where there is no encoder; (N, F)."""
    number, has_encoder, found = num_seconds(facts), service.observer.has_encoder, []
    size = ROWS_PER_JOB if has_encoder else THUMBNAILS_PER_JOB
    for first in range(0, number, size):
        on_progress("seconds", first, number)
        seconds = tuple(range(first, min(first + size, number)))
        if has_encoder:
            found.append(await service.observer.rows(video, facts, seconds))
        else:
            found.append(await service.pool.run(thumbnail_rows, video.path, facts.length_s, seconds))
    return np.concatenate(found)


async def _follow(service: Service, video: KnownVideo, number: int, on_progress: OnProgress) -> dict[int, MomentAnswer]:
    """What the planner says is under way in every second; nothing, if it cannot follow videos."""
    if not service.info().can_follow or not service.observer.has_encoder:
        return {}
    moments: dict[int, MomentAnswer] = {}
    async for moment in await service.following.open(FollowRequest(video=video.id, number=1)):
        moments[moment.second] = moment
        on_progress("steps", moment.second, number)
    return moments


def _name(first: int, end: int, length_s: float, moments: dict[int, MomentAnswer]) -> SuggestedStep:
    """A part of a video with the step that is most probable in the mean of its seconds."""
    seen = [moments[second] for second in range(first, end) if second in moments]
    step, probability = _most_probable(seen)
    end_s = round(min(float(end), length_s), 2)
    return SuggestedStep(start_s=float(first), end_s=end_s, step=step, probability=probability if step else None)


def _most_probable(moments: Sequence[MomentAnswer]) -> tuple[str | None, float]:
    total: Counter[str | None] = Counter()
    for moment in moments:
        for item in moment.now:
            total[item.step] += item.probability  # type: ignore[assignment] # a Counter of numbers
    if not total:
        return None, 0.0
    (step, sum_), *_ = total.most_common(1)
    return step, sum_ / len(moments)
