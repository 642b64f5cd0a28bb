"""For any bytes, a reader returns valid annotations or raises one of the project's own exceptions."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from p3iv.errors import P3ivError
from p3iv.readers.coin import read_coin
from p3iv.readers.crosstask import read_crosstask
from p3iv.readers.folder import read_folder, read_split
from p3iv.readers.niv import read_niv
from p3iv.readers.steps import write_steps
from p3iv.types import Annotations

FUZZ = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
TOKENS = [
    b",",
    b'"',
    b"\n",
    b"\r",
    b"\0",
    b"nan",
    b"-1",
    b"1e999",
    b"9" * 5000,
    b"[",
    b"{",
    b"}",
    b"]",
    b":",
    b"null",
    b"_",
]
TOKENS += [
    b"\xff",
    b"\xef\xbb\xbf",
    b'"\\ud800"',
    b"\\UFFFFFFFF",
    b"true",
    b"&a",
    b"*a",
    b"<<",
    b"PK\x01\x02",
    b"\x01\0",
]
TOKENS += [b";", b"\t", b"1:05", b"1,5", b".mp4", b"sep=;", b"\xff\xfe", b"PK\x03\x04", "\u00e9".encode("cp1252")]
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 6), st.one_of(st.sampled_from(TOKENS), st.binary(max_size=4))),
    min_size=1,
    max_size=6,
)
Edit = tuple[float, int, bytes]


def mutate(content: bytes, edits: list[Edit]) -> bytes:
    """Cut some bytes and put others in their place, here and there."""
    for share, num_cut, put in edits:
        at = int(share * len(content))
        content = content[:at] + put + content[at + num_cut :]
    return content


def check_sound(annotations: Annotations) -> None:
    ids = [video.id for video in annotations.videos]
    assert ids
    assert len(set(ids)) == len(ids)
    assert len(set(annotations.vocabulary.names)) == len(annotations.vocabulary)
    for video in annotations.videos:
        assert video.steps
        assert all(step.action in annotations.vocabulary.id_of for step in video.steps)
        if any(step.start_s is not None for step in video.steps):
            times = [
                (step.start_s, step.end_s)
                for step in video.steps
                if step.start_s is not None and step.end_s is not None
            ]
            assert len(times) == len(video.steps)
            assert times == sorted(times)
            assert all(0 <= start <= end < math.inf for start, end in times)
    for problem in annotations.problems:
        assert str(problem).isprintable()


def try_bytes(read: Callable[[Path], Annotations], source: Path, target: Path, content: bytes) -> None:
    before = target.read_bytes()
    target.write_bytes(content)
    try:
        annotations = read(source)
    except P3ivError as error:
        assert str(error)
    else:
        check_sound(annotations)
        write_steps(source.parent / "written" / "steps.csv", annotations)
    finally:
        target.write_bytes(before)


@pytest.fixture(
    params=[
        "crosstask tasks_primary.txt",
        "crosstask annotations/23521_a_b-c.csv",
        "crosstask zip",
        "niv csvs/repot_0001.csv",
        "coin COIN.json",
        "folder steps.csv",
        "folder dataset.yaml",
        "folder split.json",
    ]
)
def case(request: pytest.FixtureRequest) -> tuple[Callable[[Path], Annotations], Path, Path]:
    """A reader, its sound source, and the file in it that gets spoilt."""
    kind, target = request.param.split()
    if kind == "coin":
        path: Path = request.getfixturevalue("coin_file")
        return read_coin, path, path
    if kind == "niv":
        folder: Path = request.getfixturevalue("niv_folder")
        return read_niv, folder, folder / target
    if kind == "folder":
        folder = request.getfixturevalue("dataset_folder")
        return read_folder, folder, folder / target
    folder = request.getfixturevalue("crosstask_folder")
    if target != "zip":
        return read_crosstask, folder, folder / target
    return read_crosstask, zip_of(folder), zip_of(folder)


def zip_of(folder: Path) -> Path:
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*.*")):
            archive.write(file, file.relative_to(folder.parent).as_posix())
    return path


@given(content=st.binary(max_size=200))
@FUZZ
def test_random_bytes(case: tuple[Callable[[Path], Annotations], Path, Path], content: bytes) -> None:
    read, source, target = case
    try_bytes(read, source, target, content)


@given(edits=EDITS)
@FUZZ
def test_spoilt_files(case: tuple[Callable[[Path], Annotations], Path, Path], edits: list[Edit]) -> None:
    read, source, target = case
    try_bytes(read, source, target, mutate(target.read_bytes(), edits))


@given(edits=EDITS, content=st.binary(max_size=100))
@FUZZ
def test_split_files(dataset_folder: Path, edits: list[Edit], content: bytes) -> None:
    path = dataset_folder / "any.json"
    for spoilt in (content, mutate((dataset_folder / "split.json").read_bytes(), edits)):
        path.write_bytes(spoilt)
        try:
            split = read_split(path)
        except P3ivError as error:
            assert str(error)
        else:
            assert len({*split.train, *split.val, *split.test}) == len(split.train + split.val + split.test)
