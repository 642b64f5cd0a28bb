"""A table with its cells filled: one block per dataset given, published figures beside ours."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from p3iv.experiments.declared import PAPER_DATASETS, Ask, Column, Row, Table
from p3iv.experiments.gathering import NAN, Found, Gatherer
from p3iv.experiments.runs import Planned, Run
from p3iv.experiments.sources import Source

PlanOf = Callable[[Ask, Source], Planned | None]  # None for a cell that was not asked for


@dataclass(frozen=True)
class Cell:
    """One cell, ours and theirs."""

    row: Row
    column: Column
    ask: Ask | None  # None for text
    published: str | None  # as printed; None where the paper has no such cell
    found: Found | None  # None where no dataset is given


@dataclass(frozen=True)
class Order:
    """How often two rows of a column stand to each other as in the paper, by our 95 % interval of their difference."""

    same: int
    reversed: int
    undecided: int

    @property
    def total(self) -> int:
        return self.same + self.reversed + self.undecided


@dataclass(frozen=True)
class Block:
    """One dataset's part of a table."""

    source: Source | None  # None: published figures alone, no data of this kind is given
    paper_name: str | None  # whose published figures stand in it
    cells: tuple[tuple[Cell, ...], ...]  # row by row
    orders: tuple[tuple[Column, Order], ...]  # of the columns in which rows can be compared

    @property
    def title(self) -> str:
        """What is whose."""
        theirs = f"published: {PAPER_DATASETS[self.paper_name]}" if self.paper_name else "nothing published"
        return f"ours: {self.source.label}; {theirs}" if self.source else f"{theirs}; ours: no such dataset given"


@dataclass(frozen=True)
class Built:
    """A table to be written."""

    table: Table
    blocks: tuple[Block, ...]
    runs: tuple[Run, ...]
    num_cells: int  # that ask for something, on datasets given
    num_filled: int
    num_partial: int  # filled, but not with every seed

    @property
    def title(self) -> str:
        return f"{self.table.place}: {self.table.title}" if self.table.place != "ours" else self.table.title

    @property
    def problems(self) -> list[str]:
        """Every reason for a cell that is not, or not wholly, filled, once, with how many cells it concerns."""
        why = Counter(
            cell.found.why
            for block in self.blocks
            for row in block.cells
            for cell in row
            if cell.found and cell.found.why
        )
        return [f"{reason} ({number} cell{'s' * (number > 1)})" for reason, number in why.items()]


def build(table: Table, sources: Sequence[Source], plan_of: PlanOf, gatherer: Gatherer) -> Built:
    """Fill a table with what there is."""
    blocks = [_block(table, source, _beside(table, source), plan_of, gatherer) for source in sources]
    shown = {block.paper_name for block in blocks}
    blocks += [_published_block(table, name) for name in table.datasets if name not in shown]
    ours = [cell for block in blocks for row in block.cells for cell in row if cell.found]
    plans = [plan_of(ask, source) for source in sources for ask in table.asks]
    return Built(
        table=table,
        blocks=tuple(blocks),
        runs=tuple({run.key: run for planned in plans if planned for run in planned.runs}.values()),
        num_cells=len(ours),
        num_filled=sum(not cell.found.is_empty for cell in ours if cell.found),
        num_partial=sum(cell.found.is_partial for cell in ours if cell.found),
    )


def filled_of(tables: Sequence[Built]) -> str:
    """How many cells of tables are filled, and how many of those lack a seed."""
    cells, filled, partial = (
        sum(getattr(built, name) for built in tables) for name in ("num_cells", "num_filled", "num_partial")
    )
    return f"{filled} of {cells}" + (f", {partial} of them not with every seed" if partial else "")


def published_number(cell: str | None) -> float:
    """A printed cell as a number: `<0.01` is 0, `5.03 ± 0.21` is 5.03, and text or `-` is nan."""
    if cell is None:
        return NAN
    if cell.startswith("<"):
        return 0.0
    match = re.match(r"\d+(\.\d+)?", cell)
    return float(match[0]) if match else NAN


def _beside(table: Table, source: Source) -> str | None:
    """Whose published figures stand beside a dataset: its own, or else the first that the table has."""
    if source.paper_name in table.datasets:
        return source.paper_name
    return next(iter(table.datasets), None)


def _block(table: Table, source: Source, paper_name: str | None, plan_of: PlanOf, gatherer: Gatherer) -> Block:
    cells = []
    for row in table.rows:
        line = []
        for place, column in enumerate(table.columns):
            ask = table.ask(row, column)
            planned = plan_of(ask, source) if ask else None
            found = gatherer.find(ask, planned, source.fingerprint) if ask and planned else None
            line.append(Cell(row, column, ask, _published(row, paper_name, place), found))
        cells.append(tuple(line))
    compare = _Comparison(source, plan_of, gatherer)
    orders = [(column, compare.order([line[place] for line in cells])) for place, column in enumerate(table.columns)]
    return Block(source, paper_name, tuple(cells), tuple((column, order) for column, order in orders if order.total))


def _published_block(table: Table, name: str) -> Block:
    cells = tuple(
        tuple(
            Cell(row, column, table.ask(row, column), _published(row, name, place), None)
            for place, column in enumerate(table.columns)
        )
        for row in table.rows
        if name in row.published
    )
    return Block(None, name, cells, ())


def _published(row: Row, paper_name: str | None, place: int) -> str | None:
    cells = row.published.get(paper_name or "")
    return cells[place] if cells else None


@dataclass(frozen=True)
class _Comparison:
    """Rows of a column against each other."""

    source: Source
    plan_of: PlanOf
    gatherer: Gatherer

    def order(self, column: Sequence[Cell]) -> Order:
        verdicts = Counter(self._verdicts(column))
        return Order(verdicts["same"], verdicts["reversed"], verdicts["undecided"])

    def _verdicts(self, column: Sequence[Cell]) -> Iterator[str]:
        for one, other in itertools.combinations(column, 2):
            if one.row.group != other.row.group or not one.ask or not other.ask:
                continue
            theirs = published_number(one.published) - published_number(other.published)
            plans = self.plan_of(one.ask, self.source), self.plan_of(other.ask, self.source)
            if math.isnan(theirs) or theirs == 0 or not plans[0] or not plans[1] or one.ask.metric != other.ask.metric:
                continue
            ours = self.gatherer.difference((one.ask, plans[0]), (other.ask, plans[1]))
            if ours is None or math.isnan(ours.low):
                continue
            if ours.low <= 0 <= ours.high:
                yield "undecided"
            else:
                yield "same" if (ours.value > 0) == (theirs > 0) else "reversed"
