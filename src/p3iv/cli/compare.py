"""`p3iv compare` trains several planners on one dataset and compares them in a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p3iv.catalogue import DEFAULT_NUM_SAMPLES, METRICS, explain_labels
from p3iv.cli.console import err, interruptible, out, print_json, print_next, print_note, print_table
from p3iv.cli.options import (
    Address,
    AsJson,
    DatasetDir,
    Device,
    Engine,
    OutDir,
    PlannerNames,
    Samples,
    Settings,
    Split,
    Threads,
    horizons_option,
    parse_numbers,
    preset_option,
    seeds_option,
    split_at_commas,
)
from p3iv.cli.reproduce import Jobs, show_failures, show_run, typed_command

if TYPE_CHECKING:
    from p3iv.experiments.engine import FillResult
    from p3iv.experiments.filled import Cell

SHORT_METRICS = ("mean_accuracy", "mean_iou", "kl", "mode_recall", "training_cpu_s", "milliseconds_per_plan")
EXAMPLE = "Example: p3iv compare demo/tabletop --planners all --horizons 3,4 --seeds 0,1,2 --out runs/compared"


def compare_command(
    folder: DatasetDir,
    target: OutDir,
    planners: PlannerNames = "all",
    horizons: Annotated[str, horizons_option("to plan")] = "3,4",
    seeds: Annotated[str, seeds_option()] = "0,1,2",
    preset: Annotated[str | None, preset_option("of all planners")] = None,
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
    a run fails, the table says so, the other runs continue, and the exit code is 1. --json has every figure with its
    interval.
    """
    from p3iv.api.runs import compare  # keeps `p3iv --help` quick
    from p3iv.config import parse_settings
    from p3iv.experiments.compare import describe_comparison

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
        print_json(describe_comparison(result))
    else:
        show_comparison(result)
        out.print(f"-> {target}/index.html, {target}/comparison.csv, {target}/tables, {target}/runs.csv")
    show_failures(result)
    for name, outcome in result.impossible.items():
        err.print(f"impossible: {name}: {outcome.about}")
    if not as_json:
        _print_next_run(result, target)
    if result.failures or result.impossible:
        raise typer.Exit(1)


def _print_next_run(result: FillResult, target: Path) -> None:
    """How to evaluate the run of the planner with the highest success rate."""
    from p3iv.experiments.compare import filled_rows

    values = [cells["success_rate"].value for cells in filled_rows(result)]
    if best := max((value for value in values if value and value.runs), key=lambda value: value.value, default=None):
        print_next("evaluate", target / "runs" / best.runs[0])


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
