"""Tables and figures as data: what each asks for, cell by cell, and what the paper printed there.

The declarations are TOML files beside this module. What a cell needs (`Ask`) is what its column, its row and the row's
method say together; so a new table, or a new row of an old one, is a few lines of TOML and no program.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any

from p3iv.errors import ConfigError
from p3iv.experiments.measured import METRICS

PAPER_DATASETS = {"crosstask": "CrossTask", "coin": "COIN", "niv": "NIV"}
FILES = ("paper.toml", "own.toml")
_LABELS = ("label", "group")


@dataclass(frozen=True)
class Ask:
    """What one cell, or one figure, needs."""

    metric: str | None = None
    preset: str = "p3iv"  # that the settings change
    settings: tuple[tuple[str, Any], ...] = ()  # of the configuration, by dotted names
    decoder: str = "followed"
    samples: int | None = None  # K where a table varies it, with deviations over sets of latents
    input_noise: float = 0.0
    dropout: float = 0.0
    texts: str = "given"  # or `aligned` to the features of the dataset

    @property
    def has_run(self) -> bool:
        """Whether a planner must be trained for it."""
        return self.metric is None or METRICS[self.metric].source != "data"


@dataclass(frozen=True)
class Column:
    """One column; without a metric of its own or of its rows it is text."""

    label: str
    group: str
    says: Mapping[str, Any]
    is_text: bool


@dataclass(frozen=True)
class Row:
    """One row, with the cells that are printed in it by dataset of the paper."""

    label: str
    group: str
    says: Mapping[str, Any]
    published: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Table:
    """One table."""

    name: str
    title: str
    place: str  # where it stands in the paper, or `ours`
    note: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    @property
    def datasets(self) -> tuple[str, ...]:
        """Those of the paper that it has figures for, in the order of the paper's columns."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row.published))

    def ask(self, row: Row, column: Column) -> Ask | None:
        """What a cell needs; None for text."""
        return None if column.is_text else _ask({**column.says, **row.says}, f"{self.name}, {row.label}")

    @property
    def asks(self) -> Iterator[Ask]:
        """Of all cells."""
        return (ask for row in self.rows for column in self.columns if (ask := self.ask(row, column)))


@dataclass(frozen=True)
class Figure:
    """One figure: a drawing of the method, which no run can make, or plans to look at."""

    name: str
    title: str
    place: str
    kind: str  # drawing, diversity or gallery
    says: Mapping[str, Any]

    @property
    def asks(self) -> Iterator[Ask]:
        """What it needs: one run, or nothing."""
        return iter(() if self.kind == "drawing" else (_ask(self.says, self.name),))


@cache
def declared() -> dict[str, Table | Figure]:
    """All tables and figures by name, in the order of the paper, then ours."""
    found: dict[str, Table | Figure] = {}
    for file in FILES:
        content = _read(file)
        for entry in content.get("table", []):
            found[entry["name"]] = _table(entry)
        for entry in content.get("figure", []):
            found[entry["name"]] = _figure(entry)
    return found


def choose(names: Sequence[str]) -> list[Table | Figure]:
    """Those of some names; `all` is every one.

    Raises:
        ConfigError: naming those that there are.
    """
    known = declared()
    for name in names:
        if name != "all" and name not in known:
            raise ConfigError(f"There is no table or figure {name!r}. There are: all, {', '.join(known)}.")
    return list(known.values()) if "all" in names else [known[name] for name in dict.fromkeys(names)]


def sample_numbers() -> list[int]:
    """Every K that some table asks for by number, so that one draw serves them all."""
    return sorted({ask.samples for entry in declared().values() for ask in entry.asks if ask.samples})


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(files("p3iv.experiments").joinpath("declarations", name).read_text(encoding="utf-8"))


def _table(entry: Mapping[str, Any]) -> Table:
    rows = tuple(_row(row, len(entry["columns"]), entry["name"]) for row in entry["rows"])
    metric_in_rows = all("metric" in row.says for row in rows)
    return Table(
        name=entry["name"],
        title=entry["title"],
        place=entry["place"],
        note=entry.get("note", ""),
        columns=tuple(
            Column(
                label=column["label"],
                group=column.get("group", ""),
                says={key: value for key, value in column.items() if key not in _LABELS},
                is_text=not metric_in_rows and "metric" not in column,
            )
            for column in entry["columns"]
        ),
        rows=rows,
    )


def _row(entry: Mapping[str, Any], num_columns: int, table: str) -> Row:
    published = {
        name: tuple(cell.strip() for cell in entry[name].split("|")) for name in entry if name in PAPER_DATASETS
    }
    for name, cells in published.items():
        if len(cells) != num_columns:
            raise ConfigError(f"{table}, {entry['label']}: {len(cells)} cells of {name} for {num_columns} columns.")
    says = {key: value for key, value in entry.items() if key not in (*_LABELS, *PAPER_DATASETS)}
    return Row(entry["label"], entry.get("group", ""), _with_method(says), published)


def _figure(entry: Mapping[str, Any]) -> Figure:
    about = {key: entry[key] for key in ("name", "title", "place", "kind")}
    return Figure(**about, says=_with_method({key: value for key, value in entry.items() if key not in about}))


def _with_method(says: Mapping[str, Any]) -> dict[str, Any]:
    """A row and the method that it names as one; the row's own words win."""
    method = _methods()[says["method"]] if "method" in says else {}
    merged = {**method, **says, "set": {**method.get("set", {}), **says.get("set", {})}}
    merged.pop("method", None)
    return merged


@cache
def _methods() -> dict[str, Any]:
    return _read("methods.toml")


def _ask(says: Mapping[str, Any], where: str) -> Ask:
    says = dict(says)
    settings = dict(says.pop("set", {}))
    for name in ("horizon", "protocol"):
        if name in says:
            settings[f"data.{name}"] = says.pop(name)
    unknown = [name for name in says if name not in {field.name for field in fields(Ask)}]
    if unknown:
        raise ConfigError(f"{where}: a declaration says {unknown[0]!r}, which means nothing.")
    return Ask(settings=tuple(sorted(settings.items())), **says)
