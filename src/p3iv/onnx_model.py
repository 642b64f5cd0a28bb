"""ONNX files that p3iv wrote, read with onnxruntime and numpy alone and without trusting them.

A file is read into memory and checked before onnxruntime sees it: it must have the checksum that p3iv wrote, and no
operators but those that p3iv writes. So there are no data in other files, no control flow, which might never end, and
no operators that would have to be loaded from elsewhere.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from p3iv.errors import MissingExtraError
from p3iv.types import Array
from p3iv.validation import cut, shown

SUFFIX: Final = ".onnx"
CHECKSUM: Final = "sha256"  # the key of the checksum in a file's metadata
BLANK: Final = b"0" * 64  # what stands in place of the checksum while it is computed

MAX_BYTES: Final = 2**30

OPERATORS: Final = frozenset(
    [
        "Abs",
        "Add",
        "Cast",
        "Clip",
        "Concat",
        "Conv",
        "DequantizeLinear",
        "Div",
        "Gather",
        "LayerNormalization",
        "Log",
        "MatMul",
        "Mul",
        "QuantizeLinear",
        "ReduceL2",
        "ReduceMean",
        "Relu",
        "Reshape",
        "Softmax",
        "Sub",
        "Transpose",
    ]
)

# Numbers of fields in onnx.proto, https://github.com/onnx/onnx/blob/main/onnx/onnx.proto. A file may have only those
# that p3iv writes: what this module does not read, onnxruntime must not read either.
_GRAPH, _METADATA = 7, 14
_MODEL_FIELDS: Final = {
    1,
    2,
    3,
    4,
    5,
    6,
    _GRAPH,
    8,
    _METADATA,
}  # versions, producer, graph, operator sets
_NODE, _INITIALIZER = 1, 5
_GRAPH_FIELDS: Final = {_NODE, 2, _INITIALIZER, 10, 11, 12, 13}  # nodes, name, constants, text, inputs, outputs, shapes
_OPERATOR, _ATTRIBUTE, _DOMAIN = 4, 5, 7
_NODE_FIELDS: Final = {1, 2, 3, _OPERATOR, _ATTRIBUTE, 6, _DOMAIN}  # inputs, outputs, name, operator, attributes, text
_TENSOR = 5
_ATTRIBUTE_FIELDS: Final = {1, 2, 3, 4, _TENSOR, 7, 8, 9, 13, 20}  # name, values of one or several numbers, text, type
_TENSOR_FIELDS: Final = {1, 2, 4, 5, 7, 8, 9, 10, 12}  # sizes, type, numbers in several forms, name, text
_UNUSED: Final = {
    ("model", 20): "training",
    ("model", 25): "functions of its own",
    ("attribute", 6): "control flow",
    ("attribute", 11): "control flow",
    ("tensor", 13): "data in other files",
    ("tensor", 14): "data in other files",
}

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types of Protocol Buffers


@dataclass(frozen=True)
class Field:
    """One field of a message: its number and where its content is in the file."""

    number: int
    begin: int
    end: int


@dataclass(frozen=True)
class Port:
    """An input or output of a model."""

    dtype: str  # as in numpy
    shape: tuple[int | None, ...]  # None: any size


@dataclass(frozen=True)
class OnnxModel:
    """An opened file."""

    metadata: Mapping[str, str]
    num_bytes: int
    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]
    _session: Any

    def run(self, outputs: Sequence[str], inputs: Mapping[str, Array]) -> list[Array]:
        """The values of some outputs.

        Raises:
            ValueError: onnxruntime cannot compute them.
        """
        try:
            return self._session.run(list(outputs), dict(inputs))  # type: ignore[no-any-return]
        except Exception as error:  # onnxruntime has many, and no base class for them
            raise ValueError(f"onnxruntime cannot compute {', '.join(outputs)}: {cut(str(error))}") from error

    def require(self, inputs: Mapping[str, Port], outputs: Mapping[str, Port]) -> None:
        """Check names, types and shapes.

        Raises:
            ValueError: naming the first that differs.
        """
        for what, found, expected in (("input", self.inputs, inputs), ("output", self.outputs, outputs)):
            for name in [*expected, *found]:
                have, want = found.get(name), expected.get(name)
                if have != want:
                    raise ValueError(f"its {what} {cut(name)} is {_say(have)}, expected {_say(want)}")


def open_model(path: Path, purpose: str) -> OnnxModel:
    """Open a file that p3iv wrote.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        OSError: it cannot be read.
        ValueError: it is not such a file, or damaged.
    """
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError("onnxruntime", "onnx", purpose) from error
    content = read_bounded(path)
    metadata = check_content(content)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # with more, small products wait for each other under load
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # errors are raised, too; warnings are about the model and not for users
    options.add_session_config_entry("session.load_model_format", "ONNX")  # the format that was checked
    only: dict[str, Any] = {"providers": ["CPUExecutionProvider"], "enable_fallback": False}  # no other, and no advice
    try:
        session = onnxruntime.InferenceSession(content, options, **only)
        inputs = {one.name: _port(one) for one in session.get_inputs()}
        outputs = {one.name: _port(one) for one in session.get_outputs()}
    except Exception as error:  # as above
        raise ValueError(f"onnxruntime cannot load it: {cut(str(error))}") from error
    return OnnxModel(metadata, len(content), inputs, outputs, session)


def read_bounded(path: Path) -> bytes:
    """The content of a file of at most MAX_BYTES."""
    if path.exists() and not path.is_file():
        raise ValueError("it is not a file")  # reading a pipe may never end
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"it has more than the {MAX_BYTES} bytes that are allowed")
    return path.read_bytes()


def check_content(content: bytes) -> dict[str, str]:
    """Check that a file holds what p3iv wrote, and return its metadata.

    Raises:
        ValueError: saying what it holds instead.
    """
    metadata: dict[str, str] = {}
    checksum = None
    for field in _used(content, Field(0, 0, len(content)), "model", _MODEL_FIELDS):
        if field.number == _GRAPH:
            _check_graph(content, field)
        elif field.number == _METADATA:
            key, value = (_text_field(content, field, number) for number in (1, 2))
            if (name := _text(content, key)) == CHECKSUM:
                checksum = value
            metadata[name] = _text(content, value)
    if checksum is None:
        raise ValueError("p3iv did not write it: it has no checksum")
    if not hmac.compare_digest(digest_of(content, checksum), metadata[CHECKSUM]):
        raise ValueError("it was changed after p3iv wrote it: its checksum differs. Copy or export it again")
    return metadata


def find_checksum(content: bytes) -> Field:
    """Where the checksum is in a file."""
    for field in _fields(content, 0, len(content)):
        if field.number == _METADATA and _text(content, _text_field(content, field, 1)) == CHECKSUM:
            return _text_field(content, field, 2)
    raise ValueError("no checksum")


def digest_of(content: bytes, checksum: Field) -> str:
    """The checksum of a file: SHA-256 of its bytes with zeros in place of the checksum."""
    if checksum.end - checksum.begin != len(BLANK):
        raise ValueError("its checksum has another length")
    digest = hashlib.sha256(memoryview(content)[: checksum.begin])
    digest.update(BLANK)
    digest.update(memoryview(content)[checksum.end :])
    return digest.hexdigest()


def _check_graph(content: bytes, graph: Field) -> None:
    for field in _used(content, graph, "graph", _GRAPH_FIELDS):
        if field.number == _NODE:
            _check_node(content, field)
        elif field.number == _INITIALIZER:
            _check_tensor(content, field)


def _check_node(content: bytes, node: Field) -> None:
    for field in _used(content, node, "node", _NODE_FIELDS):
        if field.number == _OPERATOR and (name := _text(content, field)) not in OPERATORS:
            raise ValueError(f"it has the operator {shown(name)}, which p3iv does not write")
        if field.number == _DOMAIN and field.end > field.begin:
            raise ValueError("it has operators that are not ONNX's own")
        if field.number == _ATTRIBUTE:
            for part in _used(content, field, "attribute", _ATTRIBUTE_FIELDS):
                if part.number == _TENSOR:
                    _check_tensor(content, part)


def _check_tensor(content: bytes, tensor: Field) -> None:
    for _ in _used(content, tensor, "tensor", _TENSOR_FIELDS):
        pass


def _used(content: bytes, message: Field, what: str, allowed: Set[int]) -> Iterator[Field]:
    """The fields of a message, which must be among those that p3iv writes."""
    for field in _fields(content, message.begin, message.end):
        if field.number not in allowed:
            found = _UNUSED.get((what, field.number), f"a field {field.number} in a {what}")
            raise ValueError(f"it has {found}, which p3iv does not write")
        yield field


def _fields(content: bytes, begin: int, end: int) -> Iterator[Field]:
    """The fields of a message of Protocol Buffers."""
    while begin < end:
        tag, begin = _varint(content, begin, end)
        if tag >= 2**32:  # other readers would take its last 32 bits, which may name another field
            raise ValueError("it is not an ONNX file, or damaged")
        kind = tag & 7
        if kind == _BYTES:
            size, begin = _varint(content, begin, end)
        elif kind == _VARINT:
            size = _varint(content, begin, end)[1] - begin
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError("it is not an ONNX file, or damaged")
        if begin + size > end:
            raise ValueError("it is not a whole ONNX file")
        yield Field(tag >> 3, begin, begin + size)
        begin += size


def _varint(content: bytes, begin: int, end: int) -> tuple[int, int]:
    """A number in 7 bits per byte, and where the next field begins."""
    value = 0
    for place in range(begin, min(end, begin + 10)):
        value |= (content[place] & 127) << 7 * (place - begin)
        if content[place] < 128:
            return value, place + 1
    raise ValueError("it is not a whole ONNX file")


def _text_field(content: bytes, message: Field, number: int) -> Field:
    found = [field for field in _fields(content, message.begin, message.end) if field.number == number]
    return found[-1] if found else Field(number, message.end, message.end)


def _text(content: bytes, field: Field) -> str:
    try:
        return content[field.begin : field.end].decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError("it has a text that is not UTF-8") from error


def _port(found: Any) -> Port:
    dtype = found.type.removeprefix("tensor(").removesuffix(")")
    dtype = {"float": "float32", "double": "float64"}.get(dtype, dtype)
    return Port(dtype, tuple(size if isinstance(size, int) else None for size in found.shape))


def _say(port: Port | None) -> str:
    if port is None:
        return "missing"
    sizes = ", ".join("any" if size is None else str(size) for size in port.shape)
    return f"{cut(port.dtype, 20)} ({cut(sizes, 60)})"
