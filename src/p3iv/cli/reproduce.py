"""`p3iv reproduce` fills the tables and figures of the paper with our own runs."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from p3iv.catalogue import DEFAULT_NUM_SAMPLES
from p3iv.cli.completion import complete_tables
from p3iv.cli.console import err, interruptible, out, print_json, print_next, print_note
from p3iv.cli.options import (
    Address,
    AsJson,
    Device,
    Engine,
    Settings,
    Threads,
    horizons_option,
    jobs_option,
    name_option,
    parse_numbers,
    samples_option,
    seeds_option,
)
from p3iv.errors import ConfigError
from p3iv.types import Progress, clock

if TYPE_CHECKING:
    from p3iv.experiments.engine import Execution, FillResult
    from p3iv.experiments.filled import Block, FilledTable

EXAMPLE = "Example: p3iv reproduce losses memory --data demo/tabletop --budget small --jobs 2 --out reproduced"

FILE_WIDTH = 160  # of tables that are not printed in a terminal

Jobs = Annotated[int, jobs_option("; each makes one run at a time")]


def reproduce_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Names of tables and figures, or all; --list shows them.",
            autocompletion=complete_tables,
        ),
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="List all tables and figures, and stop.")] = False,
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", metavar="DIR", help="The dataset folder, with features; may be repeated."),
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--out", metavar="OUT", help="The folder to write, for runs and tables.")
    ] = None,
    budget: Annotated[
        str,
        name_option(
            "--budget", ("small", "paper"), "small (20 CPU seconds per run, one seed) or paper (200 epochs, 3 seeds)."
        ),
    ] = "small",
    seeds: Annotated[str, seeds_option("; without it, those of the budget")] = "",
    horizons: Annotated[str, horizons_option("to fill the cells of (without it, all)")] = "",
    samples: Annotated[int, samples_option("; table 10 and figures have their own")] = DEFAULT_NUM_SAMPLES,
    settings: Settings = None,
    jobs: Jobs = 1,
    engine: Engine = "local",
    address: Address = None,
    device: Device = "auto",
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Reproduce tables and figures of the paper.

    Our results are shown with intervals, beside the published ones. Tables share their runs, which are kept in
    OUT/runs. The same command continues after an interruption and makes only the missing runs. If a run fails, its
    cells say so, the other runs continue, and the exit code is 1.
    """
    if show_list:
        _show_list(as_json=as_json)
        return
    if target is None:
        raise ConfigError("--out is missing. Pass --out OUT, or --list to see all tables and figures.")

    from p3iv.config import parse_settings  # keeps `p3iv --help` quick
    from p3iv.experiments.reproduce import ReproduceRequest, reproduce

    request = ReproduceRequest(
        names=tuple(names or ()),
        data=tuple(data or ()),
        out=target,
        budget=budget,
        seeds=parse_numbers("--seeds", seeds) if seeds else (),
        horizons=parse_numbers("--horizons", horizons) if horizons else (),
        settings=parse_settings(settings or []),
        samples=samples,
        execution=execution(jobs=jobs, engine=engine, address=address, device=device, threads=threads),
    )
    with interruptible(f"finished runs are in {target}, and the same command continues there"):
        result = reproduce(request)
    if as_json:
        print_json(summary(result))
    else:
        _show(result, target)
    show_failures(result)
    if not as_json:
        print_next(*sys.argv[1:], *(("--budget", "paper") if budget == "small" and not result.failures else ()))
    if result.failures or result.is_empty:
        raise typer.Exit(1)


def typed_command() -> str:
    """The command as the user typed it, for the provenance of tables."""
    return f"p3iv {shlex.join(sys.argv[1:])}"


def execution(**options: Any) -> Execution:
    """How to carry out the runs, with progress and notes on standard error."""
    from p3iv.experiments.engine import Execution

    return Execution(command=typed_command(), on_progress=show_run, on_note=print_note, **options)


