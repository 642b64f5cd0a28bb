"""Where figures come from: command, data, code, machine, and every run with its epochs and CPU seconds."""

from __future__ import annotations

import csv
import io
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from p3iv import __version__
from p3iv.atomic import write_text
from p3iv.experiments.gathering import Gatherer
from p3iv.experiments.runs import TRAINED, Run
from p3iv.experiments.sources import Source
from p3iv.experiments.versions import code_version, commit


@dataclass(frozen=True)
class Provenance:
    """What all figures of one call have in common."""

    command: str
    data: tuple[str, ...]  # labels
    budget: str
    seeds: tuple[int, ...]
    version: str
    code: str
    commit: str | None
    machine: str

    @staticmethod
    def of(command: str, sources: Sequence[Source], budget: str, seeds: Sequence[int]) -> Provenance:
        """Look around."""
        return Provenance(
            command=command,
            data=tuple(source.label for source in sources),
            budget=budget,
            seeds=tuple(seeds),
            version=__version__,
            code=code_version(),
            commit=commit(),
            machine=f"{platform.platform()}, Python {platform.python_version()}",
        )

    @property
    def lines(self) -> list[tuple[str, str]]:
        """For people: a name and what there is to say."""
        return [
            ("data", "; ".join(self.data)),
            ("budget", f"{self.budget}, seed{'s' * (len(self.seeds) > 1)} {', '.join(map(str, self.seeds))}"),
            ("code", f"p3iv {self.version}, commit {self.commit or 'unknown'}, sources {self.code}"),
            ("machine", self.machine),
            ("command", self.command),
        ]

    @property
    def sentence(self) -> str:
        """All in one line."""
        return ". ".join(f"{name.capitalize()}: {what}" for name, what in self.lines if what)


RUN_COLUMNS = ("run", "data", "planner", "horizon", "protocol", "differs_in", "texts", "seed")
FACTS = ("test_windows", "epochs", "best_epoch", "cpu_s", "parameters", "milliseconds_per_plan", "commit")


def run_rows(runs: Iterable[Run], gatherer: Gatherer) -> list[dict[str, str]]:
    """A row per run: what it is, and how far it went where it is done."""
    rows = []
    for run in runs:
        data = run.config.data
        about = (
            *(run.key, run.source.label, run.config.planner, data.horizon, data.protocol),
            *(" ".join(f"{name}={value}" for name, value in run.differences.items()), run.texts, run.config.seed),
        )
        row = {name: str(value) for name, value in zip(RUN_COLUMNS, about, strict=True)}
        is_done = (run.folder(gatherer.out) / TRAINED).exists()
        facts = gatherer.facts(run) if is_done else {}
        outcome = gatherer.outcomes.get(run.key)
        row |= {name: _short(facts.get(name, "")) for name in FACTS}
        rows.append(row | {"status": outcome.status if outcome else "done" if is_done else "not run"})
    return rows


def write_runs(out: Path, runs: Iterable[Run], gatherer: Gatherer) -> None:
    """Write OUT/runs.csv."""
    text = io.StringIO()
    writer = csv.DictWriter(text, (*RUN_COLUMNS, *FACTS, "status"), lineterminator="\n")
    writer.writeheader()
    writer.writerows(run_rows(runs, gatherer))
    write_text(out / "runs.csv", text.getvalue())


def _short(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else "" if value is None else str(value)
