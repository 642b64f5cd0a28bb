"""`p3iv compare`: one table of planners, made from the user's options and filled by the engine of `reproduce`."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from p3iv.catalogue import DEFAULT_NUM_SAMPLES, METRICS, explain_labels, metrics_of
from p3iv.errors import ConfigError
from p3iv.experiments.declarations import Column, Row, Table
from p3iv.experiments.engine import Execution, FillRequest, FillResult, fill_tables
from p3iv.experiments.filled import Cell
from p3iv.experiments.runs import RunOptions
from p3iv.files import write_text
from p3iv.planners.registry import PLANNERS, planner_class

NAME = "comparison"
TITLE = "Planners compared"
TABLE_TITLE = "Planners on the same windows"
SCORES = tuple(metric.name for metric in (*metrics_of("plans"), *metrics_of("samples")))
CSV_DIGITS = {"parameters": 0, "training_cpu_s": 1, "milliseconds_per_plan": 3}
COSTS = tuple(metric.name for metric in metrics_of("cost"))
NOTE = (
    f"{explain_labels(SCORES)}. "
    "SR, mAcc, mIoU, precision and recall of modes in percent, KL and NLL in nats. Samples are each planner's own; a "
    "planner that does not sample repeats its recommended plan. CPU s: processor time of the training. ms: processor "
    "time of one plan without samples; P3IV is timed at noise 0, while its scored plan is decoded from its K samples."
)


@dataclass(frozen=True)
class CompareRequest:
    """Which planners to compare, on which dataset, and where to write the table."""

    folder: Path  # of the dataset
    out: Path
    planners: tuple[str, ...] = tuple(PLANNERS)
    horizons: tuple[int, ...] = (3, 4)
    seeds: tuple[int, ...] = (0, 1, 2)
    preset: str | None = None  # None: each planner's own
    settings: Mapping[str, Any] = field(default_factory=dict)
    samples: int = DEFAULT_NUM_SAMPLES
    execution: Execution = field(default_factory=Execution)

    def __post_init__(self) -> None:
        for name, values in (("planners", self.planners), ("horizons", self.horizons)):
            if not values or len(set(values)) != len(values):
                raise ConfigError(f"--{name} {','.join(map(str, values))}, but name at least one, without duplicates.")
        for planner in self.planners:
            planner_class(planner)
        self.fill_request()  # checks the rest

    @property
    def table(self) -> Table:
        """A group of rows per horizon, a row per planner, a column per metric."""
        columns = tuple(Column(METRICS[name].label, "", {"metric": name}) for name in (*SCORES, *COSTS))
        rows = tuple(
            Row(
                label=planner,
                group=f"T={horizon}",
                spec={
                    "preset": self.preset or planner_class(planner).preset,
                    "set": {"planner": planner},
                    "horizon": horizon,
                },
                published={},
            )
            for horizon in self.horizons
            for planner in self.planners
        )
        return Table(NAME, TABLE_TITLE, "ours", NOTE, columns, rows)

    def fill_request(self) -> FillRequest:
        """The request for the engine."""
        changes = " ".join(f"{name}={value}" for name, value in self.settings.items())
        budget = f"preset {self.preset}" if self.preset else "the preset of each planner"
        return FillRequest(
            entries=(self.table,),
            data=(self.folder,),
            out=self.out,
            options=RunOptions(
                seeds=self.seeds,
                settings=self.settings,
                samples=self.samples,
                budget=f"{budget}, {changes}" if changes else budget,
            ),
            title=TITLE,
            execution=self.execution,
            on_write=lambda result: write_text(self.out / f"{NAME}.csv", wide_csv(result)),
        )


@dataclass(frozen=True)
class Comparison:
    """Planners compared on the same windows."""

    out: Path  # has index.html, comparison.csv, tables/ and runs/
    rows: tuple[dict[str, Any], ...]  # as in comparison.csv: horizon, planner, seeds, success_rate, ...
    failures: dict[str, str]  # of runs that failed, or are impossible with this dataset: the reason, by their names
    result: FillResult  # internal: what the command prints

    @classmethod
    def of(cls, out: Path, result: FillResult) -> Comparison:
        """The rows that have figures, and the runs that have none."""
        failures = {name: outcome.about for name, outcome in (result.failures | result.impossible).items()}
        return cls(out, tuple(wide_rows(result)), failures, result)


def compare(request: CompareRequest) -> FillResult:
    """Make the missing runs and write the table; OUT/comparison.csv has a row per horizon and planner."""
    return fill_tables(request.fill_request())


def filled_rows(result: FillResult) -> Iterator[dict[str, Cell]]:
    """The rows that have figures, as cells by metric."""
    [filled] = result.tables
    [block] = filled.blocks
    for row in block.cells:
        cells = {str(cell.spec.metric): cell for cell in row if cell.spec}
        value = cells["success_rate"].value
        if value and not value.is_empty:
            yield cells


def describe_comparison(result: FillResult) -> dict[str, Any]:
    """Every figure with its interval, for `--json`; null where a figure is not defined."""
    [filled] = result.tables
    [block] = filled.blocks
    return {
        "data": block.source.label if block.source else None,
        "rows": [_describe_row(cells) for cells in filled_rows(result)],
        "best": [
            {
                "horizon": ranking.group.removeprefix("T="),
                "metric": ranking.column.spec["metric"],
                "planner": ranking.best,
                "not_distinguished_from": [row for row, _ in ranking.undecided],
            }
            for ranking in block.rankings
        ],
        "notes": [*block.tie_notes, *block.interval_notes],
        "failures": {name: outcome.about for name, outcome in result.failures.items()},
        "impossible": {name: outcome.about for name, outcome in result.impossible.items()},
    }


def _describe_row(cells: dict[str, Cell]) -> dict[str, Any]:
    first = cells["success_rate"]
    values = {name: cell.value for name, cell in cells.items() if cell.value}
    ends = {"value": "value", "low": "low", "high": "high", "sd_over_seeds": "spread"}
    return {
        "horizon": first.spec.horizon if first.spec else None,
        "planner": first.row.label,
        "seeds": list(values["success_rate"].seeds),
        "runs": list(values["success_rate"].runs),
        "metrics": {
            name: {end: _finite(getattr(value, field)) for end, field in ends.items()} for name, value in values.items()
        },
    }


def _finite(figure: float) -> float | None:
    return figure if math.isfinite(figure) else None


def wide_rows(result: FillResult) -> Iterator[dict[str, Any]]:
    """A row per horizon and planner: shares from 0 to 1, KL and NLL in nats, each with its interval."""
    for cells in filled_rows(result):
        values = {name: cell.value for name, cell in cells.items() if cell.value}
        first, rate = cells["success_rate"], values["success_rate"]
        ends = {"": "value", "_low": "low", "_high": "high"}
        yield {
            "horizon": first.spec.horizon if first.spec else "",
            "planner": first.row.label,
            "seeds": " ".join(map(str, rate.seeds)),
            **{f"{name}{end}": getattr(values[name], field) for name in SCORES for end, field in ends.items()},
            "success_rate_sd_over_seeds": rate.spread,
            **{name: values[name].value for name in COSTS},
        }


def wide_csv(result: FillResult) -> str:
    """The rows as CSV; an end of an interval that is not defined is empty."""
    names = [f"{name}{end}" for name in SCORES for end in ("", "_low", "_high")]
    digits = dict.fromkeys((*names, "success_rate_sd_over_seeds"), 6) | CSV_DIGITS
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["horizon", "planner", "seeds", *digits])
    for row in wide_rows(result):
        figures = ("" if math.isnan(row[name]) else f"{row[name]:.{digits[name]}f}" for name in digits)
        writer.writerow([row["horizon"], row["planner"], row["seeds"], *figures])
    return text.getvalue()
