"""The result of an evaluation (evaluation.json): one class, one reader, one writer, and the predictions beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from p3iv.catalogue import PICTURES
from p3iv.errors import PlanError
from p3iv.files import exclusive, remove_leftovers, write_text
from p3iv.metrics.intervals import Interval
from p3iv.types import Side
from p3iv.validation import read_model

EVALUATION_FILE = "evaluation.json"
FORMAT: Final = 3
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


class SliceScores(_Part):
    """Scores of the windows of one length, where the planner is told the length."""

    horizon: int = Field(ge=1)
    num_windows: int = Field(ge=1)
    num_videos: int
    scores: Scores  # of the recommended plans, and of the chain exactly
    truth: Scores | None = None  # exact, against the known distribution of plans of this length


class EvidenceScores(_Part):
    """Scores of a planner that is told some of what is known."""

    evidence: tuple[str, ...]  # what it is told: start, goal, history, words (the last step), procedure
    missing: dict[str, int]  # windows that lack a piece and are asked about without it
    unknown: Scores  # of plans of unknown length, over all windows
    frequent_length: Scores  # the same if the length is always the most frequent one; see `LengthScores`
    differences: Scores  # the first minus the second, window by window
    slices: tuple[SliceScores, ...]  # by length, where it is known


class ExpectedLengths(_Part):
    """Which lengths a planner expects of windows of one length."""

    horizon: int = Field(ge=1)
    num_windows: int = Field(ge=1)
    probabilities: tuple[float, ...]  # mean p(T) of every length
    num_plans: tuple[int, ...]  # windows whose recommended plan has each length


class LengthScores(_Part):
    """Scores of a planner for several lengths.

    The baseline always says the length that most training windows have. For the open NLL, it gives every length the
    share of the training windows that have it.
    """

    horizons: tuple[int, ...]
    most_frequent: int  # length of the training windows
    training_shares: tuple[float, ...]  # of the training windows that have each length
    likely_length: Interval  # windows whose most probable length is right
    likely_length_difference: Interval  # that minus always saying the most frequent length
    expected: tuple[ExpectedLengths, ...]
    evidence: tuple[EvidenceScores, ...]  # the first is that of the evaluation itself


class Evaluation(_Part):
    """Scores by metric: shares from 0 to 1, nats, or numbers of plans; intervals are for other videos."""

    format: Literal[3] = FORMAT
    data: str  # label of the dataset; contains SIMULATED where the features are simulated
    data_fingerprint: str = ""  # of its features, language and windows, as in the header of a checkpoint
    planner: str
    preset: str
    seed: int
    epoch: int  # of the checkpoint
    side: Side
    horizon: int | None = Field(ge=1)  # positions that are predicted; None where the number of steps is unknown
    evidence: tuple[str, ...] = PICTURES  # what the planner is told
    num_windows: int = Field(ge=1)
    num_videos: int
    num_actions: int
    decoder: str  # whose plan is recommended: `differences`, `tasks` and `positions` are about its plans
    samples: Sampling
    decoders: dict[str, Scores]
    baselines: dict[str, Scores]
    differences: dict[str, Scores]  # that decoder minus a baseline, window by window
    equal: dict[str, tuple[str, ...]] = {}  # baseline -> metrics in which that decoder equals it in every window
    distribution: Scores  # of the samples in the chosen mode, and exact
    modes: dict[str, Scores]  # of the samples, by sampling mode
    calibration: Scores = {}  # of the recommended plan's probability; empty where no chain chooses the plan
    truth: TruthScores | None
    released: dict[str, Scores]  # by decoder, and `samples`
    tasks: tuple[TaskScores, ...]
    positions: tuple[PositionScore, ...]
    lengths: LengthScores | None = None  # of planners for several lengths, where the number of steps is unknown
    smoothing: float  # of the transitions
    notes: tuple[str, ...]
    predictions_sha256: str  # of the prediction file that was written with it

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


def noise_parts(input_noise: float, dropout: float) -> list[str]:
    """The parts of a file's name that say which of the naive alternatives to latents made it.

    >>> noise_parts(0.5, 0.0), noise_parts(0.0, 0.0)
    (['noise0.5'], [])
    """
    named = {"noise": input_noise, "dropout": dropout}
    return [f"{name}{value:g}" for name, value in named.items() if value]


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


@dataclass(frozen=True)
class EvaluationFiles:
    """Where an evaluation is written.

    Two files cannot be replaced in one step, so new predictions wait in a file beside the old ones until
    evaluation.json, which has their hash, is replaced. Whoever finds that hash finds its predictions in one of the two.
    """

    evaluation: Path
    predictions: Path
    actions: Path

    @property
    def new_predictions(self) -> Path:
        """Where predictions wait for their evaluation.json."""
        return self.predictions.with_name(f".{self.predictions.name}.new")

    def exist(self) -> bool:
        return all(path.exists() for path in (self.evaluation, self.predictions, self.actions))

    @contextmanager
    def replacing(self) -> Iterator[None]:
        """Let one process at a time evaluate, and move its new predictions into place when it has ended.

        What killed evaluations left is removed.

        Raises:
            BusyError: another process is writing the same evaluation.
        """
        with exclusive(self.evaluation, doing=f"is writing {self.evaluation}"):
            self._place_new_predictions()
            for path in (self.evaluation, self.predictions, self.new_predictions):
                remove_leftovers(path)
            try:
                yield
            finally:
                self._place_new_predictions()

    def find_predictions(self, evaluation: Evaluation) -> Path | None:
        """The prediction file that was written with an evaluation; None if there is no prediction file at all.

        Raises:
            PlanError: the prediction file is that of another evaluation.
        """
        found = [path for path in (self.predictions, self.new_predictions) if path.is_file()]
        for path in found:
            if hash_file(path) == evaluation.predictions_sha256:
                return path
        if self.predictions not in found:
            return None
        raise PlanError(
            f"{self.predictions} and {self.evaluation.name} do not belong together: one of them was replaced or "
            f"changed. Type: p3iv evaluate {self.evaluation.parent}"
        )

    def _place_new_predictions(self) -> None:
        """Move new predictions into place if evaluation.json is about them; otherwise delete them."""
        if not self.new_predictions.is_file():
            return
        try:
            belong = read_evaluation(self.evaluation).predictions_sha256 == hash_file(self.new_predictions)
        except PlanError:  # there is no evaluation.json yet, or none that can be read
            belong = False
        if belong:
            self.new_predictions.replace(self.predictions)
        else:
            self.new_predictions.unlink()


def hash_file(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
