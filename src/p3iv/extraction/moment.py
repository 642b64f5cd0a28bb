"""Encode one moment of a video, or one picture, as extraction encodes them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from p3iv.encoders.base import Clips, Rows, VideoEncoder, clip_moments
from p3iv.encoders.identity import ONNX
from p3iv.errors import FeatureError
from p3iv.features.observation import rows_around, rows_before
from p3iv.features.pictures import Picture, frame_picture
from p3iv.types import Array

if TYPE_CHECKING:
    from p3iv.features.video import VideoReader


MAX_BEFORE = 120  # seconds that are encoded of what came before a moment


def rows_of(parts: Sequence[Rows]) -> Array:
    """The rows of clips that were encoded one by one, (N, F) float32."""
    return np.concatenate(parts).astype(np.float32, copy=False)


class FrameReader(Protocol):
    """Gives the frames at moments in ascending order; fewer if a video that arrives has ended."""

    def frames_at(self, moments: Iterable[float]) -> Iterator[Picture]: ...


def clips_of(reader: FrameReader, seconds: Iterable[int], encoder: VideoEncoder) -> Iterator[Clips]:
    """One clip per second, (1, L, 3, S, S) each."""
    length = encoder.frames_per_clip
    moments = (moment for second in seconds for moment in clip_moments(encoder, second))
    frames: list[NDArray[np.uint8]] = []
    for picture in reader.frames_at(moments):
        frames.append(_frame(picture, encoder))
        if len(frames) == length:
            yield np.stack(frames)[None]
            frames.clear()


def _frame(picture: Picture, encoder: VideoEncoder) -> NDArray[np.uint8]:
    return frame_picture(picture, encoder.framing, with_torch=encoder.identity.backend != ONNX)


def encode_moment(path: Path, moment_s: float, encoder: VideoEncoder) -> Array:
    """The rows that show a moment of a video, (3, F) float32: the same that training reads.

    Raises:
        FeatureError: naming the file, also for a moment after its end.
    """
    from p3iv.features.video import VideoReader  # needs PyAV, as does the next

    with VideoReader(path) as reader:
        if not 0 <= moment_s <= reader.length_s:
            length = math.floor(10 * reader.length_s) / 10
            raise FeatureError(
                f"{path}: is {length:.1f} s long, asked for {moment_s:g} s: give a time from 0 to {length:g}"
            )
        return encode_seconds(reader, [int(second) for second in rows_around(moment_s, reader.num_seconds)], encoder)


def encode_before(path: Path, moment_s: float, encoder: VideoEncoder) -> Array | None:
    """The mean row of a video before a moment, (F,) float32; None if nothing comes before.

    Of a long video, at most `MAX_BEFORE` seconds at equal distances stand for all.
    """
    from p3iv.features.video import VideoReader

    with VideoReader(path) as reader:
        seconds = seconds_before(moment_s, reader.num_seconds)
        return encode_seconds(reader, seconds, encoder).mean(axis=0) if seconds else None


def seconds_before(moment_s: float, num_seconds: int) -> list[int]:
    """The seconds of a video that stand for all before a moment: each of them, every second one, every fourth ...

    So two moments near each other have nearly all of them in common, and who keeps rows encodes few new ones.

    >>> seconds_before(5, 60), seconds_before(1000, 1200)[-3:]
    ([0, 1, 2, 3], [960, 976, 992])
    """
    number, distance = rows_before(moment_s, num_seconds), 1
    while number > MAX_BEFORE * distance:
        distance *= 2
    return list(range(0, number, distance))


def encode_seconds(reader: VideoReader, seconds: Sequence[int], encoder: VideoEncoder) -> Array:
    """The rows of these seconds of a video, in their order, (N, F) float32; each is read and encoded once."""
    different = sorted(set(seconds))  # a reader cannot go back
    rows = [np.empty((0, encoder.width), np.float32), *map(encoder.encode, clips_of(reader, different, encoder))]
    return rows_of(rows)[np.searchsorted(different, seconds)]


def encode_picture(picture: Picture, encoder: VideoEncoder, name: str) -> Array:
    """The row of a single picture, (1, F) float32.

    Raises:
        FeatureError: naming the picture; for an encoder of clips, which has never seen one without motion.
    """
    if encoder.frames_per_clip > 1:
        raise FeatureError(
            f"{name}: {encoder.identity.name} encodes clips of {encoder.frames_per_clip} frames, not single pictures. "
            f"Give a moment of a video: VIDEO.mp4@SECONDS."
        )
    return rows_of([encoder.encode(_frame(picture, encoder)[None, None])])
