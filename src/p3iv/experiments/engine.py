"""Make the runs that tables and figures need, and write them. `p3iv reproduce` and `p3iv compare` both use it.

OUT/runs/KEY/           one folder per run, named by a hash of configuration, data and code
OUT/impossible/KEY.json runs that the dataset lacks windows for, so that they are not tried again
OUT/failures/KEY.txt    the traceback of a failed run
OUT/data/               statistics of datasets, copies with aligned step texts
OUT/tables/, figures/   what was asked for
OUT/parts/              the same as parts of index.html, which shows what this and earlier calls made
OUT/runs.csv            a row per run; provenance.json has command, data, seeds, commit and machine of every part
OUT/scores.csv          a row per run, evidence, number of steps and metric
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from p3iv import parallel
from p3iv.config import Config, override
from p3iv.data.folder import open_dataset
from p3iv.data.stats import describe_dataset
from p3iv.errors import ConfigError
from p3iv.experiments.cells import FinishedRuns
from p3iv.experiments.declarations import CellSpec, Figure, Table
from p3iv.experiments.figures import Drawn, draw_figure, figure_section, has_plans
from p3iv.experiments.filled import FilledTable, fill
from p3iv.experiments.identity import Source, code_version, open_sources
from p3iv.experiments.job import Job, run_job
from p3iv.experiments.pages import write_index
from p3iv.experiments.provenance import Provenance, write_runs, write_scores
from p3iv.experiments.runs import (
    MAKE_AGAIN,
    TRAINED,
    CellRuns,
    Outcome,
    Run,
    RunOptions,
    SamplingVariant,
    runs_for_cell,
)
from p3iv.experiments.writers import write_table
from p3iv.files import exclusive, remove_leftovers_in, write_text
from p3iv.planners.layers import choose_device
from p3iv.plans.draws import SampleSettings
from p3iv.types import OnProgress, Progress, clock
from p3iv.validation import read_model

WRITE_EVERY_S = 300.0  # a long call shows the tables so far; rebuilding them takes seconds


@dataclass(frozen=True)
class Execution:
    """How runs are carried out, and what to call as they finish."""

    jobs: int = 1  # runs at a time
    engine: str = "local"
    address: str | None = None
    device: str = "cpu"
    threads: int = 1  # per run
    command: str = ""  # as the user typed it, for the provenance
    on_progress: OnProgress = lambda _: None  # first with the number of missing runs, then after each of them
    on_note: Callable[[str], object] = lambda _: None  # on data and training; each note once

    def __post_init__(self) -> None:
        parallel.check_engine(self.engine, self.address, self.jobs)
        if self.engine == "local":
            choose_device(self.device)


@dataclass(frozen=True)
class FillRequest:
    """Which tables and figures to fill, on which datasets, and where to write them."""

    entries: tuple[Table | Figure, ...]
    data: tuple[Path, ...]
    out: Path
    options: RunOptions
    title: str  # of index.html
    horizons: tuple[int, ...] = ()  # empty: all
    execution: Execution = field(default_factory=Execution)
    on_write: Callable[[FillResult], None] = lambda _: None  # whenever the tables are written

    def __post_init__(self) -> None:
        _check_out(self.out, self.data)


@dataclass(frozen=True)
class FillResult:
    """What was written."""

    tables: tuple[FilledTable, ...]
    figures: tuple[Drawn, ...]
    failures: dict[str, Outcome]  # by the name of the run
    impossible: dict[str, Outcome]
    provenance: Provenance
    finished: FinishedRuns

    @property
    def is_empty(self) -> bool:
        """Whether no table and no figure could be filled at all."""
        tables = [filled.num_filled > 0 for filled in self.tables]
        figures = [drawn.path is not None for drawn in self.figures if drawn.figure.kind != "drawing"]
        return not any(tables + figures) and bool(tables + figures)


def fill_tables(request: FillRequest) -> FillResult:
    """Make the missing runs and write the tables and figures, even if something fails or interrupts it."""
    with exclusive(request.out, doing=f"is writing tables in {request.out}"):
        remove_leftovers_in(request.out)
        call = _Call(request)
        try:
            call.run()
        finally:
            result = call.write()
        return result


def _check_out(out: Path, folders: Iterable[Path]) -> None:
    """Refuse to write over a file, or among the files of a dataset."""
    place = Path(os.path.realpath(out))
    if place.exists() and not place.is_dir():
        raise ConfigError(f"--out {out} is a file; name a folder.")
    for folder in folders:
        data = Path(os.path.realpath(folder))
        if place.is_relative_to(data) or data.is_relative_to(place):
            raise ConfigError(f"--out {out} is, contains or lies in the dataset folder {folder}. Name another folder.")


class _Call:
    """One call: the runs that its tables share, and their outcomes."""

    def __init__(self, request: FillRequest) -> None:
        self.request, self.out = request, request.out
        self.sources = open_sources(request.data)
        self.runs: dict[str, Run] = {}
        self.samplings: dict[str, dict[str, SamplingVariant]] = {}
        self.keys_of_figures: set[str] = set()  # runs whose plans a figure shows
        self.outcomes: dict[str, Outcome] = {}  # of runs that failed or are impossible
        self.cell_runs: dict[tuple[CellSpec, str], CellRuns] = {}
        self.keys_of = {entry.name: self._add_runs(entry) for entry in request.entries}
        for key in self.runs:
            if (path := self._impossible(key)).exists():
                self.outcomes[key] = read_model(path, Outcome, error=ConfigError, advice=MAKE_AGAIN)

    def run(self) -> None:
        """Do the missing jobs, seed by seed; the tables are written now and then."""
        execution, noted = self.request.execution, set[str]()
        jobs = sorted((job for key in self.runs if (job := self._job(key))), key=lambda job: job.config.seed)
        needed = f"{len(self.runs)} runs are needed, {len(jobs)} of them have to be made"
        execution.on_progress(Progress("Making runs", 0, len(jobs), needed))
        left = {job.key for job in jobs}
        began = written = time.monotonic()
        results = parallel.run(run_job, jobs, engine=execution.engine, jobs=execution.jobs, address=execution.address)
        for number, (job, result) in enumerate(results, start=1):
            outcome = Outcome(job.key, "failed", result.reason) if isinstance(result, parallel.WorkerLost) else result
            left.discard(job.key)
            self._keep(outcome)
            for note in (f"T={self.runs[job.key].horizon_text}: {note}" for note in outcome.notes):
                if note not in noted:
                    noted.add(note)
                    execution.on_note(note)
            left_s = (time.monotonic() - began) / number * (len(jobs) - number)
            about = f"{self._tables_done(left)}about {clock(left_s)} left. {self.runs[job.key]}: {outcome}"
            execution.on_progress(Progress("Making runs", number, len(jobs), about))
            if time.monotonic() - written > WRITE_EVERY_S:
                self.write()
                written = time.monotonic()

    def _tables_done(self, left: set[str]) -> str:
        """How many of several tables and figures are complete, while these runs are left."""
        done = sum(not keys & (left | set(self.outcomes)) for keys in self.keys_of.values())
        total = len(self.request.entries)
        return f"{done} of {total} tables and figures complete, " if total > 1 else ""

    def write(self) -> FillResult:
        """Write all tables and figures with the runs that are finished."""
        request, runs = self.request, list(self.runs.values())
        counts = {source.fingerprint: self._count(source) for source in self.sources} if self._counts_windows else {}
        finished = FinishedRuns(self.out, self.outcomes, counts)
        provenance = Provenance.of(request.execution.command, self.sources, request.options)
        tables = [
            fill(entry, self.sources, self.runs_of, finished) for entry in request.entries if isinstance(entry, Table)
        ]
        sections = [
            write_table(self.out, filled, provenance.of_runs(filled.runs, finished), finished) for filled in tables
        ]
        figures = [
            self._draw(entry, source, provenance, finished)
            for entry in request.entries
            if isinstance(entry, Figure)
            for source in (self.sources[:1] if entry.kind == "drawing" else self.sources)
        ]
        write_runs(self.out, runs, finished)
        samplings = [(self.runs[key], each) for key, variants in self.samplings.items() for each in variants.values()]
        write_scores(self.out, samplings, finished)
        write_index(self.out, [*sections, *map(figure_section, figures)], request.title)
        result = FillResult(
            tables=tuple(tables),
            figures=tuple(figures),
            failures=self._outcomes("failed"),
            impossible=self._outcomes("impossible"),
            provenance=provenance.of_runs(runs, finished),
            finished=finished,
        )
        request.on_write(result)
        return result

    def runs_of(self, spec: CellSpec, source: Source) -> CellRuns | None:
        """The runs that a cell needs; None if its horizon was not asked for. Cells of unknown length have none."""
        if self.request.horizons and spec.horizon not in (None, *self.request.horizons):
            return None
        place = (spec, source.fingerprint)
        if place not in self.cell_runs:
            self.cell_runs[place] = runs_for_cell(spec, source, self.request.options)
        return self.cell_runs[place]

    @property
    def _counts_windows(self) -> bool:
        return any(not spec.needs_run for entry in self.request.entries for spec in entry.cell_specs)

    def _add_runs(self, entry: Table | Figure) -> set[str]:
        """Add the runs of a table or figure; returns their keys."""
        keys = set()
        cells = [self.runs_of(spec, source) for source in self.sources for spec in entry.cell_specs]
        for needed in (part for cell in cells if cell for part in cell.parts):
            for run in needed.runs[:1] if isinstance(entry, Figure) else needed.runs:
                keys.add(run.key)
                self.runs[run.key] = run
                samplings = self.samplings.setdefault(run.key, {})
                if isinstance(entry, Figure):
                    self.keys_of_figures.add(run.key)
                else:
                    samplings[needed.sampling.file] = needed.sampling
        return keys

    def _job(self, key: str) -> Job | None:
        """The missing steps of a run; None if none is missing, or the run is impossible."""
        run, folder = self.runs[key], self.runs[key].folder(self.out)
        missing = tuple(s for s in self.samplings[key].values() if not (folder / s.file).exists())
        needs_plans = key in self.keys_of_figures and not has_plans(folder)
        if key in self.outcomes or ((folder / TRAINED).exists() and not missing and not needs_plans):
            return None
        return Job(
            key=key,
            name=str(run),
            identity=run.identity,
            config=run.config,
            data=run.source.folder.resolve(),
            folder=folder.resolve(),
            aligned=(self.out / "data" / f"{key}-aligned").resolve() if run.texts == "aligned" else None,
            samplings=missing,
            needs_plans=needs_plans,
            device=self.request.execution.device,
            threads=self.request.execution.threads,
        )

    def _keep(self, outcome: Outcome) -> None:
        failure = self.out / "failures" / f"{outcome.key}.txt"
        if outcome.status == "done":
            failure.unlink(missing_ok=True)  # of an earlier call
            with suppress(OSError):  # other runs failed, or none ever did
                failure.parent.rmdir()
            return
        self.outcomes[outcome.key] = outcome
        if outcome.status == "impossible":
            write_text(self._impossible(outcome.key), json.dumps(vars(outcome), indent=2) + "\n")
        elif outcome.trace:
            write_text(failure, f"{self.runs[outcome.key]}\n\n{outcome.trace}")

    def _outcomes(self, status: str) -> dict[str, Outcome]:
        return {str(self.runs[key]): outcome for key, outcome in self.outcomes.items() if outcome.status == status}

    def _impossible(self, key: str) -> Path:
        return self.out / "impossible" / f"{key}.json"

    def _draw(self, figure: Figure, source: Source, provenance: Provenance, finished: FinishedRuns) -> Drawn:
        cells = [self.runs_of(spec, source) for spec in figure.cell_specs]
        run = cells[0].runs[0] if cells and cells[0] else None
        origin = replace(provenance.of_runs([run] if run else [], finished), samples=SampleSettings().num_samples)
        return draw_figure(self.out, figure, source, run, outcomes=self.outcomes, provenance=origin)

    def _count(self, source: Source) -> dict[str, float]:
        """Unique plans per start and goal, by METRIC.HORIZON; counted once per dataset, kind of windows and code."""
        asked = override(Config(), self.request.options.settings).data
        settings = replace(asked, split="video")  # windows of all sides are counted
        digest = hashlib.sha256(json.dumps(asdict(settings), sort_keys=True).encode()).hexdigest()
        path = self.out / "data" / f"{source.fingerprint[:16]}-{digest[:8]}-{code_version()}.json"
        if path.exists():
            return read_model(path, dict[str, float], error=ConfigError, advice=MAKE_AGAIN)
        stats = describe_dataset(open_dataset(source.folder), settings)
        counts = {
            f"{name}.{horizon}": getattr(about, name)
            for horizon, about in stats.horizons.items()
            for name in ("plans_per_pair", "plans_per_window")
        }
        write_text(path, json.dumps(counts, indent=2) + "\n")
        return counts
