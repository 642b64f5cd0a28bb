"""The index of a packed store: which rows belong to which video."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from p3iv.errors import FeatureError

ROWS_NAME: Final = "rows.npy"
INDEX_NAME: Final = "index.json"
FORMAT: Final = 1
DTYPES: Final = ("float16", "float32")


@dataclass(frozen=True)
class StoreIndex:
    """What index.json says."""

    width: int
    dtype: str
    num_rows: int
    fingerprint: str
    videos: Mapping[str, tuple[int, int]]  # first row, number of rows

    def to_json(self) -> str:
        """The text of index.json, one video per line."""
        head = {"format": FORMAT, "width": self.width, "dtype": self.dtype, "num_rows": self.num_rows}
        fields = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
        fields.append(f' "fingerprint": {json.dumps(self.fingerprint)}')
        videos = ",\n".join(f"  {json.dumps(video)}: {list(place)}" for video, place in self.videos.items())
        fields.append(f' "videos": {{\n{videos}\n }}')
        return "{\n" + ",\n".join(fields) + "\n}\n"


def fingerprint_of(rows_digest: bytes, width: int, dtype: str, videos: Mapping[str, tuple[int, int]]) -> str:
    """One number for the rows, their width and dtype, and who has which."""
    places = sorted((first, num_rows, video) for video, (first, num_rows) in videos.items())
    described = json.dumps([FORMAT, rows_digest.hex(), width, dtype, places], separators=(",", ":"))
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
    return StoreIndex(content["width"], content["dtype"], content["num_rows"], content["fingerprint"], videos)


def _fault(content: Any) -> str | None:
    """What is wrong with a decoded index, or None."""
    if not isinstance(content, dict):
        return "not an index of features"
    if content.get("format") != FORMAT:
        return f"format {content.get('format')!r}, this version reads format {FORMAT}"
    if not all(_is_count(content.get(key)) for key in ("width", "num_rows")) or content.get("dtype") not in DTYPES:
        return f"width, num_rows and dtype ({' or '.join(DTYPES)}) are not all there"
    if not isinstance(content.get("fingerprint"), str) or not isinstance(content.get("videos"), dict):
        return "fingerprint or videos is missing"
    return _fault_of_places(content["videos"], content["num_rows"])


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


def _is_count(value: object) -> bool:
    return type(value) is int and value > 0
