"""What a report is made from: the files of a run folder, checked, and nothing that they do not say."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from p3iv.errors import P3ivError

FORMAT = 1
PREDICTIONS_FILE = "predictions.jsonl"


class ReportError(P3ivError):
    """A run folder of which no report can be made."""


@dataclass(frozen=True)
class Leaf:
    """A figure and its 95 % interval, where one was computed."""

    value: float
    low: float | None = None
    high: float | None = None


Scores = Mapping[str, Leaf]  # metric -> figure


@dataclass(frozen=True)
class TaskScores:
    """One procedure's windows."""

    task: str
    num_windows: int
    scores: Scores


@dataclass(frozen=True)
class Evaluation:
    """`evaluation.json`; whatever it leaves out is empty here."""

    data: str  # the label of the dataset, with SIMULATED in it where the features are
    split: str
    horizon: int
    num_windows: int
    num_videos: int | None
    num_actions: int | None
    num_samples: int | None  # K
    sample_mode: str | None
    sample_seed: int | None
    decoders: Mapping[str, Scores]
    baselines: Mapping[str, Scores]
    differences: Mapping[str, Scores]  # the default decoder minus a baseline, window by window
    distribution: Scores  # of the samples against the test windows; `exact_...` of the chain that decodes
    modes: Mapping[str, Scores]  # the same for other ways to sample
    truth: Scores  # as `distribution`, against the known distribution of plans
    truth_modes: Mapping[str, Scores]
    ceiling: Scores  # of a planner that knows it
    published: Mapping[str, Scores]  # decoder -> the metrics of released code
    tasks: tuple[TaskScores, ...]
    positions: tuple[tuple[int, Leaf], ...]
    epoch: int | None  # of the planner that was evaluated
    notes: tuple[str, ...]

    @property
    def dataset_name(self) -> str:
        """The label without the encoder in brackets."""
        return self.data.partition(" (")[0]

    @property
    def has_one_mode(self) -> bool:
        """Whether the planner samples in one way, whatever mode is asked for."""
        figures = list(self.modes.values())
        return len(figures) > 1 and all(figure == figures[0] for figure in figures)

    @property
    def is_simulated(self) -> bool:
        return "simulated" in self.data.lower()


@dataclass(frozen=True)
class RunRecord:
    """A run as its folder tells it."""

    folder: Path
    config: Mapping[str, Any]
    environment: Mapping[str, Any]
    metrics: Mapping[str, tuple[float, ...]]  # column -> one value per epoch, nan where there is none
    evaluation: Evaluation

    def setting(self, name: str, default: Any = None) -> Any:
        """A setting by its dotted name, such as data.split."""
        found: Any = self.config
        for part in name.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        return default if found is None else found

    @property
    def best_epoch(self) -> int | None:
        """The epoch whose planner was evaluated."""
        return self.evaluation.epoch if self.evaluation.epoch is not None else self.kept_epoch

    @property
    def kept_epoch(self) -> int | None:
        """The epoch whose planner the run keeps: first by success rate, then by accuracy, on validation."""
        names = ("epoch", "val_success_rate", "val_mean_accuracy")
        if not all(self.metrics.get(name) for name in names):
            return None
        rows = zip(*(self.metrics[name] for name in names), strict=True)
        epoch, *_ = max(rows, key=lambda row: (row[1], row[2], -row[0]))
        return int(epoch) if math.isfinite(epoch) else None


def read_run(run: Path) -> RunRecord:
    """Read the files of a run; only config.yaml and evaluation.json have to be there."""
    if not run.is_dir() or not (run / "config.yaml").is_file():
        raise ReportError(f"{run} is no run folder: it has no config.yaml. Make one: p3iv train DIR --out RUN")
    if not (run / "evaluation.json").is_file():
        raise ReportError(f"{run} has not been evaluated: it has no evaluation.json. Type: p3iv evaluate {run}")
    return RunRecord(
        folder=run,
        config=_read_config(run / "config.yaml"),
        environment=_read_json(run / "environment.json") if (run / "environment.json").is_file() else {},
        metrics=_read_metrics(run / "metrics.csv"),
        evaluation=read_evaluation(run / "evaluation.json"),
    )


def read_evaluation(path: Path) -> Evaluation:
    """Read `evaluation.json`; a figure that is no figure is an error that says where it stands."""
    content = _read_json(path)
    if content.get("format") != FORMAT:
        raise ReportError(
            f"{path} has format {content.get('format')!r}, this program reads {FORMAT}. Evaluate the run again."
        )
    try:
        return _evaluation_from(content)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else error
        raise ReportError(f"{path} is damaged: {reason}. Evaluate the run again.") from error


