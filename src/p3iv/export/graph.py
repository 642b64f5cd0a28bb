"""Builds ONNX graphs operator by operator.

The networks are written out instead of traced by torch.onnx: its exporter took 4 to 20 CPU seconds per network where
this takes a tenth of one, it silently fixed the number of pairs, it keeps paths of the exporting machine in the file,
and it changes with every version of torch. Every file is compared with torch before it is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, TypeAlias, cast

import numpy as np
import onnx
from onnx import helper, numpy_helper
from torch import Tensor, nn

from p3iv.environment import own_version
from p3iv.onnx_model import BLANK, CHECKSUM, digest_of, find_checksum
from p3iv.types import Array

OPSET: Final = 17  # the first with LayerNormalization; onnxruntime from 1.12 on
_IR_VERSION: Final = 8  # the file format that belongs to it

Value: TypeAlias = "str | Array | Tensor"  # the name of a value, or a constant
Size = int | str  # a name stands for any size


class Graph:
    """A graph that grows by one operator at a time; floating-point constants have its precision."""

    def __init__(self, dtype: type[np.floating[Any]] = np.float32) -> None:
        self.dtype = dtype
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._matrices: dict[tuple[str, tuple[int, ...], bytes], str] = {}  # names of constants by their content
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, *shape: Size, dtype: Any = None) -> str:
        """Declare an input."""
        self._inputs.append(self._declare(name, shape, dtype))
        return name

    def add(self, operator: str, *inputs: Value, name: str | None = None, **attributes: Any) -> str:
        """Append an operator; returns the name of its output."""
        output = name or f"{operator}_{len(self._nodes)}"
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        self._nodes.append(helper.make_node(operator, names, [output], output, **attributes))
        return output

    def sum(self, *values: Value) -> str:
        """The sum of one or several values."""
        total, *others = (value if isinstance(value, str) else self.constant(value) for value in values)
        for other in others:
            total = self.add("Add", total, other)
        return total

    def linear(self, x: Value, layer: nn.Linear, name: str | None = None) -> str:
        """(..., D) -> (..., E)."""
        return self.add("Add", self.add("MatMul", x, layer.weight.T), layer.bias, name=name)

    def mlp(self, x: Value, layers: nn.Sequential, name: str | None = None) -> str:
        """One hidden layer with a ReLU, as `planners.layers.mlp` builds it."""
        first, last = (cast(nn.Linear, layers[place]) for place in (0, 2))
        return self.linear(self.add("Relu", self.linear(x, first)), last, name)

    def norm(self, x: Value, layer: nn.LayerNorm) -> str:
        """Layer normalisation of the last axis."""
        return self.add("LayerNormalization", x, layer.weight, layer.bias, axis=-1, epsilon=layer.eps)

    def reshape(self, x: Value, *shape: int) -> str:
        """Another shape; 0 keeps a size, -1 takes what is left."""
        return self.add("Reshape", x, np.array(shape, np.int64))

    def constant(self, value: Array | Tensor, dtype: Any = None, name: str | None = None) -> str:
        """Keep a constant, by default in the precision of the graph; returns its name.

        Equal matrices are kept once: the decoders of several lengths share their weights.
        """
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
        array = np.asarray(array, dtype or (self.dtype if array.dtype.kind == "f" else array.dtype), order="C")
        content = (array.dtype.str, array.shape, hashlib.sha256(array.tobytes()).digest())
        if name is None and array.ndim > 1 and content in self._matrices:
            return self._matrices[content]
        name = name or f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(array, name))
        self._matrices[content] = name
        return name

    def output(self, value: str, *shape: Size, dtype: Any = None) -> None:
        """Declare a value as an output; a constant, too, so that every reader gets it by running the graph."""
        self._outputs.append(self._declare(value, shape, dtype))

    def model(self, metadata: Mapping[str, str]) -> onnx.ModelProto:
        """The finished model."""
        graph = helper.make_graph(self._nodes, "p3iv", self._inputs, self._outputs, self._constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=_IR_VERSION)
        model.producer_name, model.producer_version = "p3iv", own_version()
        helper.set_model_props(model, dict(metadata))
        onnx.checker.check_model(model)
        return model

    def _declare(self, name: str, shape: tuple[Size, ...], dtype: Any = None) -> onnx.ValueInfoProto:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype or self.dtype))
        return helper.make_tensor_value_info(name, kind, list(shape))


def sealed(model: onnx.ModelProto) -> bytes:
    """The bytes of a model with its checksum."""
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    helper.set_model_props(model, {**metadata, CHECKSUM: BLANK.decode()})
    content: bytes = model.SerializeToString(deterministic=True)
    place = find_checksum(content)
    return content[: place.begin] + digest_of(content, place).encode() + content[place.end :]
