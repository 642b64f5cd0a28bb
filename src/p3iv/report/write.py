"""From a run folder to report.html."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from p3iv.errors import ConfigError, DatasetError
from p3iv.files import write_text
from p3iv.report.gallery import Scan, choose_cases, scan_predictions
from p3iv.report.inputs import PREDICTIONS_FILE, RunRecord, read_run
from p3iv.report.page import Content, build_page
from p3iv.report.pictures import PictureShelf
from p3iv.report.windows import read_windows_at
from p3iv.types import counted

MOST_CASES = 60


@dataclass(frozen=True)
class ReportResult:
    """What was written."""

    path: Path
    num_windows: int  # in predictions.jsonl
    num_cases: int  # windows in the gallery
    num_pictures: int
    notes: tuple[str, ...]  # what the report lacks, and why


def write_report(run: Path, *, data: Path | None = None, num_cases: int = 8) -> ReportResult:
    """Write RUN/report.html, one file with all in it, from what `p3iv train` and `p3iv evaluate` left in RUN.

    Args:
        run: the run folder.
        data: the dataset folder, where it is no longer where the run was trained on it; only its videos are read.
        num_cases: windows in the gallery.
    """
    if not 0 <= num_cases <= MOST_CASES:
        raise ConfigError(f"--cases {num_cases}, but it must be from 0 to {MOST_CASES}.")
    record = read_run(run)
    shelf = PictureShelf(_dataset_folder(record, data))
    predictions = run / PREDICTIONS_FILE
    scan = scan_predictions(predictions) if predictions.is_file() else None
    chosen = choose_cases(scan.candidates, num_cases) if scan else []
    notes = [*_check_windows(record, scan), *_check_epoch(record)]
    content = Content(
        run=record,
        reliability=scan.reliability if scan else None,
        cases=read_windows_at(predictions, [case.offset for case in chosen]) if chosen else (),
        shelf=shelf,
        notes=tuple(notes),
    )
    page = build_page(content)
    write_text(run / "report.html", page)
    if chosen and shelf.why_empty:
        notes.append(f"no pictures: {shelf.why_empty}")
    if shelf.num_broken:
        notes.append(f"{counted(shelf.num_broken, 'picture')} could not be read from the videos")
    return ReportResult(
        path=run / "report.html",
        num_windows=len(scan.candidates) if scan else 0,
        num_cases=len(chosen),
        num_pictures=shelf.num_read,
        notes=tuple(notes),
    )


def _check_epoch(run: RunRecord) -> Iterator[str]:
    """A run that was trained on after its evaluation may keep another planner than the one that was evaluated."""
    if run.kept_epoch is not None and run.best_epoch != run.kept_epoch:
        yield (
            f"the planner of epoch {run.best_epoch} was evaluated, but the run now keeps that of epoch "
            f"{run.kept_epoch}: evaluate it again"
        )


def _dataset_folder(run: RunRecord, data: Path | None) -> Path | None:
    """Where to look for videos: a folder that was named must be a dataset, one that was remembered may have gone."""
    if data is not None:
        if not (data / "steps.csv").is_file():
            raise DatasetError(f"{data} is no dataset folder: it has no steps.csv.")
        return data
    remembered = run.environment.get("dataset")
    return Path(remembered) if isinstance(remembered, str) else None


def _check_windows(run: RunRecord, scan: Scan | None) -> list[str]:
    if scan is None:
        return [f"the run has no {PREDICTIONS_FILE}, so there are no plans to show; evaluate it again"]
    found, expected = len(scan.candidates), run.evaluation.num_windows
    if found != expected:
        return [
            f"{PREDICTIONS_FILE} holds {counted(found, 'window')}, evaluation.json speaks of {expected}: "
            f"they are of different evaluations"
        ]
    return []
