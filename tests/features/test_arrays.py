"""Feature files of other projects: every released kind reads as in NumPy; others are refused by name."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from p3iv.errors import FeatureError
from p3iv.features.arrays import all_finite, as_rows, peek_rows, read_rows

ROWS = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
FUZZ = settings(deadline=None, max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])


def saved(array: object) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.asarray(array, object) if isinstance(array, dict) else np.asanyarray(array), allow_pickle=True)
    return stream.getvalue()


def packed(compressed: bool = False, **arrays: Any) -> bytes:
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **arrays)
    return stream.getvalue()


def trusted(path: Path) -> np.ndarray[Any, Any]:
    """What NumPy reads from a trusted file."""
    content = np.load(path, allow_pickle=True)
    if isinstance(content, np.lib.npyio.NpzFile):
        with content:
            key = next(key for key in ("frames_features", "features", content.files[0]) if key in content.files)
            return np.asarray(content[key])
    content = content.item() if content.shape == () else content
    return np.asarray(content["frames_features"] if isinstance(content, dict) else content)


@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f4", "<f8", ">i4", "u1", "?"])
@pytest.mark.parametrize("kind", ["npy", "fortran", "dict", "npz", "packed", "only", "singleton"])
def test_every_kind_reads_as_numpy_reads_it(tmp_path: Path, kind: str, dtype: str) -> None:
    rows = (ROWS * 9).astype(dtype)
    contents = {
        "npy": lambda: saved(rows),
        "fortran": lambda: saved(np.asfortranarray(rows)),
        "dict": lambda: saved({"frames_features": rows, "steps": ["a", "b"], "names": np.array(["x", "yz"])}),
        "npz": lambda: packed(other=np.zeros(3), features=rows),
        "packed": lambda: packed(compressed=True, features=np.zeros(3), frames_features=rows),
        "only": lambda: packed(whatever=rows),
        "singleton": lambda: saved(rows[:, None]),
    }
    path = tmp_path / "video.npy"
    path.write_bytes(contents[kind]())
    loaded, expected = read_rows(path), trusted(path).reshape(7, 5)
    assert loaded.dtype == (np.float16 if dtype == "<f2" else np.float32)
    assert np.array_equal(loaded, expected.astype(loaded.dtype))
    assert peek_rows(path) == (5, loaded.dtype)


def test_a_dictionary_in_an_npz(tmp_path: Path) -> None:
    path = tmp_path / "video.npz"
    path.write_bytes(packed(arr_0=np.array({"frames_features": ROWS}, object)))
    assert np.array_equal(read_rows(path), ROWS)


def test_a_header_of_python_2(tmp_path: Path) -> None:
    path = tmp_path / "video.npy"
    path.write_bytes(saved(ROWS).replace(b"(7, 5), ", b"(7L, 5L)"))
    assert np.array_equal(read_rows(path), ROWS)


def with_value(value: float, dtype: str = "f4") -> bytes:
    rows = np.zeros((4, 3), dtype)
    rows[2, 1:] = value
    return saved(rows)


REFUSED = {
    "1-d": (saved(ROWS[0]), r"shape \(5,\)"),
    "3-d": (saved(np.zeros((2, 3, 4))), r"shape \(2, 3, 4\)"),
    "batch of one": (saved(np.zeros((1, 3, 4))), r"shape \(1, 3, 4\)"),
    "0-d": (saved(np.float32(1)), r"shape \(\)"),
    "no rows": (saved(ROWS[:0]), "empty"),
    "no width": (saved(ROWS[:, :0]), "empty"),
    "nan": (with_value(np.nan), "2 of 12 values are not finite, the first in row 2"),
    "inf": (with_value(-np.inf, "f2"), "2 of 12 values are not finite, the first in row 2"),
    "large": (with_value(1e39, "f8"), "2 values do not fit into float32, the first in row 2"),
    "text": (saved(np.array([["a"]])), "not numbers"),
    "complex": (saved(np.zeros((2, 2), complex)), "dtype '<c16'"),
    "fields": (saved(np.zeros((2, 2), [("a", "f4")])), "header"),
    "cut": (saved(ROWS)[:-3], "promises 140 bytes of data .* the file holds 137"),
    "too long": (saved(ROWS) + b"xyz", "promises 140 bytes of data .* the file holds 143"),
    "cut in the header": (saved(ROWS)[:50], "header"),
    "promises": (
        saved(ROWS).replace(b"(7, 5), }      ", b"(700000, 5), }  "[:15]),
        "promises 14,000,000 bytes .* holds 140",
    ),
    "promises far more": (
        saved(ROWS).replace(b"(7, 5), }       ", b"(700000000, 5),}"),
        "14,000,000,000 bytes of features",
    ),
    "empty file": (b"", "pickle"),
    "hostile": (b"cos\nsystem\n(S'true'\ntR.", r"os\.system"),
    "no key": (saved({"a": ROWS, "b": ROWS}), "holds a, b; .* frames_features or features"),
    "list": (saved({"frames_features": [1, 2]}), "holds a list"),
    "no arrays": (packed(), "holds nothing"),
    "not a zip": (b"PK\x03\x04 and no more", "BadZipFile"),
    "cut zip": (packed(features=ROWS)[:-30], "BadZipFile"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_files_without_rows_are_refused_by_name(tmp_path: Path, case: str) -> None:
    content, reason = REFUSED[case]
    path = tmp_path / "video.npy"
    path.write_bytes(content)
    with pytest.raises(FeatureError, match=reason) as caught:
        read_rows(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_pipes_folders_and_missing_files_are_refused_by_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npy")  # opening it would wait for ever
    for name in ("missing.npy", "pipe.npy", "."):
        with pytest.raises(FeatureError, match=str(tmp_path)):
            read_rows(tmp_path / name)


def test_a_hostile_dictionary_runs_nothing(tmp_path: Path) -> None:
    class Call:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return os.system, (f"touch {tmp_path / 'marker'}",)

    for content in (
        saved({"frames_features": ROWS, "x": Call()}),
        packed(features=np.array(Call(), object)),
        pickle.dumps(Call()),
    ):
        path = tmp_path / "video.npy"
        path.write_bytes(content)
        with pytest.raises(FeatureError, match=r"tries to load (posix|nt)\.system"):
            read_rows(path)
    assert not (tmp_path / "marker").exists()


def bomb(promised: bytes, size: int, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A .npz whose array promises a shape and unpacks to `size` zeros."""
    stream = io.BytesIO()
    header = saved(np.zeros((1, 1), np.float32))[:128].replace(b"(1, 1), }" + b" " * 12, promised.ljust(21))
    with zipfile.ZipFile(stream, "w", method) as archive, archive.open("features.npy", "w") as member:
        member.write(header)
        for _ in range(size >> 20):
            member.write(bytes(1 << 20))
    return stream.getvalue()


