"""The feature store: the rows of all videos in one memory-mapped file, with an index."""

from __future__ import annotations

import hashlib
import mmap
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

import numpy as np

from p3iv.catalogue import DTYPES
from p3iv.errors import FeatureError
from p3iv.features.arrays import HEAD_BYTES, all_finite, as_rows, parse_header
from p3iv.features.store_index import (
    INDEX_NAME,
    ROWS_NAME,
    KeptSeconds,
    RowRange,
    StoreIndex,
    fingerprint_of,
    read_index,
)
from p3iv.files import atomic_folder
from p3iv.types import Array, Problem

_BLOCK_BYTES: Final = 8 << 20


@dataclass(frozen=True)
class PackedFeatures:
    """What was written into a store, and what could not be."""

    num_videos: int
    num_rows: int
    width: int
    dtype: str
    fingerprint: str
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()  # information that is not about missing features


class StoreWriter:
    """Writes videos into a store that replaces `destination` when the block succeeds.

    sha256 runs at 1.4 GB/s with the SHA instructions of today's processors, blake2b at 0.55, sha512 at 0.48.
    """

    def __init__(self, destination: Path, *, width: int, dtype: str | np.dtype[Any]) -> None:
        if str(dtype) not in DTYPES or width < 1:
            raise FeatureError(
                f"a store of {dtype} rows of width {width}, but it must be {' or '.join(DTYPES)}, wider than 0"
            )
        self.dtype = np.dtype(dtype)
        self.destination = destination
        self.width = width
        self.num_rows = 0
        self.fingerprint = ""  # set when the block has ended
        self._videos: dict[str, RowRange] = {}
        self._kept: dict[str, KeptSeconds] = {}
        self._hash = hashlib.sha256()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._folder = stack.enter_context(atomic_folder(self.destination))
            self._file: BinaryIO = stack.enter_context((self._folder / ROWS_NAME).open("wb"))
            self._header_size = self._write_header()
            self._stack = stack.pop_all()
        return self

    def add(self, video: str, rows: Array, kept: KeptSeconds | None = None) -> None:
        """Append the rows of one video, (N, F), cast to the store's dtype; `kept` if some seconds have no row.

        Raises:
            FeatureError: the video is there already, or its rows have another width or values that do not fit.
        """
        if video in self._videos:
            raise FeatureError(f"video {video} is in the store already")
        rows = as_rows(rows, self.dtype)
        if rows.shape[1] != self.width:
            raise FeatureError(f"rows of width {rows.shape[1]}, the store holds rows of width {self.width}")
        if kept is not None and (fault := kept.find_fault(len(rows))):
            raise FeatureError(fault)
        content = rows.data.cast("B")
        self._file.write(content)
        self._hash.update(content)
        self._videos[video] = RowRange(self.num_rows, len(rows))
        if kept is not None and len(rows) < kept.num_seconds:
            self._kept[video] = kept
        self.num_rows += len(rows)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._stack.__exit__(kind, error, trace)
            return
        with self._stack:
            self._finish()

    def packed(self, problems: tuple[Problem, ...] = (), notes: tuple[str, ...] = ()) -> PackedFeatures:
        """A summary of the store, after the block has ended."""
        num_videos, dtype = len(self._videos), self.dtype.name
        return PackedFeatures(num_videos, self.num_rows, self.width, dtype, self.fingerprint, problems, notes)

    def _finish(self) -> None:
        if not self._videos:
            raise FeatureError(f"{self.destination}: no video has features, so no store is written")
        self._file.seek(0)
        if self._write_header() != self._header_size:
            raise FeatureError(f"{self.destination}: {self.num_rows} rows do not fit into the header of {ROWS_NAME}")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.fingerprint = fingerprint_of(self._hash.digest(), self.width, self.dtype.name, self._videos, self._kept)
        index = StoreIndex(
            width=self.width,
            dtype=self.dtype.name,  # type: ignore[arg-type]
            num_rows=self.num_rows,
            fingerprint=self.fingerprint,
            videos=self._videos,
            kept=self._kept,
        )
        with (self._folder / INDEX_NAME).open("w", encoding="utf-8") as file:
            file.write(index.to_json())
            file.flush()
            os.fsync(file.fileno())

    def _write_header(self) -> int:
        """Write NumPy's header for the rows so far; it has space for a first axis of 21 digits."""
        entries = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.num_rows, self.width)}
        np.lib.format.write_array_header_1_0(self._file, entries)
        return self._file.tell()


