"""A folder of one feature file per video becomes a packed store."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from p3iv.errors import FeatureError
from p3iv.features.arrays import peek_rows, read_rows
from p3iv.features.store import FeatureStore, PackedFeatures, StoreWriter
from p3iv.types import ProblemLog, Video, listed

SUFFIXES: Final = (".npy", ".npz")
_LEFT: Final = "left without features"
_NUM_PEEKED: Final = 32  # files that decide on the width and the dtype


def import_features(
    folder: Path,
    videos: Sequence[Video],
    destination: Path,
    *,
    dtype: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PackedFeatures:
    """Pack the feature files of `videos`, found in `folder` by id, alias or task_id, in the order of `videos`.

    A file that cannot be used is a problem in the result and never stops the rest.

    Raises:
        FeatureError: where there is no folder, or no file of it can be used.
    """
    log = ProblemLog()
    present = _feature_files(folder)
    found = _find_files(present, videos, log)
    if not found:
        looked_for = listed([name for video in videos for name in candidates(video)], most=6)
        raise FeatureError(f"{folder} has {len(present)} feature files, none of any video; looked for {looked_for}")
    width, usual_dtype = _layout(folder, list(found.values()))
    with StoreWriter(destination, width=width, dtype=dtype or usual_dtype) as writer:
        for done, video in enumerate(videos, start=1):
            if video.id in found:
                _add_file(writer, video.id, folder / found[video.id], log)
            if progress is not None:
                progress(done, len(videos))
        if not writer.num_rows:
            raise FeatureError(f"none of the {len(found)} feature files in {folder} can be used; {log.problems[-1]}")
    _note_strangers(folder, present, videos, log)
    return writer.packed(tuple(log.problems))


def copy_store(
    source: Path,
    videos: Sequence[Video],
    destination: Path,
    *,
    dtype: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PackedFeatures:
    """Pack the rows that another store has of `videos`, in their order; those that it lacks are problems."""
    store = FeatureStore.open(source)
    store.verify()
    log = ProblemLog()
    with StoreWriter(destination, width=store.width, dtype=dtype or store.dtype) as writer:
        for done, video in enumerate(videos, start=1):
            try:
                writer.add(video.id, store.rows(video.id))
            except FeatureError as error:
                log.add(video.id, str(error), _LEFT)
            if progress is not None:
                progress(done, len(videos))
    return writer.packed(tuple(log.problems))


def candidates(video: Video) -> list[str]:
    """The file names under which the features of a video are looked for, in this order."""
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
            log.add(video.id, f"no feature file (looked for {listed(candidates(video))})", _LEFT)
            continue
        if len(names) > 1:
            log.add(video.id, f"several feature files: {listed(names)}", f"{names[0]} is used")
        found[video.id] = names[0]
    return found


def _layout(folder: Path, names: list[str]) -> tuple[int, str]:
    """The most common width of the first files that can be read; float16 if all of them are, else float32."""
    peeked: list[tuple[int, str]] = []
    for name in names:
        try:
            width, dtype = peek_rows(folder / name)
        except FeatureError:
            continue  # it is read again, and named, when its turn comes
        peeked.append((width, dtype.name))
        if len(peeked) == _NUM_PEEKED:
            break
    if not peeked:
        return 1, "float32"  # nothing will be written
    dtypes = {dtype for _, dtype in peeked}
    return Counter(width for width, _ in peeked).most_common(1)[0][0], "float16" if dtypes == {"float16"} else "float32"


def _add_file(writer: StoreWriter, video: str, path: Path, log: ProblemLog) -> None:
    try:
        writer.add(video, read_rows(path))
    except FeatureError as error:
        log.add(str(path), str(error).removeprefix(f"{path}: "), _LEFT)


def _note_strangers(folder: Path, present: set[str], videos: Sequence[Video], log: ProblemLog) -> None:
    strangers = sorted(present.difference(*map(candidates, videos)))
    if strangers:
        what = f"{len(strangers)} files match no video, e.g. {listed(strangers, most=3)}"
        log.add(str(folder), what, "not used")
