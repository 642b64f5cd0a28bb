"""Encode videos and keep their rows: one thread decodes while the other encodes, across the ends of videos."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from queue import Full, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

import numpy as np

from p3iv.encoders.base import Clips, Rows, VideoEncoder
from p3iv.encoders.identity import ONNX
from p3iv.encoders.registry import build_encoder
from p3iv.errors import FeatureError
from p3iv.extraction.moment import clips_of, rows_of
from p3iv.extraction.request import EncodedVideo, EncodingSpec, ExtractionRequest, VideoTask
from p3iv.features.arrays import as_rows
from p3iv.features.observation import rows_around
from p3iv.features.store_index import KeptSeconds
from p3iv.files import atomic_file, remove_leftovers_in
from p3iv.parallel import WorkerLost, run

if TYPE_CHECKING:
    pass

WORK_FOLDER: Final = ".extraction"

_VERSION: Final = 3  # of the work files; those of another version are not used
_MAX_AHEAD: Final = 8  # clips that are decoded before they are encoded: 20 MB for s3d
_MAX_GROUP: Final = 8  # videos that a worker takes at once, so that it decodes one while it encodes another
_POLL_S: Final = 0.1  # how often the decoding thread checks whether it should stop


@dataclass(frozen=True)
class _Decoded:
    """Marks the end of a video in the queue of clips."""

    kept: KeptSeconds | None = None
    num_frames: int = 0
    fault: str | None = None


_Item = Clips | _Decoded | BaseException  # one clip (1, L, 3, S, S), the end of a video, or an error of the decoder

Group = tuple[VideoTask, ...]


def encode_videos(tasks: Sequence[VideoTask], encoder: VideoEncoder, dtype: str) -> Iterator[EncodedVideo]:
    """Encode videos one after the other, while the next ones are being decoded.

    Clips are encoded one at a time: on a CPU that is as fast as any batch (17 ms per picture against 22 in batches of
    8), and no row can depend on the other rows of its batch.
    """
    items: Queue[_Item] = Queue(maxsize=_MAX_AHEAD)
    stop = Event()
    decoder = Thread(target=_decode_all, args=(tasks, encoder, items, stop), daemon=True)
    decoder.start()
    try:
        for task in tasks:
            yield _collect(task, encoder, np.dtype(dtype), items)
    finally:
        stop.set()
        decoder.join()


def encode_tasks(
    request: ExtractionRequest, tasks: Sequence[VideoTask], encoder: VideoEncoder
) -> Iterator[EncodedVideo]:
    """Encode all tasks, in the order in which they finish."""
    if not tasks:
        return iter(())
    if request.engine == "local" and request.jobs == 1:
        return encode_videos(tasks, encoder, request.dtype)
    groups = make_groups(tasks, request.jobs)
    return encode_groups(
        groups, request.spec(encoder), engine=request.engine, jobs=request.jobs, address=request.address
    )


def make_groups(tasks: Sequence[VideoTask], jobs: int) -> list[Group]:
    """Make groups small enough that all workers end at about the same time."""
    size = max(1, min(_MAX_GROUP, len(tasks) // (4 * jobs)))
    return [tuple(tasks[first : first + size]) for first in range(0, len(tasks), size)]


def encode_groups(
    groups: Sequence[Group], spec: EncodingSpec, *, engine: str, jobs: int, address: str | None = None
) -> Iterator[EncodedVideo]:
    """Encode groups of videos. A video that kills its worker is returned with a fault; the others are encoded."""
    encode = partial(encode_group, spec=spec)
    todo = list(groups)
    while todo:
        lost: list[Group] = []
        for group, result in run(encode, todo, engine=engine, jobs=jobs, address=address, finish_started=True):
            if not isinstance(result, WorkerLost):
                yield from result
            elif len(group) == 1:
                fault = f"{group[0].path}: cannot be encoded: {result.reason}"
                yield EncodedVideo(group[0].video, None, fault=fault)
            else:
                lost += [(task,) for task in group]
        todo = lost


def encode_group(tasks: Sequence[VideoTask], spec: EncodingSpec) -> list[EncodedVideo]:
    """Encode videos in a worker process, which builds the encoder once."""
    return list(encode_videos(tasks, _build(spec), spec.dtype))


@lru_cache(maxsize=1)
def _build(spec: EncodingSpec) -> VideoEncoder:
    encoder = build_encoder(spec.encoder, spec.options)
    if encoder.identity.backend != ONNX:
        import torch  # an encoder in an ONNX file does without

        torch.set_num_threads(spec.threads)
    if encoder.identity.fingerprint != spec.fingerprint:
        raise FeatureError(
            f"{encoder.identity} has other weights in a worker than where the extraction was started. All machines "
            f"need the same ones; if the file was replaced meanwhile, run the command again."
        )
    return encoder


def _collect(task: VideoTask, encoder: VideoEncoder, dtype: np.dtype[np.generic], items: Queue[_Item]) -> EncodedVideo:
    rows: list[Rows] = []
    while isinstance(item := items.get(), np.ndarray):
        rows.append(encoder.encode(item))
    if isinstance(item, BaseException):
        raise item
    if item.fault is not None:
        return EncodedVideo(task.video, None, num_frames=item.num_frames, fault=item.fault)
    try:
        return EncodedVideo(task.video, as_rows(rows_of(rows), dtype), item.kept, item.num_frames)
    except FeatureError as error:
        fault = f"{task.path}: the encoder's output {error}"
        return EncodedVideo(task.video, None, num_frames=item.num_frames, fault=fault)


def _decode_all(tasks: Sequence[VideoTask], encoder: VideoEncoder, items: Queue[_Item], stop: Event) -> None:
    try:
        for task in tasks:
            for item in _decode(task, encoder):
                _put(items, item, stop)
            if stop.is_set():
                return
    except BaseException as error:  # raised again by the encoding thread, which would otherwise wait for ever
        _put(items, error, stop)


def _put(items: Queue[_Item], item: _Item, stop: Event) -> None:
    while not stop.is_set():
        try:
            items.put(item, timeout=_POLL_S)
        except Full:
            continue
        return


def _decode(task: VideoTask, encoder: VideoEncoder) -> Iterator[_Item]:
    """The clips of a video, then its end."""
    from p3iv.features.video import VideoReader

    reader = VideoReader(task.path)
    try:
        with reader:
            seconds = wanted_seconds(task.moments_s, reader.num_seconds)
            yield from clips_of(reader, seconds, encoder)
            kept = None if task.moments_s is None else KeptSeconds(reader.num_seconds, tuple(seconds))
            yield _Decoded(kept, reader.num_decoded)
    except FeatureError as error:
        yield _Decoded(num_frames=reader.num_decoded, fault=str(error))


def wanted_seconds(moments_s: Sequence[float] | None, num_seconds: int) -> list[int]:
    """The seconds of a video to encode: all, or those that a planner reads around the moments."""
    if moments_s is None:
        return list(range(num_seconds))
    moments = (num_seconds - 1 if moment == math.inf else moment for moment in moments_s)
    return sorted({int(second) for moment in moments for second in rows_around(moment, num_seconds)})


class WorkFolder:
    """The encoded videos of one dataset folder, each under a hash of everything that its rows depend on."""

    def __init__(self, folder: Path, encoder: VideoEncoder, dtype: str) -> None:
        self.path = folder
        identity = encoder.identity
        self._settings = [_VERSION, identity.fingerprint, identity.backend, identity.precision, dtype]

    def has(self, task: VideoTask) -> bool:
        """Whether an earlier run has finished the same file with the same settings, and its rows can be read."""
        return self.read(task) is not None

    def read(self, task: VideoTask) -> EncodedVideo | None:
        """The rows of the same file with the same settings; None if there are none, or they are damaged."""
        try:
            with self._file(task).open("rb") as file, np.load(file, allow_pickle=False) as content:
                seconds = tuple(content["seconds"].tolist())
                kept = KeptSeconds(int(content["num_seconds"]), seconds) if seconds else None
                return EncodedVideo(task.video, as_rows(content["rows"]), kept)
        except Exception:  # a damaged zip or array may raise anything, MemoryError included
            return None

    def write(self, task: VideoTask, encoded: EncodedVideo) -> None:
        """Keep the rows of a video, if it has any."""
        if encoded.rows is None:
            return
        kept = encoded.kept or KeptSeconds(0, ())
        with atomic_file(self._file(task)) as temporary, temporary.open("wb") as file:
            np.savez(file, rows=encoded.rows, num_seconds=kept.num_seconds, seconds=np.array(kept.seconds, np.int64))

    def remove(self, tasks: Iterable[VideoTask]) -> None:
        """Delete the rows of these files with these settings."""
        for task in tasks:
            self._file(task).unlink(missing_ok=True)

    def clear(self) -> None:
        """Delete all rows, also those of other settings."""
        for path in self.path.iterdir():
            path.unlink()

    def _file(self, task: VideoTask) -> Path:
        status = task.path.stat()
        depends_on = [*self._settings, task.video, status.st_size, status.st_mtime_ns, task.moments_s]
        return self.path / f"{hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()[:32]}.npz"


@contextmanager
def open_work_folder(dataset: Path) -> Iterator[Path]:
    """Yield the work folder of a dataset folder; it is deleted at the end unless rows are left in it."""
    folder = dataset / WORK_FOLDER
    folder.mkdir(exist_ok=True)
    remove_leftovers_in(folder)
    try:
        yield folder
    finally:
        with suppress(OSError):
            folder.rmdir()
