"""The run folder: when it may be written, and what it says of the run from its first moment on."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

from p3iv.atomic import write_text
from p3iv.config import Config
from p3iv.dataset import Dataset, open_dataset
from p3iv.environment import describe_environment
from p3iv.errors import DatasetError, TrainingError


def check_run(run: Path, *, resume: bool, overwrite: bool) -> None:
    """Refuse to train into a folder that holds anything else, or a run that nobody said to go on with or replace."""
    if resume and overwrite:
        raise TrainingError("--resume goes on with a run and --overwrite replaces it: pass one of the two.")
    if run.exists() and not run.is_dir():
        raise TrainingError(f"{run} is a file; name a folder.")
    if not run.is_dir() or not any(run.iterdir()):
        return
    if not (run / "config.yaml").exists():
        raise TrainingError(f"{run} is not empty and has no config.yaml, so it is no run. Pass another --out.")
    if not (resume or overwrite):
        raise TrainingError(f"{run} holds a run. Pass --resume to go on with it, --overwrite, or another --out.")


def open_run(run: Path, config: Config, *, data_label: str, dataset: Path, device: str, overwrite: bool) -> None:
    """Make the folder, in place of an older run where that was asked for, and write down what the run is."""
    if overwrite and run.is_dir():
        shutil.rmtree(run)
    run.mkdir(parents=True, exist_ok=True)
    write_text(run / "config.yaml", config.to_yaml())
    environment = asdict(describe_environment()) | {
        "data": data_label,
        "dataset": str(dataset.resolve()),  # where later commands look, unless told otherwise
        "device": device,
    }
    write_text(run / "environment.json", json.dumps(environment, indent=2) + "\n")


def dataset_of(run: Path, told: Path | None = None) -> Dataset:
    """The dataset that a run was trained on: where it was then, or where one is told that it is now."""
    if told is not None:
        return open_dataset(told)
    try:
        folder = Path(json.loads((run / "environment.json").read_text(encoding="utf-8"))["dataset"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DatasetError(f"{run} does not say which dataset it was trained on. Pass --data DIR.") from error
    if not folder.is_dir():
        raise DatasetError(f"The dataset of {run} is no longer at {folder}. Pass --data DIR.")
    return open_dataset(folder)
