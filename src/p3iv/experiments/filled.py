"""A table with its cells filled: one block per dataset, published figures beside ours, and cells as text."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from p3iv.catalogue import METRICS, Metric
from p3iv.experiments.cells import SCORED, CellValue, FinishedRuns
from p3iv.experiments.declarations import PAPER_DATASETS, CellSpec, Column, Row, Table, published_number
from p3iv.experiments.identity import Source
from p3iv.experiments.runs import CellRuns, Run
from p3iv.metrics.intervals import Interval

RunsOf = Callable[[CellSpec, Source], CellRuns | None]  # None for a cell that was not asked for

OURS_NOTE = "Ours, a mean over seeds, with its 95 % interval for other videos and seeds."
PAPER_NOTE = (
    f"{OURS_NOTE} Published figures are as printed. † The paper's mAcc is a macro precision and its mIoU a bitwise IoU "
    "of action ids; the figure after the dagger is what its released code would print for our plans. Success rates "
    "mean the same on both sides."
)
ONE_SEED_NOTE = "Intervals of values from one seed leave out the variation between seeds."
OWN_NOTE = "Means over seeds, with 95 % intervals for other videos and seeds."


def note_of(table: Table) -> str:
    """How to read the cells of a table."""
    if table.published_note:
        return f"{OURS_NOTE} {table.published_note}"
    return PAPER_NOTE if table.datasets else OWN_NOTE


@dataclass(frozen=True)
class Cell:
    """One cell: our value and the published figure."""

    row: Row
    column: Column
    spec: CellSpec | None  # None for text
    published: str | None  # as printed; None if the paper has no such cell
    value: CellValue | None  # None if the cell was not asked for, or no dataset is given
    beside_paper: bool = True  # whether its block shows published figures of the metrics that the paper computes

    @property
    def metric(self) -> Metric | None:
        """Its metric; None for text."""
        return METRICS[self.spec.metric] if self.spec and self.spec.metric else None

    @property
    def arrow(self) -> str:
        """An arrow towards the better values, after a space; empty if neither direction is better."""
        return f" {self.metric.arrow}" if self.metric and self.metric.arrow else ""

    @property
    def text(self) -> str:
        """Our value as printed, or one word that says why there is none."""
        if self.metric is None or self.value is None:
            return ""
        if self.value.is_empty:
            return next((word for word in ("failed", "impossible") if word in self.value.problem), "not run")
        return self.metric.text(self.value.value, sign=self.is_difference)

    @property
    def is_difference(self) -> bool:
        """Whether its value is the difference between two rows."""
        return self.spec is not None and self.spec.minus is not None

    @property
    def range_text(self) -> str:
        """The interval of our value, or its deviation over sets of latents; empty if it has none."""
        if self.metric is None or self.value is None:
            return ""
        if not math.isnan(self.value.deviation):
            return f"± {self.metric.text(self.value.deviation)}"
        if math.isnan(self.value.low):
            return ""
        low, high = (self.metric.text(end, sign=self.is_difference) for end in (self.value.low, self.value.high))
        return f"{low} to {high}"

    @property
    def seeds_text(self) -> str:
        """How many seeds our value is the mean of, if some are missing; else empty."""
        value = self.value
        return f"{len(value.seeds)} of {value.num_expected} seeds" if value and value.is_partial else ""

    @property
    def released(self) -> float:
        """What released code would print, beside published figures; nan if it computes what we compute."""
        return self.value.as_released if self.value and self.beside_paper else math.nan

    @property
    def released_text(self) -> str:
        """The same as text, or empty."""
        return "" if self.metric is None or math.isnan(self.released) else self.metric.text(self.released)

    @property
    def published_text(self) -> str:
        """The published figure as printed; empty if there is none."""
        return self.published or ""


@dataclass(frozen=True)
class Order:
    """How many pairs of rows of a column are ordered as in the paper, by the 95 % interval of their difference."""

    same: int
    reversed: int
    undecided: int

    @property
    def total(self) -> int:
        return self.same + self.reversed + self.undecided


@dataclass(frozen=True)
class Ranking:
    """The best row of a group in one column, and the rows that these windows cannot tell from it."""

    column: Column
    group: str
    best: str
    undecided: tuple[tuple[str, str], ...]  # row, and the best minus this row with its 95 % interval


@dataclass(frozen=True)
class Block:
    """One dataset's part of a table."""

    source: Source | None  # None: published figures only, because no dataset of this name is given
    paper_name: str | None  # the dataset of the paper whose published figures it shows
    cells: tuple[tuple[Cell, ...], ...]  # row by row
    orders: tuple[tuple[Column, Order], ...] = ()  # of the columns whose rows can be compared with the paper
    rankings: tuple[Ranking, ...] = ()  # in tables without published figures and without rows of differences

    @property
    def interval_notes(self) -> list[str]:
        """What the intervals leave out, and where there are too few videos; each once."""
        notes: dict[str, None] = {}
        for cell in itertools.chain.from_iterable(self.cells):
            if cell.spec and cell.value:
                has_one_seed = len(cell.value.seeds) == 1 and not math.isnan(cell.value.low)
                notes |= dict.fromkeys([ONE_SEED_NOTE] if has_one_seed else [])
                where = f"T={cell.spec.horizon}: " if cell.spec.horizon else ""
                notes |= dict.fromkeys(f"{where}{note}." for note in cell.value.notes)
        return list(notes)

    @property
    def tie_notes(self) -> list[str]:
        """The groups whose best rows have the same value in the first column, in tables that have rankings."""
        notes: list[str] = []
        if self.paper_name or _has_differences(self.cells):
            return notes
        for group in dict.fromkeys(row[0].row.group for row in self.cells):
            column = [row[0] for row in self.cells if row[0].row.group == group]
            filled = [cell for cell in column if cell.value and not cell.value.is_empty]
            best = best_of(filled) or next(iter(filled), None)
            if best is None or best.metric is None or best.metric.group not in SCORED:
                continue
            tied = [cell.row.label for cell in filled if (cell.metric, cell.text) == (best.metric, best.text)]
            if len(tied) > 1:
                where = f"{group}: " if group else ""
                notes.append(f"{where}{_joined(tied)} have the same {best.column.title}, {best.text}.")
        return notes

    @property
    def ranking_notes(self) -> list[str]:
        """The best rows of every group, and the columns in which others cannot be distinguished from them."""
        notes = self.tie_notes
        for group, best in dict.fromkeys((ranking.group, ranking.best) for ranking in self.rankings):
            own = [ranking for ranking in self.rankings if (ranking.group, ranking.best) == (group, best)]
            note = f"{group}: {best}" if group else best
            note += f" is best in {_joined([ranking.column.title for ranking in own])}."
            for ranking in own:
                rows = [f"{row} (difference {difference})" for row, difference in ranking.undecided]
                note += f" In {ranking.column.title} it cannot be distinguished from {_joined(rows)}." if rows else ""
            notes.append(note)
        return notes

    @property
    def title(self) -> str:
        """Which data our figures and the published ones are from."""
        theirs = f"published: {PAPER_DATASETS[self.paper_name]}" if self.paper_name else ""
        if self.source is None:
            return f"{theirs}; ours: no such dataset given"
        return f"ours: {self.source.label}; {theirs}" if theirs else self.source.label


