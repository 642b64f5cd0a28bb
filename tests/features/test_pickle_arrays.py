"""The restricted unpickler reads what NumPy pickles, runs nothing, and survives any bytes."""

from __future__ import annotations

import copyreg
import os
import pickle
import random
import struct
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from p3iv.errors import FeatureError
from p3iv.features.pickle_arrays import load_plain

PROTOCOLS = st.sampled_from([0, 1, 2, 3, 4, 5])
DTYPES = st.sampled_from(["?", "<i1", "<i4", ">i8", "<u2", "<f2", "<f4", ">f4", "<f8", "<U3", "S4"])
ARRAYS = DTYPES.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4) | st.binary(max_size=4)
)
VALUES = st.recursive(
    SCALARS | ARRAYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


class Call:
    """Pickles as a call of `function(*args)`."""

    def __init__(self, function: Any, *args: object) -> None:
        self.made_of = (function, args)

    def __reduce__(self) -> tuple[Any, tuple[object, ...]]:
        return self.made_of


def same(left: object, right: object) -> bool:
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        native = left.dtype.newbyteorder("=")  # numpy's own __setstate__ turns the bytes of a foreign order round
        equal_types = native == right.dtype.newbyteorder("=") and left.shape == right.shape
        return equal_types and left.astype(native).tobytes() == right.astype(native).tobytes()
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return type(left) is type(right) and left == right


@settings(deadline=None, max_examples=150)
@given(value=VALUES, protocol=PROTOCOLS)
def test_what_numpy_pickles_reads_as_pickle_reads_it(value: object, protocol: int) -> None:
    content = pickle.dumps(value, protocol=protocol)
    assert same(load_plain(content), pickle.loads(content))  # noqa: S301


@pytest.mark.parametrize("protocol", range(6))
def test_order_objects_scalars_sets_and_ordered_dictionaries(protocol: int) -> None:
    objects = np.empty((2, 1), object)
    objects[0, 0], objects[1, 0] = {"a": np.arange(3)}, "text"
    fortran = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    value = {
        "fortran": fortran,
        "strided": fortran[:, ::2],
        "objects": objects,
        "scalar": np.float32(1.5),
        "ordered": OrderedDict(b=1, a=2),
        "sets": [{1, 2}, frozenset("x")],
    }
    loaded: Any = load_plain(pickle.dumps(value, protocol=protocol))
    assert np.array_equal(loaded["fortran"], fortran)
    assert np.array_equal(loaded["strided"], fortran[:, ::2])
    assert loaded["objects"].shape == (2, 1)
    assert np.array_equal(loaded["objects"][0, 0]["a"], np.arange(3))
    assert loaded["scalar"] == np.float32(1.5) and loaded["scalar"].dtype == np.float32
    assert list(loaded["ordered"].items()) == [("b", 1), ("a", 2)]
    assert loaded["sets"] == [{1, 2}, frozenset("x")]


def python2_array(data: bytes) -> bytes:
    """What numpy 1.9 on Python 2 pickled for a (2, 2) float32 array in a dictionary: str where bytes belong."""
    return (
        b"\x80\x02}q\x00U\x0fframes_featuresq\x01cnumpy.core.multiarray\n_reconstruct\nq\x02cnumpy\nndarray\nq\x03K\x00\x85U"
        b"\x01b\x87Rq\x04(K\x01K\x02K\x02\x86cnumpy\ndtype\nq\x05U\x02f4K\x00K\x01\x87Rq\x06(K\x03U\x01<NNNJ\xff\xff\xff\xffJ"
        b"\xff\xff\xff\xffK\x00tb\x89U" + bytes([len(data)]) + data + b"tbs."
    )


def test_pickles_of_python_2() -> None:
    rows = np.array([[1.5, -2.0], [0.25, 4096.0]], np.float32)
    loaded: Any = load_plain(python2_array(rows.tobytes()))
    assert np.array_equal(loaded["frames_features"], rows)
    with pytest.raises(FeatureError, match="needs 16 bytes, the pickle holds 12"):
        load_plain(python2_array(rows.tobytes()[:12]))


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    ("function", "name"), [(os.system, r"(posix|nt)\.system"), (eval, r"(builtins|__builtin__)\.eval")]
)
def test_a_hostile_pickle_runs_nothing_and_is_named(tmp_path: Path, protocol: int, function: Any, name: str) -> None:
    marker = tmp_path / "marker"
    orders = {os.system: f"touch {marker}", eval: f"open({str(marker)!r}, 'w')"}
    for value in (Call(function, orders[function]), {"frames_features": np.array([Call(function, orders[function])])}):
        with pytest.raises(FeatureError, match=f"tries to load {name}"):
            load_plain(pickle.dumps(value, protocol=protocol))
    assert not marker.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"cos\nsystem\n(S'touch marker'\ntR.",  # REDUCE
        b"(S'touch marker'\nios\nsystem\n.",  # INST
        b"(cos\nsystem\nS'touch marker'\no.",  # OBJ
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x0ctouch marker\x85\x81.",  # NEWOBJ
        b"\x80\x04\x8c\x02os\x8c\x06system\x93)}\x92.",  # NEWOBJ_EX
    ],
)
def test_every_opcode_that_loads_is_refused_by_name(content: bytes) -> None:
    with pytest.raises(FeatureError, match=r"os\.system"):
        load_plain(content)


