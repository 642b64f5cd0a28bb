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
from p3iv.experiments.runs import (
    FREQUENT,
    KNOWN,
    LOG_REFERENCE,
    MAKE_AGAIN,
    TRAINED,
    UNKNOWN,
    CellRuns,
    Outcome,
    Run,
    SamplingVariant,
)
from p3iv.metrics.distributions import open_nll
from p3iv.metrics.intervals import Clusters, Interval, difference_intervals, mean_intervals, paired_intervals
from p3iv.training.run_folder import ENVIRONMENT_FILE, read_environment
from p3iv.validation import cut, read_model

NAN = float("nan")
SCORED = ("plans", "lengths", "samples", "chain")  # groups of metrics that have a value of every window
WINDOWS = ("videos", "first_steps", "lengths")  # the arrays that say which windows the others are of
Arrays = Mapping[str, np.ndarray]  # the content of a score file


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
    by_seed: tuple[float, ...] = ()  # the value with each of them
    runs: tuple[str, ...] = ()  # keys
    num_expected: int = 0  # seeds that it should be the mean of
    problem: str = ""  # which runs are missing, and why
    notes: tuple[str, ...] = ()  # on its interval

    @property
    def is_empty(self) -> bool:
        return math.isnan(self.value)

    @property
    def is_partial(self) -> bool:
        """Whether it is the mean of only some of its seeds."""
        return 0 < len(self.seeds) < self.num_expected


@dataclass(frozen=True)
class WindowValues:
    """The values of one metric of every window, by seed."""

    windows: tuple[np.ndarray, ...]  # (N,) each: video, first step, number of steps
    values: Tensor  # (S, N)

    @classmethod
    def of(cls, tables: Sequence[Arrays], name: str) -> WindowValues:
        """One array of every seed's table; all seeds have the same windows."""
        windows = tuple(tables[0][each] for each in WINDOWS)
        return cls(windows, torch.from_numpy(np.stack([table[name] for table in tables])))

    @property
    def clusters(self) -> Clusters:
        """The videos as clusters of windows."""
        return _clusters(tuple(self.windows[0].tolist()))

    def ordered_as(self, other: WindowValues) -> Tensor | None:
        """Its values in the order of the other's windows; None if the windows are not the same."""
        if all(map(np.array_equal, self.windows, other.windows)):
            return self.values
        row_of = {window: row for row, window in enumerate(zip(*(each.tolist() for each in self.windows), strict=True))}
        wanted = list(zip(*(each.tolist() for each in other.windows), strict=True))
        if len(row_of) != len(wanted) or any(window not in row_of for window in wanted):
            return None
        return self.values[:, [row_of[window] for window in wanted]]


