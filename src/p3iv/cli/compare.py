"""`p3iv compare` trains several planners on one dataset and compares them in a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p3iv.catalogue import DEFAULT_NUM_SAMPLES, METRICS, explain_labels
from p3iv.cli.console import err, interruptible, out, print_json, print_note, print_table
from p3iv.cli.options import (
    Address,
    AsJson,
    DatasetDir,
    Device,
    Engine,
    Samples,
    Settings,
    Split,
    Threads,
    list_option,
    parse_numbers,
    split_at_commas,
)
from p3iv.cli.reproduce import Jobs, show_failures, show_run, summary, typed_command
from p3iv.planners.registry import PLANNERS

if TYPE_CHECKING:
    from p3iv.experiments.engine import FillResult
    from p3iv.experiments.filled import Cell

SHORT_METRICS = ("mean_accuracy", "mean_iou", "kl", "mode_recall", "training_cpu_s", "milliseconds_per_plan")
EXAMPLE = "Example: p3iv compare demo/tabletop --planners all --horizons 3,4 --seeds 0,1,2 --out runs/compared"


def compare_command(
    folder: DatasetDir,
    target: Annotated[Path, typer.Option("--out", metavar="OUT", help="The folder to write runs and tables to.")],
    planners: Annotated[
        str, list_option("--planners", "NAME", f"{', '.join(PLANNERS)}; separated by commas, or all.")
    ] = "all",
    horizons: Annotated[str, list_option("--horizons", "T", "Horizons, separated by commas.")] = "3,4",
    seeds: Annotated[str, list_option("--seeds", "N", "Seeds, separated by commas.")] = "0,1,2",
    preset: Annotated[
        str | None,
        typer.Option("--preset", metavar="NAME", help="The preset of all planners; default: each planner's own."),
    ] = None,
    split: Split = "video",
    samples: Samples = DEFAULT_NUM_SAMPLES,
    settings: Settings = None,
    jobs: Jobs = 1,
    engine: Engine = "local",
    address: Address = None,
    device: Device = "auto",
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Train several planners and compare them in one table.

    Writes OUT/comparison.csv, OUT/tables/comparison.md, .tex and .html, and OUT/index.html. Limit the time of a run
    with --set optim.max_cpu_s=600. The same command continues after an interruption and makes only the missing runs. If
    a run fails, the table says so, the other runs continue, and the exit code is 1.
    """
    from p3iv.api.runs import compare  # keeps `p3iv --help` quick
    from p3iv.config import parse_settings

    with interruptible(f"finished runs are in {target}, and the same command continues there"):
        result = compare(
            folder,
            target,
            planners="all" if planners == "all" else split_at_commas(planners),
            horizons=parse_numbers("--horizons", horizons),
            seeds=parse_numbers("--seeds", seeds),
            preset=preset,
            split=split,
            samples=samples,
            settings=parse_settings(settings or []),
            jobs=jobs,
            engine=engine,
            address=address,
            device=device,
            threads=threads,
            command=typed_command(),
            progress=show_run,
            on_note=print_note,
        ).result
    if as_json:
        print_json(summary(result))
    else:
        show_comparison(result)
        out.print(f"-> {target}/index.html, {target}/comparison.csv, {target}/tables, {target}/runs.csv")
    show_failures(result)
    for name, outcome in result.impossible.items():
        err.print(f"impossible: {name}: {outcome.about}")
    if result.failures or result.impossible:
        raise typer.Exit(1)


def show_comparison(result: FillResult) -> None:
    """Print a table per horizon that fits 80 columns; all other figures and intervals are in the files."""
    from p3iv.experiments.compare import filled_rows

    rows = list(filled_rows(result))
    for group in dict.fromkeys(cells["success_rate"].row.group for cells in rows):
        lines = [_short_cells(cells) for cells in rows if cells["success_rate"].row.group == group]
        headers = ["planner", *(METRICS[name].label for name in ("success_rate", *SHORT_METRICS))]
        print_table(headers, lines, title=group)
        out.print()
    if rows:
        out.print(
            "SR (with its 95 % interval for other videos and seeds), mAcc, mIoU and recall of modes in percent; KL in "
            "nats; CPU s of training; ms per plan",
            style="dim",
        )
        out.print(explain_labels(("success_rate", *SHORT_METRICS[:4])), style="dim")
    for block in (block for filled in result.tables for block in filled.blocks):
        for note in (*block.tie_notes, *block.interval_notes):
            out.print(f"note: {note}")


def _short_cells(cells: dict[str, Cell]) -> list[str]:
    first = cells["success_rate"]
    ends = f" [{first.range_text.replace(' to ', ', ')}]" if first.range_text else ""
    return [first.row.label, f"{first.text}{ends}", *(cells[name].text for name in SHORT_METRICS)]