def test_the_registry_of_extensions_is_refused() -> None:
    copyreg.add_extension("os", "system", 77)
    try:
        pickle.loads(b"\x80\x02\x82\x4d.")  # noqa: S301  now cached, so find_class would not be asked
        with pytest.raises(FeatureError, match="outside the file"):
            load_plain(b"\x80\x02\x82\x4dS'true'\n\x85R.")
    finally:
        copyreg.remove_extension("os", "system", 77)


@pytest.mark.parametrize("state", [b"}S'kind'\nS'x'\ns", b"N}S'kind'\nS'x'\ns\x86", b"K\x01"])
def test_a_pickle_cannot_change_what_the_next_one_meets(state: bytes) -> None:
    content = pickle.dumps(np.arange(3), protocol=2)
    for name in (b"numpy\ndtype", b"numpy\nndarray", b"_codecs\nencode", b"collections\nOrderedDict"):
        with pytest.raises(FeatureError):
            load_plain(b"\x80\x02c" + name + b"\n" + state + b"b.")
    assert np.array_equal(load_plain(content), np.arange(3))  # type: ignore[arg-type]


def test_dtypes_and_encodings_outside_the_list_are_refused() -> None:
    fields = np.zeros(2, [("a", "f4")])
    for array in (fields, np.zeros(2, "c8"), np.zeros(2, "M8[s]"), np.zeros(2, "V3")):
        for protocol in (2, 4, 5):
            with pytest.raises(FeatureError):
                load_plain(pickle.dumps(array, protocol=protocol))
    with pytest.raises(FeatureError, match="latin1 is the only"):
        load_plain(b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00utf-7\x86R.")


def test_sizes_are_held_against_the_bytes() -> None:
    content = pickle.dumps(np.zeros((2, 3), np.float32), protocol=4)
    assert b"K\x02K\x03\x86" in content
    with pytest.raises(FeatureError, match="needs 12884901876 bytes, the pickle holds 24"):
        load_plain(content.replace(b"K\x02K\x03\x86", b"J\xff\xff\xff\x3fK\x03\x86"))


def test_small_files_do_not_take_much_memory_or_time() -> None:
    """Huge memo places and declared sizes, one text in many arrays, tuples of tuples as a key, lists of lists."""
    text = b"X" + struct.pack("<I", 1_000_000) + b"a" * 1_000_000 + b"q\x00"
    shared = (
        b"\x80\x02]"
        + text
        + b"0c_codecs\nencode\nq\x010X\x06\x00\x00\x00latin1q\x020("
        + b"h\x01h\x00h\x02\x86R" * 5000
    )
    doubled = b"\x80\x02)" + b"2\x86" * 60
    started = time.process_time()
    assert load_plain(b"\x80\x02]r\xff\xff\xff\x7f.") == []
    load_plain(b"\x80\x02]" + doubled[2:] + b"a.")
    load_plain(b"\x80\x04" + b"]" * 100_000 + b"a" * 99_999 + b".")
    for content, reason in (
        (b"\x80\x04\x8e" + struct.pack("<Q", 1 << 60) + b"abc.", "not a whole pickle"),
        (b"\x80\x05\x96" + struct.pack("<Q", 1 << 34) + b"abc.", "promises 17,179,869,184 bytes and holds 4"),
        (shared + b"e.", "far more than the file holds"),
        (b"\x80\x02}" + doubled[2:] + b"K\x01s.", "a tuple as a key"),
    ):
        with pytest.raises(FeatureError, match=reason):
            load_plain(content)
    assert time.process_time() - started < 5


VALID = [
    pickle.dumps(
        {"frames_features": np.arange(12, dtype=np.float32).reshape(3, 4), "n": [np.float64(2), {"a": (1, None)}]}, p
    )
    for p in (0, 2, 3, 4, 5)
]


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_any_bytes_give_a_value_or_a_feature_error(data: st.DataObject) -> None:
    content = data.draw(st.binary(max_size=60) | st.sampled_from(VALID).flatmap(mutations))
    try:
        load_plain(content)
    except FeatureError:
        return


def mutations(content: bytes) -> st.SearchStrategy[bytes]:
    return st.integers(0, 2**32).map(lambda seed: mutated(content, seed))


def mutated(content: bytes, seed: int) -> bytes:
    """The content with a few bytes changed, a piece cut out or moved."""
    rng = random.Random(seed)
    changed = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(changed))
        kind = rng.randrange(3)
        if kind == 0:
            changed[place] = rng.randrange(256)
        elif kind == 1 and len(changed) > 8:
            del changed[place : place + rng.randint(1, 4)]
        else:
            start = rng.randrange(len(changed))
            changed[place:place] = changed[start : start + rng.randint(1, 12)]
    return bytes(changed)
