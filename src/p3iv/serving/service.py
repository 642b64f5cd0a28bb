"""A service without HTTP: it loads the planner, starts the processes that encode, and ends all of it."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from p3iv.config import DataConfig
from p3iv.data.annotations import AnnotationStore
from p3iv.data.folder import Dataset
from p3iv.environment import own_version
from p3iv.errors import P3ivError
from p3iv.hub import find_planner
from p3iv.loaded_planner import choose_encoder
from p3iv.planner import Planner
from p3iv.planners.backends import file_of
from p3iv.serving.annotating import Annotating
from p3iv.serving.command_jobs import CommandJobs
from p3iv.serving.examples import StepExamples, find_step_picture
from p3iv.serving.following import Following
from p3iv.serving.jobs import EncoderFacts, PictureFacts, VideoFacts, describe_encoder, set_up
from p3iv.serving.library import Library, clip_id
from p3iv.serving.log import LOGGER, log_event, log_failure, set_up_with_log
from p3iv.serving.media import Media
from p3iv.serving.observations import Observer
from p3iv.serving.planning import Planning
from p3iv.serving.problems import ServiceError
from p3iv.serving.schema import EncoderAnswer, Example, InfoAnswer, LimitsAnswer, PlannerFacts
from p3iv.serving.settings import MIB, ServiceSettings
from p3iv.serving.uploads import Uploads, temporary_uploads
from p3iv.serving.workers import WorkerLimits, WorkerPool
from p3iv.shipped import shipped_clips, shipped_planner

NO_ENCODER = "The encoder of this planner could not be built; the log of the service says why."  # which may name paths


class Service:
    """Everything behind the routes.

    Args:
        settings: what the service is started with.
        clock: the time in seconds, by which uploads grow old.
    """

    pool: WorkerPool  # these when it is ready
    media: Media
    observer: Observer
    annotating: Annotating | None  # with --annotate, like the next
    jobs: CommandJobs | None

    def __init__(self, settings: ServiceSettings, clock: Callable[[], float] = time.time) -> None:
        self.settings, self._clock = settings, clock
        self.is_ready = False
        self.failure: Exception | None = None  # why it could not start
        self.on_start: Callable[[], object] = lambda: None  # is called when it is ready, or has failed to start
        self._cleanup = ExitStack()
        self._encoder: EncoderFacts | None = None
        self._encoder_problem: str | None = None
        self._planner: Planner | None = None  # None: it was started without one, like the next two
        self._planning: Planning | None = None
        self._following: Following | None = None
        self._has_reasons = False  # whether the planner can say why

    @property
    def has_planner(self) -> bool:
        """Whether there is a planner; without one, steps can be annotated."""
        return self._planner is not None

    @property
    def planning(self) -> Planning:
        """Answers questions for plans.

        Raises:
            ServiceError: there is no planner.
        """
        if self._planning is None:
            raise _no_planner()
        return self._planning

    @property
    def following(self) -> Following:
        """Follows videos.

        Raises:
            ServiceError: there is no planner.
        """
        if self._following is None:
            raise _no_planner()
        return self._following

    async def start(self) -> None:
        """Load the planner while the first process builds its encoder.

        Raises:
            P3ivError: the planner cannot be loaded, or the folder cannot be annotated.
        """
        settings = self.settings
        uploads = settings.uploads or self._cleanup.enter_context(temporary_uploads())
        uploads.mkdir(parents=True, exist_ok=True)
        self._uploads, folder = Uploads(uploads, settings.limits, self._clock), settings.annotate
        self.annotating = Annotating(await asyncio.to_thread(AnnotationStore, folder)) if folder else None
        self.jobs = CommandJobs(folder, self.use_planner) if folder else None
        await self._load(settings)
        self.is_ready = True

    async def use_planner(self, planner: str) -> None:
        """Answer with another planner from now on; requests that are being computed fail and can be sent again.

        Raises:
            P3ivError: it cannot be loaded; the service goes on as before.
        """
        pool, planning = self.pool, self._planning
        await self._load(replace(self.settings, planner=planner, data=None, backend=None, ensemble=()))
        if planning:
            planning.requests.close()
        await pool.close()

    async def _load(self, settings: ServiceSettings) -> None:
        """Load a planner and start processes with its encoder; if that fails, nothing has changed."""
        limits, planner = settings.limits, settings.planner
        place = await asyncio.to_thread(find_planner, planner) if planner else None  # which may be on the hub
        file = file_of(place, settings.backend) if place else None
        encoder = (choose_encoder(file, settings.encoder) if file else None) or settings.encoder
        pool = WorkerPool(
            partial(set_up_with_log, partial(set_up, file, encoder), LOGGER.level),
            num_workers=limits.jobs or os.cpu_count() or 1,
            max_waiting=limits.waiting,
            limits=WorkerLimits(limits.job_memory_mib * MIB, limits.request_s, limits.request_s),
            results=(VideoFacts, PictureFacts, EncoderFacts),
        )
        building = asyncio.ensure_future(_build_encoder(pool))
        try:
            loaded = await asyncio.to_thread(_load_planner, settings) if planner else None
            found, problem = await building
            parts = await asyncio.to_thread(self._connect, settings, pool, loaded, found)
        except BaseException:
            building.cancel()
            await pool.close()
            raise
        self.settings, self.pool, self._planner = settings, pool, loaded
        self._encoder, self._encoder_problem = found, problem
        self.media, self.observer, self._planning, self._following, self._has_reasons = parts
        if loaded and "words" in loaded.queries.evidence:
            self.planning.requests.prepare_words()

    async def run(self) -> None:
        """Start, say so, and then delete old uploads again and again, until cancelled."""
        try:
            await self.start()
        except Exception as error:  # raised again by whoever runs the service
            self.failure = error
        self.on_start()
        while self.is_ready:
            await asyncio.sleep(min(60.0, self.settings.limits.keep_s / 4))
            try:
                await asyncio.to_thread(self.media.library.uploads.sweep)
            except OSError as error:
                log_failure(error)

    def end_long_answers(self) -> None:
        """End the answers that could go on for hours, so that the service can be stopped."""
        if following := self._following:
            following.is_ending = True

    async def stop(self) -> None:
        """End processes and threads, and delete temporary uploads."""
        self.is_ready = False
        if jobs := vars(self).get("jobs"):
            await jobs.close()
        if planning := self._planning:
            planning.requests.close()
        if "pool" in vars(self):
            await self.pool.close()
        self._cleanup.close()

    def info(self) -> InfoAnswer:
        """What the service can do."""
        planner, limits, encoder = self._planner, self.settings.limits, self._encoder
        return InfoAnswer(
            version=own_version(),
            planner=_describe_planner(planner, self.settings.planner) if planner else None,
            horizons=planner.horizons if planner else (),
            actions=planner.names if planner else (),
            procedures=planner.procedures if planner else (),
            evidence=planner.queries.evidence if planner else (),
            reasons=self._has_reasons,
            can_follow=planner is not None and planner.can_follow,
            annotates=self.settings.annotate is not None,
            encoder=EncoderAnswer(name=encoder.name, fingerprint=encoder.fingerprint, pictures=encoder.takes_pictures)
            if encoder
            else None,
            encoder_problem=NO_ENCODER if self._encoder_problem and self.settings.is_public else self._encoder_problem,
            limits=LimitsAnswer(
                upload_bytes=limits.upload_mib * MIB,
                upload_s=60 * limits.upload_minutes,
                picture_bytes=limits.picture_mib * MIB,
                samples=limits.samples,
                plans=limits.plans,
            ),
            example=self._example(),
            step_pictures=find_step_picture(self.settings.planner, 0) is not None,
            needs_token=self.settings.token is not None,
        )

    def _connect(
        self, settings: ServiceSettings, pool: WorkerPool, planner: Planner | None, encoder: EncoderFacts | None
    ) -> tuple[Media, Observer, Planning | None, Following | None, bool]:
        """Put the parts together; the last says whether the planner has reasons."""
        dataset = _find_dataset(planner, settings) if planner else None
        library = Library(settings.planner, dataset, self._uploads, settings.annotate)
        media = Media(pool, library, settings.limits)
        data = planner.header.config.data if planner else DataConfig()
        observer = Observer(pool, encoder, data.observation, dataset)
        planning = following = None
        if planner:
            examples = StepExamples(dataset, library, data, data.observation) if dataset else None
            planning = Planning(planner, media, observer, examples, settings.limits)
            following = Following(planner, media, observer, planning.moments, planning.requests)
        return media, observer, planning, following, planner is not None and _has_reasons(planner)

    def _example(self) -> Example | None:
        """Two moments of a clip of the package."""
        planner = self.settings.planner
        if planner is None or shipped_planner(planner) is None:
            return None
        clip = shipped_clips(planner)[0]
        return Example(video=clip_id(planner, clip.file), start=clip.start_s, goal=clip.goal_s)


def _no_planner() -> ServiceError:
    return ServiceError(
        422, "This service has no planner.", "Train one on its page, or start it with one: p3iv serve RUN."
    )


async def _build_encoder(pool: WorkerPool) -> tuple[EncoderFacts | None, str | None]:
    """The encoder, or why there is none: then the service answers for moments of the dataset and for features."""
    try:
        await pool.start()
        encoder = await pool.run(describe_encoder)
    except P3ivError as error:
        log_event("no_encoder", level=logging.WARNING, note=str(error))
        return None, str(error)
    for note in encoder.notes:
        log_event("note", note=note)
    return encoder, None


def _load_planner(settings: ServiceSettings) -> Planner:
    _use_threads(settings.threads)
    return Planner.from_pretrained(
        settings.planner or "",
        device=settings.device,
        backend=settings.backend,
        ensemble=settings.ensemble,
        data=settings.data,
        encoder=settings.encoder,
        on_note=lambda note: log_event("note", note=note),
    )


def _find_dataset(planner: Planner, settings: ServiceSettings) -> Dataset | None:
    """The dataset of the planner; without it, its videos are not offered. One that the user named must be there."""
    try:
        return planner.moments.find_dataset()
    except P3ivError as error:
        if settings.data is not None:
            raise
        log_event("note", note=f"The videos of the dataset are not offered: {error}")
        return None


def _describe_planner(planner: Planner, name: str | None) -> PlannerFacts:
    header = planner.header
    return PlannerFacts(
        name=Path(name or "").name,
        method=header.config.planner,
        backend=planner.backend,
        data_label=header.data_label,
        data_fingerprint=header.data_fingerprint,
    )


def _has_reasons(planner: Planner) -> bool:
    """Whether a planner can say why: not one of a fixed length, nor an ensemble."""
    if "words" not in planner.queries.evidence:
        return False
    nothing = np.zeros(planner.header.shape.feature_width, np.float32)
    try:
        planner.plan(nothing, number=1, why=True)
    except P3ivError:
        return False
    return True


def _use_threads(threads: int) -> None:
    if find_spec("torch") is None:  # an exported planner does without
        return
    import torch

    torch.set_num_threads(threads)
