"""The index of a packed store: which rows belong to which video."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from p3iv.errors import FeatureError

ROWS_NAME: Final = "rows.npy"
INDEX_NAME: Final = "index.json"
FORMAT: Final = 1
SPARSE_FORMAT: Final = 2  # some videos have rows for some of their seconds: what does not know of it must not read it
DTYPES: Final = ("float16", "float32")


@dataclass(frozen=True)
class KeptSeconds:
    """Which seconds of a video have a row, where not all have one."""

    num_seconds: int
    seconds: tuple[int, ...]  # in order

    def find_fault(self, num_rows: int) -> str | None:
        """What is wrong with it for a video of so many rows, or None."""
        in_order = all(first < second for first, second in pairwise((-1, *self.seconds, self.num_seconds)))
        if len(self.seconds) == num_rows and in_order:
            return None
        return f"{len(self.seconds)} seconds of {self.num_seconds} for {num_rows} rows, or not in order"


@dataclass(frozen=True)
class StoreIndex:
    """What index.json says."""

    width: int
    dtype: str
    num_rows: int
    fingerprint: str
    videos: Mapping[str, tuple[int, int]]  # first row, number of rows
    kept: Mapping[str, KeptSeconds] = field(default_factory=dict)  # of the videos with a row for some seconds only

    def to_json(self) -> str:
        """The text of index.json, one video per line."""
        head = {
            "format": SPARSE_FORMAT if self.kept else FORMAT,
            "width": self.width,
            "dtype": self.dtype,
            "num_rows": self.num_rows,
        }
        fields = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
        fields.append(f' "fingerprint": {json.dumps(self.fingerprint)}')
        videos = ",\n".join(f"  {json.dumps(video)}: {list(place)}" for video, place in self.videos.items())
        fields.append(f' "videos": {{\n{videos}\n }}')
        if self.kept:
            lines = (f"  {json.dumps(name)}: {[of.num_seconds, list(of.seconds)]}" for name, of in self.kept.items())
            kept = ",\n".join(lines)
            fields.append(f' "kept": {{\n{kept}\n }}')
        return "{\n" + ",\n".join(fields) + "\n}\n"


def fingerprint_of(
    rows_digest: bytes,
    width: int,
    dtype: str,
    videos: Mapping[str, tuple[int, int]],
    kept: Mapping[str, KeptSeconds],
) -> str:
    """One number for the rows, their width and dtype, and who has which."""
    places = sorted((first, num_rows, video) for video, (first, num_rows) in videos.items())
    parts = [FORMAT, rows_digest.hex(), width, dtype, places]
    if kept:
        parts.append(sorted((video, of.num_seconds, of.seconds) for video, of in kept.items()))
    described = json.dumps(parts, separators=(",", ":"))
    return hashlib.sha256(described.encode()).hexdigest()


def read_index(folder: Path) -> StoreIndex:
    """The index of the store in `folder`.

    Raises:
        FeatureError: where there is none, or it contradicts itself.
    """
    path = folder / INDEX_NAME
    if not path.is_file():
        raise FeatureError(f"{folder} holds no features: {INDEX_NAME} is missing. Import or extract features first")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FeatureError(f"{path} cannot be read ({error}); import the features again") from error
    fault = _fault(content)
    if fault:
        raise FeatureError(f"{path}: {fault}; import the features again")
    videos = {video: (first, num_rows) for video, (first, num_rows) in content["videos"].items()}
    kept = {video: KeptSeconds(length, tuple(held)) for video, (length, held) in content.get("kept", {}).items()}
    return StoreIndex(content["width"], content["dtype"], content["num_rows"], content["fingerprint"], videos, kept)


def _fault(content: Any) -> str | None:
    """What is wrong with a decoded index, or None."""
    if not isinstance(content, dict):
        return "not an index of features"
    if content.get("format") not in (FORMAT, SPARSE_FORMAT):
        return f"format {content.get('format')!r}, this version reads format {FORMAT} and {SPARSE_FORMAT}"
    if not all(_is_count(content.get(key)) for key in ("width", "num_rows")) or content.get("dtype") not in DTYPES:
        return f"width, num_rows and dtype ({' or '.join(DTYPES)}) are not all there"
    if not isinstance(content.get("fingerprint"), str) or not isinstance(content.get("videos"), dict):
        return "fingerprint or videos is missing"
    return _fault_of_places(content["videos"], content["num_rows"]) or _fault_of_kept(content)


def _fault_of_places(videos: dict[str, Any], num_rows: int) -> str | None:
    for video, place in videos.items():
        if not (isinstance(place, list) and len(place) == 2 and type(place[0]) is int and _is_count(place[1])):
            return f"video {video} has no place [first row, number of rows]"
        if place[0] < 0 or place[0] + place[1] > num_rows:
            return f"video {video} has rows {place[0]} to {sum(place)}, the store has {num_rows}"
    ordered = sorted(videos, key=lambda video: videos[video][0])
    for video, after in pairwise(ordered):
        if sum(videos[video]) > videos[after][0]:
            return f"videos {video} and {after} share rows"
    return None


def _fault_of_kept(content: dict[str, Any]) -> str | None:
    kept = content.get("kept", {})
    if not isinstance(kept, dict) or bool(kept) != (content["format"] == SPARSE_FORMAT):
        return "kept is no mapping of videos to seconds, or stands in the wrong format"
    for video, entry in kept.items():
        if video not in content["videos"] or not (isinstance(entry, list) and len(entry) == 2 and _is_count(entry[0])):
            return f"kept has {video} without its place, or without [seconds of the video, those with a row]"
        if not isinstance(entry[1], list) or not all(type(second) is int for second in entry[1]):
            return f"video {video} has kept seconds that are no whole numbers"
        if fault := KeptSeconds(entry[0], tuple(entry[1])).find_fault(content["videos"][video][1]):
            return f"video {video} has kept {fault}"
    return None


def _is_count(value: object) -> bool:
    return type(value) is int and value > 0
