"""Plain values: what is packed comes back the same, and no bytes do more than raise ValueError."""

from __future__ import annotations

import json
import math
import os
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from p3iv.serving.plain_values import MAX_TEXT_BYTES, make_readers, pack_value, unpack_value
from serving.worker_jobs import Facts, Size

READERS = make_readers([Facts, Size])
DTYPES = ["b1", "u1", "<i8", ">i4", "<f2", "<f4", "<f8"]

facts = st.builds(Facts, st.text(), st.floats(allow_nan=False), st.builds(Size, st.integers(), st.none()), st.binary())
numbers = st.sampled_from(DTYPES).flatmap(lambda dtype: arrays(dtype, array_shapes(min_dims=0, min_side=0)))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | numbers | facts,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def are_same(first: Any, second: Any) -> Any:
    """Whether two values have the same types and contents, where NaN is NaN."""
    if type(first) is not type(second):
        return False
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(are_same, first, second))
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(are_same(first[key], second[key]) for key in first)
    return bool(first == second) or (isinstance(first, float) and math.isnan(first) and math.isnan(second))


@given(values)
def test_a_value_comes_back_the_same(value: object) -> None:
    assert are_same(unpack_value(pack_value(value), READERS), value)


def test_an_array_that_comes_back_can_be_written_to() -> None:
    array = unpack_value(pack_value(np.zeros(3)), READERS)
    assert isinstance(array, np.ndarray)
    array[0] = 1


@pytest.mark.parametrize(
    "value", [{1: 2}, {1}, object(), Facts, np.array(["text"]), np.array([{}]), [1j], np.float32(1)]
)
def test_other_types_are_not_packed(value: object) -> None:
    with pytest.raises(TypeError, match="not a plain value"):
        pack_value(value)


def test_a_value_that_is_too_large_is_not_packed() -> None:
    for value in (bytes(65 * 2**20), "a" * MAX_TEXT_BYTES):
        with pytest.raises(ValueError, match="a value of"):
            pack_value(value)


@given(values, st.data())
def test_damaged_bytes_raise_value_error_or_are_another_value(value: object, data: st.DataObject) -> None:
    packed = bytearray(pack_value(value))
    place = data.draw(st.integers(0, len(packed) - 1))
    packed[place : data.draw(st.integers(place, len(packed)))] = data.draw(st.binary(max_size=8))
    try:
        unpack_value(bytes(packed), READERS)
    except ValueError as error:
        assert str(error).startswith("not a packed value")


def packed_text(described: object, content: bytes = b"") -> bytes:
    text = described if isinstance(described, bytes) else json.dumps(described).encode()
    return len(text).to_bytes(4, "big") + text + content


class Malicious:
    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (3,)


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        pickle.dumps(Malicious()),
        packed_text(b"[" * 100_000),
        packed_text(b"9" * 10_000),
        packed_text(b'"' + b" " * MAX_TEXT_BYTES + b'"'),
        packed_text({}),
        packed_text([]),
        packed_text(["bytes", -1]),
        packed_text(["bytes", 2], b"1"),
        packed_text(["bytes", 2], b"123"),
        packed_text(["tuple", ["bytes", 2], ["bytes", 2]], b"12"),
        packed_text(["array", "|O8", 1], b"12345678"),
        packed_text(["array", "<U1", 1], b"1234"),
        packed_text(["array", "<f4", -1, -1], b"1234"),
        packed_text(["array", "<f4", 2**40, 2**40]),
        packed_text(["array", "<f4", "1"], b"1234"),
        packed_text(["dataclass", "Path", {"name": "x"}]),
        packed_text(["dataclass", "Size", {"width": 1}]),
        packed_text(["dataclass", "Size", {"width": "wide", "height": 1}]),
        packed_text(["dataclass", "Size", {"width": ["list"], "height": 1}]),
    ],
)
def test_bytes_that_pack_value_does_not_write_are_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match="not a packed value"):
        unpack_value(packed, READERS)
