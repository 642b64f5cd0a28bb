"""The result of an evaluation (evaluation.json): one class, one reader, one writer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from p3iv.errors import PlanError
from p3iv.files import write_text
from p3iv.metrics.bootstrap import Interval
from p3iv.types import Side
from p3iv.validation import read_model

EVALUATION_FILE = "evaluation.json"
FORMAT: Final = 2
Scores: TypeAlias = dict[str, Interval]  # by metric


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class Sampling(_Part):
    """How plans were sampled."""

    number: int = Field(ge=1)  # K, per window
    mode: str
    seed: int
    input_noise: float
    dropout: float


class TruthScores(_Part):
    """Scores against the known distribution of plans."""

    distribution: Scores  # of the samples in the chosen mode, and exact
    modes: dict[str, Scores]
    ceiling: Scores  # of the most probable plan; it bounds the expected success rate, not accuracy or IoU


class TaskScores(_Part):
    """Scores of the recommended plans of one task."""

    task: str
    num_windows: int = Field(ge=0)
    scores: Scores


class PositionScore(_Part):
    """Accuracy of the recommended plans at one position."""

    position: int = Field(ge=1)
    accuracy: Interval


class Evaluation(_Part):
    """Scores by metric: shares from 0 to 1, nats, or numbers of plans; intervals are resampled by video."""

    format: Literal[2] = FORMAT
    data: str  # label of the dataset; contains SIMULATED where the features are simulated
    planner: str
    preset: str
    seed: int
    epoch: int  # of the checkpoint
    side: Side
    horizon: int = Field(ge=1)  # positions that are predicted
    num_windows: int = Field(ge=1)
    num_videos: int
    num_actions: int
    decoder: str  # whose plan is recommended: `differences`, `tasks` and `positions` are about its plans
    samples: Sampling
    decoders: dict[str, Scores]
    baselines: dict[str, Scores]
    differences: dict[str, Scores]  # that decoder minus a baseline, window by window
    distribution: Scores  # of the samples in the chosen mode, and exact
    modes: dict[str, Scores]  # of the samples, by sampling mode
    truth: TruthScores | None
    released: dict[str, Scores]  # by decoder, and `samples`
    tasks: tuple[TaskScores, ...]
    positions: tuple[PositionScore, ...]
    smoothing: float  # of the transitions
    notes: tuple[str, ...]

    @property
    def plan_scores(self) -> Scores:
        """The scores of the recommended plans."""
        return self.decoders[self.decoder]

    @property
    def has_one_mode(self) -> bool:
        """Whether the planner samples in the same way in every mode."""
        scores = list(self.modes.values())
        return len(scores) > 1 and all(each == scores[0] for each in scores)

    def to_dict(self) -> dict[str, Any]:
        """For JSON, which has no nan: None where a score or an end of an interval is not defined."""
        return self.model_dump(mode="json")


def write_evaluation(path: Path, evaluation: Evaluation) -> None:
    """Write evaluation.json."""
    write_text(path, json.dumps(evaluation.to_dict(), ensure_ascii=False, indent=2) + "\n")


def read_evaluation(path: Path) -> Evaluation:
    """Read evaluation.json.

    Raises:
        PlanError: for a file that is damaged or was written by another version.
    """
    advice = f"Make it again: p3iv evaluate {path.parent}"
    found = read_model(path, _Versioned, error=PlanError, advice=advice).format
    if found != FORMAT:
        raise PlanError(f"{path} has format {found}, and this version of p3iv reads format {FORMAT}. {advice}")
    return read_model(path, Evaluation, error=PlanError, advice=advice)


class _Versioned(BaseModel):
    format: int
