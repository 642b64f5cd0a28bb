"""Read the frames of a video by time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, cast

import numpy as np
from numpy.typing import NDArray

from p3iv.errors import FeatureError
from p3iv.features.pictures import Picture
from p3iv.features.video_file import (
    MAX_MISSING_S,
    LibraryError,
    browser_type,
    codec_of,
    naming_faults,
    open_video,
    read_end_s,
    require_small,
    seek_end_s,
    stamp_of,
    start_s,
    step_s,
    time_origin,
)

if TYPE_CHECKING:
    from av import Packet, VideoFrame
    from av.container import InputContainer
    from av.video.stream import VideoStream

_LONG_GAP_S: Final = 5  # a gap worth seeking over while the key frames are unknown (Matroska's index is read late)

_TIMED: Final = ("mov", "matroska")  # containers in which every packet has a time

_PROGRESSIVE: Final = 1  # FFmpeg's number for video without fields

# All frames of so many seconds before a moment are decoded, so that the last one at or before it is among them.
_LEAD_S: Final = Fraction(1, 4)


@dataclass(frozen=True)
class _Frame:
    """A decoded frame and its time, in seconds from the start of the video."""

    content: VideoFrame
    time_s: Fraction
    end_s: Fraction  # equal to time_s if the file has no duration for it


class VideoReader:
    """An open video: `reader.frames_at(moments)` returns what a player shows at these moments.

    The frame at second t is the last one whose presentation time is at most t; before the first frame it is the first.
    Two frames are in memory at a time, however long the video is. Of H.264, frames that no other frame refers to are
    not decoded where they are not wanted: on 720p video of x264 that saves a quarter of the time.

    Args:
        path: of the file.
        length_s: its length, if it was measured before.
    """

    def __init__(self, path: Path, length_s: Fraction | float | None = None) -> None:
        self.path = path
        self.num_decoded = 0  # frames, so far
        self._known_s = length_s
        self._frames: Iterator[_Frame] | None = None  # None: nothing is decoded yet
        self._current: _Frame | None = None  # the last frame at or before the moment
        self._upcoming: _Frame | None = None
        self._containers: list[InputContainer] = []  # the open one, if any
        self._is_fresh = False  # whether no packet of it has been read
        self._skips = False  # frames that no other frame refers to
        self._needed_s = Fraction(0)  # all frames are decoded from here on
        self._skipped_s: Fraction | None = None  # the last time before that whose frame may have been skipped

    def __enter__(self) -> Self:
        try:
            with naming_faults(self.path):
                self._open(skips=True)
                self.length_s = self._measure() if self._known_s is None else Fraction(self._known_s)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @property
    def num_seconds(self) -> int:
        """The number of seconds that begin before the video ends; at least one."""
        return max(1, -(-self.length_s.numerator // self.length_s.denominator))

    @property
    def codec(self) -> str:
        """The name of its codec, such as h264."""
        return codec_of(self._stream)

    @property
    def media_type(self) -> str | None:
        """Its media type for browsers; None if they do not play it."""
        return browser_type(self._containers[0], self._stream)

    def frames_at(self, moments: Iterable[float], tolerance_s: float = 0.0) -> Iterator[Picture]:
        """The frames at the given seconds, which must be in ascending order.

        With a tolerance, any frame that is shown so many seconds before a moment, or later up to it, is used for it:
        the key frame there, if there is one, so that a few pictures of a long video need few frames.

        Raises:
            FeatureError: naming the file, which cannot be decoded up to there.
        """
        for moment in moments:
            with naming_faults(self.path):
                picture = self._picture(self._shown_at(Fraction(moment), Fraction(moment - tolerance_s)))
            yield picture

    def _shown_at(self, moment: Fraction, earliest: Fraction) -> _Frame:
        try:
            shown = self._find(moment, earliest)
            is_found = self._skipped_s is None or shown.time_s >= self._skipped_s
        except LibraryError:
            if not self._skips:
                raise
            is_found = False
        if not is_found:  # the frame was skipped, or the file is damaged: what a decoder then shows may depend on more
            self._close()
            self._open(skips=False)
            shown = self._find(moment, earliest)
        if self._upcoming is None and moment > shown.end_s + Fraction(MAX_MISSING_S):
            raise FeatureError(f"its frames end at {float(shown.end_s):.1f} s, asked for {float(moment):.1f} s")
        return shown

    def _find(self, moment: Fraction, earliest: Fraction) -> _Frame:
        self._needed_s = earliest - max(_LEAD_S, 3 * step_s(self._stream))
        self._approach(moment)
        return self._advance(moment, earliest)

    def _advance(self, moment: Fraction, earliest: Fraction) -> _Frame:
        """Decode up to the moment, or up to a frame that is late enough for it."""
        while self._frames and self._upcoming is not None and self._upcoming.time_s <= moment:
            if self._upcoming.time_s >= earliest:
                return self._upcoming
            self._current, self._upcoming = self._upcoming, next(self._frames, None)
        shown = self._current or self._upcoming
        if shown is None:
            raise FeatureError("no frame can be decoded")
        return shown

    def _approach(self, moment: Fraction) -> None:
        """Go to the last key frame at or before the moment, if it is further on."""
        if self._frames is None and not self._is_timed:
            self._restart()  # the first frame shows whether frames have times
        if self._is_worth_seeking(moment):
            self._seek(moment)
        elif self._frames is None:
            self._start()

    def _is_worth_seeking(self, moment: Fraction) -> bool:
        """Whether there is a key frame between the last decoded frame, or the first of the file, and the moment."""
        if self._frames is None:
            last_s = start_s(self._stream) - self._origin
        elif self._upcoming is None or stamp_of(self._upcoming.content) is None:
            return False
        else:
            last_s = self._upcoming.time_s
        time_base, index = self._stream.time_base, self._stream.index_entries
        if len(index) < 2 or not time_base:
            return moment - last_s > _LONG_GAP_S
        found = index.search_timestamp(int((moment + self._origin) / time_base))
        return moment > last_s and found >= 0 and index[found].timestamp * time_base - self._origin > last_s

    def _seek(self, moment: Fraction) -> None:
        """Seek to the last key frame at or before `moment`.

        Containers order key frames by decoding time, which may be earlier than presentation time. So check the first
        frame after a jump, and jump further back until it is early enough.
        """
        back_s = Fraction(0)
        while moment - back_s > 0:
            try:
                self._jump(moment - back_s)
            except LibraryError:
                if self._skips:
                    raise
                break  # seeking fails in this file, so read it from its start
            if self._upcoming is not None and self._upcoming.time_s <= moment:
                return
            back_s = max(Fraction(1), 2 * back_s)
        self._restart()

    def _jump(self, moment: Fraction) -> None:
        stamp = int((moment + self._origin) / (self._stream.time_base or 1))
        self._is_fresh = False
        self._containers[0].seek(stamp, stream=self._stream)
        self._begin(from_start=False)

    def _start(self) -> None:
        """Go to the first frame: by a seek in an MP4 whose first sample is a key frame, its length being measured."""
        index = self._stream.index_entries
        if not self._is_fresh and "mov" in self._formats and len(index) and index[0].is_keyframe:
            self._containers[0].seek(index[0].timestamp, stream=self._stream)
            self._begin(from_start=True)
        else:
            self._restart()

    def _restart(self) -> None:
        """Open the file again, unless it is fresh: not every container can seek back to its first frame."""
        if not self._is_fresh:
            self._close()
            self._open(skips=self._skips)
        self._begin(from_start=True)

    def _open(self, *, skips: bool) -> None:
        container, self._stream = open_video(self.path)
        self._containers, self._is_fresh = [container], True
        self._origin: Fraction = time_origin(container, self._stream)
        self._formats = container.format.name.split(",")
        self._is_timed = any(name in self._formats for name in _TIMED)
        decoder = self._stream.codec_context
        is_progressive_h264 = decoder.name == "h264" and decoder.field_order == _PROGRESSIVE
        self._skips = skips and self._is_timed and is_progressive_h264
        if self._skips:
            decoder.options = {**decoder.options, "err_detect": "explode"}  # so that damage is an error

    def _measure(self) -> Fraction:
        self._is_fresh = False
        length_s = seek_end_s(self._containers[0], self._stream)
        if length_s is None:
            self._close()
            length_s = read_end_s(self.path)
            self._open(skips=True)
        return length_s

    def _begin(self, *, from_start: bool) -> None:
        self._is_fresh = False
        self._skipped_s = None
        self._frames = self._decode(from_start=from_start)
        self._current, self._upcoming = None, next(self._frames, None)

    def _close(self) -> None:
        self._frames = self._current = self._upcoming = None
        while self._containers:
            self._containers.pop().close()

    def _decode(self, *, from_start: bool) -> Iterator[_Frame]:
        """The frames in the order of their times; frames that go back in time, in damaged files, are skipped."""
        last: _Frame | None = None
        frame_s = step_s(self._stream)
        for content in self._contents():
            self.num_decoded += 1
            stamp, length_s = stamp_of(content), (content.duration or 0) * (content.time_base or 0)
            if stamp is not None and content.time_base:
                time_s = stamp * content.time_base - self._origin
            elif last is not None or from_start:
                length_s = length_s or frame_s
                time_s = Fraction(0) if last is None else last.time_s + (last.end_s - last.time_s or frame_s)
            else:
                return  # after a jump, the time of a frame without a time stamp is unknown
            if last is not None and time_s <= last.time_s:
                continue
            last = _Frame(content, time_s, time_s + length_s)
            yield last

    def _contents(self) -> Iterator[VideoFrame]:
        for packet in self._containers[0].demux(self._stream):
            self._stream.codec_context.skip_frame = "NONREF" if self._is_early(packet) else "DEFAULT"
            yield from packet.decode()

    def _is_early(self, packet: Packet[VideoStream]) -> bool:
        """Whether the frame of a packet is so long before the moment that another one will be shown."""
        if packet.pts is None or not self._skips:
            return False
        time_s = packet.pts * packet.time_base - self._origin
        if time_s >= self._needed_s:
            return False
        self._skipped_s = time_s if self._skipped_s is None else max(self._skipped_s, time_s)
        return True

    def _picture(self, frame: _Frame) -> Picture:
        return picture_of_frame(frame.content, self._stream)


def picture_of_frame(content: VideoFrame, stream: VideoStream) -> Picture:
    """The picture of a decoded frame."""
    require_small(content.width, content.height)
    pixels = cast(NDArray[np.uint8], content.to_ndarray(format="rgb24", threads=1))
    aspect = stream.sample_aspect_ratio or Fraction(1)
    return Picture(pixels, float(aspect) if aspect > 0 else 1.0, round(content.rotation / 90) % 4)
