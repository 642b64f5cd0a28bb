"""The feature store: writing, reading, interruptions and changed files."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from p3iv.errors import FeatureError
from p3iv.features.import_arrays import copy_store
from p3iv.features.observation import join_rows
from p3iv.features.store import FeatureStore, StoreWriter
from p3iv.features.store_index import KeptSeconds
from p3iv.types import Video

Rows = np.ndarray[Any, Any]


@st.composite
def collections(draw: st.DrawFn) -> dict[str, Rows]:
    """Videos of one width and dtype."""
    width, dtype = draw(st.integers(1, 5)), draw(st.sampled_from([np.float16, np.float32]))
    finite = hnp.from_dtype(np.dtype(dtype), allow_nan=False, allow_infinity=False)
    rows = st.integers(1, 6).flatmap(lambda size: hnp.arrays(dtype, (size, width), elements=finite))
    return draw(st.dictionaries(st.text(max_size=6), rows, min_size=1, max_size=5))


def write(folder: Path, videos: dict[str, Rows]) -> str:
    first = next(iter(videos.values()))
    with StoreWriter(folder, width=first.shape[1], dtype=first.dtype) as writer:
        for video, rows in videos.items():
            writer.add(video, rows)
    return writer.fingerprint


def sample(seed: int = 0, dtype: str = "float32") -> dict[str, Rows]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=(size, 4)).astype(dtype) for name, size in (("a", 3), ("b", 5), ("c", 2))}


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(videos=collections())
def test_what_is_written_reads_back(tmp_path: Path, videos: dict[str, Rows]) -> None:
    fingerprint = write(tmp_path / "features", videos)
    store = FeatureStore.open(tmp_path / "features")
    store.verify()
    assert store.videos == tuple(videos)
    assert store.fingerprint == fingerprint
    for video, rows in videos.items():
        assert video in store
        assert store.num_rows(video) == len(rows)
        assert store.rows(video).dtype == store.dtype == rows.dtype
        assert store.rows(video).tobytes() == rows.tobytes()
        assert not store.rows(video).flags.writeable
    packed = np.load(tmp_path / "features" / "rows.npy")
    assert np.array_equal(packed, np.concatenate(list(videos.values())))


def test_the_fingerprint_covers_rows_names_places_and_dtype(tmp_path: Path) -> None:
    videos = sample()
    other = {**videos, "a": videos["a"] + 1}
    renamed = {"z" if name == "a" else name: rows for name, rows in videos.items()}
    joined = {"a": np.concatenate([videos["a"], videos["b"][:1]]), "b": videos["b"][1:], "c": videos["c"]}
    same_bytes = {name: rows.view(np.float16) for name, rows in videos.items()}
    with np.errstate(invalid="ignore"):
        same_bytes = {name: np.nan_to_num(rows) for name, rows in same_bytes.items()}
    prints = [write(tmp_path / "features", each) for each in (videos, other, renamed, joined, same_bytes)]
    assert len(set(prints)) == 5
    assert write(tmp_path / "elsewhere", videos) == prints[0]


@pytest.mark.parametrize("fault", ["exception", "interrupt", "bad rows", "nothing added"])
def test_a_writer_that_fails_leaves_nothing_behind(tmp_path: Path, fault: str) -> None:
    def die(folder: Path) -> None:
        with StoreWriter(folder, width=4, dtype="float32") as writer:
            if fault == "nothing added":
                return
            writer.add("a", np.ones((2, 4)))
            if fault == "bad rows":
                writer.add("b", np.full((2, 4), np.nan))
            raise KeyboardInterrupt if fault == "interrupt" else RuntimeError

    expected = {"exception": RuntimeError, "interrupt": KeyboardInterrupt}.get(fault, FeatureError)
    with pytest.raises(expected):
        die(tmp_path / "features")
    assert list(tmp_path.iterdir()) == []
    fingerprint = write(tmp_path / "features", sample())
    with pytest.raises(expected):
        die(tmp_path / "features")
    assert [path.name for path in tmp_path.iterdir()] == ["features"]
    store = FeatureStore.open(tmp_path / "features")
    store.verify()
    assert store.fingerprint == fingerprint


def test_a_writer_refuses_by_name(tmp_path: Path) -> None:
    for dtype in ("float64", "half a float"):
        with pytest.raises(FeatureError, match=f"{dtype} rows of width 4"):
            StoreWriter(tmp_path / "features", width=4, dtype=dtype)
    with StoreWriter(tmp_path / "features", width=4, dtype="float16") as writer:
        writer.add("a", np.ones((2, 4)))
        for video, rows, reason in (
            ("a", np.ones((2, 4)), "video a is in the store already"),
            ("b", np.ones((2, 3)), "width 3, the store holds rows of width 4"),
            ("b", np.full((2, 4), 1e5), "do not fit into float16"),
        ):
            with pytest.raises(FeatureError, match=reason):
                writer.add(video, rows)
    assert FeatureStore.open(tmp_path / "features").videos == ("a",)


def test_rows_cannot_be_written_through_the_store(tmp_path: Path) -> None:
    write(tmp_path / "features", sample())
    with pytest.raises(ValueError, match="read-only"):
        FeatureStore.open(tmp_path / "features").rows("a")[0, 0] = 1


def test_a_store_travels_to_another_process_as_its_folder(tmp_path: Path) -> None:
    write(tmp_path / "features", sample())
    content = pickle.dumps(FeatureStore.open(tmp_path / "features"))
    assert len(content) < 500
    assert np.array_equal(pickle.loads(content).rows("b"), sample()["b"])  # noqa: S301


def test_an_unknown_video_is_named(tmp_path: Path) -> None:
    write(tmp_path / "features", sample())
    store = FeatureStore.open(tmp_path / "features")
    assert "x" not in store
    with pytest.raises(FeatureError, match="no features of video x"):
        store.rows("x")


INDEX_FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "format": ({"format": 3}, "`format` is 3; expected 1 or 2. Import the features again"),
    "width": ({"width": 3}, r"rows.npy holds float32 \(10, 4\), index.json says float32 \(10, 3\)"),
    "dtype": ({"dtype": "float16"}, "index.json says float16"),
    "odd dtype": ({"dtype": "object"}, "dtype"),
    "num_rows": ({"num_rows": 11}, r"says float32 \(11, 4\)"),
    "fingerprint": ({"fingerprint": None}, "`fingerprint` is null; expected a valid string"),
    "outside": ({"videos": {"a": [8, 3]}}, "video a has rows 8 to 11, the store has 10"),
    "negative": ({"videos": {"a": [-1, 3]}}, r"`videos.a\[0\]` is -1"),
    "overlap": ({"videos": {"b": [4, 3], "a": [0, 5]}}, "videos a and b share rows"),
    "place": ({"videos": {"a": [0, True]}}, r"`videos.a\[1\]` is true; expected a valid integer"),
}


@pytest.mark.parametrize("case", INDEX_FAULTS)
def test_an_index_that_does_not_fit_is_refused(tmp_path: Path, case: str) -> None:
    write(tmp_path / "features", sample())
    change, reason = INDEX_FAULTS[case]
    path = tmp_path / "features" / "index.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(FeatureError, match=reason):
        FeatureStore.open(tmp_path / "features")


@pytest.mark.parametrize("name", ["index.json", "rows.npy"])
@pytest.mark.parametrize("spoil", ["missing", "empty", "cut", "longer", "noise"])
def test_a_file_that_is_not_whole_is_refused(tmp_path: Path, name: str, spoil: str) -> None:
    write(tmp_path / "features", sample())
    path = tmp_path / "features" / name
    content = path.read_bytes()
    if spoil == "missing":
        path.unlink()
    else:
        path.write_bytes(
            {"empty": b"", "cut": content[:-5], "longer": content + b"{}{}", "noise": b"\xff[" * 300}[spoil]
        )
    with pytest.raises(FeatureError, match=r"features"):
        FeatureStore.open(tmp_path / "features")


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_verify_notices_a_changed_byte_and_names_a_spoilt_video(tmp_path: Path, dtype: str) -> None:
    write(tmp_path / "features", sample(dtype=dtype))
    path = tmp_path / "features" / "rows.npy"
    content = bytearray(path.read_bytes())
    changed = content.copy()
    changed[-1] ^= 1
    path.write_bytes(changed)
    with pytest.raises(FeatureError, match="the store was changed after it was written"):
        FeatureStore.open(tmp_path / "features").verify()
    size = np.dtype(dtype).itemsize
    place = len(content) - 7 * 4 * size  # the first value of b
    content[place : place + size] = np.array(np.nan, dtype).tobytes()
    path.write_bytes(content)
    with pytest.raises(FeatureError, match="video b has a value that is not finite"):
        FeatureStore.open(tmp_path / "features").verify()


def test_verify_notices_a_renamed_video(tmp_path: Path) -> None:
    write(tmp_path / "features", sample())
    path = tmp_path / "features" / "index.json"
    path.write_text(path.read_text().replace('"a"', '"z"'))
    with pytest.raises(FeatureError, match="was changed"):
        FeatureStore.open(tmp_path / "features").verify()


def sparse(folder: Path) -> Rows:
    """A store in which video `a` has a row for the seconds 0, 2 and 3 of 6, and `b` for all."""
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    with StoreWriter(folder, width=4, dtype="float32") as writer:
        writer.add("a", rows, KeptSeconds(6, (0, 2, 3)))
        writer.add("b", sample()["b"])
    return rows


def test_seconds_without_a_row_cannot_be_read(tmp_path: Path) -> None:
    rows = sparse(tmp_path / "features")
    store = FeatureStore.open(tmp_path / "features")
    store.verify()
    assert (store.num_rows("a"), store.num_rows("b")) == (6, 5)
    assert np.array_equal(store.rows_at("a", np.array([3, 0, 0])), rows[[2, 0, 0]])
    assert np.array_equal(store.rows_at("b", np.array([4, 1])), sample()["b"][[4, 1]])
    for video, place in (("a", 1), ("a", 5), ("a", 6), ("a", -1), ("b", 5), ("b", -1)):
        with pytest.raises(FeatureError, match=f"no row for second {place} of video {video}"):
            store.rows_at(video, np.array([0, place]))
    with pytest.raises(FeatureError, match="3 of the 6 seconds of video a"):
        store.rows("a")
    assert np.array_equal(store.rows("b"), sample()["b"])


def test_the_fingerprint_covers_which_seconds_have_a_row(tmp_path: Path) -> None:
    prints = set()
    for kept in (KeptSeconds(6, (0, 2, 3)), KeptSeconds(6, (0, 2, 4)), KeptSeconds(7, (0, 2, 3)), None):
        with StoreWriter(tmp_path / "features", width=4, dtype="float32") as writer:
            writer.add("a", np.ones((3, 4)), kept)
        prints.add(writer.fingerprint)
    assert len(prints) == 4
    with StoreWriter(tmp_path / "features", width=4, dtype="float32") as writer:
        writer.add("a", np.ones((3, 4)), KeptSeconds(3, (0, 1, 2)))  # all of them: a store like any other
    assert writer.fingerprint in prints
    assert '"format": 1' in (tmp_path / "features" / "index.json").read_text()


@pytest.mark.parametrize(
    "kept", [[6, [0, 2]], [6, [0, 2, 2]], [3, [0, 2, 3]], [6, [-1, 2, 3]], [6, [0, 2, True]], [6], "x", [0, [0, 2, 3]]]
)
def test_kept_seconds_that_do_not_fit_are_refused(tmp_path: Path, kept: object) -> None:
    sparse(tmp_path / "features")
    path = tmp_path / "features" / "index.json"
    content = json.loads(path.read_text())
    assert content["format"] == 2
    path.write_text(json.dumps({**content, "kept": {"a": kept}}))
    with pytest.raises(FeatureError, match="kept"):
        FeatureStore.open(tmp_path / "features")


def test_a_copy_keeps_what_is_absent_absent(tmp_path: Path) -> None:
    sparse(tmp_path / "features")
    copy_store(tmp_path / "features", [Video("a", "tea", ())], tmp_path / "copy")
    assert FeatureStore.open(tmp_path / "copy").kept("a") == KeptSeconds(6, (0, 2, 3))


def test_rows_of_a_moment_are_joined_by_one_rule() -> None:
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert join_rows(rows, "mean").tolist() == [2, 3]
    assert join_rows(rows, "concat").tolist() == [0, 1, 2, 3, 4, 5]
    assert join_rows(rows[:1], "mean").tolist() == [0, 1]
    assert join_rows(rows[:1], "concat").tolist() == [0, 1] * 3  # a picture stands for all three seconds
