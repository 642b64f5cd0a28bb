"""`p3iv report` writes the results of a run as one HTML page."""

from __future__ import annotations

from typing import Annotated

import typer

from p3iv.cli.console import out, print_json, print_note
from p3iv.cli.options import AsJson, MovedDataset, RunDir
from p3iv.types import counted

EXAMPLE = "Example: p3iv report runs/first --cases 8"


def report_command(
    run: RunDir,
    data: MovedDataset = None,
    cases: Annotated[
        int, typer.Option("--cases", metavar="N", help="Number of windows in the gallery, right and wrong ones.")
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
