"""Tables and figures as data: what every cell needs, and the figure that the paper printed there.

The declarations are the TOML files in `tables/`. A cell needs (`CellSpec`) what its column, its row and the row's
method say together, so a new table, or a new row of an old one, is a few lines of TOML and no program.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any

from p3iv.catalogue import METRICS, MIXES
from p3iv.errors import ConfigError, near_misses, one_of

PAPER_DATASETS = {"crosstask": "CrossTask", "coin": "COIN", "niv": "NIV"}
FILES = ("paper.toml", "unified.toml", "own.toml")
RECOMMENDED = "recommended"  # in place of a decoder: the planner's recommended plan, whatever decodes it
_LABELS = ("label", "group")


@dataclass(frozen=True)
class CellSpec:
    """What one cell, or one figure, needs."""

    metric: str | None = None
    preset: str = "p3iv"  # the preset that the settings change
    settings: tuple[tuple[str, Any], ...] = ()  # of the configuration, by dotted names
    decoder: str = RECOMMENDED
    samples: int | None = None  # K in a table that varies it, with deviations over sets of latents
    input_noise: float = 0.0
    dropout: float = 0.0
    texts: str = "given"  # or "aligned" to the features of the dataset
    evidence: tuple[str, ...] = ()  # what a planner for several lengths is told; empty for planners for one length
    length: int | None = None  # the number of steps that this planner is told; None: unknown
    always_frequent: bool = False  # of unknown length: plans of the length that is most frequent in training
    each_length: tuple[int, ...] = ()  # planners for one of these lengths each, as probable as they are in training
    minus: CellSpec | None = None  # the cell is the difference to this one, window by window

    @property
    def needs_run(self) -> bool:
        """Whether a planner must be trained for it."""
        return self.metric is None or METRICS[self.metric].group != "data"

    @property
    def horizon(self) -> int | None:
        """The horizon of its windows; None if the declaration names none."""
        return self.length if self.evidence else dict(self.settings).get("data.horizon")

    @property
    def settings_of_runs(self) -> tuple[dict[str, Any], ...]:
        """The settings of the planners whose values, with one seed, make its value together."""
        return tuple(dict(self.settings) | {"data.horizon": each} for each in self.each_length) or (
            dict(self.settings),
        )


@dataclass(frozen=True)
class Column:
    """One column; it is text if neither the column nor the rows name a metric."""

    label: str
    group: str
    spec: Mapping[str, Any]
    is_text: bool = False

    @property
    def title(self) -> str:
        """Its label after the label of its group."""
        return f"{self.group} {self.label}".strip()


@dataclass(frozen=True)
class Row:
    """One row, with its printed cells by dataset of the paper."""

    label: str
    group: str
    spec: Mapping[str, Any]
    published: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Table:
    """One table."""

    name: str
    title: str
    place: str  # in the paper, or "ours"
    note: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    defaults: tuple[str, ...] = ()  # settings of all its cells that a call may replace
    seeds: tuple[int, ...] = ()  # of its full budget; none: those of the budget
    published_note: str = ""  # what the published figures are, if they are other metrics than the paper's

    @property
    def datasets(self) -> tuple[str, ...]:
        """The datasets of the paper that it has published figures for, in the paper's order."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row.published))

    def cell_spec(self, row: Row, column: Column) -> CellSpec | None:
        """What a cell needs; None for text, and where the row does not have the metric of the column.

        A row with `metrics = []` has published figures alone.
        """
        spec = {**column.spec, **row.spec}
        metrics, minus = spec.pop("metrics", None), spec.pop("minus", None)
        if column.is_text or (metrics is not None and spec["metric"] not in metrics):
            return None
        if minus:
            spec["minus"] = self.cell_spec(next(other for other in self.rows if other.label == minus), column)
        return _cell_spec(spec, f"{self.name}, {row.label}")

    @property
    def cell_specs(self) -> Iterator[CellSpec]:
        """The specifications of all cells that are not text."""
        return (spec for row in self.rows for column in self.columns if (spec := self.cell_spec(row, column)))


@dataclass(frozen=True)
class Figure:
    """One figure: a drawing of the method, which no run can make, or plans to look at."""

    name: str
    title: str
    place: str
    kind: str  # drawing, diversity or gallery
    spec: Mapping[str, Any]

    @property
    def cell_specs(self) -> Iterator[CellSpec]:
        """What it needs: one run, or nothing."""
        return iter(() if self.kind == "drawing" else (_cell_spec(self.spec, self.name),))


@dataclass(frozen=True)
class PublishedFigure:
    """One figure of the paper in the units of our metrics: shares from 0 to 1, KL and NLL in nats."""

    value: float
    place: str  # the table that it is printed in


@cache
def declarations() -> dict[str, Table | Figure]:
    """All tables and figures by name, in the order of the paper, then ours."""
    found: dict[str, Table | Figure] = {}
    for file in FILES:
        content = _read(file)
        for entry in content.get("table", []):
            found[entry["name"]] = _table(entry)
        for entry in content.get("figure", []):
            found[entry["name"]] = _figure(entry)
    return found


def select(names: Sequence[str]) -> tuple[Table | Figure, ...]:
    """The tables and figures of these names; `all` selects every one.

    Raises:
        ConfigError: for an unknown name; the message lists the known ones.
    """
    known = declarations()
    for name in names:
        if name != "all" and name not in known:
            near = near_misses(name, known)
            meant = f"Did you mean {' or '.join(near)}?" if near else f"There are: all, {', '.join(known)}."
            raise ConfigError(f"There is no table or figure {name!r}. {meant}")
    return tuple(known.values()) if "all" in names else tuple(known[name] for name in dict.fromkeys(names))


