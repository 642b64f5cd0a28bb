"""Read the tensors of .safetensors and .pth files without running anything and in bounded time and memory.

A .pth file is a pickle whose tensors refer to stored numbers by key. `torch.load(weights_only=True)` runs no code
either, but damaged files make it crash, hang or ask for all memory. Here the pickle is read by our guarded unpickler,
which knows a few names of torch, and every tensor is compared with the numbers that the file holds before it is made.
"""

from __future__ import annotations

import math
import pickle
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final

import torch
from torch import Tensor

from p3iv.errors import FeatureError
from p3iv.features.pickle_arrays import GuardedUnpickler, Named
from p3iv.validation import cut

_DTYPES: Final = {
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}

_ZIP_START: Final = b"PK\x03\x04"
_LEGACY_MAGIC: Final = 0x1950A86A20F9469CFC6C  # of files that PyTorch before 1.6 wrote


def read_state(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a .pth or .safetensors file; nothing else in it is loaded or run.

    Raises:
        FeatureError: naming the file.
    """
    if not path.is_file():
        raise FeatureError(f"{path}: there is no such file of weights")
    try:
        state = _read_safetensors(path) if path.suffix == ".safetensors" else _read_pth(path)
    except FeatureError as error:
        raise FeatureError(f"{path}: {error}") from error
    except OSError as error:
        raise FeatureError(f"{path}: cannot be read ({error.strerror or error})") from error
    except Exception as error:  # damaged bytes may raise anything, MemoryError and RecursionError included
        raise FeatureError(f"{path}: not a file of weights (.pth or .safetensors), or damaged") from error
    for name, tensor in state.items():
        if tensor.dtype not in _DTYPES.values():
            raise FeatureError(f"{path}: the weights {cut(name)} have the type {tensor.dtype}, which is not supported")
        if not bool(tensor.isfinite().all()):
            raise FeatureError(f"{path}: the weights {cut(name)} are not finite")
    return state


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file  # most weights are .pth

    return load_file(path)


def _read_pth(path: Path) -> dict[str, Tensor]:
    with path.open("rb") as file:
        start = file.read(4)
        file.seek(0)
        if not start.startswith((_ZIP_START, pickle.PROTO)):
            raise FeatureError("not a file of weights (.pth or .safetensors)")
        return _read_zip(file) if start == _ZIP_START else _read_legacy(file)


def _read_zip(file: BinaryIO) -> dict[str, Tensor]:
    """PyTorch from 1.6: NAME/data.pkl, and the numbers of each storage in NAME/data/KEY, not compressed."""
    with zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
        if any(info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size for info in infos):
            raise FeatureError("compressed, which PyTorch does not do")
        if sum(info.file_size for info in infos) > file.seek(0, 2):
            raise FeatureError("the parts are larger than the file")
        by_name = {info.filename: info for info in infos}
        index = next((name for name in by_name if name.rpartition("/")[2] == "data.pkl"), None)
        if index is None:
            raise FeatureError("a zip without data.pkl, expected a file that torch.save wrote")
        folder = index.removesuffix("data.pkl")
        if f"{folder}byteorder" in by_name and archive.read(f"{folder}byteorder") != b"little":
            raise FeatureError("written on a machine with another byte order")
        with archive.open(index) as stream:
            references = _references(_TorchUnpickler(stream).load())
        return _make_tensors(references, lambda storage: archive.read(f"{folder}data/{storage.key}"))


def _read_legacy(file: BinaryIO) -> dict[str, Tensor]:
    """PyTorch before 1.6: pickles of a magic number, a version, the machine, tensors, keys; then the keys' numbers."""
    magic, _, machine, content, keys = (_TorchUnpickler(file).load() for _ in range(5))
    if magic != _LEGACY_MAGIC or not isinstance(machine, dict) or not machine.get("little_endian"):
        raise FeatureError("expected a file that torch.save wrote")
    references = _references(content)
    storages = {reference.storage.key: reference.storage for reference in references.values()}
    contents: dict[str, bytes] = {}
    for key in keys:
        count = int.from_bytes(file.read(8), "little")
        if key not in storages or storages[key].count != count:
            raise FeatureError("its list of storages does not fit its tensors")
        contents[key] = file.read(storages[key].num_bytes)
    return _make_tensors(references, lambda storage: contents[storage.key])


@dataclass(frozen=True, slots=True)
class _Storage:
    """Numbers that tensors refer to."""

    key: str
    dtype: torch.dtype
    count: int

    @property
    def num_bytes(self) -> int:
        return self.count * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class _Reference:
    """A tensor of a pickle, before its numbers are read."""

    storage: _Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def check(self) -> None:
        """Raise a FeatureError unless every number of the tensor is one of the storage."""
        numbers = (self.offset, *self.size, *self.stride)
        if len(self.size) != len(self.stride) or not all(type(n) is int and 0 <= n < 2**48 for n in numbers):
            raise FeatureError("a tensor without a valid shape")
        last = self.offset + sum((size - 1) * stride for size, stride in zip(self.size, self.stride, strict=True))
        num_cells = math.prod(self.size)
        if num_cells and (last >= self.storage.count or num_cells > self.storage.count):
            raise FeatureError("a tensor that needs more numbers than the file holds for it")


class _State(dict[object, object]):
    """An OrderedDict of a pickle; PyTorch adds metadata as an attribute, which is not needed."""

    def __setstate__(self, state: object) -> None:
        return


class _TorchUnpickler(GuardedUnpickler):
    """Reads containers, plain values, and references to tensors."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **GuardedUnpickler.dispatch,
        pickle.BINPERSID[0]: pickle._Unpickler.dispatch[pickle.BINPERSID[0]],
    }
    allowed = "tensors and plain values"

    def make(self, module: str, name: str) -> object | None:
        if module == "torch" and name in _DTYPES:
            return name
        made: dict[tuple[str, str], Callable[..., object]] = {
            ("collections", "OrderedDict"): _State,
            ("torch._utils", "_rebuild_tensor_v2"): _rebuild,
            ("torch._utils", "_rebuild_parameter"): lambda data, *_: data,
        }
        return Named(name, made[module, name]) if (module, name) in made else None

    def persistent_load(self, pid: object) -> _Storage:
        """A storage, as ("storage", type, key, device, count) and in old files a view of another one."""
        if not isinstance(pid, tuple) or len(pid) not in (5, 6) or pid[0] != "storage" or pid[5:] not in ((), (None,)):
            raise FeatureError("numbers that are stored in an unusual way")
        kind, key, count = pid[1], pid[2], pid[4]
        if kind not in _DTYPES or not isinstance(key, str) or type(count) is not int or not 0 <= count < 2**48:
            raise FeatureError("numbers that are stored in an unusual way")
        return _Storage(key, _DTYPES[kind], count)


def _rebuild(storage: object, offset: int, size: object, stride: object, *_: object) -> _Reference:
    if not isinstance(storage, _Storage) or not isinstance(size, tuple) or not isinstance(stride, tuple):
        raise FeatureError("a tensor without its numbers")
    return _Reference(storage, offset, size, stride)


def _references(content: object) -> dict[str, _Reference]:
    """The tensors of a state dict, which may be the entry `state_dict` of a larger one."""
    state = content.get("state_dict", content) if isinstance(content, Mapping) else content
    if not isinstance(state, Mapping) or not all(isinstance(value, _Reference) for value in state.values()):
        raise FeatureError("is not a state dict, which maps names to tensors")
    storages: dict[str, _Storage] = {}
    for reference in state.values():
        reference.check()
        if storages.setdefault(reference.storage.key, reference.storage) != reference.storage:
            raise FeatureError("two types or lengths for the same numbers")
    return {str(name): reference for name, reference in state.items()}


def _make_tensors(references: Mapping[str, _Reference], read: Callable[[_Storage], bytes]) -> dict[str, Tensor]:
    numbers: dict[_Storage, Tensor] = {}
    state = {}
    for name, reference in references.items():
        storage = reference.storage
        if storage not in numbers:
            content = bytearray(read(storage))
            if len(content) != storage.num_bytes:
                raise FeatureError(f"{storage.num_bytes} bytes announced for {cut(name)}, and {len(content)} found")
            empty = torch.empty(0, dtype=storage.dtype)  # frombuffer refuses an empty buffer
            numbers[storage] = torch.frombuffer(content, dtype=storage.dtype) if content else empty
        state[name] = numbers[storage].as_strided(reference.size, reference.stride, reference.offset)
    return state
