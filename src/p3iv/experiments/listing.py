"""What can be regenerated: names, titles, the data and runs that each needs, and what it may cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from p3iv.experiments.budgets import BUDGETS, Budget
from p3iv.experiments.declared import PAPER_DATASETS, Figure, Table, declared, sample_numbers
from p3iv.experiments.runs import SAMPLES


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
    return [_list_one(entry) for entry in declared().values()]


def list_together() -> Listed:
    """All of them, with the runs that they share counted once."""
    entries = list(declared().values())
    runs, cpu_s = _cost(entries)
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
    asks = [ask for entry in entries for ask in entry.asks if ask.has_run]
    runs = {(ask.settings, ask.texts) for ask in asks}
    ways = {(ask.settings, ask.texts, ask.input_noise, ask.dropout, ask.samples is not None) for ask in asks}
    scorings = {
        name: sum(_scorings(budget, varies_k=varies) for *_, varies in ways) for name, budget in BUDGETS.items()
    }
    return len(runs), {
        name: len(budget.seeds) * (len(runs) * budget.run_s + scorings[name] * budget.score_s)
        for name, budget in BUDGETS.items()
    }


def _scorings(budget: Budget, *, varies_k: bool) -> float:
    """How many evaluations of the usual K one way to draw plans costs."""
    return budget.independent_draws * max(sample_numbers()) / SAMPLES if varies_k else 1
