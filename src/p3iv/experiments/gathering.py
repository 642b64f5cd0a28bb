"""From the files of finished runs to the figures of cells: means over seeds, intervals resampled by video."""

from __future__ import annotations

import json
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

from p3iv.environment import machine_of
from p3iv.experiments.declared import Ask
from p3iv.experiments.measure import Outcome
from p3iv.experiments.measured import METRICS, metric_of
from p3iv.experiments.runs import TRAINED, Planned, Run, Sampling
from p3iv.metrics.bootstrap import Interval, Resamples, bootstrap_differences, bootstrap_means, draw_resamples

NAN = float("nan")


@dataclass(frozen=True)
class Found:
    """What stands in a cell of ours."""

    value: float
    low: float = NAN
    high: float = NAN
    spread: float = NAN  # standard deviation over seeds
    deviation: float = NAN  # over sets of K latents
    as_released: float = NAN  # the metric that released code computes under this name
    seeds: tuple[int, ...] = ()
    runs: tuple[str, ...] = ()  # keys
    num_asked: int = 0  # runs that it was to be made of
    why: str = ""  # what is missing, and why

    @property
    def is_empty(self) -> bool:
        return math.isnan(self.value)

    @property
    def is_partial(self) -> bool:
        """Whether it is made of some of its seeds only."""
        return 0 < len(self.runs) < self.num_asked


@dataclass
class Gatherer:
    """Reads what runs left; remembers what it read."""

    out: Path
    outcomes: Mapping[str, Outcome]  # of runs that did not end well, by key
    counted: Mapping[str, Mapping[str, Any]]  # by fingerprint: statistics of windows, METRIC.HORIZON
    _scores: dict[tuple[str, str], Mapping[str, np.ndarray]] = field(default_factory=dict)

    def find(self, ask: Ask, planned: Planned, fingerprint: str) -> Found:
        """The figure of a cell."""
        metric = metric_of(str(ask.metric))
        if metric.source == "data":
            value = self.counted[fingerprint].get(f"{ask.metric}.{dict(ask.settings)['data.horizon']}")
            return Found(value) if value else Found(NAN, why="no window of this horizon")
        there = [run for run in planned.runs if self.has(run, planned.sampling)]
        why = "; ".join(self._why_missing(run) for run in planned.runs if run not in there)
        if not there:
            return Found(NAN, why=why)
        about = Found(
            NAN,
            seeds=tuple(run.config.seed for run in there),
            runs=tuple(run.key for run in there),
            num_asked=len(planned.runs),
            why=why,
        )
        if metric.source == "run":
            spent = [float(self.facts(run)[str(ask.metric)]) for run in there]
            return replace(about, value=statistics.median(spent), spread=_spread(spent))
        tables = [self.scores(run, planned.sampling) for run in there]
        name = array_name(ask)
        score = _interval(_mean(tables, name), tables[0]["videos"])
        released = f"{metric.as_released}.{ask.decoder}"
        return replace(
            about,
            value=score.value,
            low=score.low,
            high=score.high,
            spread=_spread([float(table[name].mean()) for table in tables]),
            deviation=_mean_of(tables, f"{name}.deviation") if ask.samples else NAN,
            as_released=_mean_of(tables, released) if metric.as_released else NAN,
        )

    def difference(self, one: tuple[Ask, Planned], other: tuple[Ask, Planned]) -> Interval | None:
        """The first cell minus the second, window by window; None where they have no windows, or not the same."""
        columns, videos = [], []
        for ask, planned in (one, other):
            if METRICS[str(ask.metric)].source not in ("plans", "samples"):
                return None
            if not all(self.has(run, planned.sampling) for run in planned.runs):
                return None
            tables = [self.scores(run, planned.sampling) for run in planned.runs]
            columns.append({"it": _mean(tables, array_name(ask))})
            videos.append(tuple(tables[0]["videos"].tolist()))
        if videos[0] != videos[1]:
            return None
        return bootstrap_differences(columns[0], columns[1], _resamples(videos[0]))["it"]

    def has(self, run: Run, sampling: Sampling) -> bool:
        return self.is_trained(run) and (run.folder(self.out) / sampling.file).exists()

    def is_trained(self, run: Run) -> bool:
        return (run.folder(self.out) / TRAINED).exists()

    def facts(self, run: Run) -> dict[str, Any]:
        """What `trained.json` says, and on which machine that was."""
        facts: dict[str, Any] = json.loads((run.folder(self.out) / TRAINED).read_text(encoding="utf-8"))
        environment = run.folder(self.out) / "environment.json"
        if environment.exists():
            facts["machine"] = machine_of(json.loads(environment.read_text(encoding="utf-8")))
        return facts

    def scores(self, run: Run, sampling: Sampling) -> Mapping[str, np.ndarray]:
        """The values of every window."""
        place = (run.key, sampling.file)
        if place not in self._scores:
            with np.load(run.folder(self.out) / sampling.file, allow_pickle=False) as file:
                self._scores[place] = {name: file[name] for name in file.files}
        return self._scores[place]

    def _why_missing(self, run: Run) -> str:
        outcome = self.outcomes.get(run.key)
        return f"seed {run.config.seed}: {outcome.status}: {outcome.about}" if outcome else "not run yet"


def array_name(ask: Ask) -> str:
    """Under which name a run's file has the values that a cell asks for."""
    if METRICS[str(ask.metric)].source == "plans":
        return f"{ask.metric}.{ask.decoder}"
    return f"{ask.metric}.{ask.samples or 'samples'}"


def _mean(tables: Sequence[Mapping[str, np.ndarray]], name: str) -> Tensor:
    """Of every window, over seeds: (N,)."""
    return torch.from_numpy(np.mean([table[name] for table in tables], axis=0))


def _mean_of(tables: Sequence[Mapping[str, np.ndarray]], name: str) -> float:
    return float(np.mean([table[name].mean() for table in tables]))


def _interval(values: Tensor, videos: np.ndarray) -> Interval:
    return bootstrap_means({"it": values}, _resamples(tuple(videos.tolist())))["it"]


@lru_cache(maxsize=64)
def _resamples(videos: tuple[str, ...]) -> Resamples:
    return draw_resamples(videos)


def _spread(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else NAN
