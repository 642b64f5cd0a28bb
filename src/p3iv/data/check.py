"""Check a dataset folder; every part is checked, even if others have errors."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

from p3iv.config import CurationSettings
from p3iv.data.folder import (
    VIDEO_SUFFIXES,
    Dataset,
    DatasetCard,
    advise_embedding,
    extend_vocabulary,
    open_unfinished,
    read_card,
    refuse_leftover,
    unknown_keys,
)
from p3iv.data.windows import MIN_VIDEOS, choose_split
from p3iv.environment import install_command
from p3iv.errors import P3ivError
from p3iv.features.language import read_language
from p3iv.readers.folder import read_folder, read_split, read_video_column
from p3iv.types import Video, Vocabulary, counted, listed
from p3iv.validation import make_plain


@dataclass(frozen=True)
class Finding:
    """Something that `p3iv data check` found; errors make it fail, warnings do not."""

    severity: str  # error | warning
    message: str


def guarded(findings: Iterator[Finding]) -> Iterator[Finding]:
    """The findings of a check; an error that stops it becomes its last finding, and the other checks still run."""
    try:
        yield from findings
    except (P3ivError, OSError) as error:
        yield Finding("error", str(error))


def check_videos(folder: Path, videos: Sequence[Video]) -> Iterator[Finding]:
    """Check for missing, unknown, empty, unreadable and truncated files; nothing if there is no videos/."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        yield Finding("error", "videos is a file or a broken link; it must be a folder of video files")
        return
    entries = sorted(folder.iterdir())
    files = [path for path in entries if path.is_file() and path.suffix.lower() in VIDEO_SUFFIXES]
    yield from _check_names(entries, files, videos)
    yield from _check_contents(files)


def _check_names(entries: list[Path], files: list[Path], videos: Sequence[Video]) -> Iterator[Finding]:
    if broken := [path.name for path in entries if not path.is_file()]:
        yield Finding("error", f"videos/ has folders or broken links: {listed(broken)}")
    if others := [path.name for path in entries if path.is_file() and path.suffix.lower() not in VIDEO_SUFFIXES]:
        what = f"videos/ has {counted(len(others), 'file')} with an ending other than {', '.join(VIDEO_SUFFIXES)}"
        yield Finding("warning", f"{what}: {listed(others)}")
    known, at_hand = {video.id for video in videos}, {path.stem for path in files}
    if missing := [video.id for video in videos if video.id not in at_hand]:
        yield Finding("warning", f"{counted(len(missing), 'video')} not in videos/: {listed(missing)}")
    if unknown := [path.name for path in files if known and path.stem not in known]:
        yield Finding("warning", f"videos/ has {counted(len(unknown), 'file')} of no video: {listed(unknown)}")


def _check_contents(files: list[Path]) -> Iterator[Finding]:
    if empty := [path.name for path in files if path.stat().st_size == 0]:
        yield Finding("error", f"videos/ has {counted(len(empty), 'empty file')}: {listed(empty)}")
    if find_spec("av") is None:
        yield Finding("warning", f"the files in videos/ were not opened: PyAV is missing ({install_command('video')})")
        return
    from p3iv.features.video_file import find_fault  # needs PyAV

    faults = {path.name: find_fault(path) for path in files if path.name not in set(empty)}
    if faulty := [f"{name}: {fault}" for name, fault in faults.items() if fault]:
        yield Finding("error", f"videos/: {counted(len(faulty), 'file')} cannot be used: {listed(faulty)}")


def check_dataset(folder: Path) -> list[Finding]:
    """Check a dataset folder completely; an empty list means that it is valid."""
    try:
        refuse_leftover(folder)
    except P3ivError as error:
        return [Finding("error", str(error))]
    dataset = _open_usable_parts(folder)
    checks = (
        _check_card(dataset),
        _check_steps(folder),
        _check_split(dataset),
        _check_features(dataset),
        _check_language(dataset),
        _check_truth(dataset),
        check_videos(folder / "videos", dataset.videos),
    )
    findings = [finding for check in checks for finding in guarded(check)]
    if not any(finding.severity == "error" for finding in findings):
        findings += guarded(_check_opens(folder))
    return findings


def _open_usable_parts(folder: Path) -> Dataset:
    """Open the usable parts of a folder; the checks report errors in the others."""
    videos: tuple[Video, ...] = ()
    vocabulary, card, language = Vocabulary(()), DatasetCard(name=make_plain(folder.name)), None
    with suppress(P3ivError, OSError):
        annotations = read_folder(folder, with_split=False)
        videos, vocabulary = annotations.videos, annotations.vocabulary
        language = read_language(folder / "language.npz")
        vocabulary = extend_vocabulary(vocabulary, language)
    with suppress(P3ivError, OSError):
        card = read_card(folder)
    return Dataset(folder, card, videos, vocabulary, None, language.embedding if language else None)


def _check_opens(folder: Path) -> Iterator[Finding]:
    """Open the folder as all other commands do."""
    open_unfinished(folder)
    yield from ()


def _check_card(dataset: Dataset) -> Iterator[Finding]:
    if not os.path.lexists(dataset.folder / "dataset.yaml"):
        if dataset.features is not None:  # without them the folder is new, and `p3iv extract` writes it
            yield Finding("warning", "no dataset.yaml, which is written last: the folder may be incomplete")
        return
    read_card(dataset.folder)
    if unknown := unknown_keys(dataset.folder):
        yield Finding("warning", f"dataset.yaml has unknown keys, perhaps misspelt: {listed(unknown)}")


