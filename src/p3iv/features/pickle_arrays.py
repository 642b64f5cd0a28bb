"""Read pickles of NumPy arrays without running anything: released feature files are pickled dictionaries.

No name that a pickle asks for is looked up. The ten that arrays and plain containers need are answered with
constructors of this module, which check sizes and types before they build anything.
"""

from __future__ import annotations

import io
import math
import pickle
import re
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Final

import numpy as np

from p3iv.errors import FeatureError
from p3iv.types import Array
from p3iv.validation import cut, shown

_NUMBERS_OR_TEXT: Final = re.compile(r"b1|[iu][1248]|f[248]|[US][1-9]\d{0,6}")

_OBJECTS: Final = re.compile(r"O[48]?")

_PLAIN: Final = (str, bytes, int, float, type(None))  # bool is an int


def plain_dtype(code: str, order: str = "=") -> np.dtype[Any] | None:
    """The dtype of numbers or text that `code` ("f4", "U12") names; None for objects.

    Raises:
        FeatureError: for any other dtype, such as structures, dates and complex numbers.
    """
    if _OBJECTS.fullmatch(code):
        return None
    if not _NUMBERS_OR_TEXT.fullmatch(code) or order not in ("<", ">", "=", "|"):
        raise FeatureError(f"an array of dtype {shown(order + code)}; bool, int, uint, float and text are read")
    return np.dtype(order + code)


def load_plain(content: bytes, offset: int = 0) -> object:
    """The value pickled in `content` from `offset` on: arrays, scalars, plain containers.

    Raises:
        FeatureError: for anything else, whatever the bytes; nothing that they name is loaded or called.
    """
    stream = io.BytesIO(content)
    stream.seek(offset)
    # Every byte of a real file is decoded at most twice: the text of protocol 2 to bytes, then bytes to numbers. A
    # file that uses one string in a million arrays needs more.
    constructors = _Constructors(max_bytes=2 * len(content))
    try:
        return _Unpickler(stream, constructors).load()
    except FeatureError:
        raise
    except Exception as error:  # pickle may raise anything on hostile bytes, MemoryError and RecursionError included
        raise FeatureError(f"not a whole pickle of arrays ({type(error).__name__}: {str(error)[:120]})") from error


class _Dtype:
    """A dtype as pickled: `numpy.dtype("f4", False, True)`, then the state (3, "<", None, None, None, -1, -1, 0)."""

    __slots__ = ("code", "order")

    def __init__(self, code: object, *_: object) -> None:
        if not isinstance(code, str):
            raise FeatureError("an array without a dtype")
        self.code, self.order = code, "="

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, tuple) or len(state) < 5 or not isinstance(state[1], str):
            raise FeatureError("an array without a dtype")
        if any(part is not None for part in state[2:5]):
            raise FeatureError(f"an array of dtype {shown(self.code)} with fields; plain numbers are read")
        self.order = state[1]


class _PickledArray(np.ndarray[Any, np.dtype[Any]]):
    """An array whose content is checked when its pickled state arrives; empty until then."""

    constructors: _Constructors | None = None  # until the state has arrived

    def __setstate__(self, state: object) -> None:
        if self.constructors is None or not isinstance(state, tuple) or len(state) not in (4, 5):
            raise FeatureError("an array without its contents")
        shape, dtype, fortran, data = state[-4:]  # the version before them is optional
        kind, content = self.constructors.check_content(shape, dtype, data)
        self.constructors = None
        super().__setstate__((1, shape, kind, bool(fortran), content))  # type: ignore[arg-type]


