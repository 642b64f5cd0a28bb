"""Uploads that come at the same time, that come slowly, and that find no room on the disk."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from p3iv.serving.problems import ServiceError
from p3iv.serving.settings import MIB, Limits
from p3iv.serving.uploads import UploadFacts, Uploads

FACTS = UploadFacts(name="kitchen.mp4", width=640, height=360, length_s=12.5)


async def in_chunks(content: bytes, size: int, pause_s: float = 0.0) -> AsyncIterator[bytes]:
    for first in range(0, len(content), size):
        await asyncio.sleep(pause_s)
        yield content[first : first + size]


def test_uploads_at_the_same_time_do_not_take_the_same_room(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path, replace(Limits(), disk_mib=4))
    largest = 0

    async def send(number: int) -> None:
        nonlocal largest
        try:
            received = await uploads.receive(in_chunks(bytes([number]) * MIB, MIB))
            uploads.keep(received, "video", FACTS)
        except ServiceError as error:
            assert error.status == 503  # all room is taken by others that are arriving
        largest = max(largest, uploads.used_bytes())

    async def send_all() -> None:
        await asyncio.gather(*(send(number) for number in range(20)))

    asyncio.run(send_all())
    assert largest <= 4 * MIB
    assert uploads.listed("video")


def test_an_upload_that_comes_slowly_is_not_taken_for_a_leftover(tmp_path: Path) -> None:
    """Parts of uploads that nobody has written for two seconds are deleted; this one takes three."""
    uploads = Uploads(tmp_path, replace(Limits(), idle_s=1))

    async def sweep_again_and_again() -> None:
        while True:
            uploads.sweep()
            await asyncio.sleep(0.1)

    async def send() -> bytes:
        sweeping = asyncio.create_task(sweep_again_and_again())
        received = await uploads.receive(in_chunks(b"abcdef", 1, pause_s=0.5))
        sweeping.cancel()
        return received.path.read_bytes()

    assert asyncio.run(send()) == b"abcdef"


def test_a_part_that_a_killed_service_left_is_deleted(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path, replace(Limits(), idle_s=1))
    left = tmp_path / f"{'0' * 32}.part"
    left.write_bytes(b"x")
    uploads.sweep()
    assert left.exists()
    subprocess.run(["touch", "-d", "61 minutes ago", str(left)], check=True)
    uploads.sweep()
    assert not left.exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of three megabytes."""
    words = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(tmp_path)]
    if subprocess.run(words, capture_output=True, check=False).returncode != 0:
        pytest.skip("this user cannot mount a small file system")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], capture_output=True, check=False)


def test_a_disk_that_is_full(small_disk: Path) -> None:
    uploads = Uploads(small_disk, Limits())
    with pytest.raises(ServiceError, match="no room for this upload: the disk is full") as refused:
        asyncio.run(uploads.receive(in_chunks(bytes(5 * MIB), 100_000)))
    assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "60"})
    assert list(small_disk.iterdir()) == []
    received = asyncio.run(uploads.receive(in_chunks(bytes(MIB), 100_000)))
    assert uploads.keep(received, "video", FACTS).facts == FACTS
