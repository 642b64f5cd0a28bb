"""Read the features of one video from a .npy, .npz or pickle of another project: (N, F) finite float16 or float32."""

from __future__ import annotations

import io
import math
import re
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from p3iv.errors import FeatureError
from p3iv.features.pickle_arrays import load_plain, plain_dtype
from p3iv.types import Array, listed

MAX_BYTES: Final = 1 << 30  # of one video, decoded: 145 hours of 512 float32 values per second

HEAD_BYTES: Final = 1 << 14  # a header is 128 bytes in practice; numpy itself reads at most 10,000

KEYS: Final = ("frames_features", "features")  # in a released dictionary or .npz

_DTYPES: Final = (np.dtype(np.float16), np.dtype(np.float32))

_MAGIC: Final = b"\x93NUMPY"

_ZIP_MAGIC: Final = (b"PK\x03\x04", b"PK\x05\x06")

# NumPy evaluates the header as Python; the three entries of a plain array can be read without that.
_DTYPE: Final = re.compile(r"""["']descr["']\s*:\s*["']([<>|=]?)([A-Za-z]\d*)["']""")

_ORDER: Final = re.compile(r"""["']fortran_order["']\s*:\s*(True|False)\b""")

_SHAPE: Final = re.compile(r"""["']shape["']\s*:\s*\(([\d\sL,]*)\)""")  # Python 2 wrote (300L, 512L)


@dataclass(frozen=True)
class Header:
    """The header of a .npy."""

    dtype: np.dtype[Any] | None  # None: objects, which are pickled
    shape: tuple[int, ...]
    fortran: bool
    size: int  # bytes before the data

    @property
    def num_bytes(self) -> int:
        """The bytes of the data; 0 for objects, whose size the header does not give."""
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
    """The header of a plain .npy without its data; None for a .npz or a pickle, which must be read whole."""
    if not path.is_file():
        return None
    with path.open("rb", buffering=0) as file:
        head = file.read(HEAD_BYTES)
    header = parse_header(head) if head.startswith(_MAGIC) else None
    return header if header is not None and header.dtype is not None else None


def parse_header(head: bytes) -> Header:
    """Parse the header at the start of a .npy."""
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
    """The array of a .npy, or the value of a pickle, which `numpy.load` accepts too."""
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
    """The arrays of a .npz by name, each decoded when it is read."""

    def __init__(self, content: bytes) -> None:
        self._zip = zipfile.ZipFile(io.BytesIO(content))
        self._members = {info.filename.removesuffix(".npy"): info for info in self._zip.infolist()}

    @property
    def names(self) -> list[str]:
        return list(self._members)

    def read(self, name: str) -> object:
        """Decode one array, after checking its declared size."""
        self._header(name)
        info = self._members[name]
        return decode(self._first_bytes(info, info.file_size))

    def read_array(self, name: str) -> Array:
        """Decode one array of numbers or text; pickled objects are refused."""
        if self._header(name).dtype is None:
            raise FeatureError(f"{name} holds pickled objects, not numbers or text")
        return cast(Array, self.read(name))

    def _header(self, name: str) -> Header:
        """The header of one array, after comparing it with the size of the member."""
        info = self._members[name]
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FeatureError(
                f"{name} is packed with a method that numpy does not write"
            )  # zipfile unpacks others without a bound
        _require_small(info.file_size - HEAD_BYTES)
        header = parse_header(self._first_bytes(info, HEAD_BYTES))
        if header.dtype is not None:
            _require_whole(header, info.file_size)
        return header

    def _first_bytes(self, info: zipfile.ZipInfo, max_bytes: int) -> bytes:
        with self._zip.open(info) as member:
            return member.read(min(max_bytes, info.file_size))  # a bound: the packed data may be longer than declared


def _require_small(num_bytes: int) -> None:
    if num_bytes > MAX_BYTES:
        raise FeatureError(f"{num_bytes:,} bytes of features, more than the {MAX_BYTES:,} that one video may take")


