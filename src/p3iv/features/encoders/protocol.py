"""What an encoder is: pictures in, one row of features out; texts in, one embedding each out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from torch import Tensor

from p3iv.features.framing import Framing


@dataclass(frozen=True)
class EncoderOptions:
    """What a user may say about an encoder beside its name."""

    weights: str | None = None  # a file, a folder or a name on the hub, as the encoder says
    max_words: int = 16  # s3d: words of a text that count; the P3IV release used 30


@runtime_checkable
class VideoEncoder(Protocol):
    """Turns the frames of a second into one row."""

    name: str  # as dataset.yaml keeps it: NAME, or NAME:WEIGHTS where the name leaves them open
    width: int  # F
    frames_per_second: int  # how densely a second is looked at
    frames_per_clip: int  # L, centred on the middle of the second; at most frames_per_second
    framing: Framing
    fingerprint: str  # of the weights: rows of two fingerprints do not mix

    def encode(self, clips: Tensor) -> Tensor:
        """(B, L, 3, S, S) uint8 -> (B, F) float32; a clip's row does not depend on the others."""


@runtime_checkable
class TextEncoder(Protocol):
    """Turns descriptions of steps into embeddings."""

    name: str
    width: int  # F_l

    def encode_text(self, texts: Sequence[str]) -> Tensor:
        """N texts -> (N, F_l) float32; an empty text has an embedding too."""


def clip_moments(encoder: VideoEncoder, second: int) -> list[float]:
    """When the frames of a second's clip are shown: L of them, evenly around its middle.

    At 16 frames per second and clip these are the frames that ffmpeg's `fps=16` picks.
    """
    length, rate = encoder.frames_per_clip, encoder.frames_per_second
    return [max(0.0, second + 0.5 + (number - (length - 1) / 2) / rate) for number in range(length)]


def weights_path(options: EncoderOptions) -> Path | None:
    """The weights as a local path, where they are given."""
    return None if options.weights is None else Path(options.weights)
