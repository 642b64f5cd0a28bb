"""The .npy and .npz layouts, read from bytes of any origin: sizes are compared before anything is decoded."""

from __future__ import annotations

import io
import math
import re
import stat
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from p3iv.errors import FeatureError
from p3iv.features.pickles import load_plain
from p3iv.features.thawing import Array, plain_dtype

MOST_BYTES: Final = 1 << 30  # of one video, decoded: 145 hours of 512 float32 values per second
HEAD_BYTES: Final = 1 << 14  # a header is 128 bytes in practice; numpy itself reads at most 10,000

_MAGIC: Final = b"\x93NUMPY"
_ZIP_MAGIC: Final = (b"PK\x03\x04", b"PK\x05\x06")
# numpy evaluates the header as Python; the three entries of a plain array need no evaluation.
_DTYPE: Final = re.compile(r"""["']descr["']\s*:\s*["']([<>|=]?)([A-Za-z]\d*)["']""")
_ORDER: Final = re.compile(r"""["']fortran_order["']\s*:\s*(True|False)\b""")
_SHAPE: Final = re.compile(r"""["']shape["']\s*:\s*\(([\d\sL,]*)\)""")  # Python 2 wrote (300L, 512L)


@dataclass(frozen=True)
class Header:
    """What a .npy promises."""

    dtype: np.dtype[Any] | None  # None: objects, which are pickled
    shape: tuple[int, ...]
    fortran: bool
    size: int  # bytes before the data

    @property
    def num_bytes(self) -> int:
        """The bytes of the data; of objects it says nothing."""
        return 0 if self.dtype is None else math.prod(self.shape) * self.dtype.itemsize


def read_content(path: Path) -> bytes:
    """The bytes of a regular file that is not too large for one video."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise FeatureError("not a regular file")
    _require_small(status.st_size - HEAD_BYTES)
    with path.open("rb", buffering=0) as file:
        return file.readall()


def read_head(path: Path) -> Header | None:
    """The header of a plain .npy without its data; None where only reading the file tells the shape."""
    if not path.is_file():
        return None
    with path.open("rb", buffering=0) as file:
        head = file.read(HEAD_BYTES)
    header = parse_header(head) if head.startswith(_MAGIC) else None
    return header if header is not None and header.dtype is not None else None


def parse_header(head: bytes) -> Header:
    """The header at the start of a .npy."""
    width = 2 if head[6:7] == b"\x01" else 4
    size = 8 + width + int.from_bytes(head[8 : 8 + width], "little")
    if not head.startswith(_MAGIC) or head[6:7] not in (b"\x01", b"\x02", b"\x03") or size > min(len(head), HEAD_BYTES):
        raise FeatureError("not a .npy array, or its header is cut short")
    text = head[8 + width : size].decode("latin1")
    dtype, order, shape = _DTYPE.search(text), _ORDER.search(text), _SHAPE.search(text)
    if dtype is None or order is None or shape is None:
        raise FeatureError("not a .npy header of a plain array (one dtype, an order, a shape)")
    sizes = tuple(int(part.strip().removesuffix("L")) for part in shape[1].split(",") if part.strip())
    if len(sizes) > 32 or max(sizes, default=0) >= 2**62:
        raise FeatureError("a .npy header without a valid shape")
    return Header(plain_dtype(dtype[2], dtype[1] or "="), sizes, order[1] == "True", size)


def decode(content: bytes) -> object:
    """An array, or what was pickled: a .npy, or a bare pickle as `numpy.load` takes it too."""
    if not content.startswith(_MAGIC):
        return load_plain(content)
    header = parse_header(content[:HEAD_BYTES])
    if header.dtype is None:
        return load_plain(content, header.size)
    _require_whole(header, len(content))
    flat: Array = (
        np.frombuffer(content, header.dtype, offset=header.size) if header.num_bytes else np.empty(0, header.dtype)
    )
    return flat.reshape(header.shape, order="F" if header.fortran else "C")


def is_zip(content: bytes) -> bool:
    return content.startswith(_ZIP_MAGIC)


class Archive:
    """The arrays of a .npz, by name; none is decoded before it is asked for."""

    def __init__(self, content: bytes) -> None:
        self._zip = zipfile.ZipFile(io.BytesIO(content))
        self._members = {info.filename.removesuffix(".npy"): info for info in self._zip.infolist()}

    @property
    def names(self) -> list[str]:
        return list(self._members)

    def read(self, name: str) -> object:
        """Decode one array, after its declared size has been held against what an array may take."""
        self._header(name)
        info = self._members[name]
        return decode(self._first_bytes(info, info.file_size))

    def read_array(self, name: str) -> Array:
        """Decode one array of numbers or text; nothing pickled."""
        if self._header(name).dtype is None:
            raise FeatureError(f"{name} holds pickled objects, not numbers or text")
        return cast(Array, self.read(name))

    def _header(self, name: str) -> Header:
        """The header of one array, which an array may have and the member holds."""
        info = self._members[name]
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FeatureError(f"{name} is packed with a method that numpy does not write")  # and without a bound
        _require_small(info.file_size - HEAD_BYTES)
        header = parse_header(self._first_bytes(info, HEAD_BYTES))
        if header.dtype is not None:
            _require_whole(header, info.file_size)
        return header

    def _first_bytes(self, info: zipfile.ZipInfo, most: int) -> bytes:
        with self._zip.open(info) as member:
            return member.read(min(most, info.file_size))  # a bound: what is packed may be longer than it says


def _require_small(num_bytes: int) -> None:
    if num_bytes > MOST_BYTES:
        raise FeatureError(f"{num_bytes:,} bytes of features, more than the {MOST_BYTES:,} that one video may take")


def _require_whole(header: Header, num_bytes: int) -> None:
    _require_small(header.num_bytes)
    held = num_bytes - header.size
    if held != header.num_bytes:
        raise FeatureError(
            f"the header promises {header.num_bytes:,} bytes of data {header.shape}, the file holds {held:,}"
        )