class FeatureStore:
    """A store opened for reading; `store.rows(video)` is a read-only view of the mapped file."""

    def __init__(self, folder: Path, index: StoreIndex, rows: Array) -> None:
        self.folder = folder
        self._index = index
        self._rows = rows  # (rows, F)

    @staticmethod
    def is_at(folder: Path) -> bool:
        """Whether a folder has the index of a store; `open` checks whether it is valid."""
        return (folder / INDEX_NAME).exists()

    @classmethod
    def open(cls, folder: Path) -> FeatureStore:
        """Map the store in `folder`, after checking that index and file agree.

        Raises:
            FeatureError: there is no store, or index and file disagree.
        """
        index = read_index(folder)
        return cls(folder, index, _mapped(folder / ROWS_NAME, index))

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        return FeatureStore.open, (self.folder,)  # a worker process maps the file again

    def __contains__(self, video: object) -> bool:
        return video in self._index.videos

    @property
    def videos(self) -> tuple[str, ...]:
        return tuple(self._index.videos)

    @property
    def width(self) -> int:
        return self._index.width

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self._index.dtype)

    @property
    def fingerprint(self) -> str:
        return self._index.fingerprint

    def packed(self) -> PackedFeatures:
        """A summary of the store."""
        index = self._index
        return PackedFeatures(len(index.videos), index.num_rows, index.width, index.dtype, index.fingerprint)

    def num_rows(self, video: str) -> int:
        """The number of rows, so seconds, of a video, including those that `--only-needed` left out."""
        kept = self.kept(video)
        return kept.num_seconds if kept else self._range(video).num_rows

    def rows(self, video: str) -> Array:
        """The rows of a video, (N, F), read-only.

        Raises:
            FeatureError: some seconds have no row.
        """
        if (kept := self.kept(video)) is not None:
            raise FeatureError(
                f"{self.folder} has {len(kept.seconds)} of the {kept.num_seconds} seconds of video {video}; "
                "extract without --only-needed for all of them"
            )
        return self.packed_rows(video)

    def rows_at(self, video: str, places: Array) -> Array:
        """The rows of some seconds of a video, (len(places), F).

        Raises:
            FeatureError: a second has no row.
        """
        kept = self.kept(video)
        if kept is None:
            found, absent = places, places[(places < 0) | (places >= self.num_rows(video))]
        else:
            seconds = np.array(kept.seconds)
            found = np.minimum(np.searchsorted(seconds, places), len(seconds) - 1)
            absent = places[seconds[found] != places]
        if len(absent):
            raise FeatureError(
                f"{self.folder} has no row for second {absent[0]} of video {video}; "
                "extract without --only-needed for all seconds"
            )
        return self.packed_rows(video)[found]

    def kept(self, video: str) -> KeptSeconds | None:
        """The seconds of a video that have a row; None if all have one."""
        return self._index.kept.get(video)

    def packed_rows(self, video: str) -> Array:
        """The rows of a video that exist, without their seconds, read-only."""
        rows = self._range(video)
        return self._rows[rows.first : rows.end]

    def verify(self) -> None:
        """Read everything once and check it.

        Raises:
            FeatureError: the rows or the index were changed, or a value is not finite.
        """
        digest = hashlib.sha256()
        step = max(1, _BLOCK_BYTES // (self.width * self.dtype.itemsize))
        for first in range(0, len(self._rows), step):
            digest.update(self._rows[first : first + step].data.cast("B"))
        invalid = next((video for video in self.videos if not all_finite(self.packed_rows(video))), None)
        if invalid is not None:
            raise FeatureError(
                f"{self.folder}: video {invalid} has a value that is not finite; import the features again"
            )
        found = fingerprint_of(digest.digest(), self.width, self.dtype.name, self._index.videos, self._index.kept)
        if found != self.fingerprint:
            raise FeatureError(
                f"{self.folder}: the fingerprint is {found[:12]}..., the index says {self.fingerprint[:12]}...; "
                "the store was changed after it was written, so import the features again"
            )

    def _range(self, video: str) -> RowRange:
        if video not in self._index.videos:
            raise FeatureError(f"{self.folder} has no features of video {video}")
        return self._index.videos[video]


def _mapped(path: Path, index: StoreIndex) -> Array:
    """Map the rows of the file, read-only, after comparing it with the index."""
    try:
        with path.open("rb") as file:
            header = parse_header(file.read(HEAD_BYTES))
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError, FeatureError) as error:
        raise FeatureError(f"{path} cannot be read ({error}); import the features again") from error
    promised = (header.dtype, header.shape, header.fortran)
    if promised != (np.dtype(index.dtype), (index.num_rows, index.width), False):
        said = f"{index.dtype} {(index.num_rows, index.width)}"
        raise FeatureError(f"{path} holds {header.dtype} {header.shape}, {INDEX_NAME} says {said}")
    needed = header.size + header.num_bytes
    if len(content) != needed:
        raise FeatureError(f"{path} has {len(content):,} bytes instead of {needed:,}; import the features again")
    return np.frombuffer(content, index.dtype, offset=header.size).reshape(index.num_rows, index.width)
