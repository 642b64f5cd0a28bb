"""Small JPEGs of videos and pictures, as they are displayed: upright, with square pixels, never enlarged."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from p3iv.errors import FeatureError, MissingExtraError
from p3iv.features.pictures import Picture, read_picture
from p3iv.types import Array

try:
    from PIL import Image
except ImportError as error:
    raise MissingExtraError("Pillow", "video", "Drawing small pictures") from error

if TYPE_CHECKING:
    from p3iv.features.video import VideoReader

QUALITY: Final = 80
GRID: Final = 12  # pixels of a side, where pictures are compared

MAX_STRETCH: Final = 4  # the largest height of a thumbnail over the width that is asked for; a phone held upright has 2

Size = tuple[int, int]  # width, height


def displayed_size(picture: Picture) -> Size:
    """The width and height of a picture on a screen with square pixels."""
    width, height = _upright(picture)
    return max(1, round(width)), max(1, round(height))


def fit(picture: Picture, width: int, height: int | None = None) -> Size:
    """The size of a thumbnail: at most so wide and high, and no larger than the picture.

    Without a height, it is limited to MAX_STRETCH times the width.
    """
    own_width, own_height = _upright(picture)
    scale = min(1.0, width / own_width, (height or MAX_STRETCH * width) / own_height)
    return max(1, round(scale * own_width)), max(1, round(scale * own_height))


def _upright(picture: Picture) -> tuple[float, float]:
    height, width = picture.pixels.shape[:2]
    size = (width * picture.pixel_aspect, float(height))
    return size if picture.quarter_turns % 2 == 0 else size[::-1]


def draw_thumbnail(picture: Picture, size: Size) -> Image.Image:
    """The whole picture, upright, scaled to a size."""
    turns = picture.quarter_turns % 4
    stored = size if turns % 2 == 0 else size[::-1]
    scaled = Image.fromarray(picture.pixels).resize(stored, Image.Resampling.LANCZOS, reducing_gap=3.0)
    turned = (None, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)[turns]
    return scaled if turned is None else scaled.transpose(turned)


def small_pixels(picture: Picture) -> Array:
    """The colours of a picture on a coarse grid, as numbers from 0 to 1: (F,) float32."""
    pixels = np.asarray(draw_thumbnail(picture, (GRID, GRID)), np.float32) / 255
    return pixels.reshape(-1)


def as_jpeg(image: Image.Image, quality: int = QUALITY, *, optimize: bool = False) -> bytes:
    """The bytes of a JPEG; of an image that was made from pixels, without metadata. To optimize it takes longer."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality, optimize=optimize)
    return buffer.getvalue()


def picture_thumbnail(path: Path, width: int) -> bytes:
    """A picture file as JPEG.

    Raises:
        FeatureError: naming the file.
    """
    picture = read_picture(path)
    return as_jpeg(draw_thumbnail(picture, fit(picture, width)))


def frame_thumbnail(reader: VideoReader, second: float, width: int) -> bytes:
    """The frame that a player shows at a second of a video, as JPEG; after its end it is the last.

    Raises:
        FeatureError: naming the file, which cannot be decoded up to there.
    """
    (picture,) = reader.frames_at([max(0.0, min(second, float(reader.length_s)))])
    return as_jpeg(draw_thumbnail(picture, fit(picture, width)))


def strip_thumbnail(reader: VideoReader, number: int, width: int) -> bytes:
    """Frames of a video side by side, as JPEG: each of the same size, from the middle of one of `number` equal parts.

    A frame may be up to half a part earlier, where that saves decoding. If the video cannot be decoded to its end, the
    last frame that can be is repeated.

    Raises:
        FeatureError: naming the file, of which no frame can be decoded.
    """
    cells: list[Image.Image] = []
    for picture in _frames_of_parts(reader, number):
        cells.append(draw_thumbnail(picture, cells[0].size if cells else fit(picture, width)))
    cells += [cells[-1]] * (number - len(cells))
    strip = Image.new("RGB", (number * cells[0].width, cells[0].height))
    for place, cell in enumerate(cells):
        strip.paste(cell, (place * cell.width, 0))
    return as_jpeg(strip)


def _frames_of_parts(reader: VideoReader, number: int) -> Iterator[Picture]:
    """A frame of each part, up to the first one that cannot be decoded; at least one."""
    half_s = reader.length_s / (2 * number)
    frames = reader.frames_at([float((2 * place + 1) * half_s) for place in range(number)], float(half_s))
    yield next(frames)
    try:
        yield from frames
    except FeatureError:
        return
