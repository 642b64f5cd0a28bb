"""`p3iv demo`: the embedded world end to end."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from p3iv.cli.console import out

EXAMPLE = "Example: p3iv demo demo"


def demo_command(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the dataset and the run are written.")] = Path(
        "demo"
    ),
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the world and of the training.")] = 0,
) -> None:
    """From raw video to a plan: film the tabletop world, encode it, train, evaluate, plan an example, write the report.

    Every step is an ordinary command, printed before it runs; what an earlier demo wrote into DIR is replaced.
    """
    began = time.monotonic()

    def p3iv(*words: str) -> None:
        out.print(f"\n$ p3iv {shlex.join(words)}", markup=False, style="bold")
        code = context.find_root().command.main(list(words), prog_name="p3iv", standalone_mode=False)
        if code:
            raise typer.Exit(int(code))

    data, run = str(folder / "tabletop"), str(folder / "run")
    p3iv("data", "make", "tabletop", data, "--encoder", "none", "--seed", str(seed), "--overwrite")
    p3iv("extract", data, "--only-needed", "--jobs", "2", "--overwrite")
    p3iv("data", "check", data)
    p3iv("data", "stats", data, "--split", "release")
    p3iv(
        "train", data, "--out", run, "--split", "release", "--seed", str(seed), "--planner", "p3iv-plus", "--overwrite"
    )
    p3iv("evaluate", run)
    example = _example(folder / "run")
    film = f"{data}/videos/{example['video']}.mp4"
    start, goal = (f"{film}@{example[moment]:g}" for moment in ("start_s", "goal_s"))
    p3iv("plan", run, "--start", start, "--goal", goal)
    out.print(f"what was done in the video: {' -> '.join(example['reference'])}", markup=False)
    p3iv("report", run)
    out.print(f"\nthe demo took {time.monotonic() - began:.0f} s; open {run}/report.html", markup=False)


def _example(run: Path) -> dict[str, Any]:
    """The first test window that can be planned in more than one way, or simply the first."""
    with (run / "predictions.jsonl").open(encoding="utf-8") as lines:
        windows = [json.loads(line) for line in lines]
    return next((window for window in windows if window["probability"] < 0.8), windows[0])
