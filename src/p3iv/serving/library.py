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
        """Changes with the content of the file: the hash of an upload's bytes; of other files, size and time.

        Raises:
            ServiceError: the file is gone.
        """
        if self.upload or self.path is None:
            return self.id
        try:
            status = self.path.stat()
        except OSError as error:
            raise not_found("video") from error
        return f"{self.id}:{status.st_size}:{status.st_mtime_ns}"


class Library:
    """All videos and pictures of a service.

    Args:
        planner: whose clips are offered, if it comes with some.
        dataset: whose videos are offered.
        uploads: of clients.
        annotated: the folder whose videos are annotated; new ones may come at any time.
    """

    def __init__(
        self, planner: str | None, dataset: Dataset | None, uploads: Uploads, annotated: Path | None = None
    ) -> None:
        self.uploads, self._annotated_folder = uploads, annotated
        fixed: list[KnownVideo] = [*_clips(planner), *(_dataset_videos(dataset) if dataset else ())]
        self._fixed = {video.id: video for video in fixed}
        self._with_file = {video.dataset_video: video.id for video in fixed if video.dataset_video and video.path}
        self._annotated: dict[str, KnownVideo] = {}
        self.annotated()

    def videos(self) -> list[KnownVideo]:
        """All videos: uploads, the youngest first, then clips, then those of the dataset and to annotate, by name."""
        others = [video for video in self.annotated() if video.id not in self._fixed]
        return [*map(_of_upload, self.uploads.listed("video")), *self._fixed.values(), *others]

    def annotated(self) -> list[KnownVideo]:
        """The videos to annotate, by name."""
        if self._annotated_folder is None:
            return []
        folder = self._annotated_folder
        found = [_of_file(folder, name, path) for name, path in sorted(find_videos(folder / "videos").items())]
        self._annotated = {video.id: video for video in found}
        return found

    def find_annotated(self, video_id: str) -> KnownVideo:
        """A video to annotate.

        Raises:
            ServiceError: there is none of that id.
        """
        if video_id not in self._annotated:
            self.annotated()  # it may be new
        if video_id not in self._annotated:
            raise ServiceError(404, "There is no such video to annotate.")
        return self._annotated[video_id]

    def find_video(self, video_id: str) -> KnownVideo:
        """The video of an id.

        Raises:
            ServiceError: there is none, or no longer.
        """
        if video_id in self._fixed:
            return self._fixed[video_id]
        if video_id in self._annotated:
            return self._annotated[video_id]
        if (upload := self.uploads.find(video_id, "video")) is None:
            raise not_found("video")
        return _of_upload(upload)

    def find_upload(self, video_id: str) -> Upload:
        """The upload of an id, to delete it.

        Raises:
            ServiceError: there is none, or the video is not an upload.
        """
        if video_id in self._fixed or video_id in self._annotated:
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


def _clips(planner: str | None) -> list[KnownVideo]:
    if planner is None or shipped_planner(planner) is None:
        return []
    return [
        KnownVideo(clip_id(planner, clip.file), f"{clip.file} ({clip.task})", "clip", clip.path)
        for clip in shipped_clips(planner)
    ]


def _dataset_videos(dataset: Dataset) -> list[KnownVideo]:
    files, store = find_videos(dataset.folder / "videos"), dataset.features
    rate = dataset.card.features_per_second
    stored_s = {video: store.num_rows(video) / rate for video in store.videos} if store is not None else {}
    return [_of_file(dataset.folder, name, files.get(name), stored_s.get(name)) for name in sorted({*files, *stored_s})]


def _of_file(folder: Path, name: str, path: Path | None, stored_s: float | None = None) -> KnownVideo:
    """A video of a dataset folder."""
    video_id = _id("dataset", f"{folder.resolve()}\0{name}")
    return KnownVideo(video_id, make_plain(name), "dataset", path, name, stored_s)


def _of_upload(upload: Upload) -> KnownVideo:
    return KnownVideo(upload.id, upload.facts.name, "upload", upload.path, upload=upload)
