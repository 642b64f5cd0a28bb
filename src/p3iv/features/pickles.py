"""Pickles of arrays, read without running anything: released feature files are pickled dictionaries.

No name of a pickle is ever looked up. The few that arrays need become recorders, which only note how they were called;
`p3iv.features.thawing` then makes arrays from the notes, once sizes and types have been checked.
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

_NUMBERS_OR_TEXT: Final = re.compile(r"b1|[iu][1248]|f[248]|[US][1-9]\d{0,6}")

_OBJECTS: Final = re.compile(r"O[48]?")

_SCALARS: Final = (str, int, float, bytes, bytearray, type(None))  # bool is an int


class Recorded:
    """One call that a pickle asked for: what of, with what, and the state given afterwards; nothing was called."""

    __slots__ = ("args", "kind", "state")

    def __init__(self, kind: str, args: tuple[object, ...]) -> None:
        self.kind = kind
        self.args = args
        self.state: object = None

    def __setstate__(self, state: object) -> None:
        self.state = state


def plain_dtype(code: str, order: str = "=") -> np.dtype[Any] | None:
    """The dtype of numbers or text that `code` ("f4", "U12") names; None for objects.

    Raises:
        FeatureError: for structures, dates, complex numbers and whatever else is no plain value.
    """
    if _OBJECTS.fullmatch(code):
        return None
    if not _NUMBERS_OR_TEXT.fullmatch(code) or order not in ("<", ">", "=", "|"):
        raise FeatureError(f"an array of dtype {order + code!r}; bool, int, uint, float and text are read")
    return np.dtype(order + code)


class Thaw:
    """Turns records into arrays; `budget` bounds the bytes and cells that it may make of shared parts."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._done: dict[int, object] = {}  # by id: a part that is shared is made once, one inside itself ends
        self._makers: dict[str, Callable[[Recorded], object]] = {
            "_reconstruct": self._reconstructed,
            "_frombuffer": self._from_buffer,
            "scalar": self._scalar,
            "encode": self._bytes,
            "bytes": self._bytes,
            "OrderedDict": lambda call: dict(self._members(call)),
            "set": lambda call: set(self._members(call)),
            "frozenset": lambda call: frozenset(self._members(call)),
        }

    def value(self, value: object) -> object:
        """The same value with every record in it made real."""
        if isinstance(value, _SCALARS):
            return value
        if id(value) not in self._done:
            self._done[id(value)] = self._made(value)
        return self._done[id(value)]

    def _made(self, value: object) -> object:
        if isinstance(value, list):
            items = self._done.setdefault(id(value), [])
            items.extend(map(self.value, value))  # type: ignore[attr-defined]
            return items
        if isinstance(value, dict):
            mapping = self._done.setdefault(id(value), {})
            mapping.update((key, self.value(entry)) for key, entry in value.items())  # type: ignore[attr-defined]
            return mapping
        if isinstance(value, tuple):
            return tuple(map(self.value, value))
        if isinstance(value, set | frozenset):
            return value  # of plain values: the unpickler guards what is hashed
        if isinstance(value, Recorded) and value.kind in self._makers:
            return self._makers[value.kind](value)
        raise FeatureError(f"the pickle holds {getattr(value, 'kind', type(value).__name__)} where a value belongs")

    def _charge(self, amount: int) -> None:
        self._budget -= amount
        if self._budget < 0:
            raise FeatureError("the pickle decodes to far more than the file holds")

    def _members(self, call: Recorded) -> list[Any]:
        """What a set or an ordered dictionary was called with; hashed, so plain values only."""
        [members] = call.args or ([],)
        if not isinstance(members, list):
            raise FeatureError(f"a {call.kind} made of a {type(members).__name__}")
        self._charge(len(members))
        pairs = call.kind == "OrderedDict"
        if not all(isinstance(member[0] if pairs else member, _SCALARS) for member in members):
            raise FeatureError(f"a {call.kind} whose keys are not plain values")
        return [(key, self.value(entry)) for key, entry in members] if pairs else members

    def _bytes(self, call: object) -> bytes | bytearray:
        if isinstance(call, bytes | bytearray):
            return call
        if isinstance(call, Recorded) and call.kind == "bytes" and not call.args:
            return b""
        text, encoding = (call, "latin1") if isinstance(call, str) else self._encoded(call)
        if encoding not in ("latin1", "latin-1") or not isinstance(text, str):
            raise FeatureError(f"bytes from text in {encoding!r}; latin1 is the only encoding of pickled arrays")
        self._charge(len(text))
        return text.encode("latin1")

    def _encoded(self, call: object) -> tuple[object, object]:
        if not isinstance(call, Recorded) or call.kind != "encode" or len(call.args) != 2:
            raise FeatureError(f"a {getattr(call, 'kind', type(call).__name__)} where the bytes of an array belong")
        return call.args[0], call.args[1]

    def _dtype(self, call: object) -> np.dtype[Any] | None:
        """The dtype of a `numpy.dtype("f4", False, True)` with its state (3, "<", None, None, None, -1, -1, 0)."""
        if not isinstance(call, Recorded) or call.kind != "dtype" or not call.args or not isinstance(call.args[0], str):
            raise FeatureError("an array without a dtype")
        state = call.state if isinstance(call.state, tuple) else (3, "=", None, None, None)
        if len(state) < 5 or not isinstance(state[1], str) or any(part is not None for part in state[2:5]):
            raise FeatureError(f"an array of dtype {call.args[0]!r} with fields; plain numbers are read")
        return plain_dtype(call.args[0], state[1])

    def _reconstructed(self, call: Recorded) -> Array:
        state = call.state
        if not isinstance(state, tuple) or len(state) not in (4, 5):
            raise FeatureError("an array without its contents")
        shape, dtype, fortran, data = state[-4:]  # the version before them is not always there
        if self._dtype(dtype) is None:
            return self._objects(call, data, shape, "F" if fortran else "C")
        return self._numbers(data, dtype, shape, "F" if fortran else "C")

    def _from_buffer(self, call: Recorded) -> Array:
        data, dtype, shape, order = call.args
        return self._numbers(data, dtype, shape, order)

    def _scalar(self, call: Recorded) -> object:
        dtype, data = call.args
        return self._numbers(data, dtype, (), "C")[()]

    def _numbers(self, data: object, dtype_call: object, shape: object, order: object) -> Array:
        dtype, buffer = self._dtype(dtype_call), self._bytes(data)
        if dtype is None or order not in ("C", "F"):
            raise FeatureError("an array of objects where numbers belong")
        needed = _count(shape) * dtype.itemsize
        if needed != len(buffer):
            raise FeatureError(f"an array of shape {shape} needs {needed} bytes, the pickle holds {len(buffer)}")
        self._charge(needed)
        flat = np.frombuffer(buffer, "u1") != 0 if dtype.kind == "b" else np.frombuffer(buffer, dtype)
        return flat.reshape(shape, order=order)

    def _objects(self, call: Recorded, cells: object, shape: object, order: str) -> Array:
        if not isinstance(cells, list) or len(cells) != _count(shape):
            raise FeatureError(f"an array of objects of shape {shape} without as many objects")
        self._charge(len(cells))
        flat = np.empty(len(cells), object)
        array = flat.reshape(shape, order=order)  # type: ignore[call-overload]
        self._done[id(call)] = array
        for place, cell in enumerate(cells):
            flat[place] = self.value(cell)
        return array  # type: ignore[no-any-return]


