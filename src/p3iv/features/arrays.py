"""The features of one video from a file of another project: (N, F) float16 or float32, every value finite."""

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
from p3iv.features.pickles import load_plain, plain_dtype
from p3iv.types import Array, listed

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


KEYS: Final = ("frames_features", "features")  # in a released dictionary or .npz

_DTYPES: Final = (np.dtype(np.float16), np.dtype(np.float32))


def read_rows(path: Path) -> Array:
    """The rows of one video, (N, F) float16 or float32: a .npy, a .npz or a pickled dictionary of arrays.

    Other numbers become float32. Axes of length 1 between the first and the last are dropped: (N, 1, F) can only mean N
    rows. Any other third axis is refused, (1, N, F) too: whether it is a batch of one or one row cannot be told.

    Raises:
        FeatureError: naming the file, whatever its bytes.
    """
    try:
        return as_rows(_pick(path))
    except Exception as error:  # zipfile, zlib and numpy raise a dozen kinds on hostile bytes
        raise FeatureError(f"{path}: {_reason(error)}") from error


def read_observation(path: Path) -> Array:
    """The rows of one moment, (N, F): as `read_rows`, but a single row may also stand as (F,).

    Raises:
        FeatureError: naming the file, whatever its bytes.
    """
    try:
        array = _pick(path)
        return as_rows(array[None] if array.ndim == 1 else array)
    except Exception as error:  # as in read_rows
        raise FeatureError(f"{path}: {_reason(error)}") from error


def has_plain_header(path: Path) -> bool:
    """Whether `peek_rows` needs no more than a few bytes of the file.

    Raises:
        FeatureError: naming the file.
    """
    try:
        return read_head(path) is not None
    except Exception as error:  # as in read_rows
        raise FeatureError(f"{path}: {_reason(error)}") from error


def peek_rows(path: Path) -> tuple[int, np.dtype[Any]]:
    """Width and dtype that `read_rows` would give, from the header where it is plain.

    Raises:
        FeatureError: naming the file.
    """
    try:
        header = read_head(path)
    except Exception as error:  # as in read_rows
        raise FeatureError(f"{path}: {_reason(error)}") from error
    if header is None:
        rows = read_rows(path)
        return rows.shape[1], rows.dtype
    return _promised(path, header)


def as_rows(array: Array, dtype: np.dtype[Any] | None = None) -> Array:
    """The array as C-ordered (N, F) rows of `dtype`, by default its own where that is float16 or float32.

    Raises:
        FeatureError: for another shape, text, a value that is not finite or too large for the dtype.
    """
    if array.dtype.kind not in "biuf":
        raise FeatureError(f"holds {array.dtype}, not numbers")
    target = dtype or _kept_dtype(array.dtype)
    with np.errstate(over="ignore"):  # what overflows is found below, by name
        rows = np.ascontiguousarray(array.reshape(_rows_shape(array.shape)), target)
    if not all_finite(rows):
        raise FeatureError(_what_is_not_finite(array.reshape(rows.shape), rows))
    return rows


def all_finite(rows: Array) -> bool:
    """Whether no value of (N, F) float16 or float32 rows is infinite or NaN.

    Read as integers, those lie above all finite values: the largest signed integer answers for the positive ones, the
    largest unsigned integer for the negative ones. 300 x 512 values take 20 us in float32 and 15 us in float16;
    `np.isfinite(rows).all()` takes 28 and 232.
    """
    if rows.dtype == np.float16:
        return bool(rows.view(np.int16).max() < 0x7C00 and rows.view(np.uint16).max() < 0xFC00)
    return bool(rows.view(np.int32).max() < 0x7F800000 and rows.view(np.uint32).max() < 0xFF800000)


def _pick(path: Path) -> Array:
    content = read_content(path)
    if is_zip(content):
        archive = Archive(content)
        return _array_of(archive.read(_key(archive.names)))
    return _array_of(decode(content))


def _array_of(value: object) -> Array:
    """The array in a decoded value: itself, or an entry of a dictionary, which numpy wraps in an array of one."""
    if isinstance(value, np.ndarray) and value.shape == () and value.dtype == object:
        value = value.item()
    if isinstance(value, dict):
        value = value[_key([str(key) for key in value])]
    if not isinstance(value, np.ndarray):
        raise FeatureError(f"holds a {type(value).__name__}, not an array of (rows, width)")
    return value


def _key(names: list[str]) -> str:
    for key in KEYS:
        if key in names:
            return key
    if len(names) == 1:
        return names[0]
    raise FeatureError(
        f"holds {listed(names) or 'nothing'}; which are the features cannot be told, none is called {' or '.join(KEYS)}"
    )


def _rows_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """(N, F) for (N, F) and (N, 1, F)."""
    if 0 in shape:
        raise FeatureError(f"is empty: shape {shape}")
    if len(shape) < 2 or any(size != 1 for size in shape[1:-1]):
        raise FeatureError(f"has shape {shape}; one row per second is expected, (rows, width)")
    return shape[0], shape[-1]


def _kept_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return next((kept for kept in _DTYPES if dtype.newbyteorder("=") == kept), np.dtype(np.float32))


def _what_is_not_finite(given: Array, rows: Array) -> str:
    wrong = ~np.isfinite(rows)
    count, first = int(wrong.sum()), int(wrong.any(axis=1).argmax())
    if np.isfinite(given[wrong]).any():
        return f"{count} values do not fit into {rows.dtype}, the first in row {first}"
    return f"{count} of {rows.size} values are not finite, the first in row {first}"


def _promised(path: Path, header: Header) -> tuple[int, np.dtype[Any]]:
    if header.dtype is None or header.dtype.kind not in "biuf" or len(header.shape) < 2:
        raise FeatureError(f"{path}: holds no rows of numbers")
    return header.shape[-1], _kept_dtype(header.dtype)


def _reason(error: Exception) -> str:
    if isinstance(error, FeatureError):
        return str(error)
    return f"cannot be read ({type(error).__name__}: {str(error)[:200]})"
