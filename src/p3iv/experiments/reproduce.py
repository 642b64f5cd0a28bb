"""`p3iv reproduce`: the declared tables and figures, and a list of them with what each costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from p3iv.catalogue import DEFAULT_NUM_SAMPLES
from p3iv.errors import ConfigError
from p3iv.experiments.declarations import PAPER_DATASETS, Figure, Table, declarations, sample_numbers, select
from p3iv.experiments.engine import Execution, FillRequest, FillResult, fill_tables
from p3iv.experiments.runs import BUDGETS, Budget, RunOptions, budget_named, refuse_table_settings

TITLE = "P3IV (CVPR 2022), regenerated"


@dataclass(frozen=True)
class ReproduceRequest:
    """Which tables to regenerate, on which data, at which cost, and where to write them."""

    names: tuple[str, ...]
    data: tuple[Path, ...]
    out: Path
    budget: str = "small"
    seeds: tuple[int, ...] = ()  # empty: the budget's
    horizons: tuple[int, ...] = ()  # empty: all
    settings: Mapping[str, Any] = field(default_factory=dict)
    samples: int = DEFAULT_NUM_SAMPLES  # K of the tables that do not vary it
    execution: Execution = field(default_factory=Execution)

    def __post_init__(self) -> None:
        if not self.names:
            raise ConfigError("Name a table or figure, or all; `p3iv reproduce --list` shows them.")
        specs = [spec for entry in select(self.names) for spec in entry.cell_specs]
        known = sorted({spec.horizon for spec in specs if spec.horizon})
        if unknown := [horizon for horizon in self.horizons if known and horizon not in known]:
            raise ConfigError(
                f"--horizons {unknown[0]}, but no cell of {', '.join(self.names)} has it: there is "
                f"{', '.join(f'T={horizon}' for horizon in known)}."
            )
        refuse_table_settings(self.settings)
        self.fill_request()  # checks the rest

    def _declared_seeds(self) -> tuple[int, ...]:
        """The seeds that all tables name together, with the full budget."""
        named = {entry.seeds if isinstance(entry, Table) else () for entry in select(self.names)}
        return named.pop() if self.budget == "paper" and len(named) == 1 else ()

    def fill_request(self) -> FillRequest:
        """The request for the engine."""
        budget = budget_named(self.budget)
        options = RunOptions(
            seeds=self.seeds or self._declared_seeds() or budget.seeds,
            settings={**budget.settings, **self.settings},
            samples=self.samples,
            independent_draws=budget.independent_draws,
            budget=self.budget,
        )
        return FillRequest(
            entries=select(self.names),
            data=self.data,
            out=self.out,
            options=options,
            title=TITLE,
            horizons=self.horizons,
            execution=self.execution,
        )


def reproduce(request: ReproduceRequest) -> FillResult:
    """Make the missing runs and write the tables and figures."""
    return fill_tables(request.fill_request())


@dataclass(frozen=True)
class Listed:
    """One table or figure; runs and times are per dataset and process."""

    name: str
    place: str
    title: str
    kind: str  # table, drawing, diversity or gallery
    published_on: tuple[str, ...]
    runs_per_seed: int
    cpu_s: dict[str, float]  # by budget, at most


def list_all() -> list[Listed]:
    """All tables and figures, in the order of the paper, then ours."""
    return [_list_one(entry) for entry in declarations().values()]


def list_together() -> Listed:
    """All of them as one entry; runs that they share count once."""
    runs, cpu_s = _cost(list(declarations().values()))
    return Listed("all", "", "everything above; runs are shared", "", (), runs, cpu_s)


def _list_one(entry: Table | Figure) -> Listed:
    runs, cpu_s = _cost([entry])
    return Listed(
        name=entry.name,
        place=entry.place,
        title=entry.title,
        kind="table" if isinstance(entry, Table) else entry.kind,
        published_on=tuple(PAPER_DATASETS[name] for name in entry.datasets) if isinstance(entry, Table) else (),
        runs_per_seed=runs,
        cpu_s=cpu_s,
    )


def _cost(entries: Sequence[Table | Figure]) -> tuple[int, dict[str, float]]:
    specs = [spec for entry in entries for spec in entry.cell_specs if spec.needs_run]
    each = [(tuple(sorted(settings.items())), spec) for spec in specs for settings in spec.settings_of_runs]
    runs = {(settings, spec.texts) for settings, spec in each}
    ways = {(settings, spec.texts, spec.input_noise, spec.dropout, spec.samples is not None) for settings, spec in each}
    scorings = {
        name: sum(_scorings(budget, varies_k=varies) for *_, varies in ways) for name, budget in BUDGETS.items()
    }
    return len(runs), {
        name: len(budget.seeds) * (len(runs) * budget.run_s + scorings[name] * budget.score_s)
        for name, budget in BUDGETS.items()
    }


def _scorings(budget: Budget, *, varies_k: bool) -> float:
    """How many evaluations of the usual K one way to draw plans costs."""
    return budget.independent_draws * max(sample_numbers()) / DEFAULT_NUM_SAMPLES if varies_k else 1
