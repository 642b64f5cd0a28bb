"""Where figures come from: command, data, code, machine, and every run with its epochs and CPU seconds."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from p3iv.catalogue import METRICS, PICTURES
from p3iv.environment import describe_environment, machine_of
from p3iv.experiments.cells import FinishedRuns
from p3iv.experiments.declarations import RECOMMENDED
from p3iv.experiments.identity import Source, code_version, commit
from p3iv.experiments.runs import KNOWN, Run, RunOptions, SamplingVariant
from p3iv.files import write_text


@dataclass(frozen=True)
class Provenance:
    """What the figures of one call have in common."""

    command: str
    data: tuple[str, ...]  # labels
    budget: str
    seeds: tuple[int, ...]
    samples: int  # K of rows that name no other
    version: str
    code: str
    commits: tuple[str, ...]
    machines: tuple[str, ...]

    @staticmethod
    def of(command: str, sources: Sequence[Source], options: RunOptions) -> Provenance:
        """The provenance of figures made by this process."""
        environment = describe_environment()
        return Provenance(
            command=command,
            data=tuple(source.label for source in sources),
            budget=options.budget,
            seeds=options.seeds,
            samples=options.samples,
            version=environment.p3iv,
            code=code_version(),
            commits=(commit() or UNKNOWN,),
            machines=(machine_of(asdict(environment)),),
        )

    def of_runs(self, runs: Sequence[Run], finished: FinishedRuns) -> Provenance:
        """The provenance of some runs: commits and machines are those of their training, not of this call."""
        facts = [finished.facts(run) for run in runs if finished.is_trained(run)]
        return replace(
            self,
            data=_each(run.source.label for run in runs) or self.data,
            seeds=tuple(sorted({run.config.seed for run in runs})) or self.seeds,
            commits=_each(fact.get("commit") or UNKNOWN for fact in facts) or self.commits,
            machines=_each(fact.get("machine") or UNKNOWN for fact in facts) or self.machines,
        )

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Names and texts, for people."""
        return [
            ("data", "; ".join(self.data)),
            ("budget", f"{self.budget}, {self._seeds}, K = {self.samples} unless a row names another"),
            ("code", f"p3iv {self.version}, commit {', '.join(self.commits)}, sources {self.code}"),
            ("machine", "; ".join(self.machines)),
            ("command", self.command),
        ]

    @property
    def sentence(self) -> str:
        """The whole provenance in one line."""
        return ". ".join(f"{name.capitalize()}: {what}" for name, what in self.lines if what)

    @property
    def short(self) -> str:
        """The part that fits below a picture."""
        return f"{'; '.join(self.data)}; {self._seeds}; commit {', '.join(self.commits)}"

    @property
    def _seeds(self) -> str:
        return f"seed{'s' * (len(self.seeds) > 1)} {', '.join(map(str, self.seeds))}"


UNKNOWN = "unknown"
RUN_COLUMNS = ("run", "data", "planner", "horizon", "protocol", "differs_in", "terms", "texts", "seed")
FACTS = (
    *("test_windows", "epochs", "best_epoch", "training_cpu_s", "parameters", "milliseconds_per_plan"),
    *("commit", "machine"),
)


def run_rows(runs: Iterable[Run], finished: FinishedRuns) -> list[dict[str, str]]:
    """A row per run: its configuration and, if it is done, facts about its training."""
    rows = []
    for run in runs:
        data = run.config.data
        changes = (run.planner_changes, run.training_changes)
        about = (
            *(run.key, run.source.label, run.config.planner, run.horizon_text, data.protocol),
            *(" ".join(f"{name}={value}" for name, value in each.items()) for each in changes),
            *(run.texts, run.config.seed),
        )
        row = {name: str(value) for name, value in zip(RUN_COLUMNS, about, strict=True)}
        is_done = finished.is_trained(run)
        facts = finished.facts(run) if is_done else {}
        outcome = finished.outcomes.get(run.key)
        row |= {name: _short(facts.get(name, "")) for name in FACTS}
        rows.append(row | {"status": outcome.status if outcome else "done" if is_done else "not run"})
    return rows


def write_runs(out: Path, runs: Iterable[Run], finished: FinishedRuns) -> None:
    """Write OUT/runs.csv and keep the rows of earlier calls."""
    path = out / "runs.csv"
    rows = {row.get("run", ""): row for row in (*_read_rows(path), *run_rows(runs, finished))}
    _write_rows(path, (*RUN_COLUMNS, *FACTS, "status"), rows.values())


SCORE_COLUMNS = (
    *("run", "data", "planner", "horizon", "seed"),
    *("evidence", "length", "metric", "unit", "windows", "value"),
)


def score_rows(run: Run, sampling: SamplingVariant, finished: FinishedRuns) -> Iterator[dict[str, str]]:
    """A row per evidence, length and metric of a finished run: the mean over its test windows.

    `length` is the number of steps that the planner is told; `unknown` if it is told none, and `frequent` if its plans
    have as many steps as most training windows.
    """
    scores = finished.scores(run, sampling)
    about = (run.key, run.source.label, run.config.planner, run.horizon_text, run.config.seed)
    for name, values in scores.items():
        metric, *what = name.split(".")
        evidence, how = what if sampling.asks_queries and len(what) == 2 else ("-".join(PICTURES), KNOWN)
        if metric not in METRICS or not (sampling.asks_queries or what in ([RECOMMENDED], ["samples"])):
            continue
        for length in np.unique(scores["lengths"]).tolist() if how == KNOWN else [how]:
            here = scores["lengths"] == length if how == KNOWN else np.ones(len(scores["lengths"]), dtype=bool)
            mean = METRICS[metric].scale * float(np.nanmean(values[here] if values.ndim else values))
            row = (*about, evidence, length, metric, METRICS[metric].unit, here.sum(), f"{mean:.4f}")
            yield {column: str(part) for column, part in zip(SCORE_COLUMNS, row, strict=True)}


def write_scores(out: Path, samplings: Iterable[tuple[Run, SamplingVariant]], finished: FinishedRuns) -> None:
    """Write OUT/scores.csv and keep the rows of other runs."""
    path, done = out / "scores.csv", [each for each in samplings if finished.has_scores(*each)]
    keys = {run.key for run, _ in done}
    earlier = [row for row in _read_rows(path) if row.get("run") not in keys]
    _write_rows(path, SCORE_COLUMNS, (*earlier, *(row for each in done for row in score_rows(*each, finished))))


def _read_rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8") if path.exists() else "")))


def _write_rows(path: Path, columns: Sequence[str], rows: Iterable[dict[str, str]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(row | {"data": plain_cell(row.get("data") or "")} for row in rows)
    write_text(path, text.getvalue())


def plain_cell(text: str) -> str:
    """A text for a table that people open in a spreadsheet, which takes = + - @ for the beginning of a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def _each(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _short(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else "" if value is None else str(value)
