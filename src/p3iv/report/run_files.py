"""The files of a run that a report is made from, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from p3iv.config import Config, config_from
from p3iv.errors import ConfigError, P3ivError
from p3iv.evaluation.result import EVALUATION_FILE, Evaluation, read_evaluation
from p3iv.planners.header import BEST, read_header
from p3iv.training.run_folder import ENVIRONMENT_FILE, RunEnvironment, read_environment, read_metrics
from p3iv.validation import read_mapping

_TRAIN_AGAIN = "Train the run again, or copy the file from a backup."


class ReportError(P3ivError):
    """A run folder of which no report can be made."""


@dataclass(frozen=True)
class RunRecord:
    """The content of a run folder."""

    folder: Path
    config: Config
    environment: RunEnvironment | None  # None without environment.json
    metrics: Mapping[str, tuple[float, ...]]  # column -> one value per epoch, nan where there is none
    evaluation: Evaluation
    kept_epoch: int | None  # of the checkpoint in the folder; None without one
    feature_fingerprint: str | None = None  # of the dataset that it was trained on

    @property
    def dataset_name(self) -> str:
        """The label of the dataset without the encoder in brackets."""
        return self.evaluation.data.partition(" (")[0]

    @property
    def is_simulated(self) -> bool:
        return "simulated" in self.evaluation.data.lower()


def read_run(run: Path) -> RunRecord:
    """Read the files of a run; only config.yaml and evaluation.json must be there."""
    if not run.is_dir() or not (run / "config.yaml").is_file():
        raise ReportError(f"{run} is not a run folder: it has no config.yaml. Make one: p3iv train DIR --out RUN")
    if not (run / EVALUATION_FILE).is_file():
        raise ReportError(f"{run} has not been evaluated: it has no {EVALUATION_FILE}. Type: p3iv evaluate {run}")
    header = read_header(run / BEST) if (run / BEST).exists() else None
    return RunRecord(
        folder=run,
        config=_read_config(run / "config.yaml"),
        environment=read_environment(run) if (run / ENVIRONMENT_FILE).is_file() else None,
        metrics=_read_columns(run / "metrics.csv"),
        evaluation=read_evaluation(run / EVALUATION_FILE),
        kept_epoch=header.progress.best_epoch if header else None,
        feature_fingerprint=header.feature_fingerprint if header else None,
    )


def _read_config(path: Path) -> Config:
    content = read_mapping(path, error=ReportError, advice=_TRAIN_AGAIN)
    try:
        return config_from(content)
    except ConfigError as error:
        raise ReportError(f"{path}: {error} {_TRAIN_AGAIN}") from error


def _read_columns(path: Path) -> dict[str, tuple[float, ...]]:
    rows = read_metrics(path)
    try:
        return {name: tuple(float(row[name] or "nan") for row in rows) for name in (rows[0] if rows else ())}
    except ValueError as error:
        raise ReportError(f"{path} is damaged: {error}. Move it away and run the command again.") from error
