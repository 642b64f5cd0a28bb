"""Videos and pictures for clients: what is known about them, frames of them, and uploads."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from p3iv.errors import FeatureError
from p3iv.serving.jobs import (
    VideoFacts,
    picture_jpeg,
    probe_picture,
    probe_video,
    video_frame,
    video_strip,
)
from p3iv.serving.library import KnownVideo, Library
from p3iv.serving.problems import ServiceError, found_file, not_found
from p3iv.serving.schema import PictureAnswer, VideoAnswer
from p3iv.serving.settings import Limits
from p3iv.serving.uploads import ReceivedFile, Upload, UploadFacts, clean_name
from p3iv.serving.workers import WorkerPool

MAX_KNOWN: Final = 10_000  # videos whose facts are remembered
PLAYED: Final = ("video/mp4", "video/webm")  # a worker that was taken over could answer text/html
PICTURE: Final = "picture"  # the name of all of them


@dataclass(frozen=True)
class VideoFile:
    """A file to play."""

    path: Path
    status: os.stat_result
    media_type: str | None  # None: browsers do not play it
    tag: str  # changes with the content


class Media:
    """Answers about videos and pictures; files are opened by worker processes only."""

    def __init__(self, pool: WorkerPool, library: Library, limits: Limits) -> None:
        self._pool, self.library, self._limits = pool, library, limits
        self._facts: OrderedDict[str, VideoFacts] = OrderedDict()

    def listed(self) -> tuple[VideoAnswer, ...]:
        """All videos, with what is known without opening one."""
        return tuple(self._answer(video, self._known_facts(video)) for video in self.library.videos())

    async def describe(self, video_id: str) -> VideoAnswer:
        """What is known about a video, which is opened if need be."""
        video = self.library.find_video(video_id)
        return self._answer(video, await self.facts(video) if video.path else None)

    async def facts(self, video: KnownVideo) -> VideoFacts:
        """Length, size and type of a video file."""
        if (facts := self._known_facts(video)) is None:
            content = video.content_key  # before the file is read: it may change meanwhile
            path = _file(video)
            with found_file("video", path):
                facts = await self._pool.run(probe_video, path)
            self._facts[content] = facts
            if len(self._facts) > MAX_KNOWN:
                self._facts.popitem(last=False)
        return facts

    async def open_file(self, video_id: str) -> VideoFile:
        """The file of a video, and what it is."""
        video = self.library.find_video(video_id)
        path, facts = _file(video), await self.facts(video)
        try:
            return VideoFile(path, path.stat(), _played(facts), video.content_key)
        except OSError as error:  # it has just been deleted
            raise not_found("video") from error

    async def frame(self, video_id: str, second: float, width: int) -> bytes:
        """The frame at a second, as JPEG."""
        video = self.library.find_video(video_id)
        path, facts = _file(video), await self.facts(video)
        second = min(second, facts.length_s)
        with found_file("video", path):
            return await self._pool.run(video_frame, path, facts.length_s, second, width)

    async def strip(self, video_id: str, number: int, width: int) -> bytes:
        """Frames from the whole video, side by side, as JPEG."""
        video = self.library.find_video(video_id)
        path, facts = _file(video), await self.facts(video)
        with found_file("video", path):
            return await self._pool.run(video_strip, path, facts.length_s, number, width)

    async def picture(self, path: Path, width: int) -> bytes:
        """A picture file as JPEG."""
        with found_file("picture", path):
            return await self._pool.run(picture_jpeg, path, width)

    async def add_video(self, chunks: AsyncIterator[bytes], name: str) -> tuple[VideoAnswer, bool]:
        """Receive a video; also says whether it is new.

        Raises:
            P3ivError: it is not a video that can be read, or it is too long.
        """
        uploads, name = self.library.uploads, clean_name(name)
        received = await uploads.receive(chunks)
        try:
            if known := uploads.find(received.id, "video"):
                return self._answer(self.library.find_video(known.id), self._known_facts_of(known)), False
            facts = await self._probe(received.path, name)
            self._require_short(facts)
            await asyncio.to_thread(uploads.keep, received, "video", _upload_facts(name, facts))
            return await self.describe(received.id), True
        finally:
            uploads.drop(received)

    async def add_picture(self, chunks: AsyncIterator[bytes]) -> PictureAnswer:
        """Receive a picture.

        Raises:
            P3ivError: it is not a picture that can be read.
        """
        uploads = self.library.uploads
        received: ReceivedFile = await uploads.receive(chunks)
        try:
            if (known := uploads.find(received.id, "picture")) is None:
                facts = await self._pool.run(probe_picture, received.path)
                shape = UploadFacts(name=PICTURE, width=facts.width, height=facts.height)
                known = await asyncio.to_thread(uploads.keep, received, "picture", shape)
        finally:
            uploads.drop(received)
        shape, left_s = known.facts, uploads.expires_s(known)
        return PictureAnswer(id=known.id, width=shape.width, height=shape.height, expires_s=left_s)

    async def _probe(self, path: Path, name: str) -> VideoFacts:
        """What is known about a file that was just received."""
        try:
            return await self._pool.run(probe_video, path)
        except FeatureError as error:
            fault = str(error).removeprefix("The video: ")
            hint = "MP4, WebM, Matroska, QuickTime, AVI and MPEG can be read."
            raise ServiceError(422, f"{name}: {fault}", hint) from error

    def _require_short(self, facts: VideoFacts) -> None:
        minutes = self._limits.upload_minutes
        if facts.length_s > 60 * minutes:
            raise ServiceError(
                413, f"The video is {facts.length_s / 60:.0f} minutes long, at most {minutes} are allowed.", "Cut it."
            )

    def _known_facts(self, video: KnownVideo) -> VideoFacts | None:
        if video.upload:
            return self._known_facts_of(video.upload)
        try:
            return self._facts.get(video.content_key)
        except ServiceError:  # a broken link
            return None

    def _known_facts_of(self, upload: Upload) -> VideoFacts:
        facts = upload.facts
        return VideoFacts(facts.length_s or 0.0, facts.width, facts.height, facts.codec or "unknown", facts.media_type)

    def _answer(self, video: KnownVideo, facts: VideoFacts | None) -> VideoAnswer:
        return VideoAnswer(
            id=video.id,
            name=video.name,
            source=video.source,
            length_s=facts.length_s if facts else video.stored_s,
            width=facts.width if facts else None,
            height=facts.height if facts else None,
            media_type=_played(facts) if facts else None,
            has_frames=video.path is not None,
            expires_s=self.library.uploads.expires_s(video.upload) if video.upload else None,
        )


def _played(facts: VideoFacts) -> str | None:
    """The type of a video for browsers, if it is one that they play."""
    return facts.media_type if facts.media_type in PLAYED else None


def _file(video: KnownVideo) -> Path:
    if video.path is None:
        raise ServiceError(404, "There is no video file, only features.", "Plans can be asked for all the same.")
    return video.path


def _upload_facts(name: str, facts: VideoFacts) -> UploadFacts:
    return UploadFacts(
        name=name,
        width=facts.width,
        height=facts.height,
        length_s=facts.length_s,
        codec=facts.codec,
        media_type=facts.media_type,
    )
