"""The index of a feature store: which rows belong to which video."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

from p3iv.errors import FeatureError
from p3iv.validation import read_model

ROWS_NAME: Final = "rows.npy"
INDEX_NAME: Final = "index.json"
FORMAT: Final = 1
SPARSE_FORMAT: Final = 2  # of a store in which some seconds of videos have no row


class KeptSeconds(NamedTuple):
    """The seconds of a video that have a row, if not all have one."""

    num_seconds: PositiveInt
    seconds: tuple[int, ...]  # in order

    def find_fault(self, num_rows: int) -> str | None:
        """Why this cannot describe a video of `num_rows` rows, or None."""
        in_order = all(first < second for first, second in pairwise((-1, *self.seconds, self.num_seconds)))
        if len(self.seconds) == num_rows and in_order:
            return None
        return f"{len(self.seconds)} seconds of {self.num_seconds} for {num_rows} rows, or not in order"


class RowRange(NamedTuple):
    """The rows of one video."""

    first: Annotated[int, Field(ge=0)]
    num_rows: PositiveInt

    @property
    def end(self) -> int:
        return self.first + self.num_rows


class StoreIndex(BaseModel):
    """The content of index.json."""

    model_config = ConfigDict(strict=True, frozen=True)

    format: Literal[1, 2] = FORMAT
    width: PositiveInt
    dtype: Literal["float16", "float32"]
    num_rows: PositiveInt
    fingerprint: str
    videos: dict[str, RowRange]
    kept: dict[str, KeptSeconds] = {}  # of the videos in which some seconds have no row

    @model_validator(mode="after")
    def _check(self) -> Self:
        if fault := next(self._faults(), None):
            raise ValueError(fault)
        return self

    def _faults(self) -> Iterator[str]:
        for video, rows in self.videos.items():
            if rows.end > self.num_rows:
                yield f"video {video} has rows {rows.first} to {rows.end}, the store has {self.num_rows}"
        for video, after in pairwise(sorted(self.videos, key=lambda video: self.videos[video].first)):
            if self.videos[video].end > self.videos[after].first:
                yield f"videos {video} and {after} share rows"
        for video, kept in self.kept.items():
            if video not in self.videos:
                yield f"kept has video {video}, but videos does not"
            elif fault := kept.find_fault(self.videos[video].num_rows):
                yield f"video {video} has kept {fault}"

    def to_json(self) -> str:
        """The text of index.json, one video per line."""
        fields: dict[str, Any] = {
            "format": SPARSE_FORMAT if self.kept else FORMAT,
            "width": self.width,
            "dtype": self.dtype,
            "num_rows": self.num_rows,
            "fingerprint": self.fingerprint,
        }
        lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in fields.items()]
        tables: dict[str, Mapping[str, object]] = {"videos": self.videos, "kept": self.kept}
        for key, table in tables.items():
            if table or key == "videos":
                entries = ",\n".join(f"  {json.dumps(video)}: {json.dumps(entry)}" for video, entry in table.items())
                lines.append(f' "{key}": {{\n{entries}\n }}')
        return "{\n" + ",\n".join(lines) + "\n}\n"


def fingerprint_of(
    rows_digest: bytes, width: int, dtype: str, videos: Mapping[str, RowRange], kept: Mapping[str, KeptSeconds]
) -> str:
    """A hash of the rows, their width and dtype, and which rows belong to which video."""
    ranges = sorted((rows.first, rows.num_rows, video) for video, rows in videos.items())
    parts = [FORMAT, rows_digest.hex(), width, dtype, ranges]
    if kept:
        parts.append(sorted((video, of.num_seconds, of.seconds) for video, of in kept.items()))
    described = json.dumps(parts, separators=(",", ":"))
    return hashlib.sha256(described.encode()).hexdigest()


def read_index(folder: Path) -> StoreIndex:
    """Read the index of the store in `folder`.

    Raises:
        FeatureError: there is none, or it contradicts itself.
    """
    path = folder / INDEX_NAME
    if not path.is_file():
        raise FeatureError(f"{folder} has no features: {INDEX_NAME} is missing. Import or extract features first")
    return read_model(path, StoreIndex, error=FeatureError, advice="Import the features again.")
