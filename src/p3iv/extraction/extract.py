"""The extraction: find the videos, encode them, pack the rows, embed the steps, and say so in dataset.yaml."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from p3iv.data.folder import (
    VIDEO_SUFFIXES,
    Dataset,
    exclusive_dataset,
    extend_vocabulary,
    open_dataset,
    read_card,
    refuse_leftover,
)
from p3iv.encoders.base import EncoderOptions, TextEncoder, VideoEncoder
from p3iv.encoders.precomputed import PrecomputedEncoder
from p3iv.encoders.registry import DEFAULT_TEXT_ENCODER, build_encoder, build_text_encoder
from p3iv.errors import DatasetError, FeatureError
from p3iv.extraction.engines import run_engine
from p3iv.extraction.request import (
    KEEP,
    Advance,
    EncodedVideo,
    ExtractionReport,
    ExtractionRequest,
    OnAdvance,
    VideoTask,
)
from p3iv.features.index import KeptSeconds
from p3iv.features.language import read_language, write_language
from p3iv.features.pack import import_features
from p3iv.features.store import FeatureStore, PackedFeatures, StoreWriter
from p3iv.files import atomic_file, is_leftover
from p3iv.readers.folder import read_folder
from p3iv.types import Problem, Video, counted

LANGUAGE_FILE = "language.npz"

UNALIGNED_FILE = "language_text.npz"  # the embeddings of the texts alone, where `p3iv align` has replaced them


@dataclass(frozen=True)
class TextPlan:
    """Who embeds the steps of a dataset; nobody where language.npz stays."""

    dataset: Dataset
    encoder: TextEncoder | None

    @property
    def name(self) -> str | None:
        """As dataset.yaml keeps it."""
        return self.encoder.name if self.encoder else self.dataset.card.text_encoder

    def write(self) -> None:
        """Embed every step of the vocabulary, in its order and with its ids."""
        if self.encoder is None:
            return
        actions = self.dataset.vocabulary.actions
        embedding = self.encoder.encode_text([action.text for action in actions]).numpy()
        ids = [action.id for action in actions if action.id is not None]
        complete = ids if len(ids) == len(actions) else None
        path = self.dataset.folder / LANGUAGE_FILE
        write_language(path, [action.name for action in actions], embedding, complete)
        (path.parent / UNALIGNED_FILE).unlink(missing_ok=True)


def plan_texts(request: ExtractionRequest, dataset: Dataset, encoder: VideoEncoder) -> TextPlan:
    """The text encoder that was asked for, else the encoder's own text tower, else the default."""
    if request.text_encoder == KEEP:
        return TextPlan(dataset, None)
    if request.text_encoder in (None, request.encoder) and isinstance(encoder, TextEncoder):
        return TextPlan(dataset, encoder)
    options = EncoderOptions(request.text_weights, request.max_words)
    return TextPlan(dataset, build_text_encoder(request.text_encoder or DEFAULT_TEXT_ENCODER, options))


WORK_FOLDER: Final = ".extraction"

_LAYOUT: Final = 1  # of the files here, and of how clips are cut: what another version left is not used


class WorkFolder:
    """The finished videos of one dataset folder, each under a key of all that its rows depend on."""

    def __init__(self, folder: Path, encoder: VideoEncoder, dtype: str) -> None:
        self.path = folder
        self._settings = [_LAYOUT, encoder.name, encoder.fingerprint, dtype]

    def has(self, task: VideoTask) -> bool:
        """Whether an earlier run has finished the same file with the same settings."""
        try:
            return self._file(task).exists()
        except OSError:
            return False  # who decodes it says what is wrong with it

    def read(self, task: VideoTask) -> EncodedVideo | None:
        """What was made of the same file with the same settings, or None."""
        try:
            with np.load(self._file(task), allow_pickle=False) as content:
                seconds = tuple(content["seconds"].tolist())
                kept = KeptSeconds(int(content["num_seconds"]), seconds) if seconds else None
                return EncodedVideo(task.video, content["rows"], kept)
        except (OSError, ValueError, KeyError, zipfile.BadZipFile):
            return None

    def write(self, task: VideoTask, encoded: EncodedVideo) -> None:
        """Keep the rows of a video, or nothing where it has none."""
        if encoded.rows is None:
            return
        kept = encoded.kept or KeptSeconds(0, ())
        with atomic_file(self._file(task)) as beside, beside.open("wb") as file:
            np.savez(file, rows=encoded.rows, num_seconds=kept.num_seconds, seconds=np.array(kept.seconds, np.int64))

    def clear(self) -> None:
        """Forget all rows, also those of other settings."""
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
    try:
        yield folder
    finally:
        with suppress(OSError):
            folder.rmdir()


