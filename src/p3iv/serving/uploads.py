"""Videos and pictures that clients sent: files in one folder, named by the hash of their bytes, for a limited time.

All that is known about an upload is in the folder, so that several processes can share it. The age of an upload is the
time of its last use; that is the modification time of its file.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import re
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Literal

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, ValidationError

from p3iv.files import write_text
from p3iv.serving.problems import ServiceError
from p3iv.serving.settings import MIB, Limits
from p3iv.validation import PlainText, make_plain

ABANDONED_S: Final = 3600  # until a part is deleted that nobody writes; its upload may wait for a worker

Kind = Literal["video", "picture"]

_ID: Final = re.compile("[0-9a-f]{64}")
_OURS: Final = re.compile(r"[0-9a-f]{64}\.(video|picture)(\.json)?|[0-9a-f]{32}\.part")
_PREFIX: Final = "p3iv-uploads-"
_LOCK: Final = "in-use.lock"
_WRITE_BYTES: Final = MIB  # collected before they are written, in a thread
_FACTS_BYTES: Final = 2048  # more than the facts of an upload take
_TOUCH_S: Final = 1.0  # a use within this time of the last one is not written down


class UploadFacts(BaseModel):
    """What is kept about an upload beside its bytes."""

    model_config = ConfigDict(frozen=True)

    name: PlainText
    width: int
    height: int
    length_s: float | None = None  # of a video
    codec: str | None = None
    media_type: str | None = None


@dataclass(frozen=True)
class Upload:
    """An upload on disk."""

    id: str
    kind: Kind
    path: Path
    facts: UploadFacts
    used_at: float


@dataclass(frozen=True)
class ReceivedFile:
    """A file that has arrived and is not yet known to be a video or a picture."""

    path: Path
    id: str


class Uploads:
    """The folder of uploads.

    Args:
        folder: where they are; it must exist.
        limits: of size, disk space and time.
        clock: the time in seconds.
    """

    def __init__(self, folder: Path, limits: Limits, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._limits, self._clock = folder, limits, clock
        self._moving = threading.Lock()

    async def receive(self, chunks: AsyncIterator[bytes]) -> ReceivedFile:
        """Write a body to disk as it arrives; the caller keeps or drops the file.

        Raises:
            ServiceError: there is no room for it.
        """
        path = self._folder / f"{secrets.token_hex(16)}.part"
        digest = hashlib.sha256()
        try:
            with path.open("xb") as file:
                async for block in _blocks(chunks):
                    await asyncio.to_thread(self._write, file, block)
                    await asyncio.to_thread(digest.update, block)
        except BaseException as error:
            path.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise _no_room("the disk is full") from error
            raise
        return ReceivedFile(path, digest.hexdigest())

    def keep(self, received: ReceivedFile, kind: Kind, facts: UploadFacts) -> Upload:
        """Move a received file to its place, after its facts: a file without them is not an upload."""
        place = self._place(received.id, kind)
        write_text(_facts_file(place), facts.model_dump_json())
        with self._moving:  # not while the space that is taken is added up, which would miss it
            received.path.replace(place)
        now = self._clock()
        os.utime(place, (now, now))
        return Upload(received.id, kind, place, facts, now)

    def drop(self, received: ReceivedFile) -> None:
        """Delete a received file that is not kept."""
        received.path.unlink(missing_ok=True)

    def find(self, upload_id: str, kind: Kind, *, use: bool = True) -> Upload | None:
        """The upload of an id; to use it makes it young again."""
        upload = self._read(self._place(upload_id, kind), kind) if _ID.fullmatch(upload_id) else None
        now = self._clock()
        if upload is None or self._is_old(upload, now):
            return None
        if use and now - upload.used_at > _TOUCH_S:
            with suppress(OSError):  # another process has deleted it
                os.utime(upload.path, (now, now))
            return Upload(upload.id, kind, upload.path, upload.facts, now)
        return upload

    def listed(self, kind: Kind) -> list[Upload]:
        """All uploads of a kind, the youngest first."""
        found = (self._read(path, kind) for path in self._files(kind))
        now = self._clock()
        return sorted((each for each in found if each and not self._is_old(each, now)), key=lambda each: -each.used_at)

    def expires_s(self, upload: Upload) -> float:
        """Seconds until an upload is deleted, if nobody uses it."""
        return max(0.0, upload.used_at + self._limits.keep_s - self._clock())

    def delete(self, upload: Upload) -> None:
        """Delete an upload; readers that have it open can finish."""
        upload.path.unlink(missing_ok=True)
        _facts_file(upload.path).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Delete what is too old, also the parts that a killed process left."""
        now = self._clock()
        for kind in ("video", "picture"):
            for path in self._files(kind):
                if now - _modified(path, now) > self._limits.keep_s:
                    path.unlink(missing_ok=True)
                    _facts_file(path).unlink(missing_ok=True)
        for path in self._files("part"):
            if time.time() - _modified(path, time.time()) > ABANDONED_S:  # the system's clock wrote it
                path.unlink(missing_ok=True)

    def used_bytes(self) -> int:
        """Disk space of all uploads, those that are arriving included."""
        return sum(_size(path) for path in self._folder.iterdir() if _OURS.fullmatch(path.name))

    def _files(self, kind: str) -> Iterator[Path]:
        """The uploads of a kind, or the parts; the folder may hold other files, which stay as they are."""
        return (path for path in self._folder.glob(f"*.{kind}") if _OURS.fullmatch(path.name))

    def _write(self, file: BinaryIO, block: bytes) -> None:
        """Write a block to a file when there is room for it; one at a time, as two might take the same room."""
        with self._moving:
            self._make_room(len(block) + _FACTS_BYTES)
            file.write(block)
            file.flush()

    def _make_room(self, num_bytes: int) -> None:
        """Delete the oldest uploads until there is room for more bytes."""
        limit = self._limits.disk_mib * MIB
        if self.used_bytes() + num_bytes > limit:
            self.sweep()
        while (used := self.used_bytes()) + num_bytes > limit:
            kept: list[Upload] = [*self.listed("video"), *self.listed("picture")]
            if not kept:
                raise _no_room(f"{used // MIB} of {self._limits.disk_mib} MiB are taken")
            self.delete(min(kept, key=lambda each: each.used_at))

    def _place(self, upload_id: str, kind: Kind) -> Path:
        return self._folder / f"{upload_id}.{kind}"

    def _is_old(self, upload: Upload, now: float) -> bool:
        return now - upload.used_at > self._limits.keep_s

    def _read(self, path: Path, kind: Kind) -> Upload | None:
        try:
            facts = UploadFacts.model_validate_json(_facts_file(path).read_bytes())
            return Upload(path.stem, kind, path, facts, path.stat().st_mtime)
        except (OSError, ValidationError):
            return None


