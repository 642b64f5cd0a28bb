"""Frames of a video by time: exact, whatever the frame rate and wherever the file has its key frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, cast

import numpy as np
from numpy.typing import NDArray

from p3iv.errors import FeatureError
from p3iv.features.pictures import Picture
from p3iv.features.video_input import (
    MOST_MISSING_S,
    DecodingFault,
    measure_s,
    naming_faults,
    open_video,
    require_small,
    time_origin,
)

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
