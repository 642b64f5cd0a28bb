"""Training moments of every step, to show what a step of a plan looks like."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from p3iv.config import CurationSettings
from p3iv.data.folder import Dataset, require_features
from p3iv.data.observations import ObservationReader
from p3iv.data.windows import choose_split, tasks_of
from p3iv.errors import SplitError
from p3iv.types import Array, Video

MAX_EXAMPLES: Final = 8  # of a step, so that memory and time do not grow with the dataset


@dataclass(frozen=True)
class TrainingMoment:
    """A step in a training video."""

    video: str
    start_s: float  # where features are always there
    middle_s: float  # what a picture of the step shows


class TrainingMoments:
    """Some moments of every step in the videos that a planner was trained on, with their features.

    Args:
        dataset: with features.
        curation: says which videos the planner was trained on.
        observation: how rows are joined, as in the observations that are compared with.
    """

    def __init__(self, dataset: Dataset, curation: CurationSettings, observation: str) -> None:
        reader, store = ObservationReader(dataset, observation), require_features(dataset)
        self._moments = _collect(video for video in _training_videos(dataset, curation) if video.id in store)
        self._rows = {
            step: reader.observe([(each.video, each.start_s) for each in found])
            for step, found in self._moments.items()
        }

    def nearest(self, step: str, observation: Array) -> tuple[TrainingMoment, float] | None:
        """The moment of a step that looks most like an observation (F,), and the distance; None without any."""
        found = self._moments.get(step)
        if not found:
            return None
        distances = np.linalg.norm(self._rows[step] - observation, axis=1)
        number = int(distances.argmin())
        return found[number], float(distances[number])


def _training_videos(dataset: Dataset, curation: CurationSettings) -> list[Video]:
    """The videos that the planner was trained on; all videos, where that cannot be said by video."""
    try:
        split, _ = choose_split(tasks_of(dataset.videos), curation, release_split=dataset.split)
    except SplitError:
        return list(dataset.videos)
    wanted = set(split.train)
    return [video for video in dataset.videos if video.id in wanted]


def _collect(videos: Iterable[Video]) -> dict[str, list[TrainingMoment]]:
    """Some moments of every step, those of the first videos."""
    found: defaultdict[str, list[TrainingMoment]] = defaultdict(list)
    for video in videos:
        for step in video.steps if video.is_timed else ():
            if len(found[step.action]) < MAX_EXAMPLES:
                start_s, end_s = step.start_s or 0.0, step.end_s or 0.0
                found[step.action].append(TrainingMoment(video.id, start_s, (start_s + end_s) / 2))
    return dict(found)
