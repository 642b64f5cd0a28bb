"""Features made elsewhere: no network here, only a folder of one .npy or .npz per video with a row per second."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from p3iv.encoders.base import EncoderOptions
from p3iv.errors import FeatureError
from p3iv.features.pictures import Framing


class PrecomputedEncoder:
    """Stands for whoever made the features; it has the rows and cannot make more of them."""

    name = "precomputed"
    width = 0  # as the files have it
    frames_per_second = 1
    frames_per_clip = 1
    framing = Framing()
    fingerprint = ""

    def __init__(self, options: EncoderOptions) -> None:
        if options.weights is None:
            raise FeatureError("The encoder precomputed needs the features: --weights FOLDER with one .npy per video.")
        self.folder = Path(options.weights)
        if not self.folder.is_dir():
            raise FeatureError(f"--weights {self.folder} is no folder; precomputed takes one with a .npy per video.")

    def encode(self, clips: Tensor) -> Tensor:
        """Always refused."""
        raise FeatureError(
            f"precomputed features were made elsewhere, so {len(clips)} clips cannot be encoded. "
            f"Give features (.npy), or extract with an encoder that p3iv has."
        )
