"""Read a video that arrives while it is read, through a pipe: a container, or JPEG pictures, one per second."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from p3iv.errors import FeatureError
from p3iv.features.pictures import Picture, read_picture
from p3iv.features.video import picture_of_frame
from p3iv.features.video_file import MAX_LENGTH_S, naming_faults, open_stream, stamp_of, step_s

if TYPE_CHECKING:
    from av import VideoFrame
    from av.video.stream import VideoStream

MAX_JPEG_BYTES: Final = 20 << 20  # of one picture
_BLOCK: Final = 64 << 10
_START: Final = b"\xff\xd8"
_ALONE: Final = {0x01, *range(0xD0, 0xD8)}  # JPEG markers without content
_END_MARKER, _SCAN_MARKER = 0xD9, 0xDA


@dataclass(frozen=True, eq=False)
class _Shown:
    """What is shown from one time to another."""

    time_s: Fraction
    end_s: Fraction
    picture: Callable[[], Picture]


class VideoStreamReader:
    """Reads a stream of bytes from its beginning to its end; only a few frames are in memory at a time.

    Args:
        source: of bytes; it need not be able to seek.
        name: of the stream, for messages.

    Raises:
        FeatureError: it is neither a video nor JPEG pictures.
    """

    def __init__(self, source: BinaryIO, name: str = "standard input") -> None:
        self._name = Path(name)
        first = source.read(len(_START))
        if not first:
            raise FeatureError(f"{name}: nothing arrived; send a video, or JPEG pictures, one per second")
        whole = _Prefixed(first, source)
        self._shown = self._pictures(whole) if first == _START else self._frames(whole)

    def frames_at(self, moments: Iterable[float]) -> Iterator[Picture]:
        """The frames at the given seconds, in ascending order, up to the end of the stream.

        Raises:
            FeatureError: naming the stream, which cannot be read any further.
        """
        with naming_faults(self._name):
            current: _Shown | None = None
            upcoming: _Shown | None = None
            has_ended = False
            for moment in moments:
                # The next frame is not waited for while the current one is shown.
                while not has_ended and (current is None or current.end_s <= moment):
                    upcoming = upcoming or next(self._shown, None)
                    if upcoming is None:
                        has_ended = True
                    elif upcoming.time_s > moment:
                        break
                    else:
                        current, upcoming = upcoming, None
                shown = current or upcoming
                if shown is None:
                    raise FeatureError("no frame can be decoded")
                if moment > MAX_LENGTH_S or (has_ended and moment >= shown.end_s):
                    return
                yield shown.picture()

    def _frames(self, source: _Prefixed) -> Iterator[_Shown]:
        try:
            container, stream = open_stream(source, self._name)
        except FeatureError as error:
            raise FeatureError(
                f"{error}. Through a pipe, send a container that can be read from its beginning, such as Matroska, "
                f"MPEG-TS or a fragmented MP4, or JPEG pictures, one per second"
            ) from error
        frame_s = step_s(stream)
        origin: Fraction | None = None
        last_s: Fraction | None = None
        with container:
            for content in container.decode(stream):
                stamp = stamp_of(content)
                time_base = Fraction(content.time_base or 0)
                time_s = (last_s or Fraction(0)) + frame_s if stamp is None else stamp * time_base
                origin = time_s if origin is None else origin
                if last_s is not None and time_s <= last_s:
                    continue
                last_s = time_s
                length_s = (content.duration or 0) * time_base or frame_s
                yield _Shown(time_s - origin, time_s - origin + length_s, _later(content, stream))

    def _pictures(self, source: _Prefixed) -> Iterator[_Shown]:
        for number, content in enumerate(split_jpegs(source)):
            name = Path(f"picture {number + 1} of {self._name}")
            picture = read_picture(name, io.BytesIO(content))
            yield _Shown(Fraction(number), Fraction(number + 1), lambda picture=picture: picture)  # type: ignore[misc]


def split_jpegs(source: BinaryIO | _Prefixed) -> Iterator[bytes]:
    """The pictures of a stream of JPEG files, one after the other; a preview inside one is not taken for another.

    Raises:
        FeatureError: something else than a JPEG begins, or one is too large or breaks off.
    """
    reader = _ByteReader(source)
    while start := reader.take(2, may_end=True):
        if start != _START:
            raise FeatureError(f"a JPEG picture begins with ff d8, but {start.hex(' ')} arrived")
        parts = [start]
        while True:
            marker = reader.marker(parts)
            if marker == _END_MARKER:
                break
            if marker in _ALONE:
                continue
            size = reader.take(2)
            parts += [size, reader.take(int.from_bytes(size, "big") - 2)]
            if marker == _SCAN_MARKER:
                reader.scan(parts)
            if sum(map(len, parts)) > MAX_JPEG_BYTES:
                raise FeatureError(f"a JPEG picture of more than {MAX_JPEG_BYTES >> 20} MiB")
        yield b"".join(parts)


class _ByteReader:
    """Takes bytes from a stream, some at a time."""

    def __init__(self, source: BinaryIO | _Prefixed) -> None:
        self._source, self._held = source, b""

    def take(self, number: int, *, may_end: bool = False) -> bytes:
        """So many bytes; none if the stream ends before the first of them and may."""
        if number < 0:
            raise FeatureError("a JPEG picture with a part of negative length")
        while len(self._held) < number and (more := self._source.read(_BLOCK)):
            self._held += more
        if len(self._held) < number and not (may_end and not self._held):
            raise FeatureError("it ends in the middle of a JPEG picture")
        taken, self._held = self._held[:number], self._held[number:]
        return taken

    def marker(self, parts: list[bytes]) -> int:
        """The next marker, which is also added to the parts."""
        found = self.take(2)
        while found[0] == 0xFF and found[1] == 0xFF:  # bytes that fill up
            found = found[1:] + self.take(1)
        if found[0] != 0xFF:
            raise FeatureError(f"in a JPEG picture a marker begins with ff, but {found.hex(' ')} arrived")
        parts.append(found)
        return found[1]

    def scan(self, parts: list[bytes]) -> None:
        """Add compressed data up to the next marker, which stays."""
        size = 0
        while True:
            place = self._find_marker()
            if place is not None:
                parts.append(self._held[:place])
                self._held = self._held[place:]
                return
            keep = 1 if self._held.endswith(b"\xff") else 0
            parts.append(self._held[: len(self._held) - keep])
            size += len(parts[-1])
            self._held = self._held[len(self._held) - keep :]
            more = self._source.read(_BLOCK)
            if not more or size > MAX_JPEG_BYTES:
                raise FeatureError("it ends in the middle of a JPEG picture, or the picture is too large")
            self._held += more

    def _find_marker(self) -> int | None:
        place = self._held.find(b"\xff")
        while 0 <= place < len(self._held) - 1:
            following = self._held[place + 1]
            if following not in (0x00, 0xFF) and following not in _ALONE:  # 0: a byte ff of the data itself
                return place
            place = self._held.find(b"\xff", place + 1)
        return None


class _Prefixed:
    """A stream of bytes of which some were read before."""

    def __init__(self, first: bytes, source: BinaryIO) -> None:
        self._first, self._source = first, source

    def read(self, number: int = -1) -> bytes:
        """At most so many bytes; fewer if no more have arrived yet, none at the end."""
        if self._first:
            taken = self._first if number < 0 else self._first[:number]
            self._first = self._first[len(taken) :]
            return taken
        read = getattr(self._source, "read1", self._source.read)
        content: bytes = read(number)
        return content


def _later(content: VideoFrame, stream: VideoStream) -> Callable[[], Picture]:
    return lambda: picture_of_frame(content, stream)
