"""Values as bytes that can be read without trusting who wrote them: no pickle, nothing that they name is called.

A value is None, a bool, int, float or str, bytes, an array of numbers, a list, a tuple, a dict with texts as keys, or a
dataclass that the reader knows; the fields of a dataclass hold anything of this but arrays. It is written as the length
of a JSON text (4 bytes), the text, and the content of bytes and arrays in the order in which the text names them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

import numpy as np
from pydantic import TypeAdapter

from p3iv.types import Array

MAX_BYTES: Final = 64 * 2**20
MAX_TEXT_BYTES: Final = 2**20  # of the JSON, which takes much more memory than its length when it is parsed

_LENGTH_BYTES: Final = 4
_NUMBERS: Final = re.compile(r"[<>|](b1|[iu][1248]|f[248])")  # dtypes

Readers = Mapping[str, TypeAdapter[Any]]  # of dataclasses, by name


def make_readers(dataclasses: Sequence[type]) -> Readers:
    """What `unpack_value` needs to make these dataclasses and to check the types of their fields."""
    return {each.__name__: TypeAdapter(each) for each in dataclasses}


def pack_value(value: object) -> bytes:
    """Write a value as bytes.

    Raises:
        TypeError: a part of it has a type that is not allowed.
        ValueError: it is too large.
    """
    contents: list[bytes] = []
    text = json.dumps(_describe(value, contents)).encode()
    packed = b"".join([len(text).to_bytes(_LENGTH_BYTES, "big"), text, *contents])
    if len(text) > MAX_TEXT_BYTES or len(packed) > MAX_BYTES:
        raise ValueError(f"a value of {len(packed)} bytes, {len(text)} of them as text")
    return packed


def _describe(value: object, contents: list[bytes]) -> object:
    """The value as JSON. All but scalars are lists that begin with a type; bytes and numbers go to `contents`."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            contents.append(value)
            return ["bytes", len(value)]
        case np.ndarray() if _NUMBERS.fullmatch(value.dtype.str):
            contents.append(value.tobytes())
            return ["array", value.dtype.str, *value.shape]
        case list() | tuple():
            kind = "list" if isinstance(value, list) else "tuple"
            return [kind, *(_describe(each, contents) for each in value)]
        case dict() if all(isinstance(key, str) for key in value):
            return ["dict", {key: _describe(each, contents) for key, each in value.items()}]
    if is_dataclass(value) and not isinstance(value, type):
        named = {field.name: _describe(getattr(value, field.name), contents) for field in fields(value)}
        return ["dataclass", type(value).__name__, named]
    raise TypeError(f"{type(value).__name__} is not a plain value")


def unpack_value(packed: bytes, readers: Readers) -> object:
    """Read a value that `pack_value` wrote.

    Raises:
        ValueError: the bytes are something else, or have a dataclass that is not in `readers`.
    """
    try:
        return _Unpacker(packed, readers).unpack()
    except Exception as error:  # of whatever kind: json, numpy and pydantic have many
        raise ValueError(f"not a packed value ({type(error).__name__})") from error


class _Unpacker:
    """Reads one value. Every byte is used once, so that few bytes do not become a large value."""

    def __init__(self, packed: bytes, readers: Readers) -> None:
        self._rest, self._readers = memoryview(packed), readers

    def unpack(self) -> object:
        length = int.from_bytes(self._take(_LENGTH_BYTES), "big")
        if length > MAX_TEXT_BYTES:
            raise ValueError("too large")
        value = self._build(json.loads(bytes(self._take(length))))
        if self._rest:
            raise ValueError("more bytes than the text names")
        return value

    def _take(self, length: int) -> memoryview:
        if not 0 <= length <= len(self._rest):
            raise ValueError("fewer bytes than the text names")
        taken, self._rest = self._rest[:length], self._rest[length:]
        return taken

    def _build(self, described: Any) -> object:
        match described:
            case None | bool() | int() | float() | str():
                return described
            case ["bytes", int(length)]:
                return bytes(self._take(length))
            case ["array", str(code), *shape]:
                return self._build_array(code, shape)
            case ["list" | "tuple" as kind, *parts]:
                values = map(self._build, parts)
                return list(values) if kind == "list" else tuple(values)
            case ["dict", dict(named)]:
                return {key: self._build(part) for key, part in named.items()}
            case ["dataclass", str(name), dict(named)]:
                return self._readers[name].validate_python({key: self._build(part) for key, part in named.items()})
        raise ValueError("not of a known type")

    def _build_array(self, code: str, shape: list[int]) -> Array:
        if not _NUMBERS.fullmatch(code):
            raise ValueError("not an array of numbers")
        dtype = np.dtype(code)
        content = self._take(math.prod(shape) * dtype.itemsize)
        return np.ndarray(shape, dtype, content).copy()  # which can be written to, unlike a view of bytes
