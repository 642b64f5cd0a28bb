"""`p3iv reproduce`: tables and figures of the paper, regenerated: runs that are missing are made, then all is written.

OUT/runs/KEY/           one folder per run, named by a hash of configuration, data and code
OUT/impossible/KEY.json what a dataset cannot fill, so that it is not tried again
OUT/data/               statistics of datasets, copies with aligned step texts
OUT/tables/, figures/   what was asked for
OUT/parts/              the same as parts of index.html, which shows what this and earlier calls made
OUT/runs.csv            a row per run; provenance.json has command, data, seeds, commit and machine of every part
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from p3iv import parallel
from p3iv.config import Config, override
from p3iv.data.folder import open_dataset
from p3iv.data.stats import describe_dataset
from p3iv.errors import ConfigError
from p3iv.experiments.budgets import budget_of
from p3iv.experiments.built import Built, build
from p3iv.experiments.declared import Ask, Figure, Table, choose
from p3iv.experiments.drawings import Drawn, draw_figure
from p3iv.experiments.gathering import Gatherer
from p3iv.experiments.measure import Job, Outcome, is_shown, work
from p3iv.experiments.pages import figure_part
from p3iv.experiments.provenance import Provenance, write_runs
from p3iv.experiments.runs import SAMPLES, TRAINED, Planned, Run, Sampling, Terms, plan, refuse_decided
from p3iv.experiments.sources import Source, open_sources
from p3iv.experiments.versions import code_version
from p3iv.experiments.writing import write_index, write_table
from p3iv.files import exclusive, write_text
from p3iv.parallel import WorkerLost, check_engine
from p3iv.planners.device import choose_device
from p3iv.plans.draws import SampleSettings

WRITE_EVERY_S = 300.0  # tables are rebuilt in seconds; a long call shows what it has


@dataclass(frozen=True)
class Progress:
    """What is known after a run."""

    run: Run
    outcome: Outcome
    num_done: int
    num_jobs: int
    num_tables_done: int  # tables and figures whose runs are all there
    num_tables: int
    left_s: float  # an estimate


@dataclass(frozen=True)
class ReproduceRequest:
    """What to regenerate, on what, at which cost, where to."""

    names: tuple[str, ...]
    data: tuple[Path, ...]
    out: Path
    budget: str = "small"
    seeds: tuple[int, ...] = ()  # empty: the budget's
    horizons: tuple[int, ...] = ()  # empty: all
    settings: Mapping[str, Any] = field(default_factory=dict)
    samples: int = SAMPLES  # K, where a table does not vary it
    jobs: int = 1
    engine: str = "local"
    address: str | None = None
    device: str = "cpu"
    command: str = ""  # for the provenance
    on_plan: Callable[[int, int], None] = lambda *_: None  # runs that are needed, runs that are missing
    on_run: Callable[[Progress], None] = lambda _: None

    def __post_init__(self) -> None:
        if not self.names:
            raise ConfigError("Name a table or figure, or all; `p3iv reproduce --list` shows them.")
        if len(set(self.seeds)) != len(self.seeds):
            raise ConfigError(f"--seeds {','.join(map(str, self.seeds))}, but none twice.")
        known = sorted({dict(ask.settings)["data.horizon"] for entry in choose(self.names) for ask in entry.asks})
        if unknown := [horizon for horizon in self.horizons if known and horizon not in known]:
            there = ", ".join(f"T={horizon}" for horizon in known)
            raise ConfigError(
                f"--horizons {unknown[0]}, but no cell of {', '.join(self.names)} has it: there is {there}."
            )
        budget_of(self.budget)
        check_engine(self.engine, self.address, self.jobs)
        if self.engine == "local":
            choose_device(self.device)
        refuse_decided(self.settings)
        _check_out(self.out, self.data)


@dataclass(frozen=True)
class Reproduction:
    """What was written."""

    tables: tuple[Built, ...]
    figures: tuple[Drawn, ...]
    failures: dict[str, Outcome]  # by the name of the run
    provenance: Provenance

    @property
    def is_empty(self) -> bool:
        """Whether nothing could be made of what was asked for."""
        tables = [built.num_filled > 0 for built in self.tables]
        figures = [drawn.path is not None for drawn in self.figures if drawn.figure.kind != "drawing"]
        return not any(tables + figures) and bool(tables + figures)


def _check_out(out: Path, folders: Iterable[Path]) -> None:
    """Refuse to write over a file, or among the files of a dataset."""
    place = Path(os.path.realpath(out))
    if place.exists() and not place.is_dir():
        raise ConfigError(f"--out {out} is a file; name a folder.")
    for folder in folders:
        data = Path(os.path.realpath(folder))
        if place.is_relative_to(data) or data.is_relative_to(place):
            raise ConfigError(f"--out {out} is the dataset folder {folder}, or lies in it or around it. Name another.")


def reproduce(request: ReproduceRequest) -> Reproduction:
    """Make what is missing and write what was asked for, also where something fails or interrupts it."""
    with exclusive(request.out, doing=f"is regenerating tables in {request.out}"):
        call = _Call(request)
        try:
            call.run()
        finally:
            found = call.write()
        return found


class _Call:
    """One call: the runs that its tables share, and what became of them."""

    def __init__(self, request: ReproduceRequest) -> None:
        self.request, self.out = request, request.out
        budget = budget_of(request.budget)
        self.terms = Terms(budget, request.seeds or budget.seeds, request.settings, request.samples)
        self.entries = choose(request.names)
        self.sources = open_sources(request.data)
        self.runs: dict[str, Run] = {}
        self.samplings: dict[str, dict[str, Sampling]] = {}
        self.shown: set[str] = set()  # runs whose plans a figure shows
        self.outcomes: dict[str, Outcome] = {}
        self.plans: dict[tuple[Ask, str], Planned] = {}
        self.needs = {entry.name: self._take(entry) for entry in self.entries}
        for key in self.runs:
            if (path := self._impossible(key)).exists():
                self.outcomes[key] = Outcome(**json.loads(path.read_text(encoding="utf-8")))

    def run(self) -> None:
        """Do the jobs that are left, telling of each; what is there is written now and then, and at the end."""
        jobs = [job for key in self.runs if (job := self._job(key))]
        self.request.on_plan(len(self.runs), len(jobs))
        left = {job.key for job in jobs}
        began = written = time.monotonic()
        request = self.request
        done = parallel.run(work, jobs, engine=request.engine, jobs=request.jobs, address=request.address)
        for number, (job, result) in enumerate(done, start=1):
            outcome = Outcome(job.key, "failed", result.reason) if isinstance(result, WorkerLost) else result
            left.discard(outcome.key)
            self._keep(outcome)
            spent = time.monotonic() - began
            self.request.on_run(
                Progress(
                    run=self.runs[outcome.key],
                    outcome=outcome,
                    num_done=number,
                    num_jobs=len(jobs),
                    num_tables_done=sum(not needs & (left | set(self.outcomes)) for needs in self.needs.values()),
                    num_tables=len(self.entries),
                    left_s=spent / number * (len(jobs) - number),
                )
            )
            if time.monotonic() - written > WRITE_EVERY_S:
                self.write()
                written = time.monotonic()

    def write(self) -> Reproduction:
        """All that was asked for, with what there is."""
        counted = {source.fingerprint: self._count(source) for source in self.sources} if self._counts_windows else {}
        gatherer = Gatherer(self.out, self.outcomes, counted)
        request, terms = self.request, self.terms
        provenance = Provenance.of(request.command, self.sources, request.budget, terms.seeds, terms.samples)
        tables = [build(entry, self.sources, self.plan, gatherer) for entry in self.entries if isinstance(entry, Table)]
        parts = [write_table(self.out, built, provenance.of_runs(built.runs, gatherer), gatherer) for built in tables]
        figures = [
            self._draw(entry, source, provenance, gatherer)
            for entry in self.entries
            if isinstance(entry, Figure)
            for source in (self.sources[:1] if entry.kind == "drawing" else self.sources)
        ]
        runs = list(self.runs.values())
        write_runs(self.out, runs, gatherer)
        write_index(self.out, [*parts, *map(figure_part, figures)])
        failures = {str(self.runs[key]): o for key, o in self.outcomes.items() if o.status == "failed"}
        return Reproduction(tuple(tables), tuple(figures), failures, provenance.of_runs(runs, gatherer))

    def plan(self, ask: Ask, source: Source) -> Planned | None:
        """What a cell needs; None where its horizon was not asked for."""
        place = (ask, source.fingerprint)
        if self.request.horizons and dict(ask.settings).get("data.horizon") not in self.request.horizons:
            return None
        if place not in self.plans:
            self.plans[place] = plan(ask, source, self.terms)
        return self.plans[place]

    @property
    def _counts_windows(self) -> bool:
        return any(ask.metric and not ask.has_run for entry in self.entries for ask in entry.asks)

    def _take(self, entry: Table | Figure) -> set[str]:
        """Remember the runs of a table or figure; returns their keys."""
        needed = set()
        plans = [self.plan(ask, source) for source in self.sources for ask in entry.asks]
        for planned in filter(None, plans):
            for run in planned.runs[:1] if isinstance(entry, Figure) else planned.runs:
                needed.add(run.key)
                self.runs[run.key] = run
                samplings = self.samplings.setdefault(run.key, {})
                if isinstance(entry, Figure):
                    self.shown.add(run.key)
                else:
                    samplings[planned.sampling.file] = planned.sampling
        return needed

    def _job(self, key: str) -> Job | None:
        """What is left of a run; None where nothing is, or nothing can be."""
        run, folder = self.runs[key], self.runs[key].folder(self.out)
        missing = tuple(s for s in self.samplings[key].values() if not (folder / s.file).exists())
        shows = key in self.shown and not is_shown(folder)
        if key in self.outcomes or ((folder / TRAINED).exists() and not missing and not shows):
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
            shows_plans=shows,
            device=self.request.device,
        )

    def _keep(self, outcome: Outcome) -> None:
        if outcome.status == "done":
            return
        self.outcomes[outcome.key] = outcome
        if outcome.status == "impossible":
            write_text(self._impossible(outcome.key), json.dumps(vars(outcome), indent=2) + "\n")
        elif outcome.trace:
            write_text(self.out / "failures" / f"{outcome.key}.txt", f"{self.runs[outcome.key]}\n\n{outcome.trace}")

    def _impossible(self, key: str) -> Path:
        return self.out / "impossible" / f"{key}.json"

    def _draw(self, figure: Figure, source: Source, provenance: Provenance, gatherer: Gatherer) -> Drawn:
        planned = [self.plan(ask, source) for ask in figure.asks]
        run = planned[0].runs[0] if planned and planned[0] else None
        origin = replace(provenance.of_runs([run] if run else [], gatherer), samples=SampleSettings().num_samples)
        return draw_figure(self.out, figure, source, run, outcomes=self.outcomes, provenance=origin)

    def _count(self, source: Source) -> dict[str, float]:
        """Unique plans per start and goal, by METRIC.HORIZON; counted once per dataset, kind of windows and code."""
        asked = override(Config(), self.request.settings).data
        settings = replace(asked, split="video")  # windows of all sides are counted
        digest = hashlib.sha256(json.dumps(asdict(settings), sort_keys=True).encode()).hexdigest()
        path = self.out / "data" / f"{source.fingerprint[:16]}-{digest[:8]}-{code_version()}.json"
        if path.exists():
            kept: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
            return kept
        stats = describe_dataset(open_dataset(source.folder), settings)
        found = {
            f"{name}.{horizon}": getattr(about, name)
            for horizon, about in stats.horizons.items()
            for name in ("plans_per_pair", "plans_per_window")
        }
        write_text(path, json.dumps(found, indent=2) + "\n")
        return found
