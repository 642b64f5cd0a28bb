"""How far two annotators of the same videos agree: second by second, and in where steps begin and end."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from p3iv.data.annotations import Annotation, AnnotationStore
from p3iv.errors import DatasetError
from p3iv.types import Step


@dataclass(frozen=True)
class Agreement:
    """Figures of one video or of several together."""

    seconds: int
    same_share: float | None  # of seconds with the same step, or with none; None: there are no seconds
    kappa: float | None  # Cohen's, over seconds; None: both always say the same one thing
    boundary_s: float | None  # mean distance of a boundary to the nearest one of the other; None: one has none


@dataclass(frozen=True)
class AnnotatedPair:
    """The steps that two annotators mark in one video."""

    first: Sequence[Step]
    second: Sequence[Step]
    length_s: float


@dataclass(frozen=True)
class ComparedAnnotators:
    """The agreement of two annotators, for every video that both have annotated and over all of them."""

    videos: dict[str, Agreement]
    overall: Agreement


def compare_annotators(store: AnnotationStore, first: str, second: str, videos: Sequence[str]) -> ComparedAnnotators:
    """Compare two annotators; a video counts from its beginning to the last end of a step of either."""
    ours, theirs = store.read_all(first, videos), store.read_all(second, videos)
    pairs: dict[str, AnnotatedPair] = {}
    for video in videos:
        one, other = _steps(ours[video]), _steps(theirs[video])
        if one and other:
            pairs[video] = AnnotatedPair(one, other, max(step.end_s or 0.0 for step in (*one, *other)))
    single = {video: measure_agreement([pair]) for video, pair in pairs.items()}
    return ComparedAnnotators(single, measure_agreement(list(pairs.values())))


def _steps(found: Annotation | DatasetError) -> tuple[Step, ...]:
    """The steps of a video; none, if they cannot be read."""
    if isinstance(found, DatasetError):
        return ()
    return tuple(Step(step.step, step.start_s, step.end_s) for step in found.steps)


def measure_agreement(pairs: Sequence[AnnotatedPair]) -> Agreement:
    """The agreement over all seconds and all boundaries of some videos."""
    firsts = [label for pair in pairs for label in label_seconds(pair.first, pair.length_s)]
    seconds = [label for pair in pairs for label in label_seconds(pair.second, pair.length_s)]
    distances = [distance for pair in pairs for distance in _boundary_distances(pair)]
    same = sum(one == other for one, other in zip(firsts, seconds, strict=True))
    return Agreement(
        len(firsts),
        same / len(firsts) if firsts else None,
        cohen_kappa(firsts, seconds),
        float(np.mean(distances)) if distances else None,
    )


def label_seconds(steps: Sequence[Step], length_s: float) -> list[str | None]:
    """The step in the middle of every second; of several, the one that began last; None where there is none.

    Example:
        >>> label_seconds([Step("stir", 0.2, 1.6), Step("pour", 1.4, 3.0)], 4.0)
        ['stir', 'pour', 'pour', None]
    """
    labels: list[str | None] = [None] * math.ceil(length_s)
    for step in sorted(steps, key=lambda step: step.start_s or 0.0):
        first, end = math.ceil((step.start_s or 0.0) - 0.5), math.ceil((step.end_s or 0.0) - 0.5)
        for second in range(max(0, first), min(end, len(labels))):
            labels[second] = step.action
    return labels


def cohen_kappa(first: Sequence[object], second: Sequence[object]) -> float | None:
    """Agreement beyond chance: (p_o - p_e) / (1 - p_e), with p_e from how often each uses every label.

    Example:
        >>> cohen_kappa(["a", "a", "b", "b"], ["a", "a", "b", "a"])
        0.5
    """
    number = len(first)
    if not number:
        return None
    observed = sum(one == other for one, other in zip(first, second, strict=True)) / number
    counts, others = Counter(first), Counter(second)
    by_chance = sum(count * others[label] for label, count in counts.items()) / number**2
    return None if by_chance == 1 else (observed - by_chance) / (1 - by_chance)


def _boundary_distances(pair: AnnotatedPair) -> list[float]:
    """From each boundary of one annotator to the nearest of the other, both ways."""
    ours, theirs = _boundaries(pair.first), _boundaries(pair.second)
    if not ours or not theirs:
        return []
    distances = np.abs(np.subtract.outer(ours, theirs))  # (N, M)
    return [*distances.min(axis=1).tolist(), *distances.min(axis=0).tolist()]


def _boundaries(steps: Sequence[Step]) -> list[float]:
    return sorted({time for step in steps for time in (step.start_s, step.end_s) if time is not None})