def _check_steps(folder: Path) -> Iterator[Finding]:
    annotations = read_folder(folder, with_split=False)
    # _check_card reports problems of dataset.yaml
    found = (problem for problem in annotations.problems if problem.where != "dataset.yaml")
    yield from (Finding("error", f"{problem.where}: {problem.what}") for problem in found)
    if twice := [video.id for video in annotations.videos if _has_twin_steps(video)]:
        yield Finding("warning", f"{counted(len(twice), 'video')} with the same step at the same time: {listed(twice)}")
    runs = Counter(video for video, _ in groupby(read_video_column(folder)) if video is not None)
    if scattered := [video for video, count in runs.items() if count > 1]:
        what = f"steps.csv has the rows of {counted(len(scattered), 'video')} in several places"
        yield Finding("warning", f"{what}; is one id used for two videos? {listed(scattered)}")
    if untimed := [video.id for video in annotations.videos if not video.is_timed]:
        what = f"{counted(len(untimed), 'video')} without times, which give one window each"
        yield Finding("warning", f"{what}: {listed(untimed)}")


def _has_twin_steps(video: Video) -> bool:
    timed = [(step.action, step.start_s, step.end_s) for step in video.steps if step.start_s is not None]
    return len(set(timed)) < len(timed)


def _check_split(dataset: Dataset) -> Iterator[Finding]:
    path = dataset.folder / "split.json"
    if not os.path.lexists(path):
        if 0 < len(dataset.videos) < MIN_VIDEOS:
            have = counted(len(dataset.videos), "video")
            yield Finding("warning", f"{have}, but training needs {MIN_VIDEOS}: one each for train, val and test")
        return
    split = read_split(path)
    if not dataset.videos:
        return
    known = {video.id for video in dataset.videos}
    named = (*split.train, *split.val, *split.test)
    if unknown := [video for video in named if video not in known]:
        what = f"split.json names {counted(len(unknown), 'video')} without usable steps in steps.csv"
        yield Finding("error", f"{what}: {listed(unknown)}")
        return
    _, notes = choose_split(sorted(known), CurationSettings(split="release"), release_split=split)
    yield from (Finding("warning", note) for note in notes)


def _check_features(dataset: Dataset) -> Iterator[Finding]:
    store = dataset.features
    if store is None:
        if encoder := dataset.card.encoder:
            again = "if an extraction was interrupted, run it again"
            yield Finding("error", f"dataset.yaml names {encoder} features, but there is no folder features; {again}")
        else:
            yield Finding("warning", f"no features yet; make them with `p3iv extract {dataset.folder}`")
        return
    store.verify()
    expected = dataset.card.feature_fingerprint
    if expected is not None and expected != store.fingerprint:
        found = f"but the store has {store.fingerprint[:12]}: one of the two was replaced"
        yield Finding("error", f"dataset.yaml has the feature fingerprint {expected[:12]}, {found}")
    if missing := [video.id for video in dataset.videos if video.id not in store]:
        yield Finding("warning", f"{counted(len(missing), 'video')} without features: {listed(missing)}")
    rate = dataset.card.features_per_second
    there = [video for video in dataset.videos if video.id in store]
    if short := [video.id for video in there if _last_end_s(video) > (store.num_rows(video.id) + 1) / rate]:
        yield Finding(
            "warning", f"the features of {counted(len(short), 'video')} end before the last step: {listed(short)}"
        )


def _last_end_s(video: Video) -> float:
    """The latest end of a step, which is not always that of the last step."""
    return max((step.end_s or 0.0 for step in video.steps), default=0.0)


def _check_language(dataset: Dataset) -> Iterator[Finding]:
    path = dataset.folder / "language.npz"
    if not os.path.lexists(path):
        if dataset.features is not None:  # otherwise `p3iv extract` writes both
            what = "no language.npz, the embeddings of the step texts that p3iv and p3iv-plus learn from"
            yield Finding("warning", f"{what}; import them with `p3iv data import folder ... --language FILE`")
        return
    known = set(read_language(path).names)
    seen = dict.fromkeys(step.action for video in dataset.videos for step in video.steps)
    if missing := [name for name in seen if name not in known]:
        what = f"language.npz has no embedding for {counted(len(missing), 'step')}"
        advice = advise_embedding(dataset.card, dataset.folder)
        yield Finding("error", f"{what}: {listed(missing)}. {advice}")


def _check_truth(dataset: Dataset) -> Iterator[Finding]:
    if dataset.has_truth and not (dataset.folder / "truth.jsonl").is_file():
        yield Finding("error", "truth.jsonl is a folder or a broken link; it must be a file")
        return
    if not dataset.videos:
        return
    seen: Counter[tuple[str, int | tuple[int, int]]] = Counter()
    for line in dataset.read_truth():
        window = f"{line.video} step {line.first_step} T={line.num_steps}"
        seen.update((window, lengths) for lengths in (line.horizon, line.horizons) if lengths is not None)
    if twice := list(dict.fromkeys(window for (window, _), n in seen.items() if n > 1)):
        yield Finding("error", f"truth.jsonl gives {counted(len(twice), 'window')} twice: {listed(twice)}")
