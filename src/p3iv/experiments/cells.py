"""From the files of finished runs to the values of cells: means over seeds, with intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from p3iv.catalogue import METRICS
from p3iv.environment import machine_of
from p3iv.errors import ConfigError
from p3iv.experiments.declarations import CellSpec
from p3iv.experiments.runs import MAKE_AGAIN, TRAINED, CellRuns, Outcome, Run, SamplingVariant
from p3iv.metrics.intervals import Clusters, Interval, difference_intervals, mean_intervals, paired_intervals
from p3iv.training.run_folder import ENVIRONMENT_FILE, read_environment
from p3iv.validation import cut, read_model

NAN = float("nan")
SCORED = ("plans", "samples", "chain")  # groups of metrics that have a value of every window


@dataclass(frozen=True)
class CellValue:
    """Our value of one table cell."""

    value: float
    low: float = NAN
    high: float = NAN
    spread: float = NAN  # standard deviation over seeds
    deviation: float = NAN  # standard deviation over sets of K latents
    as_released: float = NAN  # the metric that released code computes under this name
    seeds: tuple[int, ...] = ()
    runs: tuple[str, ...] = ()  # keys
    num_expected: int = 0  # runs that it should be the mean of
    problem: str = ""  # which runs are missing, and why
    notes: tuple[str, ...] = ()  # on its interval

    @property
    def is_empty(self) -> bool:
        return math.isnan(self.value)

    @property
    def is_partial(self) -> bool:
        """Whether it is the mean of only some of its seeds."""
        return 0 < len(self.runs) < self.num_expected


@dataclass
class FinishedRuns:
    """Reads the files of finished runs, each once."""

    out: Path
    outcomes: Mapping[str, Outcome]  # of runs that failed or are impossible, by key
    window_counts: Mapping[str, Mapping[str, Any]]  # by fingerprint: statistics of windows, METRIC.HORIZON
    _scores: dict[tuple[str, str], Mapping[str, np.ndarray]] = field(default_factory=dict)

    def cell_value(self, spec: CellSpec, needed: CellRuns, fingerprint: str) -> CellValue:
        """The value of a cell; empty if none of its runs is finished."""
        metric = METRICS[str(spec.metric)]
        if metric.group == "data":
            count = self.window_counts[fingerprint].get(f"{spec.metric}.{spec.horizon}")
            return CellValue(count) if count else CellValue(NAN, problem="no window of this horizon")
        runs = [run for run in needed.runs if self.has_scores(run, needed.sampling)]
        problem = "; ".join(self._why_missing(run) for run in needed.runs if run not in runs)
        if not runs:
            return CellValue(NAN, problem=problem)
        value = CellValue(
            NAN,
            seeds=tuple(run.config.seed for run in runs),
            runs=tuple(run.key for run in runs),
            num_expected=len(needed.runs),
            problem=problem,
        )
        if metric.group == "cost":
            figures = [float(self.facts(run)[metric.name]) for run in runs]
            average = statistics.median if spec.metric == "milliseconds_per_plan" else statistics.mean
            return replace(value, value=average(figures), spread=_spread(figures))
        return self._score(value, spec, [self.scores(run, needed.sampling) for run in runs])

    def _score(self, value: CellValue, spec: CellSpec, tables: Sequence[Mapping[str, np.ndarray]]) -> CellValue:
        metric, name, as_released = str(spec.metric), array_name(spec), METRICS[str(spec.metric)].released
        clusters = _clusters(tuple(tables[0]["videos"].tolist()))
        interval = mean_intervals({metric: _by_seed(tables, name)}, clusters)[metric]
        return replace(
            value,
            value=interval.value,
            low=interval.low,
            high=interval.high,
            spread=_spread([float(table[name].mean()) for table in tables]),
            deviation=_mean_of(tables, f"{name}.deviation") if spec.samples else NAN,
            as_released=_mean_of(tables, f"{as_released}.{spec.decoder}") if as_released else NAN,
            notes=clusters.notes,
        )

    def difference(self, one: tuple[CellSpec, CellRuns], other: tuple[CellSpec, CellRuns]) -> Interval | None:
        """The first cell minus the second, window by window; None if they do not have scores of the same windows.

        Two cells of the same runs, such as those of two decoders, are compared seed by seed.
        """
        metric, columns, videos = str(one[0].metric), [], []
        for spec, needed in (one, other):
            if METRICS[str(spec.metric)].group not in SCORED:
                return None
            if not all(self.has_scores(run, needed.sampling) for run in needed.runs):
                return None
            tables = [self.scores(run, needed.sampling) for run in needed.runs]
            columns.append(_by_seed(tables, array_name(spec)))
            videos.append(tuple(tables[0]["videos"].tolist()))
        if videos[0] != videos[1]:
            return None
        (ours, theirs), clusters = columns, _clusters(videos[0])
        if one[1].runs == other[1].runs:
            return paired_intervals({metric: ours - theirs}, clusters)[metric]
        return difference_intervals({metric: ours}, {metric: theirs}, clusters)[metric]

    def has_scores(self, run: Run, sampling: SamplingVariant) -> bool:
        return self.is_trained(run) and (run.folder(self.out) / sampling.file).exists()

    def is_trained(self, run: Run) -> bool:
        return (run.folder(self.out) / TRAINED).exists()

    def facts(self, run: Run) -> dict[str, Any]:
        """The content of `trained.json`, and the machine that the run was trained on."""
        facts = read_model(run.folder(self.out) / TRAINED, dict[str, Any], error=ConfigError, advice=MAKE_AGAIN)
        if (run.folder(self.out) / ENVIRONMENT_FILE).exists():
            facts["machine"] = machine_of(read_environment(run.folder(self.out)).model_dump())
        return facts

    def scores(self, run: Run, sampling: SamplingVariant) -> Mapping[str, np.ndarray]:
        """The values of every window, by metric and decoder."""
        place, path = (run.key, sampling.file), run.folder(self.out) / sampling.file
        if place not in self._scores:
            try:
                with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                    self._scores[place] = {name: arrays[name] for name in arrays.files}
            except Exception as error:  # a damaged zip or array may raise anything
                raise ConfigError(f"{path} is damaged ({cut(str(error))}). {MAKE_AGAIN}") from error
        return self._scores[place]

    def _why_missing(self, run: Run) -> str:
        outcome = self.outcomes.get(run.key)
        return f"seed {run.config.seed}: {outcome.status}: {outcome.about}" if outcome else "not run yet"


def array_name(spec: CellSpec) -> str:
    """The name of the array that holds a cell's values in the file of a run."""
    if METRICS[str(spec.metric)].group == "plans":
        return f"{spec.metric}.{spec.decoder}"
    return f"{spec.metric}.{spec.samples or 'samples'}"


def _by_seed(tables: Sequence[Mapping[str, np.ndarray]], name: str) -> Tensor:
    """The values of every window by seed: (S, N)."""
    return torch.from_numpy(np.stack([table[name] for table in tables]))


def _mean_of(tables: Sequence[Mapping[str, np.ndarray]], name: str) -> float:
    return float(np.mean([table[name].mean() for table in tables]))


@lru_cache(maxsize=64)
def _clusters(videos: tuple[str, ...]) -> Clusters:
    return Clusters.of(videos)


def _spread(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else NAN
