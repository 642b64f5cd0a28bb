"""What an evaluation found: `evaluation.json`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from p3iv.metrics.bootstrap import Interval
from p3iv.types import Side

FORMAT = 1
Scores = dict[str, Interval]


@dataclass(frozen=True)
class Evaluation:
    """Scores by name: shares from 0 to 1, nats, or numbers of plans; resampled by video, `batch_iou` by batch."""

    data: str  # label of the dataset
    planner: str
    preset: str
    seed: int
    epoch: int  # of the checkpoint
    split: Side
    horizon: int  # positions that are predicted
    num_windows: int
    num_videos: int
    num_actions: int
    decoder: str  # whose plan is the one to follow: `differences`, `tasks` and `positions` speak of it
    samples: dict[str, Any]  # number, mode, seed, input_noise, dropout
    decoders: dict[str, Scores]
    baselines: dict[str, Scores]
    differences: dict[str, Scores]  # that decoder minus a baseline, window by window
    distribution: Scores  # of the samples in the chosen mode, and `exact_...` of the chain that decodes
    modes: dict[str, Scores]  # the same for every mode
    truth: dict[str, Any] | None  # against the known plan distribution: the chosen mode, every mode, the ceiling
    published: dict[str, Scores]  # by decoder, and `samples`
    tasks: list[dict[str, Any]]
    positions: list[dict[str, Any]]
    smoothing: float  # of the transitions
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON, which has no nan: None where a score or an end of an interval is not defined."""
        return {"format": FORMAT} | {field.name: _plain(getattr(self, field.name)) for field in fields(self)}


def _plain(value: Any) -> Any:
    if isinstance(value, Interval):
        return value.to_dict()
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
