"""Small videos: every frame shows its number as a row of black and white squares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import cast

import av
import numpy as np
from av.video.stream import VideoStream
from numpy.typing import NDArray

NUM_BITS, SQUARE = 8, 16  # squares of a macroblock survive compression


def numbered(number: int, *, width: int = NUM_BITS * SQUARE, height: int = 32) -> NDArray[np.uint8]:
    """A picture whose upper half shows a number in binary, the lowest bit at the left."""
    picture = np.full((height, width, 3), 128, np.uint8)
    for bit in range(NUM_BITS):
        picture[: height // 2, bit * SQUARE : (bit + 1) * SQUARE] = 255 * (number >> bit & 1)
    return picture


def number_of(pixels: NDArray[np.uint8]) -> int:
    """The number that a picture shows."""
    row = pixels[pixels.shape[0] // 4, SQUARE // 2 :: SQUARE, 0][:NUM_BITS]
    return sum(int(value > 128) << bit for bit, value in enumerate(row))


def write_clip(
    path: Path,
    times_ms: Sequence[int],
    *,
    codec: str = "libx264",
    options: Mapping[str, str] | None = None,
    size: tuple[int, int] = (NUM_BITS * SQUARE, 32),
    pixel_format: str = "yuv420p",
    aspect: Fraction | None = None,
    rotation: float = 0.0,
    container_options: Mapping[str, str] | None = None,
) -> None:
    """Write a video of numbered frames that appear at the given milliseconds."""
    with av.open(path, "w", options=dict(container_options or {})) as container:
        stream = cast(VideoStream, container.add_stream(codec, rate=25, options=dict(options or {})))
        stream.width, stream.height = size
        stream.pix_fmt = pixel_format
        stream.time_base = stream.codec_context.time_base = Fraction(1, 1000)
        if aspect is not None:
            stream.codec_context.sample_aspect_ratio = aspect
        if rotation:
            stream.set_display_rotation(rotation)
        for number, time_ms in enumerate(times_ms):
            frame = av.VideoFrame.from_ndarray(numbered(number, width=size[0], height=size[1]), format="rgb24")
            frame.pts, frame.time_base = time_ms, Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
