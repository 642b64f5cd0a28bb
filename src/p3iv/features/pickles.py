"""Pickles of arrays, read without running anything: released feature files are pickled dictionaries.

No name of a pickle is ever looked up. The few that arrays need become recorders, which only note how they were called;
`p3iv.features.thawing` then makes arrays from the notes, once sizes and types have been checked.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Final

from p3iv.errors import FeatureError
from p3iv.features.thawing import Recorded, Thaw


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
