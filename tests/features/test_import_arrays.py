"""Importing a folder of feature files: finding them, and naming those that cannot be used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from p3iv.errors import FeatureError
from p3iv.features.import_arrays import import_features
from p3iv.features.store import FeatureStore
from p3iv.types import Progress, Video


def video(name: str, *aliases: str) -> Video:
    return Video(name, "task", (), aliases)


def rows(seed: int, size: int = 4, width: int = 6, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=(size, width)).astype(dtype)


def test_files_are_found_by_id_alias_and_task(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    np.save(raw / "a.npy", rows(0))
    np.savez(raw / "other.npz", frames_features=rows(1))
    np.save(raw / "task_c.npy", np.array({"frames_features": rows(2)}, object))
    videos = [video("c"), video("b", "none", "other"), video("a")]
    calls: list[Progress] = []
    packed = import_features(raw, videos, tmp_path / "features", on_progress=calls.append)
    store = FeatureStore.open(tmp_path / "features")
    store.verify()
    assert store.videos == ("c", "b", "a")
    assert all(np.array_equal(store.rows(name), rows(seed)) for seed, name in enumerate("abc"))
    assert (packed.num_videos, packed.num_rows, packed.width, packed.dtype) == (3, 12, 6, "float32")
    assert packed.fingerprint == store.fingerprint
    assert packed.problems == ()
    assert [(call.done, call.total) for call in calls] == [(1, 3), (2, 3), (3, 3)]


class Hostile:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.marker}",)


def test_every_problem_is_named_and_stops_nothing(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    for name in ("good", "twice", "zlast", "stranger1", "stranger2"):
        np.save(raw / f"{name}.npy", rows(0))
    np.savez(raw / "twice.npz", features=rows(1))
    np.save(raw / "wide.npy", rows(0, width=7))
    np.save(raw / "nan.npy", np.where(np.arange(24).reshape(4, 6) == 13, np.nan, rows(0)))
    (raw / "cut.npy").write_bytes((raw / "good.npy").read_bytes()[:-1])
    np.save(raw / "hostile.npy", np.array({"frames_features": Hostile(tmp_path / "marker")}, object))
    (raw / "folder.npy").mkdir()
    (raw / "notes.txt").write_text("not a feature file")
    names = ["wide", "good", "missing", "twice", "nan", "cut", "hostile", "folder", "zlast", "good"]
    packed = import_features(raw, [video(name) for name in names], tmp_path / "features")
    assert FeatureStore.open(tmp_path / "features").videos == ("good", "twice", "zlast")
    assert np.array_equal(FeatureStore.open(tmp_path / "features").rows("twice"), rows(0))
    expected = [
        "missing: no feature file (looked for missing.npy, missing.npz, task_missing.npy, task_missing.npz)",
        "twice: several feature files: twice.npy, twice.npz; twice.npy is used",
        "wide.npy: rows of width 7, the store holds rows of width 6; left without features",
        "nan.npy: 1 of 24 values are not finite, the first in row 2; left without features",
        "cut.npy: the header promises 96 bytes of data (4, 6), the file holds 95; left without features",
        "hostile.npy: the pickle tries to load posix.system",
        "folder.npy: not a regular file; left without features",
        "good.npy: video good is in the store already; left without features",
    ]
    found = [str(problem) for problem in packed.problems]
    assert len(found) == len(expected)
    for problem, part in zip(found, expected, strict=True):
        assert part in problem
    assert packed.notes == (f"{raw}: 2 files of no video, not used: stranger1.npy, stranger2.npy",)
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    ("dtypes", "asked", "kept"),
    [
        (["float16", "float16"], None, "float16"),
        (["float16", "float32"], None, "float32"),
        (["float64", "int32"], None, "float32"),
        (["float32", "float32"], "float16", "float16"),
        (["float16", "float16"], "float32", "float32"),
    ],
)
def test_the_dtype_is_that_of_the_files_unless_asked(
    tmp_path: Path, dtypes: list[str], asked: str | None, kept: str
) -> None:
    for name, dtype in zip("ab", dtypes, strict=True):
        np.save(tmp_path / f"{name}.npy", rows(0, dtype=dtype))
    packed = import_features(tmp_path, [video("a"), video("b")], tmp_path / "features", dtype=asked)
    assert packed.dtype == kept
    assert packed.problems == ()


def test_one_wide_file_after_many_narrow_ones_decides_on_the_dtype(tmp_path: Path) -> None:
    names = [f"v{number:02}" for number in range(40)]
    for name in names:
        np.save(tmp_path / f"{name}.npy", rows(0, dtype="float32" if name == "v39" else "float16"))
    packed = import_features(tmp_path, [video(name) for name in names], tmp_path / "features")
    assert (packed.dtype, packed.problems) == ("float32", ())


def test_a_late_float32_file_is_a_problem_unless_the_dtype_is_given(tmp_path: Path) -> None:
    names = [f"v{number:02}" for number in range(40)]
    for name in names:
        np.savez(tmp_path / f"{name}.npz", features=rows(0, dtype="float32" if name == "v39" else "float16"))
    videos = [video(name) for name in names]
    (problem,) = import_features(tmp_path, videos, tmp_path / "features").problems
    assert "1 file of float32 among files of float16: v39.npz" in str(problem)
    assert import_features(tmp_path, videos, tmp_path / "asked", dtype="float16").problems == ()


def test_values_that_do_not_fit_into_the_dtype_asked_for_are_a_problem(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", rows(0))
    np.save(tmp_path / "b.npy", rows(0) * 1e6)
    packed = import_features(tmp_path, [video("a"), video("b")], tmp_path / "features", dtype="float16")
    assert [problem.where for problem in packed.problems] == [str(tmp_path / "b.npy")]
    assert "do not fit into float16, the first in row 0" in packed.problems[0].what


def test_the_error_without_usable_files_lists_the_expected_names(tmp_path: Path) -> None:
    destination = tmp_path / "features"
    with pytest.raises(FeatureError, match="is not a folder"):
        import_features(tmp_path / "raw", [video("a")], destination)
    (tmp_path / "raw").mkdir()
    np.save(tmp_path / "raw" / "z.npy", rows(0))
    with pytest.raises(FeatureError, match=r"none of any video; looked for a\.npy, a\.npz, task_a\.npy, task_a\.npz"):
        import_features(tmp_path / "raw", [video("a")], destination)
    np.save(tmp_path / "raw" / "a.npy", rows(0)[0])
    with pytest.raises(FeatureError, match=r"none of the 1 feature files .* has shape \(6,\)"):
        import_features(tmp_path / "raw", [video("a")], destination)
    assert not destination.exists()