class _Constructors:
    """Builds arrays and containers for one pickle, from at most `max_bytes` bytes and entries."""

    def __init__(self, max_bytes: int) -> None:
        self._bytes_left = max_bytes
        self._by_name: dict[str, Callable[..., object]] = {
            "_reconstruct": self._empty_array,
            "_frombuffer": self._array_of_buffer,
            "scalar": self._scalar,
            "ndarray": self._refuse_call,  # an argument of _reconstruct
            "dtype": _Dtype,
            "encode": self._encode,
            "bytes": bytes,  # how protocol 2 spells b""
            "OrderedDict": self._ordered_dict,
            "set": lambda members=(): set(self._hashable(members)),
            "frozenset": lambda members=(): frozenset(self._hashable(members)),
        }

    def call(self, name: str, args: tuple[object, ...]) -> object:
        if name == "bytes" and args:
            raise FeatureError("the pickle makes bytes of something else")
        return self._by_name[name](*args)

    def check_content(self, shape: object, dtype: object, data: object) -> tuple[np.dtype[Any], object]:
        """The dtype and the content of an array, after its declared size was compared with the content's."""
        size = _num_cells(shape)
        kind = plain_dtype(dtype.code, dtype.order) if isinstance(dtype, _Dtype) else None
        if kind is None:
            if not isinstance(dtype, _Dtype) or not isinstance(data, list) or len(data) != size:
                raise FeatureError(f"an array of objects of shape {shape}, but not as many objects")
            self._charge(size)
            return np.dtype(object), data
        content = data if isinstance(data, bytes | bytearray) else self._encode(data, "latin1")  # str: Python 2
        if size * kind.itemsize != len(content):
            needed = size * kind.itemsize
            raise FeatureError(f"an array of shape {shape} needs {needed} bytes, the pickle holds {len(content)}")
        self._charge(len(content))
        return kind, bytes(content)

    def _empty_array(self, *_: object) -> Array:
        array = np.empty(0, np.int8).view(_PickledArray)
        array.constructors = self
        return array

    def _array_of_buffer(self, data: object, dtype: object, shape: object, order: object) -> Array:
        kind, content = self.check_content(shape, dtype, data)
        if not isinstance(content, bytes) or order not in ("C", "F"):
            raise FeatureError("an array of objects where numbers are expected")
        return np.frombuffer(content, kind).reshape(shape, order=order)

    def _scalar(self, dtype: object, data: object) -> object:
        return self._array_of_buffer(data, dtype, (), "C")[()]

    def _encode(self, text: object, encoding: object) -> bytes:
        """How protocol 2 spells bytes: `_codecs.encode(text, "latin1")`."""
        if encoding not in ("latin1", "latin-1") or not isinstance(text, str):
            raise FeatureError(f"bytes from text in {shown(encoding)}; latin1 is the only encoding of pickled arrays")
        self._charge(len(text))
        return text.encode("latin1")

    def _ordered_dict(self, pairs: object = ()) -> dict[object, object]:
        pairs = [tuple(pair) for pair in pairs] if isinstance(pairs, list) else []
        self._hashable([key for key, _ in pairs])
        return dict(pairs)

    def _hashable(self, members: object) -> list[object]:
        if not isinstance(members, list | tuple):
            raise FeatureError(f"a set made of a {type(members).__name__}")
        self._charge(len(members))
        _require_plain_keys(members)
        return list(members)

    def _refuse_call(self, *_: object) -> object:
        raise FeatureError("the pickle makes an array without its contents")

    def _charge(self, amount: int) -> None:
        self._bytes_left -= amount
        if self._bytes_left < 0:
            raise FeatureError("the pickle decodes to far more than the file holds")


def _num_cells(shape: object) -> int:
    """The number of cells of a declared shape."""
    if not isinstance(shape, tuple) or len(shape) > 32 or not all(type(n) is int and 0 <= n < 2**62 for n in shape):
        raise FeatureError("an array without a valid shape")
    return math.prod(shape)


def _require_plain_keys(keys: list[object] | tuple[object, ...]) -> None:
    """Refuse nested keys: the hash of tuples that share tuples takes time exponential in the size of the file."""
    for key in keys:
        if not isinstance(key, _PLAIN):
            raise FeatureError(f"the pickle uses a {type(key).__name__} as a key; a plain value is expected")