@contextmanager
def temporary_uploads() -> Iterator[Path]:
    """A folder for uploads that only this user can read and that is deleted at the end.

    Folders that killed services left are deleted, too: nobody holds their lock.
    """
    for leftover in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        _delete_unused(leftover)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = FileLock(folder / _LOCK)
    lock.acquire()
    try:
        yield folder
    finally:
        lock.release()
        shutil.rmtree(folder, ignore_errors=True)


def clean_name(name: str) -> str:
    """The name of an upload as a text that is safe to print: the part after the last slash, shortened."""
    last = re.split(r"[/\\]", name)[-1].strip()
    return make_plain(last)[:100] or "video"


def _delete_unused(folder: Path) -> None:
    with suppress(OSError, Timeout):
        if folder.is_symlink() or folder.stat().st_uid != os.getuid() or not (folder / _LOCK).is_file():
            return
        with FileLock(folder / _LOCK, timeout=0):
            shutil.rmtree(folder, ignore_errors=True)


def _no_room(reason: str) -> ServiceError:
    return ServiceError(
        503,
        f"There is no room for this upload: {reason}.",
        "Try again later, or send a smaller file.",
        retry_after_s=60,
    )


async def _blocks(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in larger blocks."""
    block = bytearray()
    async for chunk in chunks:
        block += chunk
        if len(block) >= _WRITE_BYTES:
            yield bytes(block)
            block = bytearray()
    if block:
        yield bytes(block)


def _facts_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _modified(path: Path, otherwise: float) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return otherwise
