"""`p3iv data check`: find what is wrong with a dataset folder, and repair its steps.csv."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p3iv.cli.console import err, note_leftovers, out, print_finding, print_json, print_next
from p3iv.cli.options import AsJson, DatasetDir
from p3iv.types import count_problems, counted

if TYPE_CHECKING:
    from p3iv.data.check_steps import RepairedSteps


def check_command(
    folder: DatasetDir,
    fix: Annotated[
        bool,
        typer.Option(
            "--fix", help="Write steps.fixed.csv, a repaired copy of steps.csv, and say each change. steps.csv stays."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a dataset folder and list every error, warning and note.

    A note says what was understood in a steps.csv that is written in another way than documented. The exit code is 1
    if there is any error.
    """
    from p3iv.api.datasets import check, repair  # keeps `p3iv --help` quick

    for path in (folder, folder / "features"):
        note_leftovers(path)
    findings = check(folder)
    num = Counter(finding.severity for finding in findings)
    repaired = repair(folder) if fix else None
    if as_json:
        found = [vars(finding) for finding in findings]
        print_json(found if repaired is None else {"findings": found, "repaired": asdict(repaired)})
    else:
        for finding in findings if repaired is None else [each for each in findings if each.severity != "note"]:
            print_finding(finding.severity, f"{finding.severity}: {finding.message}")
        _print_verdict(folder, num)
        if repaired is None:
            _print_next_of_check(folder, num)
        else:
            _print_repaired(repaired, num["error"])
    if num["error"]:
        raise typer.Exit(1)


def _print_verdict(folder: Path, num: Counter[str]) -> None:
    worst = next((severity for severity in ("error", "warning") if num[severity]), "ok")
    errors = counted(num["error"], "error") if num["error"] else "no errors"
    notes = f", {counted(num['note'], 'note')}" if num["note"] else ""
    print_finding(worst, f"{folder}: {errors}, {counted(num['warning'], 'warning')}{notes}")


def _print_next_of_check(folder: Path, num: Counter[str]) -> None:
    if num["note"]:
        err.print("All commands understand what the notes are about. To write steps.csv in the documented way:")
        print_next("data", "check", folder, "--fix")
    if num["error"]:
        err.print("Repair the errors, then check again.")
        print_next("data", "check", folder)
    else:
        print_next_of(folder)


def _print_repaired(repaired: RepairedSteps, num_errors: int) -> None:
    if repaired.path is None:
        out.print("steps.csv needs no repair")
        return
    for change in repaired.changes:
        out.print(f"changed: {change}")
    for problem in repaired.left_out:
        out.print(f"not kept: {problem}")
    out.print(f"repaired copy: {repaired.path}")
    err.print("steps.csv was not changed. To use the copy, rename it to steps.csv.")
    if repaired.left_out:
        err.print("Rows that were not kept are only in the old steps.csv: correct them there and repair again.")
    if num_errors > count_problems(repaired.left_out):
        err.print("The other errors above are in the copy, too: only you can know what is right.")


def print_next_of(folder: Path) -> None:
    """What to do with a dataset folder without errors: look at it, or give it features first."""
    if (folder / "features").is_dir():
        print_next("data", "stats", folder, *(("--split", "release") if (folder / "split.json").is_file() else ()))
    elif (folder / "language.npz").is_file() and not (folder / "videos").is_dir():
        print_next("data", "simulate", folder)
    else:
        print_next("extract", folder)
