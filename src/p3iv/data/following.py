"""Read the seconds of videos with the step that is under way in each, and how long steps take."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch

from p3iv.data.folder import Dataset, require_features
from p3iv.data.observations import ObservationReader
from p3iv.data.seconds import FollowData, FollowedVideo, Seconds, StepTiming, TimedStep
from p3iv.data.tensors import PlanningData
from p3iv.types import Array, Video, Vocabulary

SECONDS_PER_STEP = 6  # of a training step, at equal distances
SECONDS_WITHOUT_STEP = 12  # of a training video
MAX_TRAIN_BYTES = 96 << 20  # of the observations of training seconds; of larger datasets, fewer seconds are read
MAX_VAL_SECONDS = 3000  # of all validation videos that are followed
_PRIOR_STEPS = 2.0  # steps of mean duration that are added to those of every action
_MIN_PAUSE_S = 1.0  # shorter ones are none


class SecondReader:
    """Reads the seconds of a dataset's videos."""

    def __init__(self, dataset: Dataset, vocabulary: Vocabulary, num_actions: int, observation: str) -> None:
        self._store, self._reader = require_features(dataset), ObservationReader(dataset, observation)
        self._per_second, self.num_actions = dataset.card.features_per_second, num_actions
        self._width = self._store.width * (3 if observation == "concat" else 1)
        self._id_of = vocabulary.id_of
        self._videos = {video.id: video for video in dataset.videos}

    def open(self, video_id: str) -> FollowedVideo | None:
        """A video, if it has features and times of its steps; steps that the planner does not know are left out."""
        video = self._videos.get(video_id)
        if video is None or not video.is_timed or not video.steps or video_id not in self._store:
            return None
        num_seconds = max(1, math.floor(self._store.num_rows(video_id) / self._per_second))
        return FollowedVideo(video_id, self._timed(video), num_seconds, self._seen(video_id, num_seconds))

    def read(self, video: FollowedVideo, moments: Array, group: int = 0) -> Seconds:
        """The observations at some seconds of a video."""
        places = [(video.id, float(second)) for second in moments.tolist()]
        history, is_there = self._reader.observe_before(places)
        return Seconds(
            torch.from_numpy(self._reader.observe(places)),
            torch.from_numpy(history),
            torch.from_numpy(is_there),
            torch.from_numpy(self.labels(video)[moments]),
            torch.full((len(moments),), group),
        )

    def labels(self, video: FollowedVideo) -> Array:
        """The step under way in every second; A: none. Of two steps at once, the one that began later."""
        found = np.full(video.num_seconds, self.num_actions)
        for step in video.steps:
            first = int(step.start_s)
            found[first : max(first + 1, math.ceil(step.end_s))] = step.action
        return found

    @property
    def max_seconds(self) -> int:
        """How many training seconds are read."""
        return MAX_TRAIN_BYTES // (4 * self._width)

    def _timed(self, video: Video) -> tuple[TimedStep, ...]:
        steps = ((self._id_of[step.action], step.start_s, step.end_s) for step in video.steps)
        known = (step for step in steps if step[0] < self.num_actions)
        return tuple(TimedStep(action, start or 0.0, end or 0.0) for action, start, end in known)

    def _seen(self, video_id: str, num_seconds: int) -> Array:
        """The seconds whose rows are all in the store."""
        return np.array([second for second in range(num_seconds) if self._reader.is_seen(video_id, second)], np.int64)


def load_follow_data(dataset: Dataset, data: PlanningData, observation: str) -> FollowData | None:
    """Read seconds of training and validation videos; None if the videos of a side have no times of their steps.

    A split without validation videos has none to follow.
    """
    reader = SecondReader(dataset, data.vocabulary, len(data.names), observation)
    videos = [video for one in data.train_sequence_videos if (video := reader.open(one))]
    val = dict.fromkeys(window.video for window in data.val.windows)
    followed = list(_read_val(reader, [video for one in val if (video := reader.open(one))]))
    seconds = _read_train(reader, videos) if videos and (followed or not val) else None
    if seconds is None:
        return None
    return FollowData(seconds, measure_timing([video.steps for video in videos], reader.num_actions), tuple(followed))


def measure_timing(videos: Sequence[Sequence[TimedStep]], num_actions: int) -> StepTiming:
    """Durations, pauses, first steps and repetitions in training videos, smoothed."""
    durations, counts, first, again, ended = (np.zeros(num_actions) for _ in range(5))
    pauses: list[float] = []
    for steps in videos:
        ids = [step.action for step in steps]
        first[ids[0]] += 1.0
        for number, step in enumerate(steps):
            durations[step.action] += max(1.0, step.end_s - step.start_s)
            counts[step.action] += 1
            ended[step.action] += 1
            again[step.action] += step.action in ids[number + 1 :]
        pauses += [max(0.0, later.start_s - earlier.end_s) for earlier, later in pairwise(steps)]
    mean, rate = durations.sum() / counts.sum(), again.sum() / ended.sum()
    lengths = (durations + _PRIOR_STEPS * mean) / (counts + _PRIOR_STEPS)
    long = [pause for pause in pauses if pause >= _MIN_PAUSE_S]
    pause_s = max(1.5, float(np.mean(long))) if long else 1.5
    started = first + counts / len(videos) * 0.5 + 1e-3  # a video may begin in the middle
    return StepTiming(
        first=started / started.sum(),
        goes_on=1 - 1 / np.append(np.maximum(lengths, 1.5), pause_s),
        repeats=(again + _PRIOR_STEPS * rate) / (ended + _PRIOR_STEPS),
        pause_share=(len(long) + 1) / (len(pauses) + 2),
    )


def _read_train(reader: SecondReader, videos: Sequence[FollowedVideo]) -> Seconds | None:
    """Some seconds of every training step, and some without a step; of large datasets, of some videos only."""
    parts, left = [], reader.max_seconds
    for group, video in enumerate(videos):
        moments = _choose_seconds(reader, video)[:left]
        if len(moments):
            parts.append(reader.read(video, moments, group))
            left -= len(moments)
    return _join(parts) if parts else None


def _choose_seconds(reader: SecondReader, video: FollowedVideo) -> Array:
    labels, chosen = reader.labels(video)[video.moments], []
    for action in np.unique(labels).tolist():
        number = SECONDS_WITHOUT_STEP if action == reader.num_actions else SECONDS_PER_STEP
        chosen.append(_spread(video.moments[labels == action], number))
    return np.sort(np.concatenate(chosen)) if chosen else np.empty(0, dtype=np.int64)


def _spread(moments: Array, number: int) -> Array:
    """At most so many of the moments, at equal distances."""
    return moments[np.linspace(0, len(moments) - 1, min(number, len(moments))).astype(np.int64)]


def _read_val(reader: SecondReader, videos: Sequence[FollowedVideo]) -> Iterator[tuple[FollowedVideo, Seconds]]:
    """The seconds of validation videos, whole videos as long as there is room; of the first one, at least a part."""
    left = min(MAX_VAL_SECONDS, reader.max_seconds)
    for video in videos:
        moments = video.moments[:left]
        if len(moments):
            yield video, reader.read(video, moments)
        left -= len(moments)


def _join(parts: Sequence[Seconds]) -> Seconds:
    names = ("start", "history", "has_history", "action_ids", "groups")
    return Seconds(*(torch.cat([getattr(part, name) for part in parts]) for name in names))
