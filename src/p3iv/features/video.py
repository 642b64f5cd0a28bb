"""Writing video files, through PyAV."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, cast

import numpy as np
from numpy.typing import NDArray

from p3iv.errors import FeatureError, MissingExtraError
from p3iv.features.pictures import MOST_PIXELS, Picture
from p3iv.files import atomic_file

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


if TYPE_CHECKING:
    from av import VideoFrame
    from av.container import InputContainer

_LONG_GAP_S: Final = 5  # to jump over where no index says where the key frames are (yet: Matroska's is read late)

_USUAL_RATE: Final = Fraction(30)  # of frames in a file that says neither their times nor their rate


@dataclass(frozen=True)
class _Frame:
    """A decoded frame and when it appears, in seconds from the start of the file."""

    content: VideoFrame
    time_s: Fraction
    end_s: Fraction  # where the file says how long it is shown, else as time_s


class VideoReader:
    """An open video: `reader.frames_at(moments)` gives what a player shows then.

    The frame shown at second t is the last one whose presentation time is at most t. Before the first frame that is the
    first, after the last one the last. Memory holds two frames, however long the video is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.num_decoded = 0  # frames, so far
        self._held: _Frame | None = None  # the last one whose time has come
        self._upcoming: _Frame | None = None
        self._containers: list[InputContainer] = []  # the open one, or none

    def __enter__(self) -> Self:
        with naming_faults(self.path):
            container, stream = open_video(self.path)
            with container:
                self.length_s = measure_s(container, stream)
            self._restart()
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @property
    def num_seconds(self) -> int:
        """The seconds that begin before the video ends; at least one."""
        return max(1, -(-self.length_s.numerator // self.length_s.denominator))

    def frames_at(self, moments: Sequence[float]) -> Iterator[Picture]:
        """The frames shown at the given seconds, which must not go back in time.

        Raises:
            FeatureError: naming the file, where it cannot be decoded so far.
        """
        for moment in moments:
            with naming_faults(self.path):
                picture = self._picture(self._shown_at(Fraction(moment)))
            yield picture

    def _shown_at(self, moment: Fraction) -> _Frame:
        if self._is_worth_seeking(moment):
            self._seek(moment)
        while self._upcoming is not None and self._upcoming.time_s <= moment:
            self._held, self._upcoming = self._upcoming, next(self._frames, None)
        shown = self._held or self._upcoming
        if shown is None:
            raise FeatureError("no picture can be decoded")
        if self._upcoming is None and moment > shown.end_s + Fraction(MOST_MISSING_S):
            raise FeatureError(f"pictures end at {float(shown.end_s):.1f} s, asked for {float(moment):.1f} s")
        return shown

    def _is_worth_seeking(self, moment: Fraction) -> bool:
        """Whether a key frame lies between what was decoded last and what is asked for."""
        if self._upcoming is None or moment <= self._upcoming.time_s:
            return False
        time_base, index = self._stream.time_base, self._stream.index_entries
        if len(index) < 2 or not time_base:
            return moment - self._upcoming.time_s > _LONG_GAP_S
        found = index.search_timestamp(int((moment + self._origin) / time_base))
        return found >= 0 and index[found].timestamp * time_base - self._origin > self._upcoming.time_s

    def _seek(self, moment: Fraction) -> None:
        """Go to the last key frame whose picture is shown by `moment`.

        Containers order key frames by when they are decoded, which with reordered frames may be earlier than they are
        shown. So the first frame after a jump is looked at, and the jump made longer until that frame's time has come.
        """
        back_s = Fraction(0)
        while moment - back_s > 0:
            try:
                self._jump(moment - back_s)
            except DecodingFault:
                break  # a file that cannot be sought in is read from its start
            if self._upcoming is not None and self._upcoming.time_s <= moment:
                return
            back_s = max(Fraction(1), 2 * back_s)
        self._restart()

    def _jump(self, moment: Fraction) -> None:
        stamp = int((moment + self._origin) / (self._stream.time_base or 1))
        self._containers[0].seek(stamp, stream=self._stream)
        self._begin(from_start=False)

    def _restart(self) -> None:
        """Open the file again: not every container can be brought back to its first frame by seeking."""
        self._close()
        container, self._stream = open_video(self.path)
        self._containers = [container]
        self._origin = time_origin(container, self._stream)
        self._begin(from_start=True)

    def _begin(self, *, from_start: bool) -> None:
        self._frames = self._decode(from_start=from_start)
        self._held, self._upcoming = None, next(self._frames, None)

    def _close(self) -> None:
        self._frames, self._held, self._upcoming = iter(()), None, None
        while self._containers:
            self._containers.pop().close()

    def _decode(self, *, from_start: bool) -> Iterator[_Frame]:
        """Frames in the order of their times; those of a damaged clock that go back in time are left out."""
        last_s: Fraction | None = None
        step_s = 1 / (self._stream.average_rate or self._stream.guessed_rate or _USUAL_RATE)
        for content in self._containers[0].decode(self._stream):
            self.num_decoded += 1
            stamp = content.pts if content.pts is not None else content.dts
            if stamp is not None and content.time_base:
                time_s = stamp * content.time_base - self._origin
            elif last_s is not None or from_start:
                time_s = Fraction(0) if last_s is None else last_s + step_s
            else:
                return  # after a jump, a frame without a time could be any
            if last_s is not None and time_s <= last_s:
                continue
            last_s = time_s
            yield _Frame(content, time_s, time_s + (content.duration or 0) * (content.time_base or 0))

    def _picture(self, frame: _Frame) -> Picture:
        require_small(frame.content.width, frame.content.height)
        pixels = cast(NDArray[np.uint8], frame.content.to_ndarray(format="rgb24"))
        aspect = self._stream.sample_aspect_ratio or Fraction(1)
        return Picture(pixels, float(aspect) if aspect > 0 else 1.0, round(frame.content.rotation / 90) % 4)


try:
    import av
except ImportError as error:
    raise MissingExtraError("av", "video", "Writing video") from error


def write_video(path: Path, frames: Iterable[NDArray[np.uint8]], *, fps: int) -> None:
    """Write frames of one size, each (height, width, 3), as H.264; the same frames give the same bytes."""
    with atomic_file(path) as beside, av.open(beside, "w", format="mp4") as container:
        # ultrafast takes 0.3-0.5 ms per noisy frame of 160 x 160, superfast three times as long
        options = {"preset": "ultrafast", "crf": "22", "threads": "1"}
        stream = container.add_stream("libx264", rate=fps, options=options)
        stream.pix_fmt = "yuv420p"
        for number, pixels in enumerate(frames):
            if number == 0:
                stream.height, stream.width = pixels.shape[:2]
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
