"""Open, check, measure and write video files, through PyAV."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from p3iv.errors import FeatureError, MissingExtraError
from p3iv.features.pictures import MAX_PIXELS
from p3iv.files import atomic_file

try:
    import av
    from av import Packet, VideoFrame
    from av.container import InputContainer
    from av.stream import Disposition, Stream
    from av.video.codeccontext import VideoCodecContext
    from av.video.stream import VideoStream
except ImportError as error:
    raise MissingExtraError("av", "video", "Reading and writing video") from error

LibraryError = av.FFmpegError  # of PyAV, for whatever is wrong with a file

MAX_MISSING_S: Final = 1.0  # between the declared length of a file and its last frame; containers round

# A day of a camera. Longer times come from damaged files; a row is made for each of these seconds.
MAX_LENGTH_S: Final = 24 * 60 * 60

# FFmpeg opens these only: each is one file. Playlists, such as concat and hls, open other files by their paths.
CONTAINERS: Final = (
    "mov",
    "matroska",
    "avi",
    "mpegts",
    "mpeg",
    "mpegvideo",
    "m4v",
    "h264",
    "hevc",
    "flv",
    "asf",
    "ogg",
)

_QUICKTIME: Final = "qt  "
_WEBM_CODECS: Final = ("vp8", "vp9", "av1")
_MP4_CODECS: Final = ("h264", "vp9", "av1")
_EIGHT_BITS: Final = ("yuv420p", "yuvj420p")  # browsers do not play H.264 with more bits or finer colours


class ByteSource(Protocol):
    """Bytes that arrive, such as through a pipe."""

    def read(self, number: int = -1, /) -> bytes:
        """At most so many bytes; none at the end."""


_DEFAULT_RATE: Final = Fraction(30)  # frames per second of a file that has neither times nor a rate


@contextmanager
def naming_faults(path: Path) -> Iterator[None]:
    """Turn every error with a video in the block into a FeatureError that names the file.

    Every error, since a damaged file can make PyAV raise any: OverflowError for a far time, AttributeError for a
    stream without a decoder. One bad video must not end the work on the others.
    """
    try:
        yield
    except FeatureError as error:
        raise FeatureError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from error
    except Exception as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise FeatureError(f"{path}: cannot be read ({reason})") from error


def open_video(path: Path) -> tuple[InputContainer, VideoStream]:
    """Open a container, for the caller to close, and its first video stream, which decodes in one thread.

    Raises:
        FeatureError: names the file; raised for any invalid file.
    """
    with naming_faults(path):
        _require_file(path)
        return _open(f"file:{os.fspath(path)}")  # a URL, since PyAV takes names such as http:x for protocols


def open_stream(source: ByteSource, name: Path) -> tuple[InputContainer, VideoStream]:
    """The same for a video that arrives, such as through a pipe; `name` is used in messages.

    Raises:
        FeatureError: names the stream; raised for anything that is not a video.
    """
    with naming_faults(name):
        return _open(source)


def _open(source: str | ByteSource) -> tuple[InputContainer, VideoStream]:
    container = _open_container(source)
    try:
        stream = _video_stream(container)
        stream.codec_context.options = {"max_pixels": str(MAX_PIXELS)}
        stream.codec_context.thread_count = 1
    except BaseException:
        container.close()
        raise
    return container, stream


def _open_container(source: str | ByteSource) -> InputContainer:
    options = {"protocol_whitelist": "file", "format_whitelist": ",".join(CONTAINERS)}
    try:
        return av.open(
            source, "r", options=options, metadata_errors="replace"
        )  # a title in Latin-1 must not make it fail
    except av.ArgumentError as error:  # FFmpeg's answer to other containers
        raise FeatureError(f"is damaged, or its container is not one of {', '.join(CONTAINERS)}") from error


def codec_of(stream: VideoStream) -> str:
    """The name of the codec of a video, such as h264, whichever decoder reads it."""
    return stream.codec_context.codec.canonical_name


def browser_type(container: InputContainer, stream: VideoStream) -> str | None:
    """The media type of a video for browsers; None if Chromium does not play it."""
    formats, codec = container.format.name.split(","), codec_of(stream)
    if "matroska" in formats and codec in _WEBM_CODECS:
        return "video/webm"
    brand = container.metadata.get("major_brand", _QUICKTIME)  # old files of QuickTime have none
    is_played = codec in _MP4_CODECS and (codec != "h264" or stream.codec_context.pix_fmt in _EIGHT_BITS)
    return "video/mp4" if "mov" in formats and brand != _QUICKTIME and is_played else None


def find_fault(path: Path) -> str | None:
    """Why a file is not a complete video, or None; it is opened and read from near its end, not decoded."""
    try:
        with naming_faults(path):
            measure_s(path)
    except FeatureError as error:
        return str(error).removeprefix(f"{path}: ")
    return None


def time_origin(container: InputContainer, stream: VideoStream) -> Fraction:
    """Second 0 of a video on the clock of its file: the start of the first stream, as in players and ffmpeg.

    FFmpeg rounds it to microseconds. Frames would come up to half a microsecond late, and whole seconds would show the
    frame before, so take the exact start of the stream that it comes from.
    """
    if container.start_time is None:
        return start_s(stream)
    starts = [start_s(stream) for stream in container.streams if stream.start_time is not None]
    rounded = Fraction(container.start_time, av.time_base)
    return min((start for start in starts if abs(start - rounded) < Fraction(1, av.time_base)), default=rounded)


def start_s(stream: Stream) -> Fraction:
    """The time of the first packet on the clock of the file."""
    return (stream.start_time or 0) * (stream.time_base or Fraction(0))


def measure_s(path: Path) -> Fraction:
    """The time from second 0 to the end of the last packet.

    Raises:
        FeatureError: the file is a second shorter than it declares, or empty, or too long.
    """
    container, stream = open_video(path)
    with container:
        length_s = seek_end_s(container, stream)
    return read_end_s(path) if length_s is None else length_s


def read_rate(path: Path) -> Fraction:
    """The number of frames per second; of a variable rate, the mean.

    Raises:
        FeatureError: names the file, which is not a video or has no rate.
    """
    container, stream = open_video(path)
    with container, naming_faults(path):
        rate = stream.average_rate or stream.guessed_rate
        if not rate or rate <= 0:
            raise FeatureError("the number of frames per second is not in it")
        return rate


def seek_end_s(container: InputContainer, stream: VideoStream) -> Fraction | None:
    """The end of the last packet; only packets after the last key frame are read.

    None if they do not reach the declared end: after a seek, H.264 in FLV has none, raw streams have no times, and a
    truncated file has none at its declared end. Then `read_end_s` has to read all packets.
    """
    declared_s = _declared_s(container, stream)
    _require_short(declared_s)
    last_s = _end_after_seek_s(container, stream, declared_s)
    if last_s is None or last_s < declared_s - Fraction(MAX_MISSING_S):
        return None
    _require_short(last_s)
    return last_s


def read_end_s(path: Path) -> Fraction:
    """The end of the last of all packets; the file is opened again: not every container can seek to its first one."""
    container, stream = open_video(path)
    with container:
        declared_s, last_s = _declared_s(container, stream), _end_s(container, stream)
    if last_s is None or last_s < declared_s - Fraction(MAX_MISSING_S):
        raise FeatureError(f"truncated: {float(declared_s):.1f} s declared, {float(last_s or 0):.1f} s found")
    _require_short(last_s)
    return last_s


def _end_after_seek_s(container: InputContainer, stream: VideoStream, declared_s: Fraction) -> Fraction | None:
    if declared_s <= 0 or not stream.time_base:
        return None
    try:
        container.seek(int((time_origin(container, stream) + declared_s) / stream.time_base), stream=stream)
        return _end_s(container, stream)
    except av.FFmpegError:
        return None


def _end_s(container: InputContainer, stream: VideoStream) -> Fraction | None:
    """The end of the last packet from here on, if there is one; packets without times follow one another."""
    origin, frame_s = time_origin(container, stream), step_s(stream)
    end_s: Fraction | None = None
    for packet in container.demux(stream):
        if not packet.size or packet.is_corrupt:
            continue
        stamp, length_s = stamp_of(packet), (packet.duration or 0) * packet.time_base
        if stamp is None:
            end_s = (end_s or Fraction(0)) + (length_s or frame_s)
        else:
            end_s = max(end_s or Fraction(0), stamp * packet.time_base + length_s - origin)
    return end_s


def stamp_of(timed: Packet[VideoStream] | VideoFrame) -> int | None:
    """The presentation time of a packet or frame or, if it has none, its decoding time; None if it has neither."""
    return timed.pts if timed.pts is not None else timed.dts


def step_s(stream: VideoStream) -> Fraction:
    """The time between frames, for files that have no times; the average rate of a raw stream is always 25."""
    return 1 / (stream.guessed_rate or stream.average_rate or _DEFAULT_RATE)


def _require_short(length_s: Fraction) -> None:
    if length_s > MAX_LENGTH_S:
        raise FeatureError(
            f"is {float(length_s):.0f} s long; up to {MAX_LENGTH_S} s ({MAX_LENGTH_S // 3600} h) are read"
        )


def _require_file(path: Path) -> None:
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise FeatureError("is a folder, not a video")
    if not stat.S_ISREG(status.st_mode):
        raise FeatureError("is not a regular file")
    if not status.st_size:
        raise FeatureError("is empty")


def _video_stream(container: InputContainer) -> VideoStream:
    """The first video stream that is not an attached picture, such as the cover of a song."""
    streams = [stream for stream in container.streams.video if not stream.disposition & Disposition.attached_pic]
    if not streams:
        raise FeatureError("no video stream")
    decoder: VideoCodecContext | None = streams[0].codec_context
    if decoder is None:
        raise FeatureError("its video codec has no decoder here; convert it, for example to H.264")
    require_small(decoder.width, decoder.height)
    return streams[0]


def require_small(width: int, height: int) -> None:
    """Refuse very large pictures before memory is allocated for one."""
    if width * height > MAX_PIXELS:
        raise FeatureError(f"pictures of {width} x {height}; up to {MAX_PIXELS:,} pixels are read")


def _declared_s(container: InputContainer, stream: VideoStream) -> Fraction:
    """The declared length; 0 if there is none, as in raw streams."""
    if stream.duration is not None and stream.time_base is not None:
        starts_late = start_s(stream) - time_origin(container, stream)
        return stream.duration * stream.time_base + max(starts_late, Fraction(0))
    # Matroska counts from 0 on the file's clock, others from second 0 of the video: take the shorter of the two.
    duration_s = Fraction(container.duration or 0, av.time_base)
    return duration_s - max(min(time_origin(container, stream), duration_s), Fraction(0))


def write_video(path: Path, frames: Iterable[NDArray[np.uint8]], *, fps: int) -> None:
    """Write frames of one size, each (height, width, 3), as H.264; the same frames give the same bytes."""
    with atomic_file(path) as temporary, av.open(temporary, "w", format="mp4") as container:
        # ultrafast takes 0.3-0.5 ms per noisy frame of 160 x 160, superfast three times as long
        options = {"preset": "ultrafast", "crf": "22", "threads": "1"}
        stream = container.add_stream("libx264", rate=fps, options=options)
        stream.pix_fmt = "yuv420p"
        for number, pixels in enumerate(frames):
            if number == 0:
                stream.height, stream.width = pixels.shape[:2]
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
