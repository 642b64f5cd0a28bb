"""Pictures: pixels, and how they are meant to be shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from p3iv.errors import FeatureError, MissingExtraError


@dataclass(frozen=True)
class Framing:
    """The centre square that a network is shown: its side in pixels, and the filter that brings it there."""

    size: int = 224
    filter: Literal["bilinear", "bicubic"] = "bilinear"


def frame_picture(picture: Picture, framing: Framing) -> Tensor:
    """The centre square of a picture as shown, (3, S, S) uint8.

    It is cut out of the stored pixels first: shape and size are then changed in one step, whose cost and memory do not
    depend on how long or how flat the picture is.
    """
    height, width = picture.pixels.shape[:2]
    side = min(float(height), width * picture.pixel_aspect)
    square = _centre(picture.pixels, rows=round(side), columns=round(side / picture.pixel_aspect))
    image = torch.from_numpy(square).permute(2, 0, 1)[None]  # (1, 3, rows, columns)
    size = (framing.size, framing.size)
    if image.shape[-2:] != size:
        image = functional.interpolate(image, size=size, mode=framing.filter, antialias=True)
    return torch.rot90(image[0], picture.quarter_turns, dims=(1, 2)).contiguous()


def _centre(pixels: NDArray[np.uint8], *, rows: int, columns: int) -> NDArray[np.uint8]:
    height, width = pixels.shape[:2]
    rows, columns = min(max(rows, 1), height), min(max(columns, 1), width)
    top, left = (height - rows) // 2, (width - columns) // 2
    return pixels[top : top + rows, left : left + columns]


MOST_PIXELS: Final = 1 << 26  # of one picture: twice those of 8K, 200 MB as RGB


@dataclass(frozen=True)
class Picture:
    """Pixels as they are stored, and how they are meant to be shown."""

    pixels: NDArray[np.uint8]  # (height, width, 3)
    pixel_aspect: float = 1.0  # width of a stored pixel over its height
    quarter_turns: int = 0  # counterclockwise, after the pixels have their shape


def read_picture(path: Path) -> Picture:
    """A picture file, turned as its camera was held.

    Raises:
        FeatureError: naming the file.
    """
    try:
        from PIL import Image, ImageOps  # only single pictures need Pillow
    except ImportError as error:
        raise MissingExtraError("Pillow", "video", "Reading a picture") from error

    try:
        with Image.open(path) as image:
            if image.width * image.height > MOST_PIXELS:
                raise FeatureError(
                    f"{path}: a picture of {image.width} x {image.height}; {MOST_PIXELS:,} pixels at most"
                )
            return Picture(np.array(ImageOps.exif_transpose(image).convert("RGB")))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise FeatureError(f"{path}: cannot be read as a picture ({error})") from error
