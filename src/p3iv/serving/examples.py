"""Pictures of steps: for every step of a plan, the training moment of that step that looks most like the query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from p3iv.config import CurationSettings
from p3iv.data.folder import Dataset
from p3iv.data.observations import ObservationReader
from p3iv.data.windows import choose_split, tasks_of
from p3iv.errors import SplitError
from p3iv.serving.library import Library
from p3iv.serving.schema import VideoMoment
from p3iv.shipped import shipped_planner, shipped_step_picture
from p3iv.types import Array, Step, Video

MAX_EXAMPLES: Final = 8  # of a step, so that memory and time do not grow with the dataset


@dataclass(frozen=True)
class _Example:
    moment: VideoMoment  # the middle of the step
    dataset_video: str
    start_s: float  # where features are always there


class StepExamples:
    """Training moments of every step, with their features.

    Args:
        dataset: that the planner was trained on.
        library: gives the ids of its videos; those without a file have no pictures.
        curation: says which videos the planner was trained on.
        observation: how rows are joined, as in the observations that are compared with.
    """

    def __init__(self, dataset: Dataset, library: Library, curation: CurationSettings, observation: str) -> None:
        self._examples = _collect(_training_videos(dataset, curation), library)
        self._rows: dict[str, Array] = {}
        if dataset.features is not None:
            reader = ObservationReader(dataset, observation)
            for step, examples in self._examples.items():
                self._rows[step] = reader.observe([(each.dataset_video, each.start_s) for each in examples])

    def __bool__(self) -> bool:
        return bool(self._examples)

    def nearest(self, step: str, start: Array, goal: Array | None) -> VideoMoment | None:
        """The moment of a step whose features are nearest to the middle between start and goal, or to the start."""
        examples = self._examples.get(step)
        if not examples:
            return None
        rows, middle = self._rows.get(step), start if goal is None else (start + goal) / 2
        nearest = 0 if rows is None else int(np.square(rows - middle).sum(axis=1).argmin())
        return examples[nearest].moment


def find_step_picture(planner: str | None, index: int) -> Path | None:
    """The picture of a step that comes with a planner of the package."""
    return shipped_step_picture(planner, index) if planner and shipped_planner(planner) else None


def _training_videos(dataset: Dataset, curation: CurationSettings) -> list[Video]:
    """The videos that the planner was trained on; all videos, where that cannot be said by video."""
    try:
        split, _ = choose_split(tasks_of(dataset.videos), curation, release_split=dataset.split)
    except SplitError:
        return list(dataset.videos)
    wanted = set(split.train)
    return [video for video in dataset.videos if video.id in wanted]


def _collect(videos: Iterable[Video], library: Library) -> dict[str, list[_Example]]:
    """Some examples of every step, each of another video as far as possible."""
    found: defaultdict[str, list[_Example]] = defaultdict(list)
    for video in videos:
        video_id = library.id_of(video.id)
        for step in video.steps if video_id and video.is_timed else ():
            if len(found[step.action]) < MAX_EXAMPLES:
                found[step.action].append(_example(video_id or "", video.id, step))
    return dict(found)


def _example(video_id: str, dataset_video: str, step: Step) -> _Example:
    start_s, end_s = step.start_s or 0.0, step.end_s or 0.0
    return _Example(VideoMoment(video=video_id, t=(start_s + end_s) / 2), dataset_video, start_s)
