"""`p3iv reproduce NAME --data DIR --out OUT`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table as Grid

from p3iv.cli.choices import listed_numbers
from p3iv.cli.console import err, out, print_json
from p3iv.errors import ConfigError

if TYPE_CHECKING:
    from p3iv.experiments.built import Block, Built
    from p3iv.experiments.reproduce import Progress, Reproduction

EXAMPLE = "Example: p3iv reproduce losses memory --data demo/tabletop --budget small --jobs 2 --out reproduced"


def reproduce_command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Tables and figures, or all; --list shows them.")
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="Show every table and figure, and stop.")] = False,
    data: Annotated[
        list[Path] | None, typer.Option("--data", metavar="DIR", help="A dataset folder with features; again for more.")
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--out", metavar="OUT", help="The folder of all runs and tables.")
    ] = None,
    budget: Annotated[
        str, typer.Option("--budget", help="small (20 CPU s per run, one seed) or paper (200 epochs, three seeds).")
    ] = "small",
    seeds: Annotated[str, typer.Option("--seeds", help="Numbers between commas, in place of the budget's.")] = "",
    horizons: Annotated[str, typer.Option("--horizons", help="Only cells of these T, such as 3 or 3,4.")] = "",
    samples: Annotated[
        int, typer.Option("--samples", min=1, help="K, plans drawn per window; Table 10 and figures have their own.")
    ] = 1500,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Of every run, e.g. optim.max_cpu_s=600.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Runs at a time.")] = 1,
    engine: Annotated[
        str, typer.Option("--engine", help="local, or ray: a cluster that sees the same folders.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option("--address", help="HOST:PORT of a Ray cluster; without it, one is started here.")
    ] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Regenerate tables and figures of the paper: ours beside the published figures, with intervals.

    Runs that several tables need are made once and kept in OUT/runs; the same command again goes on, and makes only
    what is missing. A run that fails is shown in its cells, the others go on, and the exit code is 1.
    """
    if show_list:
        _show_list(as_json=as_json)
        return
    if target is None:
        raise ConfigError("Nowhere to write to. Pass --out OUT; `p3iv reproduce --list` shows what there is.")

    from p3iv.config import parse_settings  # keeps `p3iv --help` quick
    from p3iv.experiments.reproduce import (
        ReproduceRequest,
        reproduce,
    )

    request = ReproduceRequest(
        names=tuple(names or ()),
        data=tuple(data or ()),
        out=target,
        budget=budget,
        seeds=listed_numbers("--seeds", seeds) if seeds else (),
        horizons=listed_numbers("--horizons", horizons) if horizons else (),
        settings=parse_settings(settings or []),
        samples=samples,
        jobs=jobs,
        engine=engine,
        address=address,
        device=device,
        command=f"p3iv {shlex.join(sys.argv[1:])}",
        on_plan=_show_plan,
        on_run=_show_run,
    )
    try:
        found = reproduce(request)
    except KeyboardInterrupt:
        err.print(f"interrupted; what was done is in {target}, and the same command goes on from there", markup=False)
        raise typer.Exit(130) from None
    if as_json:
        print_json(_summary(found))
    else:
        _show(found, target)
    for name, outcome in found.failures.items():
        err.print(f"failed: {name}: {outcome.about}", markup=False)
    if found.failures or found.is_empty:
        raise typer.Exit(1)


