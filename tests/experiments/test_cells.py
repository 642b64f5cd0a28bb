"""Cells are means over seeds, compared window by window, and say which seeds are missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from p3iv.experiments.cells import FinishedRuns
from p3iv.experiments.declarations import RECOMMENDED, CellSpec, Column, Row, Table, declarations
from p3iv.experiments.filled import ONE_SEED_NOTE, fill, filled_text
from p3iv.experiments.identity import Source, open_sources
from p3iv.experiments.pages import write_index
from p3iv.experiments.provenance import Provenance
from p3iv.experiments.runs import TRAINED, CellRuns, Outcome, RunOptions, runs_for_cell
from p3iv.experiments.writers import write_table

METRICS = ("success_rate", "mean_accuracy", "mean_iou", "macro_precision", "bitwise_iou")
OPTIONS = RunOptions(seeds=(0, 2), samples=20)


@dataclass
class World:
    """One table on one dataset, with runs that the test writes itself."""

    table: Table
    source: Source
    finished: FinishedRuns

    def runs_of(self, spec: CellSpec, source: Source) -> CellRuns:
        return runs_for_cell(spec, source, OPTIONS)

    def spec(self, row: int) -> CellSpec:
        spec = self.table.cell_spec(self.table.rows[row], self.table.columns[0])
        assert spec is not None
        return spec

    def write_runs(self, row: int, values: list[float], decoder: str, num_seeds: int = 2) -> CellRuns:
        """Write what finished runs of a row leave: these values of 24 videos in turn, 0.01 more per seed."""
        needed = self.runs_of(self.spec(row), self.source)
        for run in needed.runs[:num_seeds]:
            folder = run.folder(self.finished.out)
            folder.mkdir(parents=True)
            (folder / TRAINED).write_text("{}")
            arrays = {f"{name}.{decoder}": np.tile(values, 8) + 0.01 * run.config.seed for name in METRICS}
            places = {"videos": np.arange(24).astype(str), "first_steps": np.zeros(24), "lengths": np.full(24, 3)}
            np.savez(folder / needed.sampling.file, **arrays | places)
        return needed


@pytest.fixture
def make_world(tabletop: Path, tmp_path: Path) -> Callable[[Table], World]:
    [source] = open_sources((tabletop,))
    return lambda table: World(table, source, FinishedRuns(tmp_path, {}, {}))


@pytest.fixture
def memory(make_world: Callable[[Table], World]) -> World:
    table = declarations()["memory"]
    assert isinstance(table, Table)
    return make_world(table)


def test_seeds_are_averaged_and_rows_compared_window_by_window(memory: World) -> None:
    # As published, 0 < 64 < 256 < 128; here 64 is below 0, and 256 and 128 cannot be told apart.
    for row, values in enumerate(([0.2, 0.3, 0.4], [0.1, 0.2, 0.3], [0.5, 0.6, 0.9], [0.6, 0.7, 0.6])):
        memory.write_runs(row, values, "viterbi_paper")
    [block] = fill(memory.table, (memory.source,), memory.runs_of, memory.finished).blocks
    value = block.cells[0][0].value
    assert value is not None
    assert value.value == pytest.approx(0.3 + 0.01)  # seeds 0 and 2 add 0 and 0.02
    assert value.spread == pytest.approx(0.02 / np.sqrt(2))
    assert value.seeds == (0, 2)
    column, order = block.orders[0]
    assert column.label == "SR"
    assert (order.same, order.reversed, order.undecided) == (4, 1, 1)
    assert block.rankings == ()  # of tables without published figures


def test_the_best_row_and_its_rivals_are_named_with_paired_differences(make_world: Callable[[Table], World]) -> None:
    planners = ("p3iv", "random", "graph")
    rows = tuple(Row(name, "T=3", {"set": {"planner": name}, "horizon": 3}, {}) for name in planners)
    world = make_world(Table("own", "Own", "ours", "", (Column("SR", "", {"metric": "success_rate"}),), rows))
    for row, values in enumerate(([0.5, 0.6, 0.9], [0.1, 0.2, 0.3], [0.6, 0.7, 0.6])):
        world.write_runs(row, values, RECOMMENDED)
    [block] = fill(world.table, (world.source,), world.runs_of, world.finished).blocks
    [ranking] = block.rankings
    assert (ranking.best, ranking.group) == ("p3iv", "T=3")
    assert ranking.undecided == (("graph", "3.3 [-6.8 to 13.5]"),)
    assert block.ranking_notes == [
        "T=3: p3iv is best in SR. In SR it cannot be distinguished from graph (difference 3.3 [-6.8 to 13.5])."
    ]


def test_a_tie_in_the_first_column_is_named(make_world: Callable[[Table], World]) -> None:
    rows = tuple(Row(name, "T=3", {"set": {"planner": name}, "horizon": 3}, {}) for name in ("p3iv", "random", "graph"))
    world = make_world(Table("own", "Own", "ours", "", (Column("SR", "", {"metric": "success_rate"}),), rows))
    for row, values in enumerate(([0.5, 0.6, 0.9], [0.1, 0.2, 0.3], [0.9, 0.6, 0.5])):
        world.write_runs(row, values, RECOMMENDED)
    [block] = fill(world.table, (world.source,), world.runs_of, world.finished).blocks
    assert block.tie_notes == ["T=3: p3iv and graph have the same SR, 67.7."]
    assert block.ranking_notes[:1] == block.tie_notes


def test_a_failed_seed_leaves_the_others_and_a_reason(memory: World) -> None:
    needed = memory.write_runs(0, [0.0, 0.0, 1.0], "viterbi_paper", num_seeds=1)
    failed = Outcome(needed.runs[1].key, "failed", "ValueError: no")
    value = replace(memory.finished, outcomes={failed.key: failed}).cell_value(memory.spec(0), needed, "")
    assert (value.seeds, value.problem) == ((0,), "seed 2: failed: ValueError: no")


def test_a_cell_without_one_of_its_seeds_says_so_everywhere(memory: World) -> None:
    needed = memory.write_runs(0, [0.0, 0.0, 1.0], "viterbi_paper", num_seeds=1)
    failed = Outcome(needed.runs[1].key, "failed", "ValueError: no")
    finished = replace(memory.finished, outcomes={failed.key: failed})
    filled = fill(memory.table, (memory.source,), memory.runs_of, finished)
    assert filled_text([filled]) == "3 of 12, 3 of them without some seeds"
    provenance = Provenance.of("p3iv", (memory.source,), OPTIONS)
    write_index(finished.out, [write_table(finished.out, filled, provenance, finished)], "A title")
    for name in ("tables/memory.md", "tables/memory.tex", "tables/memory.html", "index.html"):
        text = (finished.out / name).read_text()
        assert text.count("1 of 2 seeds") == 3, name
        assert "seed 2: failed: ValueError: no (3 cells)" in text, name
    assert "3 of them without some seeds" in (finished.out / "index.html").read_text()


def test_two_decoders_of_the_same_runs_are_compared_seed_by_seed(make_world: Callable[[Table], World]) -> None:
    """The seeds differ by 2 points, the decoders by 1 to 3 points under every seed."""
    column = Column("SR", "", {"metric": "success_rate"})
    rows = tuple(Row(name, "", {"decoder": name, "horizon": 3}, {}) for name in ("viterbi", "argmax"))
    world = make_world(Table("own", "Own", "ours", "", (column,), rows))
    needed = world.write_runs(0, [0.5, 0.6, 0.7], "viterbi")
    for run in needed.runs:
        path = run.folder(world.finished.out) / needed.sampling.file
        arrays = dict(np.load(path))
        lower = np.tile([0.01, 0.02, 0.03], 8)
        np.savez(path, **arrays | {"success_rate.argmax": arrays["success_rate.viterbi"] - lower})
    one, other = ((world.spec(row), world.runs_of(world.spec(row), world.source)) for row in (0, 1))
    difference = world.finished.difference(one, other)
    assert difference is not None
    assert difference.value == pytest.approx(0.02)
    assert 0.016 < difference.low < difference.high < 0.024


def test_tables_say_what_their_intervals_leave_out(memory: World) -> None:
    memory.write_runs(0, [0.1, 0.2, 0.3], "viterbi_paper", num_seeds=1)
    memory.write_runs(1, [0.1, 0.2, 0.3], "viterbi_paper")
    filled = fill(memory.table, (memory.source,), memory.runs_of, memory.finished)
    assert filled.blocks[0].interval_notes == [ONE_SEED_NOTE]
    provenance = Provenance.of("p3iv", (memory.source,), OPTIONS)
    write_table(memory.finished.out, filled, provenance, memory.finished)
    for kind in ("md", "tex", "html"):
        text = (memory.finished.out / "tables" / f"memory.{kind}").read_text()
        assert text.count(ONE_SEED_NOTE) == 1, kind


def test_tables_say_where_there_are_too_few_videos(memory: World) -> None:
    needed = memory.write_runs(0, [0.1, 0.2, 0.3], "viterbi_paper")
    for run in needed.runs:
        path = run.folder(memory.finished.out) / needed.sampling.file
        np.savez(path, **dict(np.load(path)) | {"videos": np.repeat(["a", "b", "c"], 8)})
    [block] = fill(memory.table, (memory.source,), memory.runs_of, memory.finished).blocks
    [note] = block.interval_notes
    assert note == "T=3: only 3 videos, so the intervals are wide and few planners can be distinguished."
