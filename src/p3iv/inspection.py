"""Looking into a dataset folder: is it sound, and what is in it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from p3iv.annotations import read_folder
from p3iv.curation import CurationSettings, choose_split, curate, cut_windows
from p3iv.dataset import Dataset, open_dataset
from p3iv.errors import P3ivError
from p3iv.types import SIDES, Window, listed

HORIZONS = (3, 4, 5, 6)


@dataclass(frozen=True)
class Finding:
    """Something that `p3iv data check` saw; errors make it fail, warnings do not."""

    severity: str  # error | warning
    message: str


@dataclass(frozen=True)
class HorizonStats:
    """The windows of one horizon."""

    windows: int
    by_side: dict[str, int]
    repeated_action_share: float  # of the windows, those in which some action occurs twice
    plans_per_pair: float  # unique plans that share first and last action: mean over distinct pairs
    plans_per_window: float  # the same, mean over windows


@dataclass(frozen=True)
class DatasetStats:
    """What is in a dataset."""

    name: str
    label: str
    videos: int
    tasks: int
    actions: int
    actions_seen: int
    steps: int
    steps_per_video: dict[str, float]  # mean, min, max
    repeated_next_share: float  # of the steps that follow another, those that repeat it
    split: str
    videos_by_side: dict[str, int]
    features: dict[str, object] | None
    windows: dict[int, int]  # per horizon
    horizons: dict[int, HorizonStats]
    notes: tuple[str, ...]


def check_dataset(folder: Path) -> list[Finding]:
    """Validate a dataset folder completely; an empty list means that all of it is sound."""
    try:
        problems = read_folder(folder).problems
        if problems:
            return [Finding("error", str(problem)) for problem in problems]
        dataset = open_dataset(folder)
    except P3ivError as error:
        return [Finding("error", str(error))]
    checks = (_check_split, _check_features, _check_language, _check_truth, _check_videos)
    return [finding for check in checks for finding in _guarded(check(dataset))]


def describe_dataset(
    dataset: Dataset, settings: CurationSettings, *, horizons: Sequence[int] = HORIZONS
) -> DatasetStats:
    """Count what is there, per horizon and side of the split that the settings ask for."""
    steps = [len(video.steps) for video in dataset.videos]
    seen = {step.action for video in dataset.videos for step in video.steps}
    by_horizon: dict[int, HorizonStats] = {}
    notes: dict[str, None] = {}  # in order, each once
    for horizon in horizons:
        by_horizon[horizon], more = _describe_horizon(dataset, replace(settings, horizon=horizon))
        notes.update(dict.fromkeys(f"T={horizon}: {note}" for note in more))
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
        split=settings.split,
        videos_by_side=_videos_by_side(dataset, settings),
        features=_describe_features(dataset),
        windows={horizon: stats.windows for horizon, stats in by_horizon.items()},
        horizons=by_horizon,
        notes=tuple(notes),
    )


def _guarded(findings: Iterator[Finding]) -> Iterator[Finding]:
    try:
        yield from findings
    except P3ivError as error:
        yield Finding("error", str(error))


def _check_split(dataset: Dataset) -> Iterator[Finding]:
    ids = [video.id for video in dataset.videos]
    if dataset.split is None:
        return
    _, notes = choose_split(ids, CurationSettings(split="release"), release_split=dataset.split)
    yield from (Finding("warning", note) for note in notes)


def _check_features(dataset: Dataset) -> Iterator[Finding]:
    store = dataset.features
    if store is None:
        yield Finding("warning", "no features: nothing can be trained on them (p3iv data simulate makes stand-ins)")
        return
    store.verify()
    expected = dataset.card.feature_fingerprint
    if expected is not None and expected != store.fingerprint:
        found = f"the store has {store.fingerprint[:12]}: one of the two was replaced"
        yield Finding("error", f"dataset.yaml speaks of features with fingerprint {expected[:12]}, {found}")
    if missing := [video.id for video in dataset.videos if video.id not in store]:
        yield Finding("warning", f"{len(missing)} videos have no features: {listed(missing)}")
    short = [
        video.id
        for video in dataset.videos
        if video.id in store
        and (video.steps[-1].end_s or 0.0) > (store.num_rows(video.id) + 1) / dataset.card.features_per_second
    ]
    if short:
        yield Finding("warning", f"features of {len(short)} videos end before their last step does: {listed(short)}")


def _check_language(dataset: Dataset) -> Iterator[Finding]:
    if dataset.language is None:
        yield Finding("warning", "no language.npz: the language loss needs one (p3iv data import ... --language FILE)")
    if untimed := [video.id for video in dataset.videos if not video.is_timed]:
        yield Finding("warning", f"{len(untimed)} videos have no times, so no observations: {listed(untimed)}")


def _check_truth(dataset: Dataset) -> Iterator[Finding]:
    seen: Counter[tuple[str, int, int]] = Counter()
    for line in dataset.read_truth():
        seen[line.video, line.first_step, line.horizon] += 1
    if twice := [f"{video} step {first} T={horizon}" for (video, first, horizon), n in seen.items() if n > 1]:
        yield Finding("error", f"truth.jsonl gives {len(twice)} windows twice: {listed(twice)}")


def _check_videos(dataset: Dataset) -> Iterator[Finding]:
    if not (dataset.folder / "videos").is_dir():
        return
    at_hand = {path.stem: path for path in (dataset.folder / "videos").iterdir()}
    if missing := [video.id for video in dataset.videos if video.id not in at_hand]:
        yield Finding("warning", f"videos/ lacks {len(missing)} videos: {listed(missing)}")
    if empty := sorted(name for name, path in at_hand.items() if not path.exists() or path.stat().st_size == 0):
        yield Finding("error", f"videos/ holds {len(empty)} empty files or broken links: {listed(empty)}")


def _describe_horizon(dataset: Dataset, settings: CurationSettings) -> tuple[HorizonStats, tuple[str, ...]]:
    windows = cut_windows(dataset.videos, dataset.vocabulary, settings)
    sets = curate(dataset.videos, dataset.vocabulary, settings, release_split=dataset.split)
    plans_of = _plans_by_pair(windows)
    stats = HorizonStats(
        windows=len(windows),
        by_side={side: len(sets.side(side)) for side in SIDES},
        repeated_action_share=_mean([len(set(w.action_ids)) < len(w.action_ids) for w in windows]),
        plans_per_pair=_mean([len(plans) for plans in plans_of.values()]),
        plans_per_window=_mean([len(plans_of[w.action_ids[0], w.action_ids[-1]]) for w in windows]),
    )
    return stats, sets.notes


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


def _videos_by_side(dataset: Dataset, settings: CurationSettings) -> dict[str, int]:
    if settings.split == "window":
        return {}
    split, _ = choose_split([video.id for video in dataset.videos], settings, release_split=dataset.split)
    return {side: len(split.side(side)) for side in SIDES}


def _describe_features(dataset: Dataset) -> dict[str, object] | None:
    store = dataset.features
    if store is None:
        return None
    return {
        "encoder": dataset.card.encoder,
        "simulated": dataset.card.simulated,
        "videos": len(store.videos),
        "rows": sum(store.num_rows(video) for video in store.videos),
        "width": store.width,
        "dtype": str(store.dtype),
        "fingerprint": store.fingerprint,
    }


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0
