"""Check a dataset folder; every part is checked, even if others have errors."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from p3iv.config import CurationSettings
from p3iv.data.check_steps import Finding, check_steps, check_videos
from p3iv.data.folder import (
    Dataset,
    DatasetCard,
    advise_embedding,
    extend_vocabulary,
    note_late_steps,
    open_unfinished,
    read_card,
    refuse_leftover,
    unknown_keys,
)
from p3iv.data.windows import MIN_VIDEOS, choose_split, tasks_of
from p3iv.errors import P3ivError
from p3iv.features.language import read_language
from p3iv.readers.folder import read_folder, read_split
from p3iv.readers.steps import StepRow, read_steps
from p3iv.types import Video, Vocabulary, counted, listed
from p3iv.validation import make_plain


def guarded(findings: Iterator[Finding]) -> Iterator[Finding]:
    """The findings of a check; an error that stops it becomes its last finding, and the other checks still run."""
    try:
        yield from findings
    except (P3ivError, OSError) as error:
        yield Finding("error", str(error))


def check_dataset(folder: Path) -> list[Finding]:
    """Check a dataset folder completely; an empty list means that it is valid."""
    try:
        refuse_leftover(folder)
    except P3ivError as error:
        return [Finding("error", str(error))]
    dataset = _open_usable_parts(folder)
    checks = (
        _check_card(dataset),
        check_steps(folder),
        _check_split(dataset),
        _check_features(dataset),
        _check_language(dataset),
        _check_truth(dataset),
        check_videos(folder / "videos", _usable_rows(folder)),
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


def _usable_rows(folder: Path) -> tuple[StepRow, ...]:
    with suppress(P3ivError, OSError):
        return read_steps(folder).rows
    return ()


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
    _, notes = choose_split(tasks_of(dataset.videos), CurationSettings(split="release"), release_split=split)
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
    yield from (Finding("warning", note) for note in note_late_steps(dataset, store))


def _check_language(dataset: Dataset) -> Iterator[Finding]:
    path = dataset.folder / "language.npz"
    if not os.path.lexists(path):
        if dataset.features is not None:  # otherwise `p3iv extract` writes both
            what = (
                "no language.npz, the embeddings of the step texts that planners such as p3iv and p3iv-plus learn from"
            )
            yield Finding("warning", f"{what}; make them with `p3iv data embed {dataset.folder}`")
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