def test_bombs_are_refused_from_the_header(tmp_path: Path) -> None:
    path = tmp_path / "video.npz"
    for content, reason in (
        (bomb(b"(99999, 99999), }", 1 << 20), "more than the 1,073,741,824 that one video may take"),
        (bomb(b"(8192, 512), }", 4 << 20), "promises 16,777,216 bytes of data .* holds 4,194,304"),
        (bomb(b"(512, 512), }", 1 << 20, zipfile.ZIP_BZIP2), "a method that numpy does not write"),
    ):
        path.write_bytes(content)
        with pytest.raises(FeatureError, match=reason):
            read_rows(path)


def test_a_member_that_unpacks_to_more_than_it_says_is_cut_there(tmp_path: Path) -> None:
    content = bytearray(bomb(b"(512, 512), }", 64 << 20))
    true_size, said = ((64 << 20) + 128).to_bytes(4, "little"), ((1 << 20) + 128).to_bytes(4, "little")
    path = tmp_path / "video.npz"
    path.write_bytes(bytes(content).replace(true_size, said))
    with pytest.raises(FeatureError, match="CRC"):
        read_rows(path)


@settings(deadline=None)
@given(hnp.arrays(st.sampled_from([np.float16, np.float32]), hnp.array_shapes(min_dims=2, max_dims=2)))
@example(np.array([[np.finfo(np.float32).max, -0.0, np.finfo(np.float32).min, 1e-45]], np.float32))
@example(np.array([[65504, -65504, -0.0]], np.float16))
@example(np.array([[-np.nan]], np.float32))
def test_the_quick_check_agrees_with_numpy(rows: np.ndarray[Any, Any]) -> None:
    assert all_finite(rows) == bool(np.isfinite(rows).all())


def test_rows_that_do_not_fit_into_float16() -> None:
    assert as_rows(np.array([[65504.0]]), np.dtype(np.float16)).dtype == np.float16
    with pytest.raises(FeatureError, match="1 values do not fit into float16, the first in row 1"):
        as_rows(np.array([[1.0], [70000.0]], np.float32), np.dtype(np.float16))


VALID = [
    saved(ROWS),
    saved({"frames_features": ROWS, "n": 3}),
    packed(features=ROWS),
    packed(compressed=True, frames_features=ROWS, other=np.zeros(2)),
    packed(features=np.array({"features": ROWS}, object)),
]


@FUZZ
@given(
    content=st.sampled_from(VALID),
    changes=st.lists(st.tuples(st.integers(0, 1200), st.integers(0, 255)), min_size=1, max_size=4),
    end=st.integers(0, 1500),
    start=st.sampled_from([b"", b"", b"\x93NUMPY\x01\x00", b"PK\x03\x04", b"\x80\x04"]),
    noise=st.binary(max_size=80),
    from_noise=st.booleans(),
)
def test_any_bytes_give_rows_or_a_feature_error(
    tmp_path: Path,
    *,
    content: bytes,
    changes: list[tuple[int, int]],
    end: int,
    start: bytes,
    noise: bytes,
    from_noise: bool,
) -> None:
    spoilt = bytearray(start + noise if from_noise else content[: end if end % 3 == 0 else None])
    for place, value in changes:
        if spoilt:
            spoilt[place % len(spoilt)] = value
    path = tmp_path / "video.npy"
    path.write_bytes(bytes(spoilt))
    for read in (read_rows, peek_rows):
        try:
            read(path)
        except FeatureError as error:
            assert str(path) in str(error)