def _show_list(*, as_json: bool) -> None:
    from p3iv.experiments.listing import (
        list_all,
        list_together,
    )

    entries = [*list_all(), list_together()]
    if as_json:
        print_json([vars(entry) for entry in entries])
        return
    line = "{:<19} {:<10} {:>4} {:>7} {:>8}  {}"
    out.print(line.format("name", "paper", "runs", "small", "paper", "title"), style="dim")
    for entry in entries:
        runs, place = entry.runs_per_seed or "", "in text" if "text" in entry.place else entry.place
        small, paper = (_clock(entry.cpu_s[name]) if runs else "" for name in ("small", "paper"))
        theirs = f" ({', '.join(entry.published_on)})" if entry.published_on else ""
        what = ", a drawing: nothing to regenerate" if entry.kind == "drawing" else theirs
        out.print(line.format(entry.name, place, runs, small, paper, f"{entry.title}{what}"), markup=False)
    out.print(
        "\nruns: to train, per dataset and seed; tables share them. small, paper: processor time with --budget small "
        "(at most;\none seed) and --budget paper (three seeds, on CrossTask). Any dataset folder with features will "
        "do: its figures stand\nbeside the published ones, here of the datasets in brackets.",
        markup=False,
    )


def _show_plan(num_runs: int, num_missing: int) -> None:
    if num_missing:
        err.print(f"{num_runs} runs are needed, {num_missing} are to be made", markup=False)


def _show_run(progress: Progress) -> None:
    done = "" if progress.outcome.status == "done" else f"{progress.outcome.status}: "
    err.print(
        f"run {progress.num_done} of {progress.num_jobs}, {progress.num_tables_done} of {progress.num_tables} tables "
        f"and figures complete, about {_clock(progress.left_s)} left. {progress.run}: {done}{progress.outcome.about}",
        markup=False,
    )


def _show(found: Reproduction, target: Path) -> None:
    from p3iv.experiments.built import filled_of

    for built in found.tables:
        out.print(f"{built.title}", markup=False, style="bold")
        for block in built.blocks:
            _print_block(built, block)
        if built.table.note:
            out.print(built.table.note, markup=False, style="dim")
        for problem in built.problems:
            out.print(f"missing: {problem}", markup=False)
        out.print()
    for drawn in found.figures:
        out.print(f"{drawn.figure.place}, {drawn.figure.title}: {drawn.path or drawn.about}", markup=False)
    for name, what in found.provenance.lines:
        out.print(f"{name}: {what}", markup=False, style="dim")
    filled = filled_of(found.tables)
    out.print(f"cells filled: {filled} -> {target}/index.html, {target}/tables, {target}/runs.csv", markup=False)


def _print_block(built: Built, block: Block) -> None:
    """Ours over its interval, the published figure in brackets."""
    from p3iv.experiments.lettering import (
        published_in,
        range_in,
        seeds_in,
        value_in,
    )
    from p3iv.experiments.writing import (
        headers,
        row_label,
    )

    grid = Grid(
        title=block.title, title_justify="left", title_style="dim", box=None, padding=(0, 2, 0, 0), pad_edge=False
    )
    grid.add_column("", min_width=26)
    for name in headers(built):
        grid.add_column(escape(name), justify="right", header_style="dim")
    for row in block.cells:
        texts = []
        for cell in row:
            published = published_in(cell)
            theirs = f"({published})" if published else ""
            ours = value_in(cell) if block.source else ""
            above = escape(" ".join(part for part in (ours, theirs) if part))
            range_ = range_in(cell).replace(" to ", "–")  # noqa: RUF001 - narrower
            below = "\n".join(part for part in (range_, seeds_in(cell)) if part) if block.source else ""
            texts.append(f"{above}\n[dim]{escape(below)}[/dim]" if below else above)
        grid.add_row(escape(row_label(row[0])), *texts)
    out.print(grid, width=None if out.is_terminal else 160)
    out.print()


def _summary(found: Reproduction) -> dict[str, object]:
    return {
        "tables": {
            built.table.name: {
                "cells": built.num_cells,
                "filled": built.num_filled,
                "not_with_every_seed": built.num_partial,
                "not_filled": built.problems,
            }
            for built in found.tables
        },
        "figures": {drawn.anchor: str(drawn.path) if drawn.path else drawn.about for drawn in found.figures},
        "failures": {name: outcome.about for name, outcome in found.failures.items()},
    }


def _clock(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
