"""A run: one configuration on one dataset, kept in a folder named by a hash of everything that decides its figures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from p3iv.catalogue import DEFAULT_NUM_SAMPLES, SPLIT_KINDS
from p3iv.config import PLANNER_SECTIONS, Config, CurationSettings, override, preset_config
from p3iv.data.windows import is_split_kind
from p3iv.errors import ConfigError, SplitError, one_of
from p3iv.evaluation.result import noise_parts
from p3iv.experiments.declarations import CellSpec, Table, declarations, sample_numbers
from p3iv.experiments.identity import Source, code_version

TRAINED = "trained.json"
# Parts of the names of arrays in score files: what is known of the number of steps, and an array that is not a metric,
# log p(the window's own reference | its number of steps) without smoothing.
KNOWN, UNKNOWN, FREQUENT = "known", "unknown", "frequent"
LOG_REFERENCE = "log_reference"


@dataclass(frozen=True)
class Budget:
    """What every run may cost: settings, default seeds, and what a table that varies K draws."""

    settings: Mapping[str, Any]
    seeds: tuple[int, ...]
    independent_draws: int  # of 2,500 latents; with one, deviations come from resamples of it
    run_s: float  # CPU seconds of a run, for estimates: its limit, or what the paper's run on CrossTask takes
    score_s: float  # CPU seconds of one evaluation


BUDGETS = {
    "small": Budget({"optim.max_cpu_s": 20.0}, (0,), independent_draws=1, run_s=20, score_s=15),
    # Measured on simulated CrossTask with one thread: 22 s per epoch with all losses, 200 epochs; 4,665 test windows.
    "paper": Budget({}, (0, 1, 2), independent_draws=20, run_s=4300, score_s=300),
}


@dataclass(frozen=True)
class RunOptions:
    """What all runs of one call have in common."""

    seeds: tuple[int, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)  # they take precedence over those of a cell
    samples: int = DEFAULT_NUM_SAMPLES  # K of the tables that do not vary it
    independent_draws: int = 1
    budget: str = ""  # for the provenance

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            seeds = ",".join(map(str, self.seeds))
            raise ConfigError(f"--seeds {seeds}, but name at least one, without duplicates.")
        if self.samples < 1:
            raise ConfigError(f"--samples {self.samples}, but it must be at least 1.")


@dataclass(frozen=True)
class SamplingVariant:
    """One way to draw plans from a trained run and score them; its values are kept in one file."""

    num_samples: int = DEFAULT_NUM_SAMPLES
    input_noise: float = 0.0
    dropout: float = 0.0
    prefixes: tuple[int, ...] = ()  # smaller K to score as well; nothing is decoded then
    independent_draws: int = 1
    asks_queries: bool = False  # of planners for several lengths: exact values with every mix of evidence, no samples

    @property
    def file(self) -> str:
        """The file in the run folder that holds its values."""
        if self.asks_queries:
            return "scores_queries.npz"
        parts = [f"k{self.num_samples}", *noise_parts(self.input_noise, self.dropout)]
        if self.prefixes:
            parts += [f"prefixes{'-'.join(map(str, self.prefixes))}", f"draws{self.independent_draws}"]
        return f"scores_{'_'.join(parts)}.npz"


@dataclass(frozen=True)
class Run:
    """One planner to train."""

    source: Source
    config: Config
    texts: str  # "given", or "aligned" to the features first

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that decides its figures."""
        return {
            "config": asdict(self.config) | {"data": _identity_of(self.config.data)},
            "texts": self.texts,
            "data_fingerprint": self.source.fingerprint,
            "code_version": code_version(),
        }

    @cached_property
    def key(self) -> str:
        return hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()[:16]

    def folder(self, out: Path) -> Path:
        return out / "runs" / self.key

    def __str__(self) -> str:
        """Data, planner, horizon, what differs from its preset, seed."""
        data = self.config.data
        words = [f"{self.source.name}: {self.config.planner} T={self.horizon_text}"]
        words += ["protocol 2"] if data.protocol == 2 else []
        words += [f"{name}={value}" for name, value in self.planner_changes.items()]
        words += ["aligned texts"] if self.texts == "aligned" else []
        return f"{' '.join(words)} seed {self.config.seed}"

    @property
    def horizon_text(self) -> str:
        """The number of steps that it plans: 3, or 1-6."""
        data = self.config.data
        return f"{data.min_horizon}-{data.horizon}" if data.has_lengths else f"{data.horizon}"

    @cached_property
    def planner_changes(self) -> dict[str, Any]:
        """Settings of the planner and its losses that differ from its preset."""
        return {name: value for _, name, value in self._changes("model", "loss", *PLANNER_SECTIONS)}

    @cached_property
    def training_changes(self) -> dict[str, Any]:
        """Settings of windows and training that differ from its preset, except horizons and protocol."""
        return {
            f"{section}.{name}": value
            for section, name, value in self._changes("data", "optim")
            if name not in ("horizon", "min_horizon", "protocol")
        }

    def _changes(self, *sections: str) -> Iterator[tuple[str, str, Any]]:
        ours, usual = asdict(self.config), _preset_values(self.config.preset)
        for section in sections:
            for name, value in ours[section].items():
                if value != usual[section][name]:
                    yield section, name, value