def _count(shape: object) -> int:
    """The number of cells of a declared shape."""
    if not isinstance(shape, tuple) or len(shape) > 32 or not all(type(n) is int and 0 <= n < 2**62 for n in shape):
        raise FeatureError("an array without a valid shape")
    return math.prod(shape)


class _Recorder:
    """Stands for a global that a pickle may name; a call of it is noted, nothing is called."""

    # No __dict__ and a __setstate__ of its own: a BUILD opcode leaves nothing on an object that outlives the load.
    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, *args: object) -> object:
        if len(args) > 4:  # every call is kept, and a long shared argument list would be copied into each
            raise FeatureError(f"the pickle calls its {self.kind} with {len(args)} arguments")
        if self.kind == "OrderedDict" and not args:
            return {}
        return Recorded(self.kind, args)

    def __setstate__(self, state: object) -> None:
        raise FeatureError(f"the pickle tries to change {self.kind} itself")


_KINDS: Final = {
    "_reconstruct": ("numpy.core.multiarray", "numpy._core.multiarray"),
    "scalar": ("numpy.core.multiarray", "numpy._core.multiarray"),
    "_frombuffer": ("numpy.core.numeric", "numpy._core.numeric"),
    "ndarray": ("numpy",),
    "dtype": ("numpy",),
    "encode": ("_codecs",),  # how protocol 2 spells bytes
    "bytes": ("builtins", "__builtin__"),  # how protocol 2 spells no bytes
    "set": ("builtins", "__builtin__"),
    "frozenset": ("builtins", "__builtin__"),
    "OrderedDict": ("collections",),
}

