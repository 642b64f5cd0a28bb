"""A run: one configuration on one dataset, kept in a folder that is named by a hash of all that decides its figures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from p3iv.config import SPLIT_KINDS, Config, CurationSettings, override, preset_config
from p3iv.errors import ConfigError, SplitError
from p3iv.experiments.budgets import Budget
from p3iv.experiments.declared import Ask, declared, sample_numbers
from p3iv.experiments.sources import Source
from p3iv.experiments.versions import code_version

SAMPLES = 1500  # the paper's K
TRAINED = "trained.json"


@dataclass(frozen=True)
class Sampling:
    """One way to draw plans from a trained run and score them; its values are one file."""

    num_samples: int = SAMPLES
    input_noise: float = 0.0
    dropout: float = 0.0
    prefixes: tuple[int, ...] = ()  # smaller K to be scored too; then nothing is decoded
    independent_draws: int = 1

    @property
    def file(self) -> str:
        """Under which its values stand in the run folder."""
        parts = [f"k{self.num_samples}"]
        parts += [f"noise{self.input_noise:g}"] if self.input_noise else []
        parts += [f"dropout{self.dropout:g}"] if self.dropout else []
        if self.prefixes:
            parts += [f"prefixes{'-'.join(map(str, self.prefixes))}", f"draws{self.independent_draws}"]
        return f"scores_{'_'.join(parts)}.npz"


@dataclass(frozen=True)
class Run:
    """One planner to train."""

    source: Source
    config: Config
    texts: str  # given, or aligned to the features first

    @property
    def identity(self) -> dict[str, Any]:
        """What decides its figures."""
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
        words = [f"{self.source.name}: {self.config.planner} T={data.horizon}"]
        words += ["protocol 2"] if data.protocol == 2 else []
        words += [f"{name}={value}" for name, value in self.differences.items()]
        words += ["aligned texts"] if self.texts == "aligned" else []
        return f"{' '.join(words)} seed {self.config.seed}"

    @property
    def differences(self) -> dict[str, Any]:
        """Settings of network and losses that are not those of its preset."""
        return {name: value for *_, name, value in self._changes("model", "loss", "baseline", "plus")}

    @property
    def terms(self) -> dict[str, Any]:
        """Settings of windows and training that are not those of its preset, but for horizon and protocol."""
        return {
            f"{section}.{name}": value
            for section, name, value in self._changes("data", "optim")
            if name not in ("horizon", "protocol")
        }

    def _changes(self, *sections: str) -> Iterator[tuple[str, str, Any]]:
        ours, usual = asdict(self.config), asdict(preset_config(self.config.preset))
        for section in sections:
            for name, value in ours[section].items():
                if value != usual[section][name]:
                    yield section, name, value


@dataclass(frozen=True)
class Planned:
    """What a cell asks for, on one dataset and with one budget."""

    runs: tuple[Run, ...]  # one per seed; none where the windows alone are counted
    sampling: Sampling


@dataclass(frozen=True)
class Terms:
    """What all runs of one call have in common."""

    budget: Budget
    seeds: tuple[int, ...]
    settings: Mapping[str, Any]  # the user's own
    samples: int = SAMPLES  # where a table does not say otherwise


def plan(ask: Ask, source: Source, terms: Terms) -> Planned:
    """The runs and the sampling that a cell needs."""
    budget, settings, seeds = terms.budget, terms.settings, terms.seeds
    base = override(preset_config(ask.preset), {**dict(ask.settings), **budget.settings, **settings})
    runs = tuple(Run(source, override(base, {"seed": seed}), ask.texts) for seed in seeds) if ask.has_run else ()
    if ask.samples is None:
        return Planned(runs, Sampling(terms.samples, input_noise=ask.input_noise, dropout=ask.dropout))
    numbers = sample_numbers()
    return Planned(runs, Sampling(max(numbers), prefixes=tuple(numbers), independent_draws=budget.independent_draws))


def _identity_of(settings: CurationSettings) -> dict[str, Any]:
    """What decides windows and sides: of a split file its content, wherever it lies."""
    if settings.split in SPLIT_KINDS:
        return asdict(settings)
    try:
        content = Path(settings.split).read_bytes()
    except OSError as error:
        raise SplitError(
            f"--set data.split={settings.split}: neither one of {', '.join(SPLIT_KINDS)} nor a file that can be read."
        ) from error
    return asdict(settings) | {"split": f"sha256 {hashlib.sha256(content).hexdigest()}"}


def refuse_decided(settings: Mapping[str, Any]) -> None:
    """A setting that tables differ in cannot be the same for all of them."""
    decided = {name for entry in declared().values() for ask in entry.asks for name, _ in ask.settings} | {"seed"}
    for name in settings:
        if name == "preset":
            raise ConfigError(
                "--set preset would rename a preset, not apply it. Set its settings, such as model.width."
            )
        if name in decided:
            raise ConfigError(
                f"--set {name}: the tables decide it, row by row. Settings such as optim.epochs are free."
            )
