"""The videos and pictures that requests can name by an id: of the dataset, of the package, and uploads.

No request names a path: a path comes from the dataset folder, from the package, or from the folder of uploads.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from p3iv.data.folder import Dataset, find_videos
from p3iv.serving.problems import ServiceError, not_found
from p3iv.serving.uploads import Upload, Uploads
from p3iv.shipped import shipped_clips, shipped_planner
from p3iv.validation import make_plain

Source = Literal["dataset", "clip", "upload"]


@dataclass(frozen=True)
class KnownVideo:
    """A video that can be asked about."""

    id: str
    name: str
    source: Source
    path: Path | None  # None: only its features are there
    dataset_video: str | None = None  # its name in the dataset
    stored_s: float | None = None  # seconds of which the dataset has features
    upload: Upload | None = None

    @property
    def content_key(self) -> str:
        """Changes with the content of the file: the hash of an upload's bytes; of other files, size and time."""
        if self.upload or self.path is None:
            return self.id
        status = self.path.stat()
        return f"{self.id}:{status.st_size}:{status.st_mtime_ns}"


class Library:
    """All videos and pictures of a service."""

    def __init__(self, planner: str, dataset: Dataset | None, uploads: Uploads) -> None:
        self.uploads = uploads
        fixed: list[KnownVideo] = [*_clips(planner), *(_dataset_videos(dataset) if dataset else ())]
        self._fixed = {video.id: video for video in fixed}
        self._with_file = {video.dataset_video: video.id for video in fixed if video.dataset_video and video.path}

    def videos(self) -> list[KnownVideo]:
        """All videos: uploads, the youngest first, then clips, then those of the dataset by name."""
        return [*map(_of_upload, self.uploads.listed("video")), *self._fixed.values()]

    def find_video(self, video_id: str) -> KnownVideo:
        """The video of an id.

        Raises:
            ServiceError: there is none, or no longer.
        """
        if video_id in self._fixed:
            return self._fixed[video_id]
        if (upload := self.uploads.find(video_id, "video")) is None:
            raise not_found("video")
        return _of_upload(upload)

    def find_upload(self, video_id: str) -> Upload:
        """The upload of an id, to delete it.

        Raises:
            ServiceError: there is none, or the video is not an upload.
        """
        if video_id in self._fixed:
            raise ServiceError(403, "Only uploads can be deleted.")
        if (upload := self.uploads.find(video_id, "video", use=False)) is None:
            raise not_found("video")
        return upload

    def find_picture(self, picture_id: str) -> Upload:
        """The picture of an id.

        Raises:
            ServiceError: there is none, or no longer.
        """
        if (upload := self.uploads.find(picture_id, "picture")) is None:
            raise not_found("picture")
        return upload

    def id_of(self, dataset_video: str) -> str | None:
        """The id of a dataset's video that has a file."""
        return self._with_file.get(dataset_video)


def clip_id(planner: str, file: str) -> str:
    """The id of a clip that comes with a planner of the package."""
    return _id("clip", f"{planner}/{file}")


def _id(source: Source, name: str) -> str:
    """The same in every process, and not guessable as a path."""
    return hashlib.sha256(os.fsencode(f"{source}\0{name}")).hexdigest()[:32]


def _clips(planner: str) -> list[KnownVideo]:
    if shipped_planner(planner) is None:
        return []
    return [
        KnownVideo(clip_id(planner, clip.file), f"{clip.file} ({clip.task})", "clip", clip.path)
        for clip in shipped_clips(planner)
    ]


def _dataset_videos(dataset: Dataset) -> list[KnownVideo]:
    files, store = find_videos(dataset.folder / "videos"), dataset.features
    rate = dataset.card.features_per_second
    stored_s = {video: store.num_rows(video) / rate for video in store.videos} if store is not None else {}
    ids = {name: _id("dataset", f"{dataset.folder.resolve()}\0{name}") for name in sorted({*files, *stored_s})}
    return [
        KnownVideo(video_id, make_plain(name), "dataset", files.get(name), name, stored_s.get(name))
        for name, video_id in ids.items()
    ]


def _of_upload(upload: Upload) -> KnownVideo:
    return KnownVideo(upload.id, upload.facts.name, "upload", upload.path, upload=upload)