_LEFT = "left without features"


def extract_features(request: ExtractionRequest, *, on_advance: OnAdvance | None = None) -> ExtractionReport:
    """Give a dataset folder features of its videos and embeddings of its steps.

    Finished videos are kept in a folder of their own until all are done: killed and run again, the extraction goes on
    where it was, and ends with the same bytes.

    Raises:
        DatasetError: where features are there already.
        BusyError: where another process is writing into the folder.
        FeatureError: where no video can be used; with `strict`, where any cannot.
    """
    with exclusive_dataset(request.folder):
        dataset = _open(request)
        _refuse_to_replace(dataset, request)
        return _extract(request, dataset, on_advance)


def _extract(request: ExtractionRequest, dataset: Dataset, on_advance: OnAdvance | None) -> ExtractionReport:
    if request.encoder != PrecomputedEncoder.name:
        find_videos(request.folder / "videos")  # now: the encoders take seconds to load
    began = time.monotonic()
    with open_work_folder(request.folder) as work_path:
        encoder = build_encoder(request.encoder, request.recipe.options)
        texts = plan_texts(request, dataset, encoder)  # before hours of work, in which nothing else can go wrong
        run = _Run(request, dataset, encoder, WorkFolder(work_path, encoder, request.dtype), on_advance, began)
        packed = run.pack_precomputed() if isinstance(encoder, PrecomputedEncoder) else run.encode_and_pack()
        texts.write()
        _write_card(dataset, encoder, texts, packed)
        if not packed.problems:
            run.work.clear()
    return ExtractionReport(
        folder=request.folder,
        encoder=encoder.name,
        text_encoder=texts.name,
        features=packed,
        num_frames=run.num_frames,
        num_resumed=run.num_resumed,
        seconds=time.monotonic() - began,
        problems=packed.problems,
    )


@dataclass
class _Run:
    """One extraction under way."""

    request: ExtractionRequest
    dataset: Dataset
    encoder: VideoEncoder
    work: WorkFolder
    on_advance: OnAdvance | None
    began: float
    num_frames: int = 0
    num_resumed: int = 0
    faults: dict[str, Problem] = field(default_factory=dict)  # by video

    def encode_and_pack(self) -> PackedFeatures:
        tasks = self._find_tasks()
        todo = [task for task in tasks.values() if not self.work.has(task)]
        self.num_resumed = len(tasks) - len(todo)
        self._advance(done := self.num_resumed, len(tasks))
        for encoded in run_engine(self.request, todo, self.encoder):
            if encoded.fault is not None:
                self._note_fault(encoded.video, str(tasks[encoded.video].path), encoded.fault)
            self.work.write(tasks[encoded.video], encoded)
            self.num_frames += encoded.num_frames
            self._advance(done := done + 1, len(tasks))
        problems = tuple(self.faults[video.id] for video in self.dataset.videos if video.id in self.faults)
        self._refuse_faults(problems)
        return self._pack(tasks, problems)

    def pack_precomputed(self) -> PackedFeatures:
        folder = self.dataset.folder / "features"
        source = Path(str(self.request.weights))
        return import_features(source, self.dataset.videos, folder, dtype=self.request.dtype)

    def _find_tasks(self) -> dict[str, VideoTask]:
        """The videos that have a file; the others are faults."""
        files = find_videos(self.dataset.folder / "videos")
        for video in self.dataset.videos:
            if video.id not in files:
                expected = f"{video.id}{{{','.join(VIDEO_SUFFIXES[:3])},...}}"
                self._note_fault(video.id, str(self.dataset.folder / "videos"), f"no file {expected}")
            elif not files[video.id].exists():
                self._note_fault(video.id, str(files[video.id]), "is a link that leads nowhere")
        return {
            video.id: VideoTask(video.id, files[video.id], self._moments(video))
            for video in self.dataset.videos
            if video.id not in self.faults
        }

    def _moments(self, video: Video) -> tuple[float, ...] | None:
        return needed_moments(video) if self.request.only_needed else None

    def _note_fault(self, video: str, where: str, what: str) -> None:
        self.faults[video] = Problem(where, what.removeprefix(f"{where}: "), _LEFT)

    def _advance(self, num_done: int, num_videos: int) -> None:
        if self.on_advance is not None:
            self.on_advance(Advance(num_done, num_videos, self.num_frames, time.monotonic() - self.began))

    def _refuse_faults(self, problems: Sequence[Problem]) -> None:
        if len(problems) == len(self.dataset.videos):
            lines = "\n".join(f"  {problem}" for problem in problems[:20])
            raise FeatureError(f"none of the {counted(len(problems), 'video')} can be used:\n{lines}")
        if problems and self.request.strict:
            lines = "\n".join(f"  {problem}" for problem in problems[:20])
            more = f"\n  and {len(problems) - 20} more" if len(problems) > 20 else ""
            raise FeatureError(
                f"--strict: {counted(len(problems), 'video')} cannot be used, so nothing was written. What was encoded "
                f"is kept: run again when they are mended, or without --strict.\n{lines}{more}"
            )

    def _pack(self, tasks: dict[str, VideoTask], problems: tuple[Problem, ...]) -> PackedFeatures:
        """Pack in the order of the dataset, whoever was done first."""
        destination = self.dataset.folder / "features"
        with StoreWriter(destination, width=self.encoder.width, dtype=self.request.dtype) as store:
            for video in self.dataset.videos:
                if video.id in self.faults:
                    continue
                encoded = self.work.read(tasks[video.id])
                if encoded is None or encoded.rows is None:
                    raise FeatureError(f"{tasks[video.id].path} was changed during the extraction; run it again")
                store.add(video.id, encoded.rows, encoded.kept)
        return store.packed(problems)


