from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pytest

from p3iv.errors import SourceError
from p3iv.readers.coin import read_coin
from p3iv.readers.crosstask import read_crosstask
from p3iv.readers.files import FolderFiles, UnusableError, read_text
from p3iv.readers.folder import read_folder
from p3iv.readers.niv import read_niv

JELLO = "annotations/23521_a_b-c.csv"
CENTRAL, LOCAL = b"PK\x01\x02", b"PK\x03\x04"


@pytest.fixture
def crosstask_zip(crosstask_folder: Path) -> Path:
    path = crosstask_folder.parent / "crosstask_release.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(crosstask_folder.rglob("*")):
            archive.write(file, file.relative_to(crosstask_folder.parent).as_posix())
    return path


def patch_jello(path: Path, mark: bytes, offset: int, value: bytes) -> None:
    """Overwrite a field in the local or the central header of the first annotation file."""
    content = bytearray(path.read_bytes())
    at = -1
    while True:
        at = content.index(mark, at + 1)
        if JELLO.encode() in content[at : at + 100]:
            break
    content[at + offset : at + offset + len(value)] = value
    path.write_bytes(content)


def test_the_zip_equals_the_folder(crosstask_folder: Path, crosstask_zip: Path) -> None:
    (crosstask_folder / "annotations" / "23521_bad.csv").write_text("9,0,1\n", encoding="utf-8")
    with zipfile.ZipFile(crosstask_zip, "a") as archive:
        archive.writestr("crosstask_release/annotations/23521_bad.csv", "9,0,1\n")
    assert read_crosstask(crosstask_zip) == read_crosstask(crosstask_folder)
    assert len(read_crosstask(crosstask_zip).problems) == 2


def test_niv_may_come_as_a_zip_too(niv_folder: Path) -> None:
    path = niv_folder.parent / "niv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(niv_folder.rglob("*.csv")):
            archive.write(file, file.relative_to(niv_folder).as_posix())
    assert read_niv(path) == read_niv(niv_folder)


@pytest.mark.parametrize(
    ("mark", "offset", "value", "what"),
    [
        (
            CENTRAL,
            24,
            (2**31 - 1).to_bytes(4, "little"),
            "2147483647 bytes when unpacked, at most 1048576 are allowed",
        ),
        (CENTRAL, 24, (3).to_bytes(4, "little"), "damaged in the zip"),
        (CENTRAL, 8, b"\x01", "encrypted"),
        (CENTRAL, 10, b"\x0e", "packed by method 14"),
        (CENTRAL, 16, b"\0\0\0\0", "damaged in the zip (Bad CRC-32"),
        (LOCAL, 0, b"XXXX", "damaged in the zip"),
        (LOCAL, 28, b"\xff\xff", "damaged in the zip"),
    ],
)
def test_an_unusable_member_is_listed_and_the_rest_read(
    crosstask_zip: Path, mark: bytes, offset: int, value: bytes, what: str
) -> None:
    patch_jello(crosstask_zip, mark, offset, value)
    annotations = read_crosstask(crosstask_zip)
    (problem,) = annotations.problems
    assert (problem.where, problem.done) == (JELLO, "video left out")
    assert what in problem.what
    assert [video.id for video in annotations.videos] == ["-xyz"]


def test_odd_member_names_are_harmless(crosstask_zip: Path) -> None:
    before = read_crosstask(crosstask_zip)
    with zipfile.ZipFile(crosstask_zip, "a") as archive:
        for name in (
            "/abs.csv",
            "../up.csv",
            "crosstask_release/annotations/../23521_up.csv",
            "__MACOSX/._x.csv",
            "a//b.csv",
            "//x.csv",
        ):
            archive.writestr(name, "1,0,1\n")
        archive.writestr("crosstask_release/annotations/23521_\x1b[31m.csv", "1,0,1\n")
    after = read_crosstask(crosstask_zip)
    assert after.videos == before.videos
    (problem,) = after.problems
    assert problem.where == r"annotations/23521_\x1b[31m.csv"
    assert str(problem).isprintable()


def test_the_first_of_two_equal_members_is_used(crosstask_zip: Path) -> None:
    before = read_crosstask(crosstask_zip)
    with zipfile.ZipFile(crosstask_zip, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr(f"crosstask_release/{JELLO}", "2,0,1\n")
    after = read_crosstask(crosstask_zip)
    assert after.videos == before.videos
    assert [problem.where for problem in after.problems] == [JELLO]


def test_a_truncated_zip_is_refused(crosstask_zip: Path) -> None:
    crosstask_zip.write_bytes(crosstask_zip.read_bytes()[:-30])
    with pytest.raises(SourceError, match="neither a folder nor a zip"):
        read_crosstask(crosstask_zip)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes in folders")
def test_pipes_and_large_files_are_never_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(UnusableError, match="not a regular file"):
        FolderFiles(tmp_path).read("pipe.csv")
    (tmp_path / "large.csv").write_bytes(b"12345")
    with pytest.raises(UnusableError, match="larger than the 4 bytes"):
        read_text(tmp_path / "large.csv", max_bytes=4)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_file_name_that_is_not_utf8_is_listed(crosstask_folder: Path) -> None:
    odd = os.fsencode(crosstask_folder / "annotations") + b"/23521_\xff.csv"
    Path(os.fsdecode(odd)).write_text("1,0,1\n", encoding="utf-8")
    (problem,) = read_crosstask(crosstask_folder).problems
    assert problem.where == r"annotations/23521_\udcff.csv"
    assert str(problem).isprintable()


@pytest.mark.parametrize("name", ["annotations/23521_v.csv", "tasks_primary.txt"])
def test_a_small_zip_cannot_unpack_to_much(tmp_path: Path, name: str) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        if not name.startswith("tasks"):
            archive.writestr("tasks_primary.txt", "23521\nMake tea\nurl\n2\nboil,pour\n")
        archive.writestr(name, "a\n" * 2**21)
    with pytest.raises(SourceError, match=r"4194304 bytes when unpacked|more than 100 times its size"):
        read_crosstask(path)


def test_many_bad_rows_are_counted_and_end_the_reading(tmp_path: Path) -> None:
    (tmp_path / "steps.csv").write_text("video,task,step,start_s,end_s\nv,t,a,0,1\n" + "a\n" * 200_000)
    with pytest.raises(SourceError, match="more than 100000 rows or files cannot be used"):
        read_folder(tmp_path)
    (tmp_path / "steps.csv").write_text("video,task,step,start_s,end_s\nv,t,a,0,1\n" + "a\n" * 5000)
    problems = read_folder(tmp_path).problems
    assert len(problems) < 200
    assert problems[-1].count > 4800


def test_json_with_millions_of_parts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "COIN.json").write_text('{"database": [' + "{}," * 2**20 + "{}]}")
    with pytest.raises(SourceError, match="JSON of more than 1048576 objects and lists"):
        read_coin(tmp_path)