def sample_numbers() -> list[int]:
    """Every K that some table names, so that one draw serves them all."""
    return sorted({spec.samples for entry in declarations().values() for spec in entry.cell_specs if spec.samples})


def published_figures(
    dataset: str, horizon: int, *, protocol: int = 1, method: str = "p3iv"
) -> dict[str, PublishedFigure]:
    """What the paper prints for one of its own planners (`p3iv` or `deterministic`), by metric.

    The paper's mAcc is a macro precision and its mIoU a bitwise IoU of action ids, so they are returned under the names
    `macro_precision` and `bitwise_iou`.
    """
    wanted = _methods()[method]["set"] | {"data.horizon": horizon, "data.protocol": protocol}
    found: dict[str, PublishedFigure] = {}
    for place, spec, value in _cells_of_paper_planners(dataset.casefold()):
        if {"data.protocol": 1, **dict(spec.settings)} == wanted:
            metric = METRICS[str(spec.metric)]
            found.setdefault(metric.released or metric.name, PublishedFigure(value / metric.scale, place))
    return found


def _cells_of_paper_planners(dataset: str) -> Iterator[tuple[str, CellSpec, float]]:
    """Table, specification and number of the paper's own rows; not those with another K, noise or other texts."""
    for table in (entry for entry in declarations().values() if isinstance(entry, Table)):
        for row in (row for row in table.rows if row.label.startswith("Ours") and dataset in row.published):
            for column, cell in zip(table.columns, row.published[dataset], strict=True):
                spec, value = table.cell_spec(row, column), published_number(cell)
                is_plain = spec and not (spec.samples or spec.input_noise or spec.dropout) and spec.texts == "given"
                if spec and is_plain and not math.isnan(value):
                    yield table.place, spec, value


def published_number(cell: str | None) -> float:
    """A printed cell as a number: `<0.01` is 0, `5.03 ± 0.21` is 5.03, and text or `-` is nan."""
    if cell is None:
        return math.nan
    if cell.startswith("<"):
        return 0.0
    match = re.match(r"\d+(\.\d+)?", cell)
    return float(match[0]) if match else math.nan


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(files("p3iv.experiments").joinpath("tables", name).read_text(encoding="utf-8"))


def _table(entry: Mapping[str, Any]) -> Table:
    defaults = entry.get("defaults", {})
    rows = tuple(
        _row({**row, "set": {**defaults, **row.get("set", {})}}, len(entry["columns"]), entry["name"])
        for row in entry["rows"]
    )
    rows_have_metric = all("metric" in row.spec for row in rows)
    return Table(
        name=entry["name"],
        title=entry["title"],
        place=entry["place"],
        note=entry.get("note", ""),
        columns=tuple(
            Column(
                label=column["label"],
                group=column.get("group", ""),
                spec={key: value for key, value in column.items() if key not in _LABELS},
                is_text=not rows_have_metric and "metric" not in column,
            )
            for column in entry["columns"]
        ),
        rows=rows,
        defaults=tuple(defaults),
        seeds=tuple(entry.get("seeds", ())),
        published_note=entry.get("published_note", ""),
    )


def _row(entry: Mapping[str, Any], num_columns: int, table: str) -> Row:
    published = {
        name: tuple(cell.strip() for cell in entry[name].split("|")) for name in entry if name in PAPER_DATASETS
    }
    for name, cells in published.items():
        if len(cells) != num_columns:
            raise ConfigError(f"{table}, {entry['label']}: {len(cells)} cells of {name} for {num_columns} columns.")
    spec = {key: value for key, value in entry.items() if key not in (*_LABELS, *PAPER_DATASETS)}
    label = entry["label"] if "label" in entry else MIXES[tuple(entry["evidence"])]
    return Row(label, entry.get("group", ""), _with_method(spec), published)


def _figure(entry: Mapping[str, Any]) -> Figure:
    about = {key: entry[key] for key in ("name", "title", "place", "kind")}
    return Figure(**about, spec=_with_method({key: value for key, value in entry.items() if key not in about}))


def _with_method(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Add what the row's method says; the row itself takes precedence."""
    method = _methods()[spec["method"]] if "method" in spec else {}
    merged = {**method, **spec, "set": {**method.get("set", {}), **spec.get("set", {})}}
    merged.pop("method", None)
    return merged


@cache
def _methods() -> dict[str, Any]:
    return _read("methods.toml")


def _cell_spec(spec: Mapping[str, Any], where: str) -> CellSpec:
    spec = dict(spec)
    settings = dict(spec.pop("set", {}))
    spec |= {name: tuple(value) for name, value in spec.items() if isinstance(value, list)}
    if spec.get("evidence") and "horizon" in spec:
        spec["length"] = spec.pop("horizon")
    for name in ("horizon", "protocol"):
        if name in spec:
            settings[f"data.{name}"] = spec.pop(name)
    unknown = [name for name in spec if name not in {field.name for field in fields(CellSpec)}]
    if unknown:
        raise ConfigError(f"{where}: a declaration contains {unknown[0]!r}, which has no meaning.")
    if spec.get("metric", "kl") not in METRICS:
        raise ConfigError(f"{where}: metric={spec['metric']!r}, but it must be {one_of(spec['metric'], METRICS)}")
    return CellSpec(settings=tuple(sorted(settings.items())), **spec)
