"""Statistics of a dataset: videos, steps, and the windows of every horizon."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from p3iv.config import CurationSettings
from p3iv.data.folder import Dataset
from p3iv.data.windows import TooFewVideosError, choose_split, curate_windows, cut_windows, tasks_of
from p3iv.types import SIDES, Video, Window, counted, listed

HORIZONS = (3, 4, 5, 6)


@dataclass(frozen=True)
class HorizonStats:
    """The windows of one horizon."""

    num_actions: int  # predicted per window: T, or T - 1 under protocol 2
    windows: int
    by_side: dict[str, int]  # empty if there are too few videos for a split
    repeated_action_share: float  # share of windows in which an action occurs twice
    plans_per_pair: float  # different plans with the same first and last action: mean over such pairs
    plans_per_window: float  # the same, mean over windows


@dataclass(frozen=True)
class DatasetStats:
    """The statistics of a dataset."""

    name: str
    label: str
    videos: int
    tasks: int
    actions: int
    actions_seen: int
    steps: int
    steps_per_video: dict[str, float]  # mean, min, max
    repeated_next_share: float  # share of steps, except first ones, that repeat the step before
    untimed: dict[int, int]  # number of videos without times, by their number of steps; each gives one window
    split: str
    videos_by_side: dict[str, int]  # empty for a split by window
    features: dict[str, Any] | None
    windows: dict[int, int]  # per horizon
    horizons: dict[int, HorizonStats]
    notes: tuple[str, ...]


def describe_dataset(
    dataset: Dataset, settings: CurationSettings, *, horizons: Sequence[int] = HORIZONS
) -> DatasetStats:
    """Count videos, steps and windows, per horizon and side of the chosen split.

    Where a dataset has features, windows and the videos of the sides are those with features: the others are not used.
    """
    steps = [len(video.steps) for video in dataset.videos]
    seen = {step.action for video in dataset.videos for step in video.steps}
    by_horizon: dict[int, HorizonStats] = {}
    videos_by_side, notes = _videos_by_side(dataset, settings)
    for horizon in horizons:
        by_horizon[horizon], more = _describe_horizon(dataset, replace(settings, horizon=horizon))
        notes += [f"T={horizon}: {note}" for note in more]
    return DatasetStats(
        name=dataset.card.name,
        label=dataset.card.label,
        videos=len(dataset.videos),
        tasks=len({video.task for video in dataset.videos}),
        actions=len(dataset.vocabulary),
        actions_seen=len(seen),
        steps=sum(steps),
        steps_per_video={"mean": fmean(steps), "min": min(steps), "max": max(steps)},
        repeated_next_share=_repeated_next_share(dataset),
        untimed=dict(sorted(Counter(len(video.steps) for video in dataset.videos if not video.is_timed).items())),
        split=settings.split,
        videos_by_side=videos_by_side,
        features=_describe_features(dataset),
        windows={horizon: stats.windows for horizon, stats in by_horizon.items()},
        horizons=by_horizon,
        notes=tuple(dict.fromkeys(notes)),
    )


def _describe_horizon(dataset: Dataset, settings: CurationSettings) -> tuple[HorizonStats, list[str]]:
    windows = cut_windows(_usable_videos(dataset), dataset.vocabulary, settings)
    by_side, notes = _count_by_side(dataset, settings)
    plans_of = _plans_by_pair(windows)
    stats = HorizonStats(
        num_actions=settings.num_actions,
        windows=len(windows),
        by_side=by_side,
        repeated_action_share=_mean([len(set(w.action_ids)) < len(w.action_ids) for w in windows]),
        plans_per_pair=_mean([len(plans) for plans in plans_of.values()]),
        plans_per_window=_mean([len(plans_of[w.action_ids[0], w.action_ids[-1]]) for w in windows]),
    )
    if not windows:
        longest = max(len(video.steps) for video in dataset.videos)
        notes.append(f"no window: the longest video has {counted(longest, 'step')}")
    return stats, notes


def _count_by_side(dataset: Dataset, settings: CurationSettings) -> tuple[dict[str, int], list[str]]:
    """The number of windows per side; empty if the dataset is too small to be split."""
    try:
        sets = curate_windows(dataset.videos, dataset.vocabulary, settings, release_split=dataset.split)
    except TooFewVideosError:
        return {}, []  # _videos_by_side notes it once for all horizons
    usable = {video.id for video in _usable_videos(dataset)}
    return {side: sum(w.video in usable for w in sets.side(side)) for side in SIDES}, list(sets.notes)


def _usable_videos(dataset: Dataset) -> tuple[Video, ...]:
    store = dataset.features
    return dataset.videos if store is None else tuple(video for video in dataset.videos if video.id in store)


def _plans_by_pair(windows: Sequence[Window]) -> dict[tuple[int, int], set[tuple[int, ...]]]:
    plans_of: dict[tuple[int, int], set[tuple[int, ...]]] = defaultdict(set)
    for window in windows:
        plans_of[window.action_ids[0], window.action_ids[-1]].add(window.action_ids)
    return plans_of


def _repeated_next_share(dataset: Dataset) -> float:
    pairs = [
        (a.action, b.action) for video in dataset.videos for a, b in zip(video.steps, video.steps[1:], strict=False)
    ]
    return _mean([a == b for a, b in pairs])


def _videos_by_side(dataset: Dataset, settings: CurationSettings) -> tuple[dict[str, int], list[str]]:
    if settings.split == "window":
        return {}, []
    try:
        split, _ = choose_split(tasks_of(dataset.videos), settings, release_split=dataset.split)
    except TooFewVideosError as error:
        return {}, [f"not split: {error}"]
    usable = {video.id for video in _usable_videos(dataset)}
    lost = sorted(video.id for video in dataset.videos if video.id not in usable)
    notes = [f"{counted(len(lost), 'video')} without features, so not used: {listed(lost)}"] if lost else []
    return {side: sum(video in usable for video in split.side(side)) for side in SIDES}, notes


def _describe_features(dataset: Dataset) -> dict[str, Any] | None:
    store = dataset.features
    if store is None:
        return None
    return {
        "encoder": str(dataset.card.encoder) if dataset.card.encoder else None,
        "simulated": dataset.card.simulated,
        "videos": len(store.videos),
        "rows": sum(len(store.packed_rows(video)) for video in store.videos),
        "width": store.width,
        "dtype": str(store.dtype),
        "fingerprint": store.fingerprint,
    }


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0
