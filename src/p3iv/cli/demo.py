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
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the dataset and the run are written.")] = Path(
        "demo"
    ),
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the world and of the training.")] = 0,
) -> None:
    """Make the tabletop dataset, train a small planner on it, evaluate it, plan one example, write the report.

    Every step is an ordinary command, printed before it runs; what an earlier demo wrote into DIR is replaced.
    """
    began = time.monotonic()
    data, run = str(folder / "tabletop"), str(folder / "run")
    _run("data", "make", "tabletop", data, "--seed", str(seed), "--overwrite")
    _run("data", "check", data)
    _run("data", "stats", data, "--split", "release")
    _run("train", data, "--out", run, "--preset", "tiny", "--split", "release", "--seed", str(seed), "--overwrite")
    _run("evaluate", run, "--mode", "chain")
    example = _example(folder / "run")
    start, goal = (f"{example['video']}@{example[moment]:g}" for moment in ("start_s", "goal_s"))
    _run("plan", run, "--start", start, "--goal", goal, "--mode", "chain")
    out.print(f"what was done in the video: {' -> '.join(example['reference'])}", markup=False)
    _run("report", run)
    out.print(f"\nthe demo took {time.monotonic() - began:.0f} s; open {run}/report.html", markup=False)


def _example(run: Path) -> dict[str, Any]:
    """The first test window that can be planned in more than one way, or simply the first."""
    with (run / "predictions.jsonl").open(encoding="utf-8") as lines:
        windows = [json.loads(line) for line in lines]
    return next((window for window in windows if window["probability"] < 0.8), windows[0])


def _run(*words: str) -> None:
    """Run a command of this program and say which."""
    from p3iv.cli.app import app  # noqa: PLC0415 - it imports this module

    out.print(f"\n$ p3iv {shlex.join(words)}", markup=False, style="bold")
    app(list(words), standalone_mode=False)
