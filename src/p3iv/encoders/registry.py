"""Encoders by name; the heavy imports of each lie in its own module, behind its builder."""

from __future__ import annotations

from collections.abc import Callable

from p3iv.encoders.base import EncoderOptions, TextEncoder, VideoEncoder
from p3iv.errors import ConfigError

DEFAULT_ENCODER = "efficientnet-lite0"

DEFAULT_TEXT_ENCODER = "minilm"


def _efficientnet_lite0(options: EncoderOptions) -> VideoEncoder:
    from p3iv.encoders.efficientnet_lite0 import EfficientNetLite0Encoder

    return EfficientNetLite0Encoder(options)


def _s3d(options: EncoderOptions) -> VideoEncoder:
    from p3iv.encoders.s3d import S3DEncoder

    return S3DEncoder(options)


def _clip(options: EncoderOptions) -> VideoEncoder:
    from p3iv.encoders.clip import ClipEncoder

    return ClipEncoder(options)


def _precomputed(options: EncoderOptions) -> VideoEncoder:
    from p3iv.encoders.precomputed import PrecomputedEncoder

    return PrecomputedEncoder(options)


def _minilm(options: EncoderOptions) -> TextEncoder:
    from p3iv.encoders.minilm import MiniLmEncoder

    return MiniLmEncoder(options)


BUILDERS: dict[str, Callable[[EncoderOptions], VideoEncoder | TextEncoder]] = {
    "efficientnet-lite0": _efficientnet_lite0,
    "s3d": _s3d,
    "clip": _clip,
    "minilm": _minilm,
    "precomputed": _precomputed,
}

VIDEO_ENCODERS = ("efficientnet-lite0", "s3d", "clip", "precomputed")

TEXT_ENCODERS = ("minilm", "s3d", "clip")


def build_encoder(name: str, options: EncoderOptions | None = None) -> VideoEncoder:
    """The encoder that `dataset.yaml` or a user names: NAME, or NAME:WEIGHTS.

    Raises:
        ConfigError: where there is none of that name.
        FeatureError, MissingExtraError: where its weights or libraries are missing.
    """
    encoder = _build(name, options or EncoderOptions(), VIDEO_ENCODERS, "--encoder")
    if not isinstance(encoder, VideoEncoder):
        raise ConfigError(f"--encoder {name}, which does not see. Choose from {', '.join(VIDEO_ENCODERS)}.")
    return encoder


def build_text_encoder(name: str, options: EncoderOptions | None = None) -> TextEncoder:
    """The text encoder of that name, in the same way."""
    encoder = _build(name, options or EncoderOptions(), TEXT_ENCODERS, "--text-encoder")
    if not isinstance(encoder, TextEncoder):
        raise ConfigError(f"--text-encoder {name}, which does not read. Choose from {', '.join(TEXT_ENCODERS)}.")
    return encoder


def _build(name: str, options: EncoderOptions, allowed: tuple[str, ...], option: str) -> VideoEncoder | TextEncoder:
    kind, _, weights = name.partition(":")
    if kind not in allowed:
        raise ConfigError(f"{option} {name}, but there is no such encoder. Choose from {', '.join(allowed)}.")
    if weights and options.weights is None:
        options = EncoderOptions(weights, options.max_words)
    return BUILDERS[kind](options)
