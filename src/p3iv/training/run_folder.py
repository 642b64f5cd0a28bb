"""The run folder: when it may be written, its table of metrics, and the dataset it was trained on."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from p3iv.config import Config
from p3iv.data.folder import Dataset, open_dataset
from p3iv.environment import describe_environment
from p3iv.errors import DatasetError, TrainingError
from p3iv.files import atomic_folder, leftovers_of, write_text
from p3iv.planners.header import BEST, LAST
from p3iv.validation import read_model

CONFIG_FILE = "config.yaml"
ENVIRONMENT_FILE = "environment.json"
METRICS_FILE = "metrics.csv"
CARD_FILE = "README.md"
RUN_FILES = (CONFIG_FILE, ENVIRONMENT_FILE, METRICS_FILE, CARD_FILE, BEST, LAST)  # that training writes


class RunEnvironment(BaseModel):
    """environment.json: the data that a run was trained on, and the versions and the machine it was trained with."""

    model_config = ConfigDict(frozen=True)

    p3iv: str
    python: str
    platform: str
    processors: int
    device: str
    threads: int
    packages: dict[str, str | None]  # None: not installed
    extras: dict[str, bool]
    data: str  # label of the dataset
    dataset: Path | None  # the dataset folder, where later commands look for it; None in a folder that is shared
    amounts: str = ""  # a line about videos, windows and examples
    notes: tuple[str, ...] = ()  # what the user was told about the data
    epochs: int | None = None  # this and the next in a folder that is shared: a run has metrics.csv
    cpu_s: float | None = None


class MetricsTable:
    """`metrics.csv`, one row per epoch; a resumed run continues after the last saved epoch."""

    def __init__(self, run: Path, *, finished_epochs: int) -> None:
        self._path = run / METRICS_FILE
        self._rows = [row for row in read_metrics(self._path) if int(row["epoch"]) <= finished_epochs]
        if self._rows or self._path.exists():
            self._rewrite()

    def add(self, row: Mapping[str, float]) -> None:
        """Append one epoch."""
        is_new = not self._path.exists()
        with self._path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(row), lineterminator="\n")
            if is_new:
                writer.writeheader()
            writer.writerow(row)

    def _rewrite(self) -> None:
        if not self._rows:
            self._path.unlink()
            return
        lines = [",".join(self._rows[0]), *(",".join(row.values()) for row in self._rows)]
        write_text(self._path, "\n".join(lines) + "\n")


def read_metrics(path: Path) -> list[dict[str, str]]:
    """The rows of metrics.csv, by column; none where there is no file."""
    if not path.is_file():
        return []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, ValueError, csv.Error) as error:
        raise TrainingError(f"{path} is damaged: {error}. Move it away and run the command again.") from error
    # A killed process may leave the last row incomplete.
    complete = [row for row in rows if None not in row.values() and None not in row]
    if not all((row.get("epoch") or "").isdigit() for row in complete):
        raise TrainingError(f"{path} is damaged. Move it away and run the command again.")
    return complete


def cpu_seconds_until(run: Path, epoch: int) -> float:
    """The CPU seconds that a run took until the end of an epoch; 0 if its metrics.csv does not say."""
    times = {row["epoch"]: row.get("cpu_s", "") for row in read_metrics(run / METRICS_FILE)} if epoch else {}
    try:
        return float(times.get(str(epoch), 0.0))
    except ValueError:
        return 0.0


def check_run(run: Path, *, resume: bool, overwrite: bool) -> None:
    """Refuse a folder that is not a run, and a run without `--resume` or `--overwrite`."""
    if resume and overwrite:
        raise TrainingError("--resume continues a run and --overwrite replaces it: pass one of the two.")
    if run.exists() and not run.is_dir():
        raise TrainingError(f"{run} is a file, but it must be a folder.")
    if not run.is_dir() or not _names(run) - {path.name for path in leftovers_of(run / CONFIG_FILE)}:
        return  # config.yaml is written first: a run that was killed before that holds nothing else
    if not (run / CONFIG_FILE).exists():
        raise TrainingError(f"{run} is not empty and has no config.yaml, so it is not a p3iv run. Pass another --out.")
    if not (resume or overwrite):
        raise TrainingError(
            f"{run} holds a run. Pass --resume to continue it, --overwrite to replace it, or another --out."
        )


def describe_run(*, dataset: Path, device: str, **about: Any) -> RunEnvironment:
    """The content of environment.json for a run that starts now; `about` are the fields about the data."""
    versions = asdict(describe_environment()) | {"device": device}
    return RunEnvironment(**versions, dataset=dataset.resolve(), **about)


def open_run(run: Path, config: Config, environment: RunEnvironment, *, overwrite: bool) -> None:
    """Make the folder, replacing an older run if `overwrite`, and write its configuration and environment."""
    if overwrite and run.is_dir() and _names(run):
        with atomic_folder(Path(os.path.realpath(run))) as folder:
            _write_settings(folder, config, environment)
    else:
        run.mkdir(parents=True, exist_ok=True)
        _write_settings(run, config, environment)


def _write_settings(folder: Path, config: Config, environment: RunEnvironment) -> None:
    write_text(folder / CONFIG_FILE, config.to_yaml())
    write_text(folder / ENVIRONMENT_FILE, environment.model_dump_json(indent=2) + "\n")


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def read_environment(run: Path) -> RunEnvironment:
    """Read environment.json of a run."""
    advice = "Train the run again, or copy the file from a backup."
    return read_model(run / ENVIRONMENT_FILE, RunEnvironment, error=DatasetError, advice=advice)


def read_training(run: Path) -> RunEnvironment | None:
    """environment.json with the epochs and CPU seconds of metrics.csv; None where there is no environment.json."""
    if not (run / ENVIRONMENT_FILE).is_file():
        return None
    environment, rows = read_environment(run), read_metrics(run / METRICS_FILE)
    if not rows:
        return environment
    epochs = int(rows[-1]["epoch"])
    return environment.model_copy(update={"epochs": epochs, "cpu_s": cpu_seconds_until(run, epochs)})


def dataset_of(run: Path, moved: Path | None = None) -> Dataset:
    """The dataset that a run was trained on: at its place during training, or where it has moved."""
    if moved is not None:
        return open_dataset(moved)
    try:
        folder = read_environment(run).dataset
    except DatasetError as error:
        raise DatasetError(f"{run} does not say which dataset it was trained on. Pass --data DIR. ({error})") from error
    if folder is None:
        raise DatasetError(f"{run} does not say which dataset it was trained on. Pass --data DIR.")
    if not folder.is_dir():
        raise DatasetError(f"The dataset of {run} is no longer at {folder}. Pass --data DIR.")
    return open_dataset(folder)
