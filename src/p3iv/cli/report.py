"""`p3iv report` writes the results of a run as one HTML page."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import Annotated

from p3iv.cli.console import out, print_json, print_next, print_note
from p3iv.cli.options import AsJson, MovedDataset, RunDir, number_option
from p3iv.types import counted

EXAMPLE = "Example: p3iv report runs/first --cases 8"


def report_command(
    run: RunDir,
    data: MovedDataset = None,
    cases: Annotated[
        int, number_option("--cases", "Number of windows in the gallery, right and wrong ones.", min=0)
    ] = 8,
    as_json: AsJson = False,
) -> None:
    """Write the results of a run as one HTML page.

    RUN/report.html shows scores, training curves, calibration and a gallery of plans. Run `p3iv evaluate RUN` first.
    """
    from p3iv.api.runs import write_report  # keeps `p3iv --help` quick

    result = write_report(run, data=data, cases=cases)
    if as_json:
        print_json(result)
        return
    for note in result.notes:
        print_note(note)
    windows = counted(result.num_windows, "window")
    out.print(f"{windows}, {result.num_cases} of them in the gallery -> {result.path}")
    _print_next_plan(run, data)


def _print_next_plan(run: Path, data: Path | None) -> None:
    """How to plan between the two moments of the first test window; without one, on the page."""
    from p3iv.evaluation.predictions import NamedLine, read_lines

    path, moved = run / "predictions.jsonl", () if data is None else ("--data", data)
    _, first = next(read_lines(path, NamedLine), (None, None)) if path.is_file() else (None, None)
    if first is not None and first.start_s is not None and first.goal_s is not None and isfinite(first.goal_s):
        moments = ("--start", f"{first.video}@{first.start_s:g}", "--goal", f"{first.video}@{first.goal_s:g}")
        print_next("plan", run, *moments, *moved)
    elif not path.is_file():  # a run of all videos has no test side
        print_next("serve", run, *moved)
