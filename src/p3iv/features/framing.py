"""The square of a picture that a network sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from p3iv.features.pictures import Picture


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