MAKE_AGAIN = "Delete it and run the command again."  # about a damaged file of OUT


@dataclass(frozen=True)
class Outcome:
    """The result of a job: `done`, `impossible` (the dataset lacks what the run needs) or `failed`."""

    key: str  # of the run
    status: str
    about: str  # epochs and CPU seconds, or what went wrong
    trace: str = ""
    notes: tuple[str, ...] = ()  # on the data and the training

    def __str__(self) -> str:
        return self.about if self.status == "done" else f"{self.status}: {self.about}"


@dataclass(frozen=True)
class CellRuns:
    """The runs and the sampling that fill a cell on one dataset."""

    by_seed: tuple[tuple[Run, ...], ...]  # usually one run each; no seeds if only windows are counted
    sampling: SamplingVariant
    minus: CellRuns | None = None  # of the cell that is subtracted

    @property
    def runs(self) -> tuple[Run, ...]:
        """All of them, without those of the cell that is subtracted."""
        return tuple(run for runs in self.by_seed for run in runs)

    def of_seeds(self, numbers: Sequence[int]) -> CellRuns:
        """The runs of some seeds, by their place among all seeds."""
        by_seed = tuple(self.by_seed[number] for number in numbers)
        return replace(self, by_seed=by_seed, minus=self.minus.of_seeds(numbers) if self.minus else None)

    @property
    def parts(self) -> tuple[CellRuns, ...]:
        """These runs and, if there are some, those of the cell that is subtracted."""
        return (self, self.minus) if self.minus else (self,)


def runs_for_cell(spec: CellSpec, source: Source, options: RunOptions) -> CellRuns:
    """The runs and the sampling that a cell needs."""
    bases = [
        override(preset_config(spec.preset), {**settings, **options.settings}) for settings in spec.settings_of_runs
    ]
    by_seed = tuple(
        tuple(Run(source, override(base, {"seed": seed}), spec.texts) for base in bases)
        for seed in (options.seeds if spec.needs_run else ())
    )
    minus = runs_for_cell(spec.minus, source, options) if spec.minus else None
    return CellRuns(by_seed, _sampling(spec, options), minus)


def _sampling(spec: CellSpec, options: RunOptions) -> SamplingVariant:
    if spec.evidence:
        return SamplingVariant(asks_queries=True)
    if spec.samples is None:
        return SamplingVariant(options.samples, input_noise=spec.input_noise, dropout=spec.dropout)
    numbers = tuple(sample_numbers())
    return SamplingVariant(max(numbers), prefixes=numbers, independent_draws=options.independent_draws)


def budget_named(name: str) -> Budget:
    """The budget of this name.

    Raises:
        ConfigError: for an unknown name; the message lists the known ones.
    """
    if name not in BUDGETS:
        raise ConfigError(f"--budget {name}, but it must be {one_of(name, BUDGETS)}")
    return BUDGETS[name]


def refuse_table_settings(settings: Mapping[str, Any]) -> None:
    """Refuse to set for all runs what the declared tables vary."""
    varied = {
        name
        for entry in declarations().values()
        for spec in entry.cell_specs
        for name, _ in spec.settings
        if not isinstance(entry, Table) or name not in entry.defaults
    }
    for name in settings:
        if name == "preset":
            raise ConfigError(
                "--set preset would rename a preset, not apply it. Set its settings, such as model.width."
            )
        if name in varied | {"seed"}:
            raise ConfigError(
                f"--set {name}: the tables decide it, row by row. Settings such as optim.epochs are free."
            )


@cache
def _preset_values(name: str) -> dict[str, Any]:
    return asdict(preset_config(name))


def _identity_of(settings: CurationSettings) -> dict[str, Any]:
    """What decides windows and sides: the content of a split file, not its path."""
    if is_split_kind(settings.split):
        return asdict(settings)
    try:
        content = Path(settings.split).read_bytes()
    except OSError as error:
        raise SplitError(
            f"data.split={settings.split} is not a file that can be read, and not "
            f"{one_of(Path(settings.split).name, SPLIT_KINDS)}"
        ) from error
    return asdict(settings) | {"split": f"sha256 {hashlib.sha256(content).hexdigest()}"}
