"""EfficientNet-Lite0 as an ONNX file, in float32 or in int8."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import onnx
from torch import nn

from p3iv.encoders.base import Clips, VideoEncoder
from p3iv.encoders.efficientnet_lite0 import MEAN, SCALE, EfficientNetLite0Encoder, SameConv
from p3iv.encoders.onnx_encoder import BACKEND, METADATA_KEY, EncoderCard
from p3iv.export.graph import Graph

PRECISIONS: Final = ("float32", "int8")


def build_encoder_model(encoder: EfficientNetLite0Encoder, precision: str) -> onnx.ModelProto:
    """The model of an encoder: `clips` (B, 1, 3, S, S) uint8 -> `features` (B, F)."""
    identity = replace(encoder.identity, backend=BACKEND, precision=precision)
    sizes = (encoder.width, encoder.frames_per_second, encoder.frames_per_clip)
    metadata = {METADATA_KEY: json.dumps(asdict(EncoderCard(identity, *sizes, encoder.framing)))}
    graph = Graph()
    _build(graph, encoder)
    model = graph.model(metadata)
    return quantised(model, metadata) if precision == "int8" else model


def _build(graph: Graph, encoder: EfficientNetLite0Encoder) -> None:
    network, size = encoder.network, encoder.framing.size
    clips = graph.input("clips", "B", 1, 3, size, size, dtype=np.uint8)
    image = graph.add("Cast", graph.reshape(clips, -1, 3, size, size), to=onnx.TensorProto.FLOAT)
    image = graph.add("Div", graph.add("Sub", image, np.array(MEAN)), np.array(SCALE))
    image, size = _conv(graph, image, network._conv_stem, size)
    image = _relu6(graph, image)
    for block in network._blocks:
        image, size = _block(graph, image, cast(Any, block), size)
    image = _relu6(graph, _conv(graph, image, network._conv_head, size)[0])
    graph.output(graph.add("ReduceMean", image, axes=[2, 3], keepdims=0, name="features"), "B", encoder.width)


def _block(graph: Graph, image: str, block: Any, size: int) -> tuple[str, int]:
    """An inverted residual block, and the side of its output in pixels."""
    wide = _relu6(graph, _conv(graph, image, block._expand_conv, size)[0]) if block._is_wider else image
    seen, after = _conv(graph, wide, block._depthwise_conv, size)
    narrow, after = _conv(graph, _relu6(graph, seen), block._project_conv, after)
    return (graph.add("Add", narrow, image) if block._adds else narrow), after


def _conv(graph: Graph, image: str, conv: nn.Module, size: int) -> tuple[str, int]:
    """A convolution with its folded batch norm, padded as in TensorFlow, and the side of its output in pixels."""
    if not isinstance(conv, SameConv):
        raise TypeError(f"a convolution is a {type(conv).__name__}")
    total, stride = conv._padding(size), conv.stride[0]
    before, after = total // 2, total - total // 2
    output = graph.add(
        "Conv", image, conv.weight, cast(Any, conv.bias), group=conv.groups, strides=[stride, stride],
        pads=[before, before, after, after],
    )  # fmt: skip
    return output, -(-size // stride)


def _relu6(graph: Graph, image: str) -> str:
    return graph.add("Clip", image, np.array(0.0), np.array(6.0))
