"""What a user points at as start or goal, and the observation that it stands for."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import Tensor

from p3iv.dataset import Dataset
from p3iv.errors import ConfigError, PlanError
from p3iv.extraction.worker import encode_moment, encode_picture
from p3iv.features.arrays import read_observation
from p3iv.features.encoders import VideoEncoder, build_encoder
from p3iv.observations import observe_moments

EXPECTED = "FILE@SECONDS of a video, a picture, a .npy of features, or VIDEO@SECONDS of the dataset"
PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
_MOMENT = re.compile(r"(?P<video>.+)@(?P<second>\d+(\.\d+)?)", re.DOTALL)


class MomentReader:
    """Reads moments as one planner wants them; the encoder is built when a picture or a video first needs it.

    Args:
        encoder: of the features that the planner was trained on, as its checkpoint names it.
        observation: `mean` or `concat`, as the planner was trained.
        dataset: where VIDEO@SECONDS is looked up; None where there is none.
    """

    def __init__(self, encoder: str | None, observation: str, dataset: Dataset | None) -> None:
        self._encoder_name, self._observation, self._dataset = encoder, observation, dataset
        self._encoder: VideoEncoder | None = None

    def read(self, text: str) -> Tensor:
        """The observation (F,) that a moment shows.

        Raises:
            P3ivError: saying what was pointed at and what may be.
        """
        moment = _MOMENT.fullmatch(text)
        if moment is not None and Path(moment["video"]).is_file():
            return self._join(
                torch.from_numpy(encode_moment(Path(moment["video"]), float(moment["second"]), self.encoder))
            )
        if moment is not None and self._dataset is not None:
            return observe_moments(self._dataset, [(moment["video"], float(moment["second"]))], self._observation)[0]
        path = Path(text)
        if not path.is_file():
            raise PlanError(f"{text!r} is no moment: it is {EXPECTED}.")
        if path.suffix.lower() == ".npy":
            return self._join(torch.tensor(read_observation(path), dtype=torch.float32))
        if path.suffix.lower() in PICTURES:
            return self._join(torch.from_numpy(encode_picture(path, self.encoder)))
        raise PlanError(f"{text}: which moment of it? A moment is {EXPECTED}.")

    @property
    def encoder(self) -> VideoEncoder:
        """What made the features that the planner was trained on."""
        if self._encoder is None:
            try:
                self._encoder = build_encoder(self._encoder_name or "none")
            except ConfigError as error:
                raise PlanError(
                    f"This planner was trained on {self._encoder_name or 'unnamed'} features, which are not computed "
                    f"from pictures here. Give a .npy of such features, or VIDEO@SECONDS of the dataset."
                ) from error
        return self._encoder

    def _join(self, rows: Tensor) -> Tensor:
        """Rows around a moment (N, F) -> (F,) or, side by side, (3F,); a single one stands for all three."""
        if self._observation == "concat":
            return (rows.expand(3, -1) if len(rows) == 1 else rows).flatten()
        return rows.mean(dim=0)


def needs_dataset(text: str) -> bool:
    """Whether a moment is looked up in a dataset: VIDEO@SECONDS, where VIDEO is no file."""
    moment = _MOMENT.fullmatch(text)
    return moment is not None and not Path(moment["video"]).is_file()
