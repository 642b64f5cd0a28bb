"""What a worker process of the service does: look at videos and pictures, draw them small, and encode them.

`set_up` is called once in each process; the other functions are jobs. The paths come from the library of the service,
never from a client, and no error or result names one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from p3iv.encoders.base import EncoderOptions
from p3iv.encoders.identity import ONNX
from p3iv.encoders.registry import DEFAULT_ENCODER, build_encoder
from p3iv.errors import FeatureError, MissingExtraError, P3ivError, PlanError
from p3iv.moments import EncoderChoice, MomentReader
from p3iv.planners.header import planner_file, read_header
from p3iv.types import Array

if TYPE_CHECKING:
    from p3iv.encoders.base import VideoEncoder

_VIDEO: Final = "The video"
_PICTURE: Final = "The picture"


@dataclass(frozen=True)
class VideoFacts:
    """What is known about a video file that can be decoded."""

    length_s: float
    width: int  # as displayed, like the height
    height: int
    codec: str
    media_type: str | None  # for browsers; None: they cannot play it


@dataclass(frozen=True)
class PictureFacts:
    """What is known about a picture file."""

    width: int  # as displayed, like the height
    height: int


@dataclass(frozen=True)
class EncoderFacts:
    """What is known about the encoder of a worker process."""

    name: str
    fingerprint: str | None
    takes_pictures: bool  # not only moments of videos
    notes: tuple[str, ...] = ()  # what a user should know, such as that it cannot be checked


@dataclass
class _Worker:
    """What a process keeps from one job to the next."""

    encoder: VideoEncoder | None = None
    problem: P3ivError | None = None  # why there is no encoder
    notes: tuple[str, ...] = ()


_worker: Final = _Worker()


def set_up(planner: Path | None, choice: EncoderChoice) -> None:
    """Build the encoder of a planner's features, which computes in one thread, and import what the jobs need.

    Only the header of the planner is read. Without an encoder, videos and pictures are drawn, but not encoded.

    Args:
        planner: its file or folder; without one, the encoder is the one that `p3iv extract` takes by default.
        choice: what the user says about the encoder.
    """
    with suppress(MissingExtraError):  # the jobs that need it say so
        import p3iv.features.thumbnails
        import p3iv.features.video  # noqa: F401 memory that a library takes is not that of the first job
    notes: list[str] = []
    try:
        if planner is None:
            encoder = build_encoder(
                choice.name or DEFAULT_ENCODER, EncoderOptions(choice.weights, allow_download=choice.allow_download)
            )
        else:
            encoder = MomentReader(read_header(planner_file(planner)), choice, notes.append).encoder
        _prepare(encoder)
    except P3ivError as error:
        _worker.encoder, _worker.problem = None, error
    else:
        _worker.encoder, _worker.notes = encoder, tuple(notes)


def _prepare(encoder: VideoEncoder) -> None:
    """Use one thread, and encode once: the first time takes 80 ms longer."""
    if encoder.identity.backend != ONNX:
        import torch  # an encoder in an ONNX file does without

        torch.set_num_threads(1)
    size = encoder.framing.size
    encoder.encode(np.zeros((1, encoder.frames_per_clip, 3, size, size), np.uint8))


def _encoder() -> VideoEncoder:
    if _worker.encoder is None:
        raise _worker.problem or PlanError("There is no encoder here.")
    return _worker.encoder


def describe_encoder() -> EncoderFacts:
    """What is known about the encoder.

    Raises:
        P3ivError: why there is none.
    """
    encoder = _encoder()
    identity = encoder.identity
    return EncoderFacts(identity.name, identity.fingerprint, encoder.frames_per_clip == 1, _worker.notes)


def probe_video(path: Path) -> VideoFacts:
    """Measure a video and decode its first frame.

    Raises:
        FeatureError: it is not a video that can be decoded.
    """
    from p3iv.features.thumbnails import displayed_size
    from p3iv.features.video import VideoReader

    with _hiding(path, _VIDEO), VideoReader(path) as reader:
        (picture,) = reader.frames_at([0.0])
        width, height = displayed_size(picture)
        return VideoFacts(float(reader.length_s), width, height, reader.codec, reader.media_type)


def probe_picture(path: Path) -> PictureFacts:
    """Read a picture.

    Raises:
        FeatureError: it is not a picture that can be read.
    """
    from p3iv.features.pictures import read_picture

    with _hiding(path, _PICTURE):
        height, width = read_picture(path).pixels.shape[:2]
    return PictureFacts(width, height)


def video_frame(path: Path, length_s: float, second: float, width: int) -> bytes:
    """The frame at a second, as JPEG; see `p3iv.features.thumbnails`."""
    from p3iv.features.thumbnails import frame_thumbnail
    from p3iv.features.video import VideoReader

    with _hiding(path, _VIDEO), VideoReader(path, length_s) as reader:
        return frame_thumbnail(reader, second, width)


def video_strip(path: Path, length_s: float, number: int, width: int) -> bytes:
    """Frames of the whole video side by side, as JPEG."""
    from p3iv.features.thumbnails import strip_thumbnail
    from p3iv.features.video import VideoReader

    with _hiding(path, _VIDEO), VideoReader(path, length_s) as reader:
        return strip_thumbnail(reader, number, width)


def thumbnail_rows(path: Path, length_s: float, seconds: tuple[int, ...]) -> Array:
    """The pixels of a small picture in the middle of some seconds, (N, F) float32, where there is no encoder."""
    from p3iv.features.thumbnails import small_pixels
    from p3iv.features.video import VideoReader

    with _hiding(path, _VIDEO), VideoReader(path, length_s) as reader:
        times = [min(second + 0.5, length_s) for second in seconds]
        return np.stack([small_pixels(picture) for picture in reader.frames_at(times)])


def picture_jpeg(path: Path, width: int) -> bytes:
    """A picture file as JPEG."""
    from p3iv.features.thumbnails import picture_thumbnail

    with _hiding(path, _PICTURE):
        return picture_thumbnail(path, width)


def encode_seconds(path: Path, length_s: float, seconds: tuple[int, ...]) -> Array:
    """The rows of these seconds of a video, in their order, (N, F) float32: the same as in extraction.

    Raises:
        FeatureError: the video cannot be decoded up to there.
        PlanError: there is no encoder.
    """
    from p3iv.extraction import moment
    from p3iv.features.video import VideoReader

    encoder = _encoder()
    with _hiding(path, _VIDEO), VideoReader(path, length_s) as reader:
        return moment.encode_seconds(reader, seconds, encoder)


def encode_picture_file(path: Path) -> Array:
    """The row of a picture, (1, F) float32.

    Raises:
        FeatureError: it is not a picture, or the encoder takes clips only.
        PlanError: there is no encoder.
    """
    from p3iv.extraction.moment import encode_picture
    from p3iv.features.pictures import read_picture

    encoder = _encoder()
    with _hiding(path, _PICTURE):
        return encode_picture(read_picture(path), encoder, _PICTURE)


@contextmanager
def _hiding(path: Path, what: str) -> Iterator[None]:
    """Let errors name a file as what it is in place of where it is."""
    try:
        yield
    except FeatureError as error:
        message = str(error)
        for written in (repr(path), repr(str(path)), str(path)):
            message = message.replace(f" {written}", "").replace(written, what)
        raise FeatureError(message) from error
