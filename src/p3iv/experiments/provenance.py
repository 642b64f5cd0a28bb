"""Where figures come from: command, data, code, machine, and every run with its epochs and CPU seconds."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from p3iv import __version__
from p3iv.environment import describe_environment, machine_of
from p3iv.experiments.gathering import Gatherer
from p3iv.experiments.runs import Run
from p3iv.experiments.sources import Source
from p3iv.experiments.versions import code_version, commit
from p3iv.files import write_text


@dataclass(frozen=True)
class Provenance:
    """What figures of one call have in common."""

    command: str
    data: tuple[str, ...]  # labels
    budget: str
    seeds: tuple[int, ...]
    samples: int  # K, where a row names no other
    version: str
    code: str
    commits: tuple[str, ...]
    machines: tuple[str, ...]

    @staticmethod
    def of(command: str, sources: Sequence[Source], budget: str, seeds: Sequence[int], samples: int) -> Provenance:
        """Look around."""
        return Provenance(
            command=command,
            data=tuple(source.label for source in sources),
            budget=budget,
            seeds=tuple(seeds),
            samples=samples,
            version=__version__,
            code=code_version(),
            commits=(commit() or UNKNOWN,),
            machines=(machine_of(asdict(describe_environment())),),
        )

    def of_runs(self, runs: Sequence[Run], gatherer: Gatherer) -> Provenance:
        """That of some runs alone: commit and machine are those that they were trained with, not those of this call."""
        facts = [gatherer.facts(run) for run in runs if gatherer.is_trained(run)]
        return replace(
            self,
            data=_each(run.source.label for run in runs) or self.data,
            seeds=tuple(sorted({run.config.seed for run in runs})) or self.seeds,
            commits=_each(fact.get("commit") or UNKNOWN for fact in facts) or self.commits,
            machines=_each(fact.get("machine") or UNKNOWN for fact in facts) or self.machines,
        )

    @property
    def lines(self) -> list[tuple[str, str]]:
        """For people: a name and what there is to say."""
        return [
            ("data", "; ".join(self.data)),
            ("budget", f"{self.budget}, {self._seeds}, K = {self.samples} where a row names no other"),
            ("code", f"p3iv {self.version}, commit {', '.join(self.commits)}, sources {self.code}"),
            ("machine", "; ".join(self.machines)),
            ("command", self.command),
        ]

    @property
    def sentence(self) -> str:
        """All in one line."""
        return ". ".join(f"{name.capitalize()}: {what}" for name, what in self.lines if what)

    @property
    def short(self) -> str:
        """As much of it as stands below a picture."""
        return f"{'; '.join(self.data)}; {self._seeds}; commit {', '.join(self.commits)}"

    @property
    def _seeds(self) -> str:
        return f"seed{'s' * (len(self.seeds) > 1)} {', '.join(map(str, self.seeds))}"


UNKNOWN = "unknown"
RUN_COLUMNS = ("run", "data", "planner", "horizon", "protocol", "differs_in", "terms", "texts", "seed")
FACTS = ("test_windows", "epochs", "best_epoch", "cpu_s", "parameters", "milliseconds_per_plan", "commit", "machine")


def run_rows(runs: Iterable[Run], gatherer: Gatherer) -> list[dict[str, str]]:
    """A row per run: what it is, and how far it went where it is done."""
    rows = []
    for run in runs:
        data = run.config.data
        about = (
            *(run.key, run.source.label, run.config.planner, data.horizon, data.protocol),
            *(" ".join(f"{name}={value}" for name, value in each.items()) for each in (run.differences, run.terms)),
            *(run.texts, run.config.seed),
        )
        row = {name: str(value) for name, value in zip(RUN_COLUMNS, about, strict=True)}
        is_done = gatherer.is_trained(run)
        facts = gatherer.facts(run) if is_done else {}
        outcome = gatherer.outcomes.get(run.key)
        row |= {name: _short(facts.get(name, "")) for name in FACTS}
        rows.append(row | {"status": outcome.status if outcome else "done" if is_done else "not run"})
    return rows


def write_runs(out: Path, runs: Iterable[Run], gatherer: Gatherer) -> None:
    """Write OUT/runs.csv; rows of earlier calls stay."""
    path, text = out / "runs.csv", io.StringIO()
    earlier = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8") if path.exists() else ""))
    rows = {row["run"]: row for row in (*earlier, *run_rows(runs, gatherer))}
    writer = csv.DictWriter(text, (*RUN_COLUMNS, *FACTS, "status"), extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows.values())
    write_text(path, text.getvalue())


def _each(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _short(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else "" if value is None else str(value)
