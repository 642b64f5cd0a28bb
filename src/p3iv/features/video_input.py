"""Opening a video file of any origin, and how long it really is."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Final

from p3iv.errors import FeatureError, MissingExtraError
from p3iv.features.pictures import MOST_PIXELS

try:
    import av
    from av.container import InputContainer
    from av.stream import Disposition
    from av.video.stream import VideoStream
except ImportError as error:
    raise MissingExtraError("av", "video", "Reading and writing video") from error

DecodingFault = av.FFmpegError  # what PyAV raises on a file that it cannot go on with
MOST_MISSING_S: Final = 1.0  # between the length that a file announces and its last picture; containers round


@contextmanager
def naming_faults(path: Path) -> Iterator[None]:
    """Whatever goes wrong with a video inside the block becomes a FeatureError that names the file."""
    try:
        yield
    except FeatureError as error:
        raise FeatureError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from error
    except (av.FFmpegError, OSError, ValueError, MemoryError) as error:
        raise FeatureError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error


def open_video(path: Path) -> tuple[InputContainer, VideoStream]:
    """The container, for the caller to close, and its first video stream, which decodes in one thread.

    Raises:
        FeatureError: naming the file, whatever it is.
    """
    with naming_faults(path):
        _require_file(path)
        # As a URL, no name is taken for a protocol; and a playlist under a video's name opens nothing elsewhere.
        container = av.open(f"file:{os.fspath(path)}", options={"protocol_whitelist": "file"})
        try:
            stream = _pictures_of(container)
            stream.codec_context.options = {"max_pixels": str(MOST_PIXELS)}
            stream.codec_context.thread_count = 1
        except BaseException:
            container.close()
            raise
    return container, stream


def find_fault(path: Path) -> str | None:
    """Why a file is no whole video, or None; it is opened and read from near its end, not decoded."""
    try:
        with naming_faults(path):
            container, stream = open_video(path)
            with container:
                measure_s(container, stream)
    except FeatureError as error:
        return str(error).removeprefix(f"{path}: ")
    return None


def time_origin(container: InputContainer, stream: VideoStream) -> Fraction:
    """Second 0 of a file on its own clock: where its first stream starts, as players and ffmpeg count."""
    if container.start_time is not None:
        return Fraction(container.start_time, av.time_base)
    return (stream.start_time or 0) * (stream.time_base or Fraction(0))


def measure_s(container: InputContainer, stream: VideoStream) -> Fraction:
    """From second 0 to the end of the last packet that is there; the packets from the last key frame on are read.

    Raises:
        FeatureError: where the file announces a second more than it holds, or holds nothing.
    """
    announced_s = _announced_s(container, stream)
    origin = time_origin(container, stream)
    if announced_s > 0 and stream.time_base:
        container.seek(int((origin + announced_s) / stream.time_base), stream=stream)
    ends = [
        (packet.pts + (packet.duration or 0)) * packet.time_base - origin
        for packet in container.demux(stream)
        if packet.pts is not None and packet.size and not packet.is_corrupt
    ]
    last_s = max(ends, default=Fraction(0))
    if not ends or last_s < announced_s - Fraction(MOST_MISSING_S):
        raise FeatureError(f"cut short: {float(announced_s):.1f} s announced, {float(last_s):.1f} s there")
    return last_s


def _require_file(path: Path) -> None:
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise FeatureError("is a folder, not a video")
    if not stat.S_ISREG(status.st_mode):
        raise FeatureError("is no regular file")
    if not status.st_size:
        raise FeatureError("is empty")


def _pictures_of(container: InputContainer) -> VideoStream:
    """The first stream of moving pictures; the cover of a song is none."""
    streams = [stream for stream in container.streams.video if not stream.disposition & Disposition.attached_pic]
    if not streams:
        raise FeatureError("no video stream")
    width, height = streams[0].codec_context.width, streams[0].codec_context.height
    require_small(width, height)
    return streams[0]


def require_small(width: int, height: int) -> None:
    """Refuse pictures that no camera makes, before anything is allocated for one."""
    if width * height > MOST_PIXELS:
        raise FeatureError(f"pictures of {width} x {height}; up to {MOST_PIXELS:,} pixels are read")


def _announced_s(container: InputContainer, stream: VideoStream) -> Fraction:
    """What the file says; 0 where it says nothing, as raw streams do."""
    if stream.duration is not None and stream.time_base is not None:
        starts_late = (stream.start_time or 0) * stream.time_base - time_origin(container, stream)
        return stream.duration * stream.time_base + max(starts_late, Fraction(0))
    # Matroska counts from 0 on the file's clock, others from second 0 of the video: the shorter reading is sure.
    duration_s = Fraction(container.duration or 0, av.time_base)
    return duration_s - max(min(time_origin(container, stream), duration_s), Fraction(0))
