"""The work itself: one thread decodes, the other encodes, and neither waits for the end of a video."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from queue import Full, Queue
from threading import Event, Thread
from typing import Final

import numpy as np
import torch
from torch import Tensor

from p3iv.encoders.base import VideoEncoder, clip_moments
from p3iv.encoders.registry import build_encoder
from p3iv.errors import FeatureError
from p3iv.extraction.request import EncodedVideo, Recipe, VideoTask
from p3iv.features.arrays import as_rows
from p3iv.features.index import KeptSeconds
from p3iv.features.pictures import frame_picture, read_picture
from p3iv.features.store import rows_around
from p3iv.features.video import VideoReader
from p3iv.types import Array

_AHEAD: Final = 8  # clips that are decoded before they are encoded: 20 MB of s3d's
_PATIENCE_S: Final = 0.1  # after which a thread looks whether it is still wanted


@dataclass(frozen=True)
class _Decoded:
    """The end of a video in the stream of clips."""

    kept: KeptSeconds | None = None
    num_frames: int = 0
    fault: str | None = None


_Item = Tensor | _Decoded | BaseException  # a clip (L, 3, S, S), the end of a video, or the end of everything


def encode_videos(tasks: Sequence[VideoTask], encoder: VideoEncoder, dtype: str) -> Iterator[EncodedVideo]:
    """Encode videos one after the other, while the next ones are being decoded.

    Clips are encoded one at a time: on a CPU that is as fast as any batch (17 ms per picture against 22 in batches of
    8), and no row can depend on which others were asked for.
    """
    items: Queue[_Item] = Queue(maxsize=_AHEAD)
    stop = Event()
    decoder = Thread(target=_decode_all, args=(tasks, encoder, items, stop), daemon=True)
    decoder.start()
    try:
        for task in tasks:
            yield _collect(task, encoder, np.dtype(dtype), items)
    finally:
        stop.set()
        decoder.join()


def encode_group(tasks: Sequence[VideoTask], recipe: Recipe) -> list[EncodedVideo]:
    """The same for a worker in a process of its own, which builds the encoder once."""
    return list(encode_videos(tasks, _build(recipe), recipe.dtype))


def encode_seconds(path: Path, seconds: Sequence[int], encoder: VideoEncoder) -> Array:
    """The rows of some seconds of a video, in order, (N, F) float32; those past its end repeat its last moment.

    Raises:
        FeatureError: naming the file.
    """
    with VideoReader(path) as reader:
        clips = list(_clips(reader, [min(second, reader.num_seconds - 1) for second in seconds], encoder))
    return _rows([encoder.encode(clip[None]) for clip in clips])


def encode_moment(path: Path, moment_s: float, encoder: VideoEncoder) -> Array:
    """The rows that show a moment of a video, (3, F) float32: those that training reads around it.

    Raises:
        FeatureError: naming the file, also for a moment after its end.
    """
    with VideoReader(path) as reader:
        num_seconds, length_s = reader.num_seconds, float(reader.length_s)
    if not 0 <= moment_s <= length_s:
        raise FeatureError(f"{path}: is {length_s:.1f} s long, asked for {moment_s:g} s")
    return encode_seconds(path, [int(place) for place in rows_around(moment_s, num_seconds)], encoder)


def encode_picture(path: Path, encoder: VideoEncoder) -> Array:
    """The row of a single picture, (1, F) float32, as of a second in which nothing moves."""
    clip = frame_picture(read_picture(path), encoder.framing).expand(encoder.frames_per_clip, -1, -1, -1)
    return _rows([encoder.encode(clip[None])])


@lru_cache(maxsize=1)
def _build(recipe: Recipe) -> VideoEncoder:
    torch.set_num_threads(recipe.threads)
    return build_encoder(recipe.encoder, recipe.options)


def _collect(task: VideoTask, encoder: VideoEncoder, dtype: np.dtype[np.generic], items: Queue[_Item]) -> EncodedVideo:
    rows: list[Tensor] = []
    while isinstance(item := items.get(), Tensor):
        rows.append(encoder.encode(item[None]))
    if isinstance(item, BaseException):
        raise item
    if item.fault is not None:
        return EncodedVideo(task.video, None, num_frames=item.num_frames, fault=item.fault)
    try:
        return EncodedVideo(task.video, as_rows(_rows(rows), dtype), item.kept, item.num_frames)
    except FeatureError as error:
        return EncodedVideo(task.video, None, num_frames=item.num_frames, fault=f"{task.path}: encoded, {error}")


def _rows(parts: Sequence[Tensor]) -> Array:
    return torch.cat(list(parts)).to(torch.float32).numpy()


def _decode_all(tasks: Sequence[VideoTask], encoder: VideoEncoder, items: Queue[_Item], stop: Event) -> None:
    try:
        for task in tasks:
            for item in _decode(task, encoder):
                _put(items, item, stop)
            if stop.is_set():
                return
    except BaseException as error:  # raised by the encoding thread, which would wait for ever
        _put(items, error, stop)


def _put(items: Queue[_Item], item: _Item, stop: Event) -> None:
    while not stop.is_set():
        try:
            items.put(item, timeout=_PATIENCE_S)
        except Full:
            continue
        return


def _decode(task: VideoTask, encoder: VideoEncoder) -> Iterator[_Item]:
    """The clips of a video, then how it ended."""
    reader = VideoReader(task.path)
    try:
        with reader:
            seconds = wanted_seconds(task.moments_s, reader.num_seconds)
            yield from _clips(reader, seconds, encoder)
            kept = None if task.moments_s is None else KeptSeconds(reader.num_seconds, tuple(seconds))
            yield _Decoded(kept, reader.num_decoded)
    except FeatureError as error:
        yield _Decoded(num_frames=reader.num_decoded, fault=str(error))


def wanted_seconds(moments_s: Sequence[float] | None, num_seconds: int) -> list[int]:
    """The seconds of a video to encode: all, or those that are read around the moments."""
    if moments_s is None:
        return list(range(num_seconds))
    ends = (num_seconds - 1 if moment == math.inf else moment for moment in moments_s)
    places = {int(place) for moment in ends for place in rows_around(moment, num_seconds)}
    return sorted(places)


def _clips(reader: VideoReader, seconds: Sequence[int], encoder: VideoEncoder) -> Iterator[Tensor]:
    """One clip per second, (L, 3, S, S) uint8."""
    length = encoder.frames_per_clip
    moments = [moment for second in seconds for moment in clip_moments(encoder, second)]
    frames: list[Tensor] = []
    for picture in reader.frames_at(moments):
        frames.append(frame_picture(picture, encoder.framing))
        if len(frames) == length:
            yield torch.stack(frames)
            frames.clear()