@dataclass
class FinishedRuns:
    """Reads the files of finished runs, each once."""

    out: Path
    outcomes: Mapping[str, Outcome]  # of runs that failed or are impossible, by key
    window_counts: Mapping[str, Mapping[str, Any]]  # by fingerprint: statistics of windows, METRIC.HORIZON
    _scores: dict[tuple[str, str], Arrays] = field(default_factory=dict)

    def cell_value(self, spec: CellSpec, needed: CellRuns, fingerprint: str) -> CellValue:
        """The value of a cell; empty if none of its runs is finished."""
        metric = METRICS[str(spec.metric)]
        if metric.group == "data":
            count = self.window_counts[fingerprint].get(f"{spec.metric}.{spec.horizon}")
            return CellValue(count) if count else CellValue(NAN, problem="no window of this horizon")
        lacks = {run.key for part in needed.parts for run in part.runs if not self.has_scores(run, part.sampling)}
        seeds = range(len(needed.by_seed))
        done = needed.of_seeds(
            [n for n in seeds if not any(run.key in lacks for part in needed.parts for run in part.by_seed[n])]
        )
        missing = {run.key: run for part in needed.parts for run in part.runs if run.key in lacks}
        value = CellValue(
            NAN,
            seeds=tuple(runs[0].config.seed for runs in done.by_seed),
            runs=tuple(dict.fromkeys(run.key for part in done.parts for run in part.runs)),
            num_expected=len(seeds),
            problem="; ".join(dict.fromkeys(map(self._why_missing, missing.values()))),
        )
        if not done.by_seed:
            return value
        if spec.minus and done.minus:
            return self._subtract(value, (spec, done), (spec.minus, done.minus))
        if metric.group == "cost":
            figures = tuple(sum(float(self.facts(run)[metric.name]) for run in runs) for runs in done.by_seed)
            average = statistics.median if spec.metric == "milliseconds_per_plan" else statistics.mean
            return replace(value, value=average(figures), by_seed=figures, spread=_spread(figures))
        return self._score(value, spec, done)

    def _score(self, value: CellValue, spec: CellSpec, needed: CellRuns) -> CellValue:
        metric, as_released = str(spec.metric), METRICS[str(spec.metric)].released
        found = self.window_values(spec, needed)
        interval = mean_intervals({metric: found.values}, found.clusters)[metric]
        by_seed = tuple(found.values.double().nanmean(dim=1).tolist())
        tables = [self.scores(run, needed.sampling) for run in needed.runs]
        has_released = as_released and not spec.evidence
        return replace(
            value,
            value=interval.value,
            low=interval.low,
            high=interval.high,
            by_seed=by_seed,
            spread=_spread(by_seed),
            deviation=_mean_of(tables, f"{array_name(spec)}.deviation") if spec.samples else NAN,
            as_released=_mean_of(tables, f"{as_released}.{spec.decoder}") if has_released else NAN,
            notes=found.clusters.notes,
        )

    def _subtract(
        self, value: CellValue, one: tuple[CellSpec, CellRuns], other: tuple[CellSpec, CellRuns]
    ) -> CellValue:
        interval = self.difference(one, other)
        if interval is None:
            return replace(value, problem="the two have no scores of the same windows")
        means = [self.window_values(spec, needed).values.double().nanmean(dim=1) for spec, needed in (one, other)]
        return replace(
            value,
            value=interval.value,
            low=interval.low,
            high=interval.high,
            by_seed=tuple((means[0] - means[1]).tolist()),
        )

    def window_values(self, spec: CellSpec, needed: CellRuns) -> WindowValues:
        """The values of every window by seed, of runs that are all finished."""
        groups = [[self.scores(run, needed.sampling) for run in runs] for runs in needed.by_seed]
        if spec.each_length:
            return WindowValues.of([join_lengths(group) for group in groups], str(spec.metric))
        tables, name = [table for [table] in groups], array_name(spec)
        if absent := [run for run, table in zip(needed.runs, tables, strict=True) if name not in table]:
            path = absent[0].folder(self.out) / needed.sampling.file
            raise ConfigError(f"{path} has no {name}. {MAKE_AGAIN}")
        if spec.length is not None:
            tables = [_of_length(table, name, spec.length) for table in tables]
        return WindowValues.of(tables, name)

    def difference(self, one: tuple[CellSpec, CellRuns], other: tuple[CellSpec, CellRuns]) -> Interval | None:
        """The first cell minus the second, window by window; None if they do not have scores of the same windows.

        Two cells of the same runs, such as those of two decoders, are compared seed by seed.
        """
        metric, found = str(one[0].metric), []
        for spec, needed in (one, other):
            if METRICS[str(spec.metric)].group not in SCORED:
                return None
            if not all(self.has_scores(run, needed.sampling) for run in needed.runs):
                return None
            found.append(self.window_values(spec, needed))
        ours, theirs = found[0].values, found[1].ordered_as(found[0])
        if theirs is None:
            return None
        if one[1].runs == other[1].runs:
            return paired_intervals({metric: ours - theirs}, found[0].clusters)[metric]
        return difference_intervals({metric: ours}, {metric: theirs}, found[0].clusters)[metric]

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

    def scores(self, run: Run, sampling: SamplingVariant) -> Arrays:
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
    if spec.evidence:
        unknown = FREQUENT if spec.always_frequent else UNKNOWN
        return f"{spec.metric}.{'-'.join(spec.evidence)}.{unknown if spec.length is None else KNOWN}"
    if METRICS[str(spec.metric)].group in ("plans", "released"):
        return f"{spec.metric}.{spec.decoder}"
    return f"{spec.metric}.{spec.samples or 'samples'}"


def join_lengths(tables: Sequence[Arrays]) -> dict[str, np.ndarray]:
    """`open_nll` of planners for one length each, on the windows of all lengths.

    A plan of T steps has probability p(T) p(plan | T): the share of the training windows that have T steps, times the
    probability that the planner for T steps gives to the plan; smoothed as that of a planner for several lengths.
    """
    shares = np.array([float(table["num_train"]) for table in tables])
    logs = [
        np.log(share) + table[f"{LOG_REFERENCE}.samples"]
        for share, table in zip(shares / shares.sum(), tables, strict=True)
    ]
    joined = {name: np.concatenate([table[name] for table in tables]) for name in WINDOWS}
    horizons, num_actions = np.unique(joined["lengths"]).tolist(), int(tables[0]["num_actions"])
    lengths = torch.from_numpy(joined["lengths"])
    nll = open_nll(torch.from_numpy(np.concatenate(logs)), horizons, num_actions, lengths)
    return joined | {"open_nll": nll.numpy()}


def _of_length(table: Arrays, name: str, length: int) -> dict[str, np.ndarray]:
    """The values of one array, of the windows of one length."""
    here = table["lengths"] == length
    return {each: table[each][here] for each in (name, *WINDOWS)}


def _mean_of(tables: Sequence[Arrays], name: str) -> float:
    return float(np.mean([table[name].mean() for table in tables]))


@lru_cache(maxsize=64)
def _clusters(videos: tuple[str, ...]) -> Clusters:
    return Clusters.of(videos)


def _spread(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else NAN
