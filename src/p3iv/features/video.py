"""Video files, through PyAV."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from p3iv.atomic import whole_file
from p3iv.errors import MissingExtraError

try:
    import av
    from av.container import InputContainer
    from av.video.stream import VideoStream
except ImportError as error:
    raise MissingExtraError("av", "video", "Reading and writing video") from error

MOST_MISSING_S = 1.0  # between the length that a file announces and its last picture; containers round


def write_video(path: Path, frames: Iterable[NDArray[np.uint8]], *, fps: int) -> None:
    """Write frames of one size, each (height, width, 3), as H.264; the same frames give the same bytes."""
    with whole_file(path) as beside, av.open(beside, "w", format="mp4") as container:
        # ultrafast takes 0.3-0.5 ms per noisy frame of 160 x 160, superfast three times as long
        options = {"preset": "ultrafast", "crf": "22", "threads": "1"}
        stream = container.add_stream("libx264", rate=fps, options=options)
        stream.pix_fmt = "yuv420p"
        for number, pixels in enumerate(frames):
            if number == 0:
                stream.height, stream.width = pixels.shape[:2]
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())


def find_fault(path: Path) -> str | None:
    """Why a file is no whole video, or None; it is opened and read from near its end, not decoded."""
    try:
        with av.open(path) as container:
            if not container.streams.video:
                return "no video stream"
            stream = container.streams.video[0]
            length_s = _length_s(container, stream)
            last_s = _last_packet_s(container, stream, length_s)
    except (av.FFmpegError, OSError, ValueError) as error:
        return f"cannot be read ({getattr(error, 'strerror', None) or error})"
    if last_s is None or last_s < length_s - MOST_MISSING_S:
        return f"cut short: {length_s:.1f} s announced, {last_s or 0.0:.1f} s there"
    return None


def _length_s(container: InputContainer, stream: VideoStream) -> float:
    """What the file says; 0 where it says nothing, as raw streams do."""
    if stream.duration is not None and stream.time_base is not None:
        return float(stream.duration * stream.time_base)
    return (container.duration or 0) / av.time_base


def _last_packet_s(container: InputContainer, stream: VideoStream, length_s: float) -> float | None:
    """When the last packet that is there ends, from the last key frame on."""
    start = stream.start_time or 0
    if length_s > 0 and stream.time_base:
        container.seek(start + int(length_s / stream.time_base), stream=stream)
    ends = [
        float((packet.pts - start + (packet.duration or 0)) * packet.time_base)
        for packet in container.demux(stream)
        if packet.pts is not None and packet.size and not packet.is_corrupt
    ]
    return max(ends, default=None)
