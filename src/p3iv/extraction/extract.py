"""Give a dataset features of its videos and embeddings of its steps."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from p3iv.data.folder import (
    LANGUAGE_FILE,
    UNALIGNED_FILE,
    VIDEO_SUFFIXES,
    Dataset,
    exclusive_dataset,
    extend_vocabulary,
    find_videos,
    open_dataset,
    read_card,
    refuse_foreign_features,
    refuse_leftover,
)
from p3iv.encoders.base import EncoderOptions, TextEncoder, VideoEncoder
from p3iv.encoders.identity import PRECOMPUTED, EncoderIdentity
from p3iv.encoders.registry import DEFAULT_TEXT_ENCODER, build_encoder, build_text_encoder
from p3iv.errors import ConfigError, DatasetError, FeatureError
from p3iv.extraction.request import (
    KEEP,
    EncodedVideo,
    ExtractionProgress,
    ExtractionReport,
    ExtractionRequest,
    OnProgress,
    VideoTask,
)
from p3iv.extraction.worker import encode_tasks
from p3iv.features.arrays import as_rows
from p3iv.features.import_arrays import import_features
from p3iv.features.language import read_language, write_language
from p3iv.features.store import FeatureStore, PackedFeatures, StoreWriter
from p3iv.features.store_index import KeptSeconds
from p3iv.files import atomic_file, atomic_folder, remove_leftovers_in
from p3iv.readers.folder import read_folder
from p3iv.types import LEFT_WITHOUT_FEATURES, Problem, Video, counted, list_problems

WORK_FOLDER: Final = ".extraction"

_VERSION: Final = 3  # of the work files; those of another version are not used


@dataclass(frozen=True)
class StepEmbedder:
    """Embeds the steps of a dataset with a text encoder; without one, language.npz stays as it is."""

    dataset: Dataset
    encoder: TextEncoder | None

    @property
    def identity(self) -> EncoderIdentity | None:
        """The text encoder, for dataset.yaml."""
        return self.encoder.text_identity if self.encoder else self.dataset.card.text_encoder

    def write(self) -> None:
        """Write language.npz: every step of the vocabulary, in its order and with its ids."""
        if self.encoder is None:
            return
        actions = self.dataset.vocabulary.actions
        embedding = self.encoder.encode_text([action.text for action in actions]).numpy()
        ids = [action.id for action in actions if action.id is not None]
        complete = ids if len(ids) == len(actions) else None
        path = self.dataset.folder / LANGUAGE_FILE
        write_language(path, [action.name for action in actions], embedding, complete)
        (path.parent / UNALIGNED_FILE).unlink(missing_ok=True)


def choose_step_embedder(request: ExtractionRequest, dataset: Dataset, encoder: VideoEncoder | None) -> StepEmbedder:
    """Choose the requested text encoder, else the video encoder if it encodes text, else the default."""
    is_wanted = request.text_encoder in (None, request.encoder)
    both = encoder if is_wanted and isinstance(encoder, TextEncoder) else None
    if both is not None or request.text_encoder == KEEP:
        if request.text_weights is not None:
            why = f"{request.encoder} encodes texts with its --weights" if both else f"--text-encoder {KEEP} has none"
            raise ConfigError(f"--text-weights has no effect: {why}. Leave it out.")
        return StepEmbedder(dataset, both)
    options = EncoderOptions(request.text_weights, request.max_words, request.allow_download)
    return StepEmbedder(dataset, build_text_encoder(request.text_encoder or DEFAULT_TEXT_ENCODER, options))


class WorkFolder:
    """The encoded videos of one dataset folder, each under a hash of everything that its rows depend on."""

    def __init__(self, folder: Path, encoder: VideoEncoder, dtype: str) -> None:
        self.path = folder
        self._settings = [_VERSION, encoder.identity.fingerprint, dtype]

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


def extract_features(request: ExtractionRequest, *, on_progress: OnProgress | None = None) -> ExtractionReport:
    """Give a dataset folder features of its videos and embeddings of its steps.

    Encoded videos are kept in a work folder until all are done: after an interruption, the same request continues with
    the remaining videos and writes the same bytes.

    Raises:
        DatasetError: the folder has features already.
        BusyError: another process is writing into the folder.
        FeatureError: no video can be used; with `strict`, any video cannot.
    """
    with exclusive_dataset(request.folder):
        dataset = _open(request)
        _refuse_to_replace(dataset, request)
        extract = _pack_precomputed if request.encoder == PRECOMPUTED else _encode_and_pack
        return extract(request, dataset, on_progress)


def _pack_precomputed(
    request: ExtractionRequest, dataset: Dataset, _on_progress: OnProgress | None
) -> ExtractionReport:
    """Pack the feature files of another program, one per video."""
    if request.weights is None:
        raise ConfigError("--encoder precomputed needs the features: --weights FOLDER with one .npy or .npz per video.")
    began = time.monotonic()
    texts = choose_step_embedder(request, dataset, None)
    with atomic_folder(dataset.folder / "features") as folder:
        packed = import_features(Path(request.weights), dataset.videos, folder, dtype=request.dtype)
        return _finish(request, dataset, EncoderIdentity(PRECOMPUTED), texts, packed, seconds=time.monotonic() - began)


def _encode_and_pack(request: ExtractionRequest, dataset: Dataset, on_progress: OnProgress | None) -> ExtractionReport:
    videos = request.folder / "videos"
    if not videos.is_dir():  # checked now: encoders take seconds to load
        raise DatasetError(
            f"{videos} is not a folder; put the videos there, each under the name that steps.csv gives it (kitchen.mp4 "
            f"for kitchen), or bring them in with `p3iv data import folder ... --videos FOLDER`."
        )
    began = time.monotonic()
    with open_work_folder(request.folder) as work_path:
        encoder = build_encoder(request.encoder, request.options)
        texts = choose_step_embedder(request, dataset, encoder)  # now: its errors must not come after hours of encoding
        work = WorkFolder(work_path, encoder, request.dtype)
        extraction = _Extraction(request, dataset, encoder, work, on_progress, began)
        tasks = extraction.encode()
        with atomic_folder(dataset.folder / "features") as folder:
            packed = extraction.pack(tasks, folder)
            report = _finish(request, dataset, encoder.identity, texts, packed, seconds=time.monotonic() - began)
        if not packed.problems:
            work.clear()
    return replace(report, num_frames=extraction.num_frames, num_resumed=extraction.num_resumed)


def _finish(
    request: ExtractionRequest,
    dataset: Dataset,
    encoder: EncoderIdentity,
    texts: StepEmbedder,
    packed: PackedFeatures,
    *,
    seconds: float,
) -> ExtractionReport:
    """Write dataset.yaml and the step embeddings; the features are complete and replace others after that.

    Until then dataset.yaml describes other features than there are, so that no command uses a half-finished folder.
    """
    card = replace(dataset.card, encoder=encoder, text_encoder=texts.identity, features_per_second=1.0, simulated=False)
    replace(card, feature_fingerprint=packed.fingerprint).write(dataset.folder)
    texts.write()
    return ExtractionReport(
        folder=request.folder,
        encoder=encoder,
        text_encoder=texts.identity,
        features=packed,
        num_frames=0,
        num_resumed=0,
        seconds=seconds,
        problems=packed.problems,
    )


@dataclass
class _Extraction:
    """One running extraction."""

    request: ExtractionRequest
    dataset: Dataset
    encoder: VideoEncoder
    work: WorkFolder
    on_progress: OnProgress | None
    began: float
    num_frames: int = 0
    num_resumed: int = 0
    faults: dict[str, Problem] = field(default_factory=dict)  # by video

    def encode(self) -> dict[str, VideoTask]:
        """Encode the videos into the work folder; returns the tasks, also of videos that turned out faulty."""
        tasks = self._find_tasks()
        todo = [task for task in tasks.values() if not self.work.has(task)]
        self.num_resumed = len(tasks) - len(todo)
        self._show_progress(done := self.num_resumed, len(tasks))
        for encoded in encode_tasks(self.request, todo, self.encoder):
            if encoded.fault is not None:
                self._note_fault(encoded.video, str(tasks[encoded.video].path), encoded.fault)
            self.work.write(tasks[encoded.video], encoded)
            self.num_frames += encoded.num_frames
            self._show_progress(done := done + 1, len(tasks))
        self._refuse_faults(self._problems())
        return tasks

    def _problems(self) -> tuple[Problem, ...]:
        return tuple(self.faults[video.id] for video in self.dataset.videos if video.id in self.faults)

    def _find_tasks(self) -> dict[str, VideoTask]:
        """The videos that have a file; the others become faults."""
        files = find_videos(self.dataset.folder / "videos")
        for video in self.dataset.videos:
            if video.id not in files:
                expected = f"{video.id}{{{','.join(VIDEO_SUFFIXES[:3])},...}}"
                self._note_fault(video.id, str(self.dataset.folder / "videos"), f"no file {expected}")
            elif not files[video.id].exists():
                self._note_fault(video.id, str(files[video.id]), "is a broken link")
        return {
            video.id: VideoTask(video.id, files[video.id], self._moments(video))
            for video in self.dataset.videos
            if video.id not in self.faults
        }

    def _moments(self, video: Video) -> tuple[float, ...] | None:
        return needed_moments(video) if self.request.only_needed else None

    def _note_fault(self, video: str, where: str, what: str) -> None:
        self.faults[video] = Problem(where, what.removeprefix(f"{where}: "), LEFT_WITHOUT_FEATURES)

    def _show_progress(self, num_done: int, num_videos: int) -> None:
        if self.on_progress is not None:
            seconds = time.monotonic() - self.began
            self.on_progress(ExtractionProgress(num_done, num_videos, self.num_frames, seconds))

    def _refuse_faults(self, problems: Sequence[Problem]) -> None:
        if len(problems) == len(self.dataset.videos):
            raise FeatureError(f"none of the {counted(len(problems), 'video')} can be used:\n{list_problems(problems)}")
        if problems and self.request.strict:
            raise FeatureError(
                f"--strict: {counted(len(problems), 'video')} cannot be used, so nothing was written. The other videos "
                f"are encoded and kept: repair these and run again, or run without --strict.\n{list_problems(problems)}"
            )

    def pack(self, tasks: dict[str, VideoTask], destination: Path) -> PackedFeatures:
        """Pack the videos in the order of the dataset, not in the order in which they were encoded."""
        with StoreWriter(destination, width=self.encoder.width, dtype=self.request.dtype) as store:
            for video in self.dataset.videos:
                if video.id in self.faults:
                    continue
                encoded = self.work.read(tasks[video.id])
                if encoded is None or encoded.rows is None:
                    raise FeatureError(f"{tasks[video.id].path} was changed during the extraction; run it again")
                store.add(video.id, encoded.rows, encoded.kept)
        return store.packed(self._problems())


def _open(request: ExtractionRequest) -> Dataset:
    """Open the dataset. Embeddings that will be replaced need not match its steps, for instance after new videos."""
    language = request.folder / LANGUAGE_FILE
    if not request.overwrite or request.text_encoder == KEEP or not language.is_file():
        return open_dataset(request.folder)
    refuse_leftover(request.folder)
    annotations = read_folder(request.folder)
    if annotations.problems:
        return open_dataset(request.folder)  # which raises an error about them
    vocabulary = extend_vocabulary(annotations.vocabulary, read_language(language))
    card = read_card(request.folder)
    return Dataset(request.folder, card, annotations.videos, vocabulary, annotations.split, language=None)


def needed_moments(video: Video) -> tuple[float, ...]:
    """The moments that planners read: the start and end of every step, or of the video if its steps have no times."""
    if not video.is_timed:
        return (0.0, math.inf)
    times = {time_s for step in video.steps for time_s in (step.start_s, step.end_s) if time_s is not None}
    return tuple(sorted(times))


def _was_interrupted(dataset: Dataset) -> bool:
    """Whether an extraction was killed after it had written dataset.yaml and before features/, which comes last."""
    store, work, described = dataset.folder / "features", dataset.folder / WORK_FOLDER, dataset.card.feature_fingerprint
    if described is None or not work.is_dir() or not any(work.iterdir()):
        return False
    return not FeatureStore.is_at(store) or FeatureStore.open(store).fingerprint != described


def _refuse_to_replace(dataset: Dataset, request: ExtractionRequest) -> None:
    features, language = dataset.folder / "features", dataset.folder / LANGUAGE_FILE
    refuse_foreign_features(dataset.folder)
    if request.overwrite or _was_interrupted(dataset):
        return
    if FeatureStore.is_at(features) and not dataset.card.simulated:
        raise DatasetError(
            f"{dataset.folder} has {dataset.card.encoder or 'unnamed'} features. Pass --overwrite to replace them by "
            f"{request.encoder} features."
        )
    if language.exists() and request.text_encoder != KEEP:
        raise DatasetError(
            f"{language} has embeddings by {dataset.card.text_encoder or 'an unknown encoder'}. Pass --overwrite to "
            f"replace them, or --text-encoder {KEEP} to keep them."
        )
