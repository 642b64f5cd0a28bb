"""A service without HTTP: it loads the planner, starts the processes that encode, and ends all of it."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from p3iv.data.folder import Dataset
from p3iv.environment import own_version
from p3iv.errors import P3ivError
from p3iv.hub import find_planner
from p3iv.loaded_planner import choose_encoder
from p3iv.planner import Planner
from p3iv.planners.backends import file_of
from p3iv.serving.examples import StepExamples, find_step_picture
from p3iv.serving.following import Following
from p3iv.serving.jobs import EncoderFacts, PictureFacts, VideoFacts, describe_encoder, set_up
from p3iv.serving.library import Library, clip_id
from p3iv.serving.log import LOGGER, log_event, log_failure, set_up_with_log
from p3iv.serving.media import Media
from p3iv.serving.observations import Observer
from p3iv.serving.planning import Planning
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

    pool: WorkerPool  # from the beginning of its start
    media: Media  # these when it is ready
    observer: Observer
    planning: Planning
    following: Following

    def __init__(self, settings: ServiceSettings, clock: Callable[[], float] = time.time) -> None:
        self.settings, self._clock = settings, clock
        self.is_ready = False
        self.failure: Exception | None = None  # why it could not start
        self.on_start: Callable[[], object] = lambda: None  # is called when it is ready, or has failed to start
        self._cleanup = ExitStack()
        self._encoder: EncoderFacts | None = None
        self._encoder_problem: str | None = None
        self._has_reasons = False  # whether the planner can say why

    async def start(self) -> None:
        """Load the planner while the first process builds its encoder.

        Raises:
            P3ivError: the planner cannot be loaded.
        """
        settings, limits = self.settings, self.settings.limits
        place = await asyncio.to_thread(find_planner, settings.planner)  # which may be on the hub
        file = file_of(place, settings.backend)
        encoder = choose_encoder(file, settings.encoder) or settings.encoder
        self.pool = WorkerPool(
            partial(set_up_with_log, partial(set_up, file, encoder), LOGGER.level),
            num_workers=limits.jobs or os.cpu_count() or 1,
            max_waiting=limits.waiting,
            limits=WorkerLimits(limits.job_memory_mib * MIB, limits.request_s, limits.request_s),
            results=(VideoFacts, PictureFacts, EncoderFacts),
        )
        building = asyncio.ensure_future(self._start_pool())
        try:
            self._planner = await asyncio.to_thread(self._load)
            await building
            await asyncio.to_thread(self._connect)
        except BaseException:
            building.cancel()
            await self.pool.close()
            raise
        self.is_ready = True
        if "words" in self._planner.queries.evidence:
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
        if "following" in vars(self):
            self.following.is_ending = True

    async def stop(self) -> None:
        """End processes and threads, and delete temporary uploads."""
        self.is_ready = False
        if "planning" in vars(self):
            self.planning.requests.close()
        if "pool" in vars(self):
            await self.pool.close()
        self._cleanup.close()

    def info(self) -> InfoAnswer:
        """What the service can do."""
        header, limits = self._planner.header, self.settings.limits
        encoder = self._encoder
        return InfoAnswer(
            version=own_version(),
            planner=PlannerFacts(
                name=Path(self.settings.planner).name,
                method=header.config.planner,
                backend=self._planner.backend,
                data_label=header.data_label,
                data_fingerprint=header.data_fingerprint,
            ),
            horizons=self._planner.horizons,
            actions=self._planner.names,
            procedures=self._planner.procedures,
            evidence=self._planner.queries.evidence,
            reasons=self._has_reasons,
            can_follow=self._planner.can_follow,
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

    def _load(self) -> Planner:
        settings = self.settings
        _use_threads(settings.threads)
        return Planner.from_pretrained(
            settings.planner,
            device=settings.device,
            backend=settings.backend,
            ensemble=settings.ensemble,
            data=settings.data,
            encoder=settings.encoder,
            on_note=lambda note: log_event("note", note=note),
        )

    async def _start_pool(self) -> None:
        """Without an encoder the service answers for moments of the dataset and for features."""
        try:
            await self.pool.start()
            self._encoder = await self.pool.run(describe_encoder)
        except P3ivError as error:
            self._encoder_problem = str(error)
            log_event("no_encoder", level=logging.WARNING, note=str(error))
        for note in self._encoder.notes if self._encoder else ():
            log_event("note", note=note)

    def _connect(self) -> None:
        """Put the parts together."""
        settings, planner = self.settings, self._planner
        config, dataset = planner.header.config, self._find_dataset()
        folder = settings.uploads or self._cleanup.enter_context(temporary_uploads())
        folder.mkdir(parents=True, exist_ok=True)
        library = Library(settings.planner, dataset, Uploads(folder, settings.limits, self._clock))
        examples = StepExamples(dataset, library, config.data, config.data.observation) if dataset else None
        self.media = Media(self.pool, library, settings.limits)
        self.observer = Observer(self.pool, self._encoder, config.data.observation, dataset)
        self.planning = Planning(planner, self.media, self.observer, examples, settings.limits)
        self.following = Following(planner, self.media, self.observer, self.planning.moments, self.planning.requests)
        self._has_reasons = _has_reasons(planner)

    def _find_dataset(self) -> Dataset | None:
        """The dataset of the planner; without it, its videos are not offered. One that the user named must be there."""
        try:
            return self._planner.moments.find_dataset()
        except P3ivError as error:
            if self.settings.data is not None:
                raise
            log_event("note", note=f"The videos of the dataset are not offered: {error}")
            return None

    def _example(self) -> Example | None:
        """Two moments of a clip of the package."""
        planner = self.settings.planner
        if shipped_planner(planner) is None:
            return None
        clip = shipped_clips(planner)[0]
        return Example(video=clip_id(planner, clip.file), start=clip.start_s, goal=clip.goal_s)


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
