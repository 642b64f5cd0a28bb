"""Uploads: kept by hash, for a limited time, within a limited space."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p3iv.serving.problems import ServiceError
from p3iv.serving.settings import MIB, Limits
from p3iv.serving.uploads import Upload, UploadFacts, Uploads, clean_name, temporary_uploads
from p3iv.types import UNFIT

FACTS = UploadFacts(name="kitchen.mp4", width=640, height=360, length_s=12.5)


class Clock:
    """A time that tests move."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


async def in_chunks(content: bytes, size: int = 1000) -> AsyncIterator[bytes]:
    for first in range(0, len(content), size):
        yield content[first : first + size]


async def broken(content: bytes) -> AsyncIterator[bytes]:
    yield content
    raise ConnectionResetError


def add(uploads: Uploads, content: bytes, facts: UploadFacts = FACTS) -> Upload:
    received = asyncio.run(uploads.receive(in_chunks(content)))
    return uploads.keep(received, "video", facts)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def uploads(tmp_path: Path, clock: Clock) -> Uploads:
    return Uploads(tmp_path, replace(Limits(), disk_mib=4, keep_s=100), clock)


def test_an_upload_is_found_by_the_hash_of_its_bytes(uploads: Uploads) -> None:
    content = b"video" * 1000
    upload = add(uploads, content)
    assert upload.id == hashlib.sha256(content).hexdigest()
    found = uploads.find(upload.id, "video")
    assert found is not None
    assert (found.path.read_bytes(), found.facts) == (content, FACTS)


def test_the_same_bytes_are_kept_once(uploads: Uploads, tmp_path: Path) -> None:
    assert add(uploads, b"same").id == add(uploads, b"same").id
    assert len(list(tmp_path.glob("*.video"))) == 1


@pytest.mark.parametrize("name", ["", "..", "../../etc/passwd", "a" * 64, "A" * 64, "%2e%2e", "x" * 32, "\0" * 64])
def test_other_ids_find_nothing(uploads: Uploads, tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.video").write_bytes(b"x")
    assert uploads.find(name, "video") is None


def test_a_video_is_not_a_picture(uploads: Uploads) -> None:
    assert uploads.find(add(uploads, b"x").id, "picture") is None


def test_an_upload_that_is_not_used_is_gone_after_its_time(uploads: Uploads, clock: Clock, tmp_path: Path) -> None:
    upload = add(uploads, b"x")
    clock.now += 101
    assert uploads.find(upload.id, "video") is None  # also before it is deleted
    assert uploads.listed("video") == []
    uploads.sweep()
    assert list(tmp_path.iterdir()) == []


def test_a_used_upload_stays(uploads: Uploads, clock: Clock) -> None:
    upload = add(uploads, b"x")
    for _ in range(5):
        clock.now += 60
        uploads.sweep()
        assert uploads.find(upload.id, "video") is not None
    assert uploads.expires_s(uploads.listed("video")[0]) == 100


def test_the_oldest_upload_makes_room(uploads: Uploads, clock: Clock) -> None:
    ids = []
    for number in range(6):
        clock.now += 1
        ids.append(add(uploads, bytes([number]) * MIB).id)
        assert uploads.used_bytes() <= 4 * MIB + 10_000  # a few facts
    assert [uploads.find(each, "video") is not None for each in ids] == [False, False, False, True, True, True]


def test_an_upload_larger_than_the_disk_space_is_refused_and_leaves_nothing(uploads: Uploads, tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="no room") as refused:
        add(uploads, bytes(5 * MIB))
    assert refused.value.status == 503
    assert list(tmp_path.iterdir()) == []


def test_an_upload_that_breaks_off_leaves_nothing(uploads: Uploads, tmp_path: Path) -> None:
    with pytest.raises(ConnectionResetError):
        asyncio.run(uploads.receive(broken(bytes(2 * MIB))))
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_facts_is_not_an_upload(uploads: Uploads) -> None:
    upload = add(uploads, b"x")
    upload.path.with_name(f"{upload.path.name}.json").write_text("{}")
    assert uploads.find(upload.id, "video") is None
    uploads.sweep()  # it grows old as the others do
    assert upload.path.exists()


def test_temporary_uploads_are_deleted_at_the_end_and_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with temporary_uploads() as first:
        (first / "x.video").write_bytes(b"x")
        with temporary_uploads() as second:
            assert first.is_dir()  # it is in use
            assert second != first
    assert list(tmp_path.iterdir()) == []
    left = tmp_path / "p3iv-uploads-killed"
    left.mkdir()
    (left / "in-use.lock").touch()
    foreign = tmp_path / "p3iv-uploads-foreign"  # without a lock, it is not ours
    foreign.mkdir()
    with temporary_uploads():
        assert not left.exists()
        assert foreign.exists()


@given(st.text(max_size=300))
def test_a_name_is_shown_safely(name: str) -> None:
    cleaned = clean_name(name)
    assert 1 <= len(cleaned) <= 100
    assert not UNFIT.search(cleaned)
    assert "/" not in cleaned
    assert "\\" not in cleaned
