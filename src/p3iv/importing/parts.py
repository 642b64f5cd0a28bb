"""The parts of a dataset folder, one by one: language, split, features, videos, truth."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from p3iv.annotations import read_split, read_video_column, write_split
from p3iv.atomic import whole_file
from p3iv.curation import restrict_split
from p3iv.dataset import TRUTH_FILE, VIDEO_SUFFIXES, Dataset, TruthReader
from p3iv.errors import SourceError, SplitError
from p3iv.features import (
    FeatureStore,
    LanguageTable,
    PackedFeatures,
    copy_store,
    import_features,
    match_language,
    read_language,
    read_rename,
    write_language,
)
from p3iv.importing.request import ImportRequest, Progress
from p3iv.splits import check_no_leak
from p3iv.types import Annotations, Problem, Split, Video, Vocabulary, counted, listed


def write_language_of(request: ImportRequest, annotations: Annotations, folder: Path) -> Annotations:
    """Write language.npz where one is given; its rows are then the vocabulary."""
    if request.language is None:
        if request.rename is not None:
            raise SourceError("--rename maps names of a language file; pass --language FILE with it.")
        return annotations
    rename = read_rename(request.rename) if request.rename else {}
    table = read_language(request.language)
    matched = match_language(_with_own_ids(request, annotations.vocabulary, table), table, rename)
    ids = [action.id for action in matched.vocabulary.actions if action.id is not None]
    complete = ids if len(ids) == len(matched.vocabulary) else None
    write_language(folder / "language.npz", matched.vocabulary.names, matched.embedding, complete)
    return replace(annotations, vocabulary=matched.vocabulary)


def _with_own_ids(request: ImportRequest, vocabulary: Vocabulary, table: LanguageTable) -> Vocabulary:
    """The actions with their numbers in the release, which steps.csv has no place for and language.npz keeps.

    An id that `table` gives to a step of another name is left away: the two then count differently.
    """
    own = request.source / "language.npz"
    if request.kind != "folder" or not own.is_file():
        return vocabulary
    mine, name_of = read_language(own), dict(zip(table.ids or (), table.names, strict=False))
    times = Counter(mine.names)
    id_of = {name: id_ for name, id_ in zip(mine.names, mine.ids or (), strict=False) if times[name] == 1}
    actions = []
    for action in vocabulary.actions:
        id_ = id_of.get(action.name)
        agreed = id_ is not None and name_of.get(id_, action.name) in (action.name, action.text)
        actions.append(replace(action, id=id_ if agreed else None))
    return Vocabulary(tuple(actions))


def write_split_of(request: ImportRequest, annotations: Annotations, folder: Path) -> list[Problem]:
    """Write split.json; a release whose own split cannot be used comes in without it, a split asked for must fit."""
    split = read_split(request.split) if request.split else annotations.split
    if split is None:
        return []
    where = (request.split or request.source).name
    try:
        notes = _write_fitting(split, annotations, folder)
    except SplitError as error:
        if request.split:
            raise
        return [Problem(where, str(error).removesuffix("."), "split left out")]
    return [Problem(where, note, "split written without them") for note in notes]


def _write_fitting(split: Split, annotations: Annotations, folder: Path) -> tuple[str, ...]:
    check_no_leak(split)
    split, notes = restrict_split(split, (video.id for video in annotations.videos))
    write_split(folder / "split.json", split)
    return notes


def pack_features(
    request: ImportRequest, annotations: Annotations, folder: Path, progress: Progress | None
) -> PackedFeatures | None:
    """Write features/ where features are given, as files or as a packed store."""
    if request.features is None:
        return None
    pack = copy_store if FeatureStore.is_at(request.features) else import_features
    return pack(request.features, annotations.videos, folder / "features", dtype=request.dtype, progress=progress)


def link_videos(request: ImportRequest, videos: Sequence[Video], folder: Path) -> list[Problem]:
    """Bring the video files in under their ids, by hard link where the file system allows, else by copy."""
    if request.videos is None:
        return []
    if not request.videos.is_dir():
        raise SourceError(f"--videos {request.videos} is not a folder.")
    files = [path for path in sorted(request.videos.iterdir()) if path.is_file()]
    at_hand = {path.stem: path for path in files if path.suffix.lower() in VIDEO_SUFFIXES}
    (folder / "videos").mkdir()
    problems = []
    for video in videos:
        names = (video.id, *video.aliases, f"{video.task}_{video.id}")
        found = next((at_hand[name] for name in names if name in at_hand), None)
        if Path(video.id).name != video.id:
            problems.append(Problem(str(request.videos), f"{video.id!r} is no file name", "steps kept, video left out"))
        elif found is None:
            expected = f"no file {video.id}{{{','.join(VIDEO_SUFFIXES[:3])},...}}"
            problems.append(Problem(str(request.videos), expected, "steps kept, video missing"))
        else:
            _link_or_copy(found, folder / "videos" / f"{video.id}{found.suffix.lower()}")
    return problems


def _link_or_copy(source: Path, destination: Path) -> None:
    try:
        os.link(source.resolve(), destination)
    except OSError:
        shutil.copyfile(source, destination)


def copy_truth(request: ImportRequest, dataset: Dataset) -> list[Problem]:
    """Bring in the lines of a folder's truth.jsonl that are about the videos as they came in."""
    source = request.source / TRUTH_FILE
    if request.kind != "folder" or not os.path.lexists(source):
        return []
    if not source.is_file():
        raise SourceError(f"{source} is a folder or a broken link. Delete it, or put the file there.")
    whole = _whole_videos(request.source, dataset.videos)
    reader = TruthReader(dataset.videos, dataset.vocabulary)
    left_out: Counter[str] = Counter()
    with whole_file(dataset.folder / TRUTH_FILE) as beside, beside.open("wb") as kept, source.open("rb") as lines:
        for line in lines:
            if _fits(line, reader, whole):
                kept.write(line)
            else:
                left_out[reader.video_of(line)] += 1
    if not left_out:
        return []
    what = f"{counted(left_out.total(), 'line')} not about these steps, of {listed(sorted(left_out))}"
    return [Problem(TRUTH_FILE, what, "lines left out")]


def _fits(line: bytes, reader: TruthReader, whole: set[str]) -> bool:
    try:
        return reader.read(line).video in whole
    except ValueError:
        return False


def _whole_videos(source: Path, videos: Sequence[Video]) -> set[str]:
    """The videos of which every row was used: without a row, the numbers of the steps after it speak of others.

    Where a row's video cannot be told, that may be any of them, so none counts as whole.
    """
    rows = Counter(read_video_column(source))
    return set() if None in rows else {video.id for video in videos if rows[video.id] == len(video.steps)}