@dataclass(frozen=True)
class FilledTable:
    """A table to be written."""

    table: Table
    blocks: tuple[Block, ...]
    runs: tuple[Run, ...]
    num_cells: int  # that were asked for, on datasets given
    num_filled: int
    num_partial: int  # filled, but without some seeds

    @property
    def title(self) -> str:
        return f"{self.table.place}: {self.table.title}" if self.table.place != "ours" else self.table.title

    @property
    def note(self) -> str:
        """How to read its cells."""
        return note_of(self.table)

    @property
    def problems(self) -> list[str]:
        """Every reason for a missing value once, with the number of cells that it concerns."""
        problems = Counter(
            cell.value.problem
            for block in self.blocks
            for row in block.cells
            for cell in row
            if cell.value and cell.value.problem
        )
        return [f"{problem} ({number} cell{'s' * (number > 1)})" for problem, number in problems.items()]


def fill(table: Table, sources: Sequence[Source], runs_of: RunsOf, finished: FinishedRuns) -> FilledTable:
    """Fill a table from the finished runs."""
    blocks = [_block(table, source, _paper_name(table, source), runs_of, finished) for source in sources]
    shown = {block.paper_name for block in blocks}
    blocks += [_published_block(table, name) for name in table.datasets if name not in shown]
    values = [cell.value for block in blocks for row in block.cells for cell in row if cell.value]
    cells = [runs_of(spec, source) for source in sources for spec in table.cell_specs]
    return FilledTable(
        table=table,
        blocks=tuple(blocks),
        runs=tuple({run.key: run for cell in cells if cell for part in cell.parts for run in part.runs}.values()),
        num_cells=len(values),
        num_filled=sum(not value.is_empty for value in values),
        num_partial=sum(value.is_partial for value in values),
    )


def filled_text(tables: Sequence[FilledTable]) -> str:
    """How many cells of tables are filled, and how many of those lack a seed."""
    cells, filled, partial = (
        sum(getattr(table, name) for table in tables) for name in ("num_cells", "num_filled", "num_partial")
    )
    return f"{filled} of {cells}" + (f", {partial} of them without some seeds" if partial else "")


