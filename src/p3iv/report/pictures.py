"""Pictures of single moments of videos, small enough to travel inside a page."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from p3iv.data.folder import find_videos
from p3iv.errors import FeatureError

WIDTH = 280  # pixels: twice what the page shows, for sharp screens
QUALITY = 72


@dataclass
class PictureShelf:
    """Finds and reads moments of a dataset's videos; what cannot be read is counted and costs nothing else."""

    folder: Path | None  # the dataset, or None where it is not known
    num_read: int = field(default=0, init=False)
    num_broken: int = field(default=0, init=False)

    @cached_property
    def files(self) -> dict[str, Path]:
        """Video id -> file. Ids only ever pick from what lies in videos/, so none can lead out of it."""
        return {} if self.folder is None else find_videos(self.folder / "videos")

    @property
    def why_empty(self) -> str | None:
        """Why there can be no pictures at all, or None where there can."""
        if self.folder is None or not self.folder.is_dir():
            return "the dataset folder is not where the run was trained on it; pass --data DIR"
        if not self.files:
            return "the dataset folder has no videos"
        if find_spec("av") is None or find_spec("PIL") is None:
            return "PyAV and Pillow are not installed; type pip install 'p3iv[video]'"
        return None

    def data_uri(self, video: str, second: float | None) -> str | None:
        """The picture of a moment as a data: address, or None where there is none."""
        if second is None or self.why_empty is not None or video not in self.files:
            return None
        picture = read_picture(self.files[video], second)
        if picture is None:
            self.num_broken += 1
            return None
        self.num_read += 1
        return f"data:image/jpeg;base64,{base64.b64encode(picture).decode('ascii')}"


def read_picture(path: Path, second: float) -> bytes | None:
    """What a player shows at a moment, as JPEG; None where the file cannot be read so far."""
    from PIL import Image  # an optional dependency

    from p3iv.features.video import VideoReader  # needs PyAV

    try:
        with VideoReader(path) as reader:
            (picture,) = reader.frames_at([max(0.0, second)])
    except FeatureError:
        return None
    image = Image.fromarray(picture.pixels)
    image = image.resize((max(1, round(image.width * picture.pixel_aspect)), image.height))
    image = image.rotate(90 * picture.quarter_turns, expand=True)
    image.thumbnail((WIDTH, WIDTH), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=QUALITY, optimize=True)
    return buffer.getvalue()
