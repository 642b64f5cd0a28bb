"""Single pictures: reading them, and cropping and scaling them for an encoder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Literal

import numpy as np
from numpy.typing import NDArray

from p3iv.errors import FeatureError, MissingExtraError

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Framing:
    """The input of an encoder: the centre square, its side in pixels, and the filter for scaling."""

    size: int = 224
    filter: Literal["bilinear", "bicubic"] = "bilinear"


def frame_picture(picture: Picture, framing: Framing, *, with_torch: bool = True) -> NDArray[np.uint8]:
    """The centre square of a picture in its display orientation, (3, S, S).

    It is cut out of the stored pixels before scaling, so that cost and memory do not grow with very wide or tall
    pictures. Torch scales for encoders that it computes, Pillow for others: about one value in 1,000 then differs by 1.
    """
    height, width = picture.pixels.shape[:2]
    side = min(float(height), width * picture.pixel_aspect)
    square = _centre(picture.pixels, rows=round(side), columns=round(side / picture.pixel_aspect))
    if square.shape[:2] != (framing.size, framing.size):
        square = (_scale_with_torch if with_torch else _scale_with_pillow)(square, framing)
    return np.ascontiguousarray(np.rot90(square, picture.quarter_turns).transpose(2, 0, 1))


def _scale_with_torch(square: NDArray[np.uint8], framing: Framing) -> NDArray[np.uint8]:
    import torch  # an encoder in an ONNX file does without

    image = torch.from_numpy(square).permute(2, 0, 1)[None]  # (1, 3, rows, columns)
    size = (framing.size, framing.size)
    scaled = torch.nn.functional.interpolate(image, size=size, mode=framing.filter, antialias=True)
    return scaled[0].permute(1, 2, 0).numpy()


def _scale_with_pillow(square: NDArray[np.uint8], framing: Framing) -> NDArray[np.uint8]:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("Pillow", "video", "Encoding pictures without torch") from error
    how = Image.Resampling.BILINEAR if framing.filter == "bilinear" else Image.Resampling.BICUBIC
    return np.asarray(Image.fromarray(square).resize((framing.size, framing.size), how))


def _centre(pixels: NDArray[np.uint8], *, rows: int, columns: int) -> NDArray[np.uint8]:
    height, width = pixels.shape[:2]
    rows, columns = min(max(rows, 1), height), min(max(columns, 1), width)
    top, left = (height - rows) // 2, (width - columns) // 2
    return pixels[top : top + rows, left : left + columns]


FORMATS: Final = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")  # Pillow starts Ghostscript for others, such as EPS

MAX_PIXELS: Final = 1 << 26  # of one picture: twice those of 8K, 200 MB as RGB


@dataclass(frozen=True)
class Picture:
    """Pixels as stored, and how to display them."""

    pixels: NDArray[np.uint8]  # (height, width, 3)
    pixel_aspect: float = 1.0  # width of a stored pixel over its height
    quarter_turns: int = 0  # counterclockwise, after the pixel aspect is applied


def read_picture(path: Path, content: BinaryIO | None = None) -> Picture:
    """Read a picture file, rotated as its metadata say; or its content, if it was read before.

    Raises:
        FeatureError: naming the file.
    """
    try:
        from PIL import Image  # only single pictures need Pillow
    except ImportError as error:
        raise MissingExtraError("Pillow", "video", "Reading a picture") from error

    try:
        with Image.open(content or path, formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise FeatureError(
                    f"{path}: a picture of {image.width} x {image.height}; {MAX_PIXELS:,} pixels at most"
                )
            return picture_of_image(image)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise FeatureError(f"{path}: cannot be read as a picture ({error})") from error


def picture_of_image(image: Image) -> Picture:
    """An image of Pillow, rotated as its metadata say."""
    from PIL import ImageOps

    return Picture(np.array(ImageOps.exif_transpose(image).convert("RGB")))
