"""Pictures: pixels, and how they are meant to be shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from p3iv.errors import FeatureError, MissingExtraError

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
        from PIL import Image, ImageOps  # noqa: PLC0415 - only single pictures need Pillow
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
