"""Give a dataset features of its videos and embeddings of its steps."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from p3iv.catalogue import VIDEO_SUFFIXES
from p3iv.data.embedding import StepEmbedder, can_be_made_again, open_for_embedding
from p3iv.data.folder import (
    LANGUAGE_FILE,
    Dataset,
    exclusive_dataset,
    find_twins,
    find_videos,
    note_late_steps,
    open_dataset,
    refuse_foreign_features,
    require_features,
)
from p3iv.encoders.base import EncoderOptions, TextEncoder, VideoEncoder
from p3iv.encoders.identity import PRECOMPUTED, EncoderIdentity
from p3iv.encoders.registry import DEFAULT_TEXT_ENCODER, build_encoder, build_text_encoder
from p3iv.errors import ConfigError, DatasetError, FeatureError, require_modules
from p3iv.extraction.request import (
    KEEP,
    ExtractionReport,
    ExtractionRequest,
    VideoTask,
    frames_per_second,
)
from p3iv.extraction.worker import WORK_FOLDER, WorkFolder, encode_tasks, open_work_folder, wanted_seconds
from p3iv.features.import_arrays import import_features
from p3iv.features.language import read_language
from p3iv.features.store import FeatureStore, PackedFeatures, StoreWriter
from p3iv.files import atomic_folder
from p3iv.types import LEFT_WITHOUT_FEATURES, OnProgress, Problem, Progress, Video, counted, list_problems, listed
from p3iv.validation import ProblemLog


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


def extract_features(request: ExtractionRequest, *, on_progress: OnProgress | None = None) -> ExtractionReport:
    """Give a dataset folder features of its videos and embeddings of its steps.

    Encoded videos are kept in a work folder until all are done: after an interruption, the same request continues with
    the remaining videos and writes the same bytes. Complete features of this encoder stay as they are, and only steps
    without an embedding are embedded.

    Raises:
        DatasetError: the folder has other features, or features of some videos only.
        BusyError: another process is writing into the folder.
        FeatureError: no video can be used; with `strict`, any video cannot.
    """
    with exclusive_dataset(request.folder):
        dataset = _open(request)
        if _has_features(dataset, request):
            return replace(_keep_features(request, dataset), notes=dataset.notes)
        _refuse_to_replace(dataset, request)
        extract = _pack_precomputed if request.encoder == PRECOMPUTED else _encode_and_pack
        report = extract(request, dataset, on_progress)
        late = note_late_steps(dataset, FeatureStore.open(request.folder / "features"))
        return replace(report, notes=(*dataset.notes, *late))


def _pack_precomputed(request: ExtractionRequest, dataset: Dataset, on_progress: OnProgress | None) -> ExtractionReport:
    """Pack the feature files of another program, one per video."""
    if request.weights is None:
        raise ConfigError("--encoder precomputed needs the features: --weights FOLDER with one .npy or .npz per video.")
    began = time.monotonic()
    texts = choose_step_embedder(request, dataset, None)
    with atomic_folder(dataset.folder / "features") as folder:
        packed = import_features(
            Path(request.weights), dataset.videos, folder, dtype=request.dtype, on_progress=on_progress
        )
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
        require_modules(["av"], "video", "Reading videos")
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


def _has_features(dataset: Dataset, request: ExtractionRequest) -> bool:
    """Whether the folder has features that are replaced only on request."""
    refuse_foreign_features(dataset.folder)
    is_there = FeatureStore.is_at(dataset.folder / "features") and not dataset.card.simulated
    return is_there and not request.overwrite and not _was_interrupted(dataset)


def _keep_features(request: ExtractionRequest, dataset: Dataset) -> ExtractionReport:
    """Keep features that are complete, and embed the steps if some have no embedding."""
    began = time.monotonic()
    store, known, language = require_features(dataset), dataset.card.encoder, dataset.folder / LANGUAGE_FILE
    encoder = build_encoder(request.encoder, request.options) if known and known.name == request.encoder else None
    if known is None or encoder is None or known.fingerprint != encoder.identity.fingerprint:
        raise DatasetError(
            f"{dataset.folder} has {known or 'unnamed'} features. Pass --overwrite to replace them by "
            f"{request.encoder} features."
        )
    num_embedded = len(read_language(language).names) if language.exists() else 0
    texts = choose_step_embedder(request, dataset, encoder)
    num_new = len(dataset.vocabulary) - num_embedded if texts.encoder else 0
    _require_complete(request, dataset, store, only_needed=request.only_needed or num_new > 0)
    if texts.encoder and num_embedded:
        _refuse_other_embeddings(dataset, texts)
    if (request.folder / WORK_FOLDER).is_dir():  # an extraction was killed after its last change
        with open_work_folder(request.folder) as path:
            work = WorkFolder(path, encoder, request.dtype)
            work.remove(_Extraction(request, dataset, encoder, work, None, began).find_tasks().values())
    if num_new:
        replace(dataset.card, text_encoder=texts.identity).write(dataset.folder)
        texts.write()
    return ExtractionReport(
        folder=request.folder,
        encoder=known,
        text_encoder=texts.identity if num_new else dataset.card.text_encoder,
        features=store.packed(),
        num_frames=0,
        num_resumed=0,
        seconds=time.monotonic() - began,
        num_new_steps=num_new,
        is_kept=True,
    )


def _require_complete(request: ExtractionRequest, dataset: Dataset, store: FeatureStore, *, only_needed: bool) -> None:
    """Refuse features of some videos or seconds only, or of another type."""
    has, again = f"{dataset.folder} has {dataset.card.encoder} features", f"p3iv extract {dataset.folder} --overwrite"
    if any(store.kept(video) for video in store.videos):
        again += " --only-needed"
    if absent := [video.id for video in dataset.videos if video.id not in store]:
        raise DatasetError(
            f"{has}, but none of {counted(len(absent), 'video')}: {listed(absent)}. Type: {again}. It replaces them by "
            f"features of all {len(dataset.videos)} videos."
        )
    if partial := [video.id for video in dataset.videos if not _has_seconds(store, video, only_needed=only_needed)]:
        ways = f"Type: {again}" if only_needed else "Pass --overwrite to make them again, or --only-needed to keep them"
        raise DatasetError(
            f"{has}, but not of all seconds that are wanted of {counted(len(partial), 'video')}: {listed(partial)}. "
            f"{ways}."
        )
    if store.dtype.name != request.dtype:
        raise DatasetError(
            f"{has} of type {store.dtype.name}. Pass --overwrite to replace them by {request.dtype} features, or "
            f"--dtype {store.dtype.name} to keep them."
        )


def _has_seconds(store: FeatureStore, video: Video, *, only_needed: bool) -> bool:
    kept = store.kept(video.id)
    return kept is None or (
        only_needed and set(wanted_seconds(needed_moments(video), kept.num_seconds)) <= set(kept.seconds)
    )


def _refuse_other_embeddings(dataset: Dataset, texts: StepEmbedder) -> None:
    """Refuse to mix or replace embeddings of another text encoder; aligned ones keep the fingerprint of theirs."""
    known, wanted = dataset.card.text_encoder, texts.identity
    if known is None or wanted is None or known.fingerprint != wanted.fingerprint:
        raise DatasetError(_has_embeddings(dataset))


def _has_embeddings(dataset: Dataset) -> str:
    return (
        f"{dataset.folder / LANGUAGE_FILE} has embeddings by {dataset.card.text_encoder or 'an unknown encoder'}. Pass "
        f"--overwrite to replace them, or --text-encoder {KEEP} to keep them."
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
        tasks = self.find_tasks()
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
        """The faults in the order of the dataset: the first ones, and how many more."""
        log = ProblemLog()
        for video in self.dataset.videos:
            if (fault := self.faults.get(video.id)) is not None:
                log.add(fault.where, fault.what, fault.done)
        return log.problems

    def find_tasks(self) -> dict[str, VideoTask]:
        """The videos that have a file; the others become faults."""
        files, twins = find_videos(self.dataset.folder / "videos"), find_twins(self.dataset.folder / "videos")
        for video in self.dataset.videos:
            if video.id in twins:
                self._note_fault(video.id, str(self.dataset.folder / "videos"), twins[video.id])
            elif video.id not in files:
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
            about = f"{frames_per_second(self.num_frames, seconds)} frames/s"
            self.on_progress(Progress("Extracting videos", num_done, num_videos, about))

    def _refuse_faults(self, problems: Sequence[Problem]) -> None:
        number = counted(len(self.faults), "video")
        if len(self.faults) == len(self.dataset.videos):
            raise FeatureError(f"none of the {number} can be used:\n{list_problems(problems)}")
        if problems and self.request.strict:
            raise FeatureError(
                f"--strict: {number} cannot be used, so nothing was written. The other videos "
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
    if request.text_encoder == KEEP:
        return open_dataset(request.folder)
    return open_for_embedding(request.folder, overwrite=request.overwrite)


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
    if request.overwrite or request.text_encoder == KEEP or _was_interrupted(dataset):
        return
    if (dataset.folder / LANGUAGE_FILE).exists() and not can_be_made_again(dataset.card):
        raise DatasetError(_has_embeddings(dataset))
