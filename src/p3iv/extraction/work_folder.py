"""Rows of finished videos, kept beside the features until all are done, so that nothing is done twice."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import numpy as np

from p3iv.atomic import whole_file
from p3iv.extraction.request import EncodedVideo, VideoTask
from p3iv.features import KeptSeconds
from p3iv.features.encoders import VideoEncoder
from p3iv.locks import held

WORK_FOLDER: Final = ".extraction"
LOCK_FILE: Final = "lock"
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
        with whole_file(self._file(task)) as beside, beside.open("wb") as file:
            np.savez(file, rows=encoded.rows, num_seconds=kept.num_seconds, seconds=np.array(kept.seconds, np.int64))

    def clear(self) -> None:
        """Forget all rows, also those of other settings."""
        for path in self.path.iterdir():
            if path.name != LOCK_FILE:
                path.unlink()

    def _file(self, task: VideoTask) -> Path:
        status = task.path.stat()
        depends_on = [*self._settings, task.video, status.st_size, status.st_mtime_ns, task.moments_s]
        return self.path / f"{hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()[:32]}.npz"


@contextmanager
def hold_folder(dataset: Path) -> Iterator[Path]:
    """Yield the work folder of a dataset folder for one process alone; the lock goes with the process, even killed.

    Raises:
        BusyError: where another process has it.
    """
    folder = dataset / WORK_FOLDER
    try:
        with held(folder / LOCK_FILE, doing=f"is extracting features in {dataset}"):
            yield folder
    finally:
        with suppress(OSError):  # rows are left in it, or another process is there
            folder.rmdir()