def _require_whole(header: Header, num_bytes: int) -> None:
    _require_small(header.num_bytes)
    data_bytes = num_bytes - header.size
    if data_bytes != header.num_bytes:
        raise FeatureError(
            f"the header promises {header.num_bytes:,} bytes of data {header.shape}, the file holds {data_bytes:,}"
        )


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn every error in the block into a FeatureError that names the file."""
    try:
        yield
    except FeatureError as error:
        raise FeatureError(f"{path}: {error}") from error
    except Exception as error:  # zipfile, zlib and numpy raise a dozen kinds on hostile bytes
        raise FeatureError(f"{path}: cannot be read ({type(error).__name__}: {str(error)[:200]})") from error


def read_rows(path: Path) -> Array:
    """The rows of one video, (N, F) float16 or float32, from a .npy, a .npz or a pickled dictionary of arrays.

    Other numbers become float32. Axes of length 1 between the first and the last are dropped: (N, 1, F) can only mean N
    rows. Any other third axis is refused, also (1, N, F), which may be a batch of one video or N values of one row.

    Raises:
        FeatureError: names the file; raised for any invalid bytes.
    """
    with _naming(path):
        return as_rows(_read_features(path))


def read_observation(path: Path) -> Array:
    """The rows of one moment, (N, F): as `read_rows`, but a single row may also have the shape (F,).

    Raises:
        FeatureError: names the file; raised for any invalid bytes.
    """
    with _naming(path):
        array = _read_features(path)
        return as_rows(array[None] if array.ndim == 1 else array)


def has_plain_header(path: Path) -> bool:
    """Whether `peek_rows` reads only the first bytes of the file.

    Raises:
        FeatureError: naming the file.
    """
    with _naming(path):
        return read_head(path) is not None


def peek_rows(path: Path) -> tuple[int, np.dtype[Any]]:
    """Width and dtype that `read_rows` would return, from the header of a plain .npy.

    Raises:
        FeatureError: naming the file.
    """
    with _naming(path):
        header = read_head(path)
        if header is None:
            rows = as_rows(_read_features(path))
            return rows.shape[1], rows.dtype
        if header.dtype is None or header.dtype.kind not in "biuf" or len(header.shape) < 2:
            raise FeatureError("does not hold rows of numbers")
        return header.shape[-1], _kept_dtype(header.dtype)


def as_rows(array: Array, dtype: np.dtype[Any] | None = None) -> Array:
    """The array as C-ordered (N, F) rows of `dtype`, by default its own where that is float16 or float32.

    Raises:
        FeatureError: for another shape, text, a value that is not finite or too large for the dtype.
    """
    if array.dtype.kind not in "biuf":
        raise FeatureError(f"holds {array.dtype}, not numbers")
    target = dtype or _kept_dtype(array.dtype)
    with np.errstate(over="ignore"):  # the check below names the values that overflow
        rows = np.ascontiguousarray(array.reshape(_rows_shape(array.shape)), target)
    if not all_finite(rows):
        raise FeatureError(_what_is_not_finite(array.reshape(rows.shape), rows))
    return rows


def all_finite(rows: Array) -> bool:
    """Whether no value of (N, F) float16 or float32 rows is infinite or NaN.

    Read as integers, infinities and NaNs are larger than all finite values: the maximum as signed integers shows the
    positive ones, the maximum as unsigned integers the negative ones. 300 x 512 values take 20 us in float32 and 15 us
    in float16; `np.isfinite(rows).all()` takes 28 and 232.
    """
    if rows.dtype == np.float16:
        return bool(rows.view(np.int16).max() < 0x7C00 and rows.view(np.uint16).max() < 0xFC00)
    return bool(rows.view(np.int32).max() < 0x7F800000 and rows.view(np.uint32).max() < 0xFF800000)


def _read_features(path: Path) -> Array:
    content = read_content(path)
    if is_zip(content):
        archive = Archive(content)
        return _array_of(archive.read(_key(archive.names)))
    return _array_of(decode(content))


def _array_of(value: object) -> Array:
    """The array in a decoded value: the value itself, or an entry of a dictionary, which NumPy saves as a 0-d array."""
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
    raise FeatureError(f"holds {listed(names) or 'nothing'}; name the array with the features {' or '.join(KEYS)}")


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
