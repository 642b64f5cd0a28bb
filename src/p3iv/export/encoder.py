"""EfficientNet-Lite0 as an ONNX file, in float32 or in int8, compared with torch before it is kept.

In int8, weights have one scale per output channel, and activations one per tensor, from their smallest and largest
values in pictures of the tabletop. The first three convolutions stay in float32: that halves the error of the features
(the mean cosine with those in float32 is 0.996 instead of 0.992) and costs no time.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper
from torch import nn

from p3iv.encoders.base import Clips, EncoderOptions, Rows
from p3iv.encoders.efficientnet_lite0 import MEAN, NAME, SCALE, EfficientNetLite0Encoder, SameConv
from p3iv.encoders.identity import ONNX, EncoderIdentity, find_difference
from p3iv.encoders.onnx_encoder import METADATA_KEY, EncoderCard, OnnxEncoder
from p3iv.errors import ConfigError, FeatureError, MissingExtraError
from p3iv.export.graph import Graph, sealed
from p3iv.features.pictures import Framing, Picture, frame_picture
from p3iv.files import atomic_file

MIN_COSINE: Final = {"float32": 0.999999, "int8": 0.98}  # of a picture's features with those of torch

_NUM_CALIBRATION, _NUM_CHECKED = 96, 8  # pictures
_SEED: Final = 1012  # of these pictures; those of `p3iv demo` are others
_FLOAT_CONVOLUTIONS: Final = 3  # from the first on


@dataclass(frozen=True)
class EncoderReport:
    """What was written of an encoder."""

    path: Path
    num_bytes: int
    name: str
    precision: str
    min_cosine: float  # of features by onnxruntime and by torch


def export_encoder(expected: EncoderIdentity, out: Path, precision: str, weights: str | None = None) -> EncoderReport:
    """Write the encoder of a planner's features.

    Args:
        expected: the encoder of the features.
        out: the file to write.
        precision: float32 or int8.
        weights: a file, if the features are not of the packaged weights.

    Raises:
        ConfigError: an encoder that cannot be exported.
        FeatureError: another encoder than that of the features, or one that gives other rows than torch.
    """
    if expected.name != NAME:
        raise ConfigError(f"The planner's features are of {expected}, but only {NAME} can be exported.")
    encoder = EfficientNetLite0Encoder(EncoderOptions(weights))
    if difference := find_difference(encoder.identity, expected):
        needed = f"--weights {expected.weights}" if expected.weights else "no --weights"
        raise FeatureError(f"The planner's features are of another encoder: {difference}. Pass {needed}.")
    with atomic_file(out) as temporary:
        temporary.write_bytes(sealed(build_model(encoder, precision)))
        cosine = _smallest_cosine(encoder, OnnxEncoder(temporary))
        if not cosine >= MIN_COSINE[precision]:
            raise FeatureError(
                f"{out} was not written: the cosine of its features with those of torch is {cosine:.4f}, and at least "
                f"{MIN_COSINE[precision]} is needed."
            )
    return EncoderReport(out, out.stat().st_size, NAME, precision, cosine)


def build_model(encoder: EfficientNetLite0Encoder, precision: str) -> onnx.ModelProto:
    """The model of an encoder: `clips` (B, 1, 3, S, S) uint8 -> `features` (B, F)."""
    identity = replace(encoder.identity, backend=ONNX, precision=precision)
    sizes = (encoder.width, encoder.frames_per_second, encoder.frames_per_clip)
    metadata = {METADATA_KEY: json.dumps(asdict(EncoderCard(identity, *sizes, encoder.framing)))}
    graph = Graph()
    _build(graph, encoder)
    model = graph.model(metadata)
    return _quantised(model, encoder.framing) if precision == "int8" else model


def _build(graph: Graph, encoder: EfficientNetLite0Encoder) -> None:
    network, size = encoder.network, encoder.framing.size
    clips = graph.input("clips", "B", 1, 3, size, size, dtype=np.uint8)
    image = graph.add("Cast", graph.reshape(clips, -1, 3, size, size), to=onnx.TensorProto.FLOAT)
    image = graph.add("Div", graph.add("Sub", image, np.array(MEAN)), np.array(SCALE))
    image, size = _conv(graph, image, network._conv_stem, size)
    image = _relu6(graph, image)
    for block in network._blocks:
        image, size = _block(graph, image, block, size)
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
    if not isinstance(conv, SameConv) or conv.bias is None:
        raise TypeError(f"a convolution is a {type(conv).__name__} without a folded norm")
    total, stride = conv.padding_of(size), conv.stride[0]
    before, after = total // 2, total - total // 2
    shape: dict[str, Any] = {"strides": [stride, stride], "pads": [before, before, after, after]}
    return graph.add("Conv", image, conv.weight, conv.bias, group=conv.groups, **shape), -(-size // stride)


def _relu6(graph: Graph, image: str) -> str:
    return graph.add("Clip", image, np.array(0.0), np.array(6.0))


def _quantised(model: onnx.ModelProto, framing: Framing) -> onnx.ModelProto:
    """The same model in int8."""
    from onnxruntime.quantization import QuantType, quantize_static  # type: ignore[import-untyped] # a second to import

    convolutions = [node.name for node in model.graph.node if node.op_type == "Conv"]
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    with tempfile.TemporaryDirectory() as folder, _without_warnings():
        path = Path(folder) / "int8.onnx"
        quantize_static(
            model, path, _Reader(framing), per_channel=True, activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8, nodes_to_exclude=convolutions[:_FLOAT_CONVOLUTIONS],
        )  # fmt: skip
        quantised = onnx.load(path)
    for tensor in quantised.graph.initializer:
        tensor.ClearField("data_location")  # it says that the data are here, and a reader need not ask
    helper.set_model_props(quantised, metadata)
    return quantised


class _Reader:
    """Gives onnxruntime's quantisation one picture after the other."""

    def __init__(self, framing: Framing) -> None:
        self._clips = islice(example_clips(framing), _NUM_CALIBRATION)

    def get_next(self) -> Mapping[str, Clips] | None:
        clip = next(self._clips, None)
        return None if clip is None else {"clips": clip}


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Without the advice of onnxruntime's quantisation to run its own preparation first, which changes nothing here."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def example_clips(framing: Framing) -> Iterator[Clips]:
    """Pictures of tabletop videos, (1, 1, 3, S, S) each: eight of a video, spread over its length."""
    try:
        from p3iv.tabletop.render import Camera, Scene
    except ImportError as error:
        raise MissingExtraError("Pillow", "video", "Exporting an encoder", "or --encoder-precision none") from error
    from p3iv.tabletop.look import make_look
    from p3iv.tabletop.stage import Stage
    from p3iv.tabletop.world import write_script

    for index in range(_NUM_CALIBRATION):
        script = write_script(_SEED, index)
        look = make_look(script.seed)
        scene, camera = Scene(Stage(look), script.execution, script.times), Camera(look, script.seed)
        for time_s in np.linspace(0.0, script.length_s, 8):
            pixels = camera.expose(scene.draw(time_s, camera.corner(time_s)), time_s)
            yield frame_picture(Picture(pixels), framing)[None, None]


def _smallest_cosine(encoder: EfficientNetLite0Encoder, exported: OnnxEncoder) -> float:
    """The smallest cosine of the rows of both encoders, over pictures of different videos."""
    clips = np.concatenate(list(islice(example_clips(encoder.framing), 3, 8 * _NUM_CHECKED, 8)))
    return float(cosines(encoder.encode(clips), exported.encode(clips)).min())


def cosines(rows: Rows, others: Rows) -> Rows:
    """The cosine of every row with its counterpart: (N, F) twice -> (N,)."""
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(others, axis=1)
    return np.asarray((rows * others).sum(axis=1) / np.maximum(lengths, 1e-12), np.float32)
