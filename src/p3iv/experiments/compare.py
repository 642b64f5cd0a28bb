"""`p3iv compare`: every planner on the same windows, each run trained, evaluated and timed, in one table.

A run is a folder of its own, OUT/T3/ddn/seed0, as `p3iv train` and `p3iv evaluate` would leave it. `comparison.json` in
it is written last: a run that has one is done and skipped; one that has none goes on where it stopped. A run that fails
is listed, as is a horizon that the data have no windows of, and the others go on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from p3iv.config import Config, override
from p3iv.data.folder import Dataset, open_dataset
from p3iv.data.tensors import PlanningData, load_planning_data
from p3iv.errors import ConfigError, DatasetError
from p3iv.evaluation.evaluate import EvaluationRequest, evaluate
from p3iv.experiments.rows import Row, summarise
from p3iv.experiments.tables import write_tables
from p3iv.experiments.timing import time_plans
from p3iv.files import exclusive, write_text
from p3iv.planners.checkpoint import BEST, load_planner
from p3iv.planners.device import choose_device
from p3iv.planners.registry import PLANNERS, planner_class
from p3iv.plans.draws import SampleSettings
from p3iv.training.loop import EpochReport, TrainRequest, train

DONE = "comparison.json"


@dataclass(frozen=True)
class Cell:
    """One run of a comparison."""

    horizon: int
    planner: str
    seed: int

    def __str__(self) -> str:
        return f"T={self.horizon} {self.planner} seed {self.seed}"

    def folder(self, out: Path) -> Path:
        return out / f"T{self.horizon}" / self.planner / f"seed{self.seed}"


@dataclass(frozen=True)
class CompareRequest:
    """Which planners, on what, where to."""

    folder: Path  # of the dataset
    out: Path
    bases: Mapping[str, Config]  # by planner: all settings but planner, horizon and seed
    planners: tuple[str, ...] = tuple(PLANNERS)
    horizons: tuple[int, ...] = (3, 4)
    seeds: tuple[int, ...] = (0, 1, 2)
    settings: SampleSettings = field(default_factory=SampleSettings)
    device: str = "auto"
    on_cell: Callable[[Cell, str], None] = lambda *_: None  # a run, and what becomes of it
    on_epoch: Callable[[EpochReport], None] = lambda _: None
    on_windows: Callable[[int, int], None] = lambda *_: None
    on_note: Callable[[str], None] = lambda _: None  # on the data of a horizon; each note once

    def __post_init__(self) -> None:
        for name, values in (("planners", self.planners), ("horizons", self.horizons), ("seeds", self.seeds)):
            if not values or len(set(values)) != len(values):
                raise ConfigError(f"--{name} {','.join(map(str, values))}, but name at least one, and none twice.")
        for planner in self.planners:
            planner_class(planner)

    def config(self, cell: Cell) -> Config:
        return override(
            self.bases[cell.planner], {"planner": cell.planner, "seed": cell.seed, "data.horizon": cell.horizon}
        )

    @property
    def cells(self) -> list[Cell]:
        """Seed by seed, so that early tables have all planners in them."""
        return [Cell(t, p, s) for t in self.horizons for s in self.seeds for p in self.planners]


@dataclass(frozen=True)
class Comparison:
    """What was found."""

    rows: tuple[Row, ...]  # one per horizon and planner
    failures: dict[str, str]  # by run, or by horizon where it has no windows


def compare(request: CompareRequest) -> Comparison:
    """Run what is not yet done, writing the tables anew after every run."""
    with exclusive(request.out, doing=f"is comparing planners in {request.out}"):
        return _compare(request)


def _compare(request: CompareRequest) -> Comparison:
    request = replace(request, on_note=cache(request.on_note))  # all runs of a horizon have the same to note
    dataset = open_dataset(request.folder)
    failures: dict[str, str] = {}
    data = _load(request, dataset, failures)
    cells = [cell for cell in request.cells if cell.horizon in data]
    done = [cell for cell in cells if _is_done(request, cell, data[cell.horizon])]
    found = _gather(request, done, failures, data)
    for cell in cells:
        if cell in done:
            request.on_cell(cell, "done before")
            continue
        try:
            request.on_cell(cell, "training")
            figures = _run(request, cell, dataset, data[cell.horizon])
            request.on_cell(cell, figures)
            done.append(cell)
        except Exception as error:  # whatever ends one run must not end the others; it is listed and told at the end
            failures[str(cell)] = f"{type(error).__name__}: {error}"
            request.on_cell(cell, f"failed: {failures[str(cell)]}")
        found = _gather(request, done, failures, data)
    return found


def _load(request: CompareRequest, dataset: Dataset, failures: dict[str, str]) -> dict[int, PlanningData]:
    """The windows of every horizon that has any; the others are failures."""
    data = {}
    for horizon in request.horizons:
        try:
            data[horizon] = load_planning_data(dataset, request.config(Cell(horizon, request.planners[0], 0)).data)
        except DatasetError as error:
            failures[f"T={horizon}"] = f"{type(error).__name__}: {error}"
            request.on_note(f"T={horizon} failed: {error}")
            continue
        for note in data[horizon].notes:
            request.on_note(f"T={horizon}: {note}")
    return data


def _run(request: CompareRequest, cell: Cell, dataset: Dataset, data: PlanningData) -> str:
    """Train, evaluate and time one run; returns a line about it."""
    run, config = cell.folder(request.out), request.config(cell)
    is_begun = (run / "config.yaml").exists()

    def tell(note: str) -> None:
        request.on_note(f"T={cell.horizon}: {note}")

    result = train(
        TrainRequest(
            dataset, run, config, resume=is_begun, device=request.device, on_epoch=request.on_epoch, on_note=tell
        )
    )
    found = evaluate(
        EvaluationRequest(
            run,
            request.folder,
            settings=request.settings,
            device=request.device,
            on_progress=request.on_windows,
            on_note=tell,
        )
    )
    trained = load_planner(run / BEST, device=str(choose_device(request.device)))
    milliseconds = time_plans(trained, data)
    write_text(
        run / DONE,
        json.dumps(
            {
                **_identity(request, cell, data),
                "parameters": sum(parameter.numel() for parameter in trained.planner.parameters()),
                "training_s": result.cpu_s,
                "epochs": result.epochs,
                "milliseconds_per_plan": milliseconds,
            },
            indent=2,
        )
        + "\n",
    )
    success = 100 * found.decoders[found.decoder]["success_rate"].value
    return f"success rate {success:.1f}, {result.cpu_s:.0f} CPU s, {milliseconds:.1f} ms per plan"


def _identity(request: CompareRequest, cell: Cell, data: PlanningData) -> dict[str, Any]:
    """What a finished run must agree in, to stand in the same table."""
    return {
        "config": asdict(request.config(cell)),
        "samples": asdict(request.settings),
        "data_fingerprint": data.fingerprint,
    }


def _is_done(request: CompareRequest, cell: Cell, data: PlanningData) -> bool:
    """Whether a run is done; one whose planner reads other settings now, or settings that are newer, is refused."""
    path = cell.folder(request.out) / DONE
    if not path.exists():
        return False
    kept, kind = _flat(json.loads(path.read_text(encoding="utf-8"))), planner_class(cell.planner)
    for name, value in _flat(_identity(request, cell, data)).items():
        if kind.ignores(name):
            continue
        if name not in kept or kept[name] != value:
            how = _difference(name, kept, value)
            raise ConfigError(f"{path.parent} was made {how}. Pass another --out, or delete that folder.")
    return True


def _difference(name: str, kept: Mapping[str, Any], value: Any) -> str:
    if name not in kept:
        return f"before there was {name}"
    return "with other data" if name == "data_fingerprint" else f"with {name} {kept[name]!r}, not {value!r}"


def _flat(about: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """What is known of a run by dotted names, settings by their own."""
    flat: dict[str, Any] = {}
    for name, value in about.items():
        inner = "" if name == "config" else f"{prefix}{name}."
        flat |= _flat(value, inner) if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat


def _gather(
    request: CompareRequest, done: list[Cell], failures: dict[str, str], data: dict[int, PlanningData]
) -> Comparison:
    """The table of what is done so far, written to OUT."""
    rows = tuple(_rows(request, done))
    labels = {horizon: f"{part.label}, {len(part.test)} test windows" for horizon, part in data.items()}
    write_tables(request.out, rows, failures, labels)
    return Comparison(rows, dict(failures))


def _rows(request: CompareRequest, done: list[Cell]) -> Iterator[Row]:
    for horizon in request.horizons:
        for planner in request.planners:
            cells = [cell for cell in done if (cell.horizon, cell.planner) == (horizon, planner)]
            if cells:
                runs = [cell.folder(request.out) for cell in sorted(cells, key=lambda cell: cell.seed)]
                yield summarise(horizon, planner, [cell.seed for cell in cells], runs)
