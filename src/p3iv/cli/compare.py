"""`p3iv compare DIR --planners all --out OUT`."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p3iv.cli.choices import listed, listed_numbers, split_choice
from p3iv.cli.console import err, out, plain_progress, print_table
from p3iv.cli.train import EpochLine
from p3iv.errors import ConfigError

if TYPE_CHECKING:
    from p3iv.experiments.compare import Cell, Comparison
    from p3iv.experiments.rows import Row

SHORT_HEADERS = ("planner", "SR", "mAcc", "mIoU", "KL", "NLL", "recall", "CPU s", "ms")
OWN_OPTIONS = {"planner": "--planners", "preset": "--preset", "seed": "--seeds", "data.horizon": "--horizons"}
EXAMPLE = "Example: p3iv compare demo/tabletop --planners all --horizons 3,4 --seeds 0,1,2 --out runs/compared"


def compare_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A dataset folder with features.")],
    target: Annotated[Path, typer.Option("--out", metavar="OUT", help="The folder of all runs and the table.")],
    planners: Annotated[str, typer.Option("--planners", help="all, or names between commas.")] = "all",
    horizons: Annotated[str, typer.Option("--horizons", help="Numbers between commas.")] = "3,4",
    seeds: Annotated[str, typer.Option("--seeds", help="Numbers between commas.")] = "0,1,2",
    preset: Annotated[
        str | None, typer.Option("--preset", help="Of all planners; unless given, each is trained with its own.")
    ] = None,
    split: Annotated[str, typer.Option("--split", help="video, release, window, or a split file.")] = "video",
    samples: Annotated[int, typer.Option("--samples", help="K, plans drawn per window.")] = 1500,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting, e.g. optim.max_cpu_s=600.")
    ] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")] = "auto",
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads that torch computes with.")] = 1,
) -> None:
    """Train and evaluate planners on the same windows; the same command again goes on and skips what is done.

    Writes comparison.csv, comparison.md and comparison.html into OUT after every run. A run that fails is listed, the
    others go on, and the exit code is 1.
    """
    import torch  # takes a second to import

    from p3iv.config import (
        override,
        parse_settings,
        preset_config,
    )
    from p3iv.experiments.compare import (
        CompareRequest,
        compare,
    )
    from p3iv.planners.registry import (
        PLANNERS,
        planner_class,
    )
    from p3iv.plans.draws import SampleSettings

    torch.set_num_threads(threads)
    line = EpochLine()
    chosen = tuple(PLANNERS) if planners == "all" else tuple(listed(planners))
    changes = {"data.split": split_choice(split), **parse_settings(settings or [])}
    for name, option in OWN_OPTIONS.items():
        if name in changes:
            raise ConfigError(f"--set {name}={changes[name]}, but in a comparison it is {option} {changes[name]}.")
    presets = {name: preset or planner_class(name).preset for name in chosen}
    request = CompareRequest(
        folder=folder,
        out=target,
        bases={name: override(preset_config(own), changes) for name, own in presets.items()},
        planners=chosen,
        horizons=listed_numbers("--horizons", horizons),
        seeds=listed_numbers("--seeds", seeds),
        settings=SampleSettings(samples),
        device=device,
        on_epoch=line.show_epoch if err.is_terminal else lambda _: None,
        on_windows=line.show_windows if err.is_terminal else plain_progress("evaluating windows"),
    )
    cells = request.cells

    def show_cell(cell: Cell, what: str) -> None:
        line.end()
        err.print(f"{cells.index(cell) + 1} of {len(cells)}, {cell}: {what}", markup=False)

    def show_note(note: str) -> None:
        line.end()
        err.print(f"note: {note}", markup=False)

    try:
        found = compare(replace(request, on_cell=show_cell, on_note=show_note))
    except KeyboardInterrupt:
        line.end()
        err.print("interrupted; the same command goes on from there", markup=False)
        raise typer.Exit(130) from None
    show_comparison(found)
    out.print(f"-> {target}/comparison.csv, .md, .html", markup=False)
    if found.failures:
        raise typer.Exit(1)


def show_comparison(found: Comparison) -> None:
    """Print a table per horizon that fits 80 columns; the other figures and all intervals are in the files."""
    for horizon in dict.fromkeys(row.horizon for row in found.rows):
        rows = [_short_cells(row) for row in found.rows if row.horizon == horizon]
        print_table(SHORT_HEADERS, rows, title=f"T = {horizon}")
        out.print()
    if found.rows:
        out.print(
            "SR, mAcc, mIoU and recall of modes in per cent, ± half a 95 % interval by video; KL and NLL in nats; "
            "CPU s of training; ms per plan",
            style="dim",
            markup=False,
        )
    for what, why in found.failures.items():
        err.print(f"failed: {what}: {why}", markup=False)


def _short_cells(row: Row) -> list[str]:
    success = row.scores["success_rate"]
    return [
        row.planner,
        f"{100 * success.value:.1f}"
        + ("" if math.isnan(success.low) else f" ±{50 * (success.high - success.low):.1f}"),
        *(f"{100 * row.scores[name].value:.1f}" for name in ("mean_accuracy", "mean_iou")),
        *(f"{row.scores[name].value:.2f}" for name in ("kl", "nll")),
        f"{100 * row.scores['mode_recall'].value:.1f}",
        f"{row.training_s:.0f}",
        f"{row.milliseconds_per_plan:.1f}",
    ]
