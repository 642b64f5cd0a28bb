"""Calls that a test kills at every change of a file (soak/processes.py)."""

from __future__ import annotations

from pathlib import Path

from p3iv.config import Config
from p3iv.data.folder import open_dataset
from p3iv.evaluation.evaluate import EvaluationRequest, evaluate
from p3iv.plans.draws import SampleSettings
from p3iv.training.loop import TrainRequest, train


def evaluate_run(run: Path, settings: SampleSettings) -> None:
    evaluate(EvaluationRequest(run, settings=settings))


def train_run(dataset: Path, run: Path, config: Config, *, overwrite: bool = False) -> None:
    train(TrainRequest(open_dataset(dataset), run, config, overwrite=overwrite))