class Named:
    """A function that a pickle may call by its name, and cannot change."""

    __slots__ = ("_function", "_name")

    def __init__(self, name: str, function: Callable[..., object]) -> None:
        self._name, self._function = name, function

    def __call__(self, *args: object) -> object:
        return self._function(*args)

    def __setstate__(self, state: object) -> None:
        raise FeatureError(f"the pickle tries to change {self._name} itself")


_MODULES: Final = {
    "_reconstruct": ("numpy.core.multiarray", "numpy._core.multiarray"),
    "scalar": ("numpy.core.multiarray", "numpy._core.multiarray"),
    "_frombuffer": ("numpy.core.numeric", "numpy._core.numeric"),
    "ndarray": ("numpy",),
    "dtype": ("numpy",),
    "encode": ("_codecs",),
    "bytes": ("builtins", "__builtin__"),
    "set": ("builtins", "__builtin__"),
    "frozenset": ("builtins", "__builtin__"),
    "OrderedDict": ("collections",),
}

# The entries of the stack that each opcode hashes.
_KEYS: Final = {
    pickle.SETITEM: slice(-2, -1),
    pickle.SETITEMS: slice(0, None, 2),
    pickle.DICT: slice(0, None, 2),
    pickle.ADDITEMS: slice(None),
    pickle.FROZENSET: slice(None),
}

# Classes by number (the registry of copyreg, which skips find_class) and buffers from outside the file.
_REFUSED: Final = (pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.NEXT_BUFFER, pickle.PERSID, pickle.BINPERSID)


def _with_plain_keys(load: Callable[[Any], None], keys: slice) -> Callable[[Any], None]:
    def guarded(unpickler: Any) -> None:
        _require_plain_keys(unpickler.stack[keys])
        load(unpickler)

    return guarded


def _refuse(_: Any) -> None:
    raise FeatureError("the pickle asks for something outside the file; only arrays and plain values are read")


def _load_bytearray(unpickler: Any) -> None:
    """The opcode of NumPy's buffers; that of the library allocates the declared size before it reads."""
    size = int.from_bytes(unpickler.read(8), "little")
    content = unpickler.read(min(size, sys.maxsize))
    if len(content) != size:
        raise FeatureError(f"the pickle promises {size:,} bytes and holds {len(content):,}")
    unpickler.append(bytearray(content))


# The Python implementation: the memo of the C one takes gigabytes for one hostile opcode (cpython gh-115952), and its
# opcodes cannot be guarded. A file of features is a few dozen opcodes, so the difference in speed is small.
class GuardedUnpickler(pickle._Unpickler):
    """Reads a pickle in time and memory in proportion to its size; a subclass says which names it may call."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **pickle._Unpickler.dispatch,
        **{code[0]: _with_plain_keys(pickle._Unpickler.dispatch[code[0]], keys) for code, keys in _KEYS.items()},
        **{code[0]: _refuse for code in _REFUSED},
        pickle.BYTEARRAY8[0]: _load_bytearray,
    }

    allowed: ClassVar[str] = "numpy arrays and plain values"

    def make(self, module: str, name: str) -> object | None:
        """What stands for a name that the pickle asks for; None if it is not allowed."""
        raise NotImplementedError

    def find_class(self, module: str, name: str) -> object:
        found = self.make(module, name)
        if found is None:
            raise FeatureError(f"the pickle tries to load {cut(f'{module}.{name}', 120)}; only {self.allowed} are read")
        return found


class _Unpickler(GuardedUnpickler):
    def __init__(self, stream: io.BytesIO, constructors: _Constructors) -> None:
        super().__init__(stream, encoding="latin1")
        self._constructors = constructors

    def make(self, module: str, name: str) -> object | None:
        if module not in _MODULES.get(name, ()):
            return None
        return Named(name, lambda *args: self._constructors.call(name, args))
