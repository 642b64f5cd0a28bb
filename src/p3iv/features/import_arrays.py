"""Pack a folder of feature files, one per video, or the rows of another store, into a feature store."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from p3iv.errors import FeatureError
from p3iv.features.arrays import has_plain_header, peek_rows, read_rows
from p3iv.features.store import FeatureStore, PackedFeatures, StoreWriter
from p3iv.types import LEFT_WITHOUT_FEATURES, OnProgress, Progress, Video, counted, listed
from p3iv.validation import ProblemLog

SUFFIXES: Final = (".npy", ".npz")
_MAX_READ: Final = 32  # files without a plain header that are read completely to find their width and dtype


def import_features(
    folder: Path,
    videos: Sequence[Video],
    destination: Path,
    *,
    dtype: str | None = None,
    on_progress: OnProgress | None = None,
) -> PackedFeatures:
    """Pack the feature files of `videos`, found in `folder` by id, alias or task_id, in the order of `videos`.

    A file that cannot be used becomes a problem in the result.

    Raises:
        FeatureError: there is no folder, or none of its files can be used.
    """
    log = ProblemLog()
    present = _feature_files(folder)
    found = _find_files(present, videos, log)
    if not found:
        looked_for = listed([name for video in videos for name in candidates(video)], max_names=6)
        raise FeatureError(f"{folder} has {len(present)} feature files, none of any video; looked for {looked_for}")
    width, usual_dtype = _layout(folder, list(found.values()))
    narrowed: list[str] = []
    with StoreWriter(destination, width=width, dtype=dtype or usual_dtype) as writer:
        for done, video in enumerate(videos, start=1):
            if video.id in found and _add_file(writer, video.id, folder / found[video.id], log):
                narrowed.append(found[video.id])
            if on_progress is not None:
                on_progress(Progress("Packing features", done, len(videos)))
        if not writer.num_rows:
            raise FeatureError(f"none of the {len(found)} feature files in {folder} can be used; {log.problems[0]}")
    if narrowed and dtype is None:
        what = f"{counted(len(narrowed), 'file')} of float32 among files of float16: {listed(narrowed)}"
        log.add(str(folder), what, "stored as float16; pass --dtype float32 to keep them as they are")
    return writer.packed(log.problems, _note_unused(folder, present, videos))


def copy_store(
    source: Path,
    videos: Sequence[Video],
    destination: Path,
    *,
    dtype: str | None = None,
    on_progress: OnProgress | None = None,
) -> PackedFeatures:
    """Pack the rows that another store has of `videos`, in their order; missing videos become problems."""
    store = FeatureStore.open(source)
    store.verify()
    log = ProblemLog()
    with StoreWriter(destination, width=store.width, dtype=dtype or store.dtype) as writer:
        for done, video in enumerate(videos, start=1):
            try:
                writer.add(video.id, store.packed_rows(video.id), store.kept(video.id))
            except FeatureError as error:
                log.add(video.id, str(error), LEFT_WITHOUT_FEATURES)
            if on_progress is not None:
                on_progress(Progress("Packing features", done, len(videos)))
    return writer.packed(log.problems)


def candidates(video: Video) -> list[str]:
    """The file names that the features of a video may have, in order of preference."""
    stems = dict.fromkeys((video.id, *video.aliases, f"{video.task}_{video.id}"))
    return [f"{stem}{suffix}" for stem in stems for suffix in SUFFIXES]


def _feature_files(folder: Path) -> set[str]:
    if not folder.is_dir():
        raise FeatureError(f"{folder} is not a folder; give the folder that holds one .npy or .npz per video")
    with os.scandir(folder) as entries:
        return {entry.name for entry in entries if entry.name.endswith(SUFFIXES)}


def _find_files(present: set[str], videos: Sequence[Video], log: ProblemLog) -> dict[str, str]:
    """The file of each video that has one."""
    found: dict[str, str] = {}
    for video in videos:
        names = [name for name in candidates(video) if name in present]
        if not names:
            log.add(video.id, f"no feature file (looked for {listed(candidates(video))})", LEFT_WITHOUT_FEATURES)
            continue
        if len(names) > 1:
            log.add(video.id, f"several feature files: {listed(names)}", f"{names[0]} is used")
        found[video.id] = names[0]
    return found


def _layout(folder: Path, names: list[str]) -> tuple[int, str]:
    """The most common width of the files, and float16 if all of them have it, else float32."""
    peeked: list[tuple[int, str]] = []
    num_read = 0
    for name in names:
        try:
            has_header = has_plain_header(folder / name)
            num_read += not has_header
            if not has_header and num_read > _MAX_READ:
                continue
            width, dtype = peek_rows(folder / name)
        except FeatureError:
            continue  # _add_file reports it
        peeked.append((width, dtype.name))
    if not peeked:
        return 1, "float32"  # nothing will be written
    dtypes = {dtype for _, dtype in peeked}
    return Counter(width for width, _ in peeked).most_common(1)[0][0], "float16" if dtypes == {"float16"} else "float32"


def _add_file(writer: StoreWriter, video: str, path: Path, log: ProblemLog) -> bool:
    """Pack one file; True if its rows have a wider dtype than the store."""
    try:
        rows = read_rows(path)
        writer.add(video, rows)
    except FeatureError as error:
        log.add(str(path), str(error).removeprefix(f"{path}: "), LEFT_WITHOUT_FEATURES)
        return False
    return rows.dtype.itemsize > writer.dtype.itemsize


def _note_unused(folder: Path, present: set[str], videos: Sequence[Video]) -> tuple[str, ...]:
    """A note on files that belong to no video: releases of features often have more videos than the annotations."""
    unused = sorted(present.difference(*map(candidates, videos)))
    if not unused:
        return ()
    return (f"{folder}: {counted(len(unused), 'file')} of no video, not used: {listed(unused, max_names=3)}",)
