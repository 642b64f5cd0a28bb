"""`p3iv report RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from p3iv.cli.console import err, out, print_json

EXAMPLE = "Example: p3iv report runs/first --cases 8"


def report_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder that `p3iv evaluate` has been through.")],
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="The dataset folder, where it has moved.")
    ] = None,
    cases: Annotated[int, typer.Option("--cases", help="Windows to show, right and wrong ones.")] = 8,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write RUN/report.html: results, curves, reliability and a gallery of plans, in one file for any browser."""
    from p3iv.report.write import write_report  # keeps `p3iv --help` quick

    result = write_report(run, data=data, num_cases=cases)
    if as_json:
        print_json(result)
        return
    for note in result.notes:
        err.print(f"note: {note}", markup=False)
    out.print(f"{result.num_windows} windows, {result.num_cases} shown -> {result.path}", markup=False)
