"""Read frames of video files by time, and write video files, through PyAV."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final, Self, cast

import numpy as np
from numpy.typing import NDArray

from p3iv.errors import FeatureError, MissingExtraError
from p3iv.features.pictures import MAX_PIXELS, Picture
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

_LONG_GAP_S: Final = 5  # a gap worth seeking over while the key frames are unknown (Matroska's index is read late)

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
        container = _open_container(path)
        try:
            stream = _video_stream(container)
            stream.codec_context.options = {"max_pixels": str(MAX_PIXELS)}
            stream.codec_context.thread_count = 1
        except BaseException:
            container.close()
            raise
    return container, stream


def _open_container(path: Path) -> InputContainer:
    options = {"protocol_whitelist": "file", "format_whitelist": ",".join(CONTAINERS)}
    try:
        # A URL, since PyAV takes names such as http:x for protocols. A title in Latin-1 must not make PyAV fail.
        return av.open(f"file:{os.fspath(path)}", options=options, metadata_errors="replace")
    except av.ArgumentError as error:  # FFmpeg's answer to other containers
        raise FeatureError(f"is damaged, or its container is not one of {', '.join(CONTAINERS)}") from error


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
        return _start_s(stream)
    starts = [_start_s(stream) for stream in container.streams if stream.start_time is not None]
    rounded = Fraction(container.start_time, av.time_base)
    return min((start for start in starts if abs(start - rounded) < Fraction(1, av.time_base)), default=rounded)


def _start_s(stream: Stream) -> Fraction:
    return (stream.start_time or 0) * (stream.time_base or Fraction(0))


def measure_s(path: Path) -> Fraction:
    """The time from second 0 to the end of the last packet.

    Only packets after the last key frame are read. If they do not reach the declared end, all packets are: after a
    seek, H.264 in FLV has none, raw streams have no times, and a truncated file has none at its declared end.

    Raises:
        FeatureError: the file is a second shorter than it declares, or empty, or too long.
    """
    container, stream = open_video(path)
    with container:
        declared_s = _declared_s(container, stream)
        _require_short(declared_s)
        last_s = _end_after_seek_s(container, stream, declared_s)
    needed_s = declared_s - Fraction(MAX_MISSING_S)
    if last_s is None or last_s < needed_s:
        container, stream = open_video(path)  # not every container can seek back to its first packet
        with container:
            last_s = _end_s(container, stream)
    if last_s is None or last_s < needed_s:
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
    origin, step_s = time_origin(container, stream), _step_s(stream)
    end_s: Fraction | None = None
    for packet in container.demux(stream):
        if not packet.size or packet.is_corrupt:
            continue
        stamp, length_s = _stamp(packet), (packet.duration or 0) * packet.time_base
        if stamp is None:
            end_s = (end_s or Fraction(0)) + (length_s or step_s)
        else:
            end_s = max(end_s or Fraction(0), stamp * packet.time_base + length_s - origin)
    return end_s


def _stamp(timed: Packet[VideoStream] | VideoFrame) -> int | None:
    return timed.pts if timed.pts is not None else timed.dts


def _step_s(stream: VideoStream) -> Fraction:
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
        starts_late = _start_s(stream) - time_origin(container, stream)
        return stream.duration * stream.time_base + max(starts_late, Fraction(0))
    # Matroska counts from 0 on the file's clock, others from second 0 of the video: take the shorter of the two.
    duration_s = Fraction(container.duration or 0, av.time_base)
    return duration_s - max(min(time_origin(container, stream), duration_s), Fraction(0))


@dataclass(frozen=True)
class _Frame:
    """A decoded frame and its time, in seconds from the start of the video."""

    content: VideoFrame
    time_s: Fraction
    end_s: Fraction  # equal to time_s if the file has no duration for it


class VideoReader:
    """An open video: `reader.frames_at(moments)` returns what a player shows at these moments.

    The frame at second t is the last one whose presentation time is at most t; before the first frame it is the first.
    Two frames are in memory at a time, however long the video is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.num_decoded = 0  # frames, so far
        self._current: _Frame | None = None  # the last frame at or before the moment
        self._upcoming: _Frame | None = None
        self._containers: list[InputContainer] = []  # the open one, if any

    def __enter__(self) -> Self:
        with naming_faults(self.path):
            self.length_s = measure_s(self.path)
            self._restart()
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @property
    def num_seconds(self) -> int:
        """The number of seconds that begin before the video ends; at least one."""
        return max(1, -(-self.length_s.numerator // self.length_s.denominator))

    def frames_at(self, moments: Sequence[float]) -> Iterator[Picture]:
        """The frames at the given seconds, which must be in ascending order.

        Raises:
            FeatureError: naming the file, which cannot be decoded up to there.
        """
        for moment in moments:
            with naming_faults(self.path):
                picture = self._picture(self._shown_at(Fraction(moment)))
            yield picture

    def _shown_at(self, moment: Fraction) -> _Frame:
        if self._is_worth_seeking(moment):
            self._seek(moment)
        while self._upcoming is not None and self._upcoming.time_s <= moment:
            self._current, self._upcoming = self._upcoming, next(self._frames, None)
        shown = self._current or self._upcoming
        if shown is None:
            raise FeatureError("no frame can be decoded")
        if self._upcoming is None and moment > shown.end_s + Fraction(MAX_MISSING_S):
            raise FeatureError(f"its frames end at {float(shown.end_s):.1f} s, asked for {float(moment):.1f} s")
        return shown

    def _is_worth_seeking(self, moment: Fraction) -> bool:
        """Whether there is a key frame between the last decoded frame and the moment."""
        if self._upcoming is None or moment <= self._upcoming.time_s or _stamp(self._upcoming.content) is None:
            return False
        time_base, index = self._stream.time_base, self._stream.index_entries
        if len(index) < 2 or not time_base:
            return moment - self._upcoming.time_s > _LONG_GAP_S
        found = index.search_timestamp(int((moment + self._origin) / time_base))
        return found >= 0 and index[found].timestamp * time_base - self._origin > self._upcoming.time_s

    def _seek(self, moment: Fraction) -> None:
        """Seek to the last key frame at or before `moment`.

        Containers order key frames by decoding time, which may be earlier than presentation time. So check the first
        frame after a jump, and jump further back until it is early enough.
        """
        back_s = Fraction(0)
        while moment - back_s > 0:
            try:
                self._jump(moment - back_s)
            except av.FFmpegError:
                break  # seeking fails in this file, so read it from its start
            if self._upcoming is not None and self._upcoming.time_s <= moment:
                return
            back_s = max(Fraction(1), 2 * back_s)
        self._restart()

    def _jump(self, moment: Fraction) -> None:
        stamp = int((moment + self._origin) / (self._stream.time_base or 1))
        self._containers[0].seek(stamp, stream=self._stream)
        self._begin(from_start=False)

    def _restart(self) -> None:
        """Open the file again: not every container can seek back to its first frame."""
        self._close()
        container, self._stream = open_video(self.path)
        self._containers = [container]
        self._origin = time_origin(container, self._stream)
        self._begin(from_start=True)

    def _begin(self, *, from_start: bool) -> None:
        self._frames = self._decode(from_start=from_start)
        self._current, self._upcoming = None, next(self._frames, None)

    def _close(self) -> None:
        self._frames, self._current, self._upcoming = iter(()), None, None
        while self._containers:
            self._containers.pop().close()

    def _decode(self, *, from_start: bool) -> Iterator[_Frame]:
        """The frames in the order of their times; frames that go back in time, in damaged files, are skipped."""
        last: _Frame | None = None
        step_s = _step_s(self._stream)
        for content in self._containers[0].decode(self._stream):
            self.num_decoded += 1
            stamp, length_s = _stamp(content), (content.duration or 0) * (content.time_base or 0)
            if stamp is not None and content.time_base:
                time_s = stamp * content.time_base - self._origin
            elif last is not None or from_start:
                length_s = length_s or step_s
                time_s = Fraction(0) if last is None else last.time_s + (last.end_s - last.time_s or step_s)
            else:
                return  # after a jump, the time of a frame without a time stamp is unknown
            if last is not None and time_s <= last.time_s:
                continue
            last = _Frame(content, time_s, time_s + length_s)
            yield last

    def _picture(self, frame: _Frame) -> Picture:
        require_small(frame.content.width, frame.content.height)
        pixels = cast(NDArray[np.uint8], frame.content.to_ndarray(format="rgb24"))
        aspect = self._stream.sample_aspect_ratio or Fraction(1)
        return Picture(pixels, float(aspect) if aspect > 0 else 1.0, round(frame.content.rotation / 90) % 4)


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