def best_of(cells: Sequence[Cell]) -> Cell | None:
    """The cell with the best value of one metric; None if no value is better than another."""
    filled = [cell for cell in cells if cell.value and not cell.value.is_empty and not cell.is_difference]
    values = [cell.value.value for cell in filled if cell.value]
    metric = filled[0].metric if filled else None
    best = metric.best(values) if metric else None
    return None if best is None else filled[values.index(best)]


def _has_differences(rows: Iterable[Sequence[Cell]]) -> bool:
    """Whether a table says itself which of its rows it compares."""
    return any(cell.is_difference for row in rows for cell in row)


def _joined(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def _paper_name(table: Table, source: Source) -> str | None:
    """The published figures to show beside a dataset: of its own name, or else the table's first."""
    if source.paper_name in table.datasets:
        return source.paper_name
    return next(iter(table.datasets), None)


def _block(table: Table, source: Source, paper_name: str | None, runs_of: RunsOf, finished: FinishedRuns) -> Block:
    rows = []
    for row in table.rows:
        cells = []
        for place, column in enumerate(table.columns):
            spec = table.cell_spec(row, column)
            needed = runs_of(spec, source) if spec else None
            value = finished.cell_value(spec, needed, source.fingerprint) if spec and needed else None
            published = _published(row, paper_name, place)
            cells.append(
                Cell(
                    row,
                    column,
                    spec,
                    published,
                    value,
                    beside_paper=paper_name is not None and not table.published_note,
                )
            )
        rows.append(tuple(cells))
    compare = _Comparison(source, runs_of, finished)
    columns = list(zip(table.columns, zip(*rows, strict=True), strict=True))
    orders = [(column, compare.order(cells)) for column, cells in columns]
    groups = dict.fromkeys(row.group for row in table.rows)
    rankings = [
        compare.ranking([cell for cell in cells if cell.row.group == group])
        for group in groups
        for _, cells in columns
        if not paper_name and not _has_differences(rows)
    ]
    return Block(
        source,
        paper_name,
        tuple(rows),
        tuple((column, order) for column, order in orders if order.total),
        tuple(filter(None, rankings)),
    )


def _published_block(table: Table, name: str) -> Block:
    cells = tuple(
        tuple(
            Cell(row, column, table.cell_spec(row, column), _published(row, name, place), None)
            for place, column in enumerate(table.columns)
        )
        for row in table.rows
        if name in row.published
    )
    return Block(None, name, cells)


def _published(row: Row, paper_name: str | None, place: int) -> str | None:
    cells = row.published.get(paper_name or "")
    return cells[place] if cells else None


@dataclass(frozen=True)
class _Comparison:
    """Compares the rows of a column with each other."""

    source: Source
    runs_of: RunsOf
    finished: FinishedRuns

    def order(self, column: Sequence[Cell]) -> Order:
        pairs = Counter(self._compare_pairs(column))
        return Order(pairs["same"], pairs["reversed"], pairs["undecided"])

    def ranking(self, column: Sequence[Cell]) -> Ranking | None:
        """The best cell of a column, with the paired differences that do not exclude 0."""
        best = best_of(column)
        if best is None or best.metric is None or best.metric.group not in SCORED:
            return None
        undecided = []
        for other in column:
            difference = self._difference(best, other) if other is not best else None
            if difference and not math.isnan(difference.low) and difference.low <= 0 <= difference.high:
                value, low, high = (best.metric.text(end) for end in vars(difference).values())
                undecided.append((other.row.label, f"{value} [{low} to {high}]"))
        return Ranking(best.column, best.row.group, best.row.label, tuple(undecided))

    def _difference(self, one: Cell, other: Cell) -> Interval | None:
        """The paired difference of two cells of one metric; None if they cannot be compared."""
        if not one.spec or not other.spec or one.spec.metric != other.spec.metric:
            return None
        first, second = self.runs_of(one.spec, self.source), self.runs_of(other.spec, self.source)
        if not first or not second:
            return None
        return self.finished.difference((one.spec, first), (other.spec, second))

    def _compare_pairs(self, column: Sequence[Cell]) -> Iterator[str]:
        """For each pair of published numbers, whether ours have the `same` order, the `reversed` one or neither."""
        for one, other in itertools.combinations(column, 2):
            theirs = published_number(one.published) - published_number(other.published)
            if one.row.group != other.row.group or not theirs or math.isnan(theirs):
                continue
            ours = self._difference(one, other)
            if ours is None or math.isnan(ours.low):
                continue
            if ours.low <= 0 <= ours.high:
                yield "undecided"
            else:
                yield "same" if (ours.value > 0) == (theirs > 0) else "reversed"