_ADMITTED: Final = {(module, kind): _Recorder(kind) for kind, modules in _KINDS.items() for module in modules}

# Which entries of the stack each opcode hashes.
_KEYS: Final = {
    pickle.SETITEM: slice(-2, -1),
    pickle.SETITEMS: slice(0, None, 2),
    pickle.DICT: slice(0, None, 2),
    pickle.ADDITEMS: slice(None),
    pickle.FROZENSET: slice(None),
}

_PLAIN_KEYS: Final = (str, bytes, int, float, type(None))

# Classes by number (the registry of copyreg, which skips find_class) and buffers from outside the file.
_REFUSED: Final = (pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.NEXT_BUFFER, pickle.PERSID, pickle.BINPERSID)


def _with_plain_keys(load: Callable[[Any], None], keys: slice) -> Callable[[Any], None]:
    """The opcode behind a guard: the hash of nested shared tuples takes time exponential in the size of the file."""

    def guarded(unpickler: Any) -> None:
        for key in unpickler.stack[keys]:
            if not isinstance(key, _PLAIN_KEYS):
                raise FeatureError(f"the pickle uses a {type(key).__name__} as a key; a plain value is expected")
        load(unpickler)

    return guarded


def _refuse(_: Any) -> None:
    raise FeatureError("the pickle asks for something outside the file; only arrays and plain values are read")


def _load_bytearray(unpickler: Any) -> None:
    """The opcode of numpy's buffers; the library's own fills as much memory as declared before it reads."""
    size = int.from_bytes(unpickler.read(8), "little")
    content = unpickler.read(min(size, sys.maxsize))
    if len(content) != size:
        raise FeatureError(f"the pickle promises {size:,} bytes and holds {len(content):,}")
    unpickler.append(bytearray(content))


# The Python machine rather than the C one, whose memo takes gigabytes for one hostile opcode (cpython gh-115952) and
# whose opcodes cannot be guarded. A file of features is a few dozen opcodes, so it costs little.
class _Unpickler(pickle._Unpickler):
    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **pickle._Unpickler.dispatch,
        **{code[0]: _with_plain_keys(pickle._Unpickler.dispatch[code[0]], keys) for code, keys in _KEYS.items()},
        **{code[0]: _refuse for code in _REFUSED},
        pickle.BYTEARRAY8[0]: _load_bytearray,
    }

    def find_class(self, module: str, name: str) -> object:
        recorder = _ADMITTED.get((module, name))
        if recorder is None:
            asked = "".join(sign if sign.isprintable() else "?" for sign in f"{module}.{name}"[:120])
            raise FeatureError(f"the pickle tries to load {asked}; only numpy arrays and plain values are read")
        return recorder


def load_plain(content: bytes, offset: int = 0) -> object:
    """The value pickled in `content` from `offset` on: arrays, scalars, plain containers.

    Raises:
        FeatureError: for anything else, whatever the bytes; nothing that they name is loaded or called.
    """
    stream = io.BytesIO(content)
    stream.seek(offset)
    try:
        value = _Unpickler(stream, encoding="latin1").load()
        # Every byte of a real file is decoded at most twice (text of protocol 2, then numbers); a file that shares one
        # string among a million arrays asks for more.
        return Thaw(budget=2 * len(content)).value(value)
    except FeatureError:
        raise
    except Exception as error:  # pickle may raise anything on hostile bytes, MemoryError and RecursionError included
        raise FeatureError(f"not a whole pickle of arrays ({type(error).__name__}: {str(error)[:120]})") from error