def _open(request: ExtractionRequest) -> Dataset:
    """The dataset; embeddings that are about to be replaced need not fit its steps, as after new videos came in."""
    language = request.folder / LANGUAGE_FILE
    if not request.overwrite or request.text_encoder == KEEP or not language.is_file():
        return open_dataset(request.folder)
    refuse_leftover(request.folder)
    annotations = read_folder(request.folder)
    if annotations.problems:
        return open_dataset(request.folder)  # which says so
    vocabulary = extend_vocabulary(annotations.vocabulary, read_language(language))
    card = read_card(request.folder)
    return Dataset(request.folder, card, annotations.videos, vocabulary, annotations.split, language=None)


def find_videos(folder: Path) -> dict[str, Path]:
    """The video files of a folder by id; of two for one video, the first by name."""
    if not folder.is_dir():
        raise DatasetError(
            f"{folder} is no folder; put the videos there, each under the name that steps.csv gives it (kitchen.mp4 "
            f"for kitchen), or bring them in with `p3iv data import folder ... --videos FOLDER`."
        )
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in VIDEO_SUFFIXES and not is_leftover(path):
            found.setdefault(path.stem, path)
    return found


def needed_moments(video: Video) -> tuple[float, ...]:
    """Where a planner looks: at the start and the end of every step; without times, at its first and last moments."""
    if not video.is_timed:
        return (0.0, math.inf)
    times = {time_s for step in video.steps for time_s in (step.start_s, step.end_s) if time_s is not None}
    return tuple(sorted(times))


def _refuse_to_replace(dataset: Dataset, request: ExtractionRequest) -> None:
    features, language = dataset.folder / "features", dataset.folder / LANGUAGE_FILE
    if os.path.lexists(features) and not FeatureStore.is_at(features) and any(features.iterdir()):
        raise DatasetError(
            f"{features} is no store that p3iv packed (it has no index.json), so it is never replaced. Pack it first: "
            f"p3iv extract {dataset.folder} --encoder precomputed --weights FOLDER, with FOLDER elsewhere."
        )
    if request.overwrite:
        return
    if FeatureStore.is_at(features) and not dataset.card.simulated:
        raise DatasetError(
            f"{dataset.folder} has {dataset.card.encoder or 'unnamed'} features. Pass --overwrite to put those of "
            f"{request.encoder} in their place."
        )
    if language.exists() and request.text_encoder != KEEP:
        raise DatasetError(
            f"{language} has embeddings by {dataset.card.text_encoder or 'somebody'}. Pass --overwrite to make new "
            f"ones, or --text-encoder {KEEP} to keep them."
        )


def _write_card(dataset: Dataset, encoder: VideoEncoder, texts: TextPlan, packed: PackedFeatures) -> None:
    replace(
        dataset.card,
        encoder=encoder.name,
        text_encoder=texts.name,
        features_per_second=1.0,
        simulated=False,
        feature_fingerprint=packed.fingerprint,
    ).write(dataset.folder)
