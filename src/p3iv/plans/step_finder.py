"""Steps of a video, found and named by what is known of a few videos whose steps are marked.

Ridge regression says of every second whether a step is under way and whether one begins. A part from i to j then scores

    sum of logit p(step) from i to j  +  logit p(begins at i) - logit of its mean  +  log prior of its duration

and dynamic programming finds the best parts; seconds between them are pauses. The names of the parts are a chain:
regression on how each part looks and what it changes, and the transitions of the marked videos.

The settings were chosen on tabletop videos of seeds 11 and 12, also without their pauses and with steps of 3 to 20
seconds; docs/reference/service.md has figures of other seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from p3iv.plans.chain import Chain
from p3iv.types import Array

MIN_STEPS: Final = 5  # that must be known
MIN_PROBABILITY: Final = 0.7  # of a name
SECONDS_AFTER: Final = 2  # the last step: whoever marks a video may not have looked at the rest
_RIDGE = 1.0  # times the mean squared length of a row
_COST = 0.7  # of a part, in nats, so that weak beginnings are none
_MIN_SPREAD = 0.3  # of the logarithm of durations
_TEMPERATURE = 0.05  # of the scores of names
_SMOOTHING = 0.3  # of the transitions, in counts


@dataclass(frozen=True)
class MarkedStep:
    """A step that is marked."""

    step: str
    start_s: float
    end_s: float


@dataclass(frozen=True, eq=False)
class MarkedVideo:
    """A video whose steps are marked, at least those before the end of the last one."""

    task: str
    steps: tuple[MarkedStep, ...]  # in the order of time, at least one
    rows: Array  # (N, F), of every second

    @property
    def seen(self) -> Array:
        """The rows up to soon after the last step: (n, F)."""
        return self.rows[: int(np.ceil(max(step.end_s for step in self.steps))) + SECONDS_AFTER]


Part = tuple[int, int]  # the first second of a step, and its end
Name = tuple[str, float] | None  # of a part, and how probable it is; None: no name is probable enough


def can_learn(videos: Sequence[MarkedVideo]) -> bool:
    """Whether enough steps are known."""
    return sum(len(video.steps) for video in videos) >= MIN_STEPS


class PartFinder:
    """Finds the steps of videos that look like the known ones.

    Args:
        videos: at least `MIN_STEPS` steps; all rows of one encoder.
    """

    def __init__(self, videos: Sequence[MarkedVideo]) -> None:
        targets = np.concatenate([_targets(video) for video in videos])
        self._mean = targets.mean(axis=0).clip(0.02, 0.98)
        self._regression = _Ridge(np.concatenate([_surroundings(video.seen) for video in videos]), targets)
        logs = np.log([max(1.0, step.end_s - step.start_s) for video in videos for step in video.steps])
        middle, spread = float(logs.mean()), max(_MIN_SPREAD, float(logs.std()))
        lengths = np.arange(1, int(np.exp(middle + 2.5 * spread)) + 3)
        self._log_duration = -0.5 * np.square((np.log(lengths) - middle) / spread) - _COST  # of 1, 2, ... seconds

    def __call__(self, rows: Array) -> list[Part]:
        """The best parts of a video (N, F), in the order of time."""
        found = self._regression(_surroundings(rows)).clip(0.02, 0.98)
        steps = np.concatenate([[0.0], _logit(found[:, 0]).cumsum()])
        begins = _logit(found[:, 1]) - _logit(self._mean)[1]
        best, first = np.zeros(len(rows) + 1), np.full(len(rows) + 1, -1)  # -1: a pause ends there
        for end in range(1, len(rows) + 1):
            start = np.arange(max(0, end - len(self._log_duration)), end)
            scores = best[start] + steps[end] - steps[start] + begins[start] + self._log_duration[end - start - 1]
            is_step = scores.max() > best[end - 1]
            best[end] = scores.max() if is_step else best[end - 1]
            first[end] = start[scores.argmax()] if is_step else -1
        parts, end = [], len(rows)
        while end > 0:
            if first[end] >= 0:
                parts.append((int(first[end]), end))
            end = int(first[end]) if first[end] >= 0 else end - 1
        return parts[::-1]


def videos_like(videos: Sequence[MarkedVideo], task: str) -> list[MarkedVideo]:
    """The videos of a procedure; without a name all, unless they are of several procedures."""
    if not task and len({video.task for video in videos}) == 1:
        return list(videos)
    return [video for video in videos if task and video.task == task]


class PartNamer:
    """Names parts as the steps of marked videos that they resemble, in an order that these have.

    Args:
        videos: of the same procedure, at least one; all rows of one encoder.
    """

    def __init__(self, videos: Sequence[MarkedVideo]) -> None:
        known = [(video, step) for video in videos for step in video.steps]
        self._names = sorted({step.step for _, step in known})
        one_hot = dict(zip(self._names, np.eye(len(self._names)), strict=True))
        looks = np.stack([_look(video.rows, round(step.start_s), round(step.end_s)) for video, step in known])
        self._regression = _Ridge(looks, np.stack([one_hot[step.step] for _, step in known]), scaled=True)
        usage = _SMOOTHING * np.mean([one_hot[step.step] for _, step in known], axis=0)
        first, transitions = usage.copy(), np.tile(usage, (len(usage), 1))
        for video in videos:
            first += one_hot[video.steps[0].step]
            for one, following in pairwise(video.steps):
                transitions += np.outer(one_hot[one.step], one_hot[following.step])
        self._log_first = np.log(first / first.sum())
        self._log_transitions = np.log(transitions / transitions.sum(axis=1, keepdims=True))

    def __call__(self, rows: Array, parts: Sequence[Part]) -> list[Name]:
        """The name of every part of a video (N, F) and its probability."""
        if not parts:
            return []
        scores = self._regression(np.stack([_look(rows, *part) for part in parts])) / _TEMPERATURE
        scores[0] += self._log_first
        chain = Chain(scores[None], self._log_transitions)
        best, probabilities = chain.best_paths()[0][0], chain.marginals()[0]
        found = [(self._names[action], float(row[action])) for action, row in zip(best, probabilities, strict=True)]
        return [name if name[1] >= MIN_PROBABILITY else None for name in found]


class _Ridge:
    """Ridge regression by the products of rows, of which there are fewer than columns."""

    def __init__(self, rows: Array, targets: Array, *, scaled: bool = False) -> None:
        self._center, self._scaled, self._mean = rows.mean(axis=0), scaled, targets.mean(axis=0)
        self._rows = self._inputs(rows)
        products = self._rows @ self._rows.T
        penalty = max(_RIDGE * float(np.trace(products)) / len(rows), 1e-9)
        self._weights = np.linalg.solve(products + penalty * np.eye(len(rows)), targets - self._mean)

    def __call__(self, rows: Array) -> Array:
        predicted: Array = self._inputs(rows) @ self._rows.T @ self._weights + self._mean
        return predicted

    def _inputs(self, rows: Array) -> Array:
        centred = rows - self._center
        return _unit(centred) if self._scaled else centred


def _targets(video: MarkedVideo) -> Array:
    """How much of every second belongs to a step, and whether one begins there: (n, 2)."""
    number = len(video.seen)
    targets, second = np.zeros((number, 2)), np.arange(number)
    for step in video.steps:
        targets[:, 0] += (np.minimum(step.end_s, second + 1) - np.maximum(step.start_s, second)).clip(0)
        targets[min(number - 1, round(step.start_s)), 1] = 1
    return targets.clip(0, 1)


def _surroundings(rows: Array) -> Array:
    """Every second, and how it differs from its neighbours: (N, 3F)."""
    rows = np.asarray(rows, np.float64)
    change = np.abs(np.diff(rows, axis=0, prepend=rows[:1], append=rows[-1:]))
    return np.concatenate([_unit(rows), _unit(change[1:]), _unit(change[:-1])], axis=1)


def _look(rows: Array, first: int, end: int) -> Array:
    """The mean of a part, and what is different after it: (2F,)."""
    first = min(first, len(rows) - 1)
    end = min(max(end, first + 1), len(rows))
    change = rows[min(end, len(rows) - 1)] - rows[max(first - 1, 0)]
    return np.concatenate(_unit(np.stack([rows[first:end].mean(axis=0), change]).astype(np.float64)))


def _unit(rows: Array) -> Array:
    scaled: Array = rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-9)
    return scaled


def _logit(probability: Array) -> Array:
    logits: Array = np.log(probability / (1 - probability))
    return logits
