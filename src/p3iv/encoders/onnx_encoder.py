"""A video encoder in a file that `p3iv export` wrote: onnxruntime and numpy compute it, without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as model

from p3iv.encoders.base import Clips, Rows
from p3iv.encoders.identity import EncoderIdentity
from p3iv.errors import FeatureError
from p3iv.features.pictures import Framing
from p3iv.onnx_model import OnnxModel, Port, open_model
from p3iv.validation import explain

METADATA_KEY: Final = "p3iv_encoder"

Count = Annotated[int, Field(ge=1, le=2**13)]


@model(frozen=True, config=ConfigDict(extra="forbid"))
class EncoderCard:
    """What such a file says about its encoder."""

    identity: EncoderIdentity
    width: Count  # F
    frames_per_second: Count
    frames_per_clip: Count  # L
    framing: Framing

    @property
    def ports(self) -> tuple[dict[str, Port], dict[str, Port]]:
        """The inputs and the outputs of its graph."""
        clips = Port("uint8", (None, self.frames_per_clip, 3, self.framing.size, self.framing.size))
        return {"clips": clips}, {"features": Port("float32", (None, self.width))}


class OnnxEncoder:
    """Encodes the frames of one second, as the encoder that was exported does."""

    def __init__(self, path: Path) -> None:
        """Open a file.

        Raises:
            FeatureError: naming the file, which is not such an encoder, or damaged.
        """
        try:
            self._model = open_model(path, "An encoder in an .onnx file")
            card = _card_of(self._model)
            self._model.require(*card.ports)
        except OSError as error:
            raise FeatureError(f"{path}: cannot be read ({error.strerror})") from error
        except ValueError as error:
            raise FeatureError(f"{path} is not an encoder that `p3iv export` wrote: {error}") from error
        self._path = path
        self.identity, self.width, self.framing = card.identity, card.width, card.framing
        self.frames_per_second, self.frames_per_clip = card.frames_per_second, card.frames_per_clip

    def encode(self, clips: Clips) -> Rows:
        """(B, L, 3, S, S) uint8 -> (B, F) float32; one clip at a time, so that its row does not depend on others."""
        try:
            rows = [self._model.run(["features"], {"clips": clip[None]})[0] for clip in clips]
        except ValueError as error:
            raise FeatureError(f"{self._path}: {error}") from error
        return np.concatenate(rows) if rows else np.empty((0, self.width), np.float32)


def _card_of(opened: OnnxModel) -> EncoderCard:
    if METADATA_KEY not in opened.metadata:
        raise ValueError("it has no description of an encoder")
    try:
        return TypeAdapter(EncoderCard).validate_json(opened.metadata[METADATA_KEY])
    except ValidationError as error:
        raise ValueError(explain(error)) from error