def _evaluation_from(content: Mapping[str, Any]) -> Evaluation:
    samples, truth = _mapping(content, "samples"), dict(_mapping(content, "truth"))
    inner = {name: truth.pop(name, None) or {} for name in ("ceiling", "modes")}
    return Evaluation(
        data=str(content["data"]),
        split=str(content.get("split", "test")),
        horizon=_whole(content, "horizon", least=1),
        num_windows=_whole(content, "num_windows", least=1),
        num_videos=_maybe_whole(content, "num_videos"),
        num_actions=_maybe_whole(content, "num_actions"),
        num_samples=_maybe_whole(samples, "number"),
        sample_mode=None if samples.get("mode") is None else str(samples["mode"]),
        sample_seed=_maybe_whole(samples, "seed"),
        decoders=_score_table(content, "decoders"),
        baselines=_score_table(content, "baselines"),
        differences=_score_table(content, "differences"),
        distribution=_scores(_mapping(content, "distribution"), "distribution"),
        modes=_score_table(content, "modes"),
        truth=_scores(truth, "truth"),
        truth_modes=_score_table(inner, "modes"),
        ceiling=_scores(_mapping(inner, "ceiling"), "truth.ceiling"),
        published=_score_table(content, "published"),
        tasks=tuple(_task(row, f"tasks[{number}]") for number, row in enumerate(_rows(content, "tasks"))),
        positions=tuple(
            (_whole(row, "position", least=1), leaf)
            for number, row in enumerate(_rows(content, "positions"))
            if (leaf := _leaf(row.get("accuracy"), f"positions[{number}].accuracy"))
        ),
        epoch=_maybe_whole(content, "epoch"),
        notes=tuple(map(str, content.get("notes") or ())),
    )


def _task(row: Mapping[str, Any], where: str) -> TaskScores:
    scores = {name: value for name, value in row.items() if name not in ("task", "num_windows")}
    return TaskScores(str(row["task"]), _whole(row, "num_windows", least=0), _scores(scores, where))


def _score_table(content: Mapping[str, Any], name: str) -> dict[str, Scores]:
    table = {key: _scores(_mapping(_mapping(content, name), key), f"{name}.{key}") for key in _mapping(content, name)}
    return {key: scores for key, scores in table.items() if scores}


def _scores(content: Mapping[str, Any], where: str) -> dict[str, Leaf]:
    leaves = {name: _leaf(value, f"{where}.{name}") for name, value in content.items()}
    return {name: leaf for name, leaf in leaves.items() if leaf}


def _leaf(value: Any, where: str) -> Leaf | None:
    """A figure, bare or with its interval; None where there is none."""
    if isinstance(value, Mapping):
        parts = [_figure(value.get(key), f"{where}.{key}") for key in ("value", "low", "high")]
    else:
        parts = [_figure(value, where), None, None]
    return None if parts[0] is None else Leaf(parts[0], parts[1], parts[2])


def _figure(value: Any, where: str) -> float | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{where} is {str(value)[:40]!r}, not a number")
    return float(value)


def _mapping(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = content.get(name) or {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is {str(value)[:40]!r}, not an object")
    return value


def _rows(content: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    rows = content.get(name) or []
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise TypeError(f"{name} is not a list of objects")
    return rows


def _whole(content: Mapping[str, Any], name: str, *, least: int) -> int:
    value = content[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} is {str(value)[:40]!r}, not a whole number from {least}")
    return value


def _maybe_whole(content: Mapping[str, Any], name: str) -> int | None:
    return None if content.get(name) is None else _whole(content, name, least=0)


def _read_config(path: Path) -> Mapping[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, OSError, ValueError, RecursionError) as error:
        raise ReportError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ReportError(f"{path} is not the configuration of a run: expected a mapping.")
    return content


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ReportError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise ReportError(f"{path} must hold one JSON object.")
    return content


def _read_metrics(path: Path) -> dict[str, tuple[float, ...]]:
    """The columns of metrics.csv; a last row that a kill cut short is left out."""
    if not path.is_file():
        return {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if None not in row and None not in row.values()]
        return {name: tuple(float(row[name] or "nan") for row in rows) for name in (rows[0] if rows else ())}
    except (OSError, ValueError, csv.Error) as error:
        raise ReportError(f"{path} is damaged: {error}") from error