def _show_list(*, as_json: bool) -> None:
    from p3iv.experiments.reproduce import list_all, list_together

    entries = [*list_all(), list_together()]
    if as_json:
        print_json([vars(entry) for entry in entries])
        return
    line = "{:<19} {:<10} {:>4} {:>7} {:>8}  {}"
    out.print(line.format("name", "paper", "runs", "small", "paper", "title"), style="dim")
    for entry in entries:
        runs, place = entry.runs_per_seed or "", "in text" if "text" in entry.place else entry.place
        small, paper = (clock(entry.cpu_s[name]) if runs else "" for name in ("small", "paper"))
        theirs = f" ({', '.join(entry.published_on)})" if entry.published_on else ""
        what = ", a drawing: nothing to regenerate" if entry.kind == "drawing" else theirs
        out.print(line.format(entry.name, place, runs, small, paper, f"{entry.title}{what}"))
    out.print(
        "\nruns: planners to train per dataset and seed; tables share them. small, paper: processor time with --budget "
        "small\n(at most; one seed) and --budget paper (three seeds, on CrossTask). Any dataset folder with features "
        "can be used: its\nfigures are shown beside the published ones of the datasets in brackets.",
    )
    example = Path("demo") / "tabletop"
    if (example / "steps.csv").is_file():
        print_next("reproduce", "unique-plans", "--data", example, "--out", "reproduced")
    else:
        print_next("demo", "demo")


def show_run(progress: Progress) -> None:
    """Print a line about the runs that are missing, then one about each that has ended."""
    if progress.total:
        err.print(f"run {progress.done:.0f} of {progress.total}, {progress.about}" if progress.done else progress.about)


def show_failures(result: FillResult) -> None:
    """Print every failed run with the reason."""
    for name, outcome in result.failures.items():
        err.print(f"failed: {name}: {outcome.about}")


def _show(result: FillResult, target: Path) -> None:
    from p3iv.experiments.filled import filled_text

    for filled in result.tables:
        out.print(f"{filled.title}", style="bold")
        for block in filled.blocks:
            _print_block(filled, block)
        if filled.table.note:
            out.print(filled.table.note, style="dim")
        for problem in filled.problems:
            out.print(f"missing: {problem}")
        out.print()
    for drawn in result.figures:
        out.print(f"{drawn.figure.place}, {drawn.figure.title}: {drawn.path or drawn.about}")
    for name, what in result.provenance.lines:
        out.print(f"{name}: {what}", style="dim")
    number = filled_text(result.tables)
    out.print(f"cells filled: {number} -> {target}/index.html, {target}/tables, {target}/runs.csv, {target}/scores.csv")


def _print_block(filled: FilledTable, block: Block) -> None:
    """Print our values over their intervals, with the published figures in brackets."""
    from rich.table import Table as Grid
    from rich.text import Text

    from p3iv.experiments.writers import headers, row_label

    grid = Grid(
        title=block.title, title_justify="left", title_style="dim", box=None, padding=(0, 2, 0, 0), pad_edge=False
    )
    grid.add_column("", min_width=26)
    for name in headers(filled):
        grid.add_column(name, justify="right", header_style="dim")
    group = ""
    for row in block.cells:
        if row[0].row.group != group:
            group = row[0].row.group
            grid.add_row(Text(group, style="dim"))
        texts = []
        for cell in row:
            theirs = f"({cell.published})" if cell.published else ""
            ours = cell.text if block.source else ""
            above = " ".join(part for part in (ours, theirs) if part)
            range_ = cell.range_text.replace(" to ", "–")  # noqa: RUF001 - narrower
            below = "\n".join(part for part in (range_, cell.seeds_text) if part) if block.source else ""
            texts.append(Text.assemble(above, (f"\n{below}", "dim")) if below else Text(above))
        grid.add_row(row_label(row[0], with_group=False), *texts)
    width, out.width = out.width, out.width if out.is_terminal else FILE_WIDTH
    out.print(grid)
    out.width = width
    for note in block.interval_notes:
        out.print(f"note: {note}")
    out.print()


def summary(result: FillResult) -> dict[str, object]:
    """What was written, for --json."""
    return {
        "tables": {
            filled.table.name: {
                "cells": filled.num_cells,
                "filled": filled.num_filled,
                "without_some_seeds": filled.num_partial,
                "not_filled": filled.problems,
            }
            for filled in result.tables
        },
        "figures": {drawn.anchor: str(drawn.path) if drawn.path else drawn.about for drawn in result.figures},
        "failures": {name: outcome.about for name, outcome in result.failures.items()},
    }
