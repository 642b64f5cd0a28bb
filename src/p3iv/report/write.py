"""Write report.html for a run, and the plans between two moments as an SVG file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from p3iv.errors import ConfigError, DatasetError, SourceError
from p3iv.evaluation.cross_validated import find_only_scores
from p3iv.evaluation.evaluate import evaluation_files
from p3iv.evaluation.learning_curve import LearningCurve, find_curve
from p3iv.evaluation.predictions import PREDICTIONS_FILE, NamedLine, read_lines_at
from p3iv.files import exclusive, remove_leftovers, write_text
from p3iv.plans.draws import SampleSettings
from p3iv.readers.folder import read_folder
from p3iv.report.few_videos import cross_validated_page
from p3iv.report.gallery import FrameSource, choose_cases, scan_predictions
from p3iv.report.page import Content, build_page
from p3iv.report.run_files import RunRecord, read_run
from p3iv.report.tables import Published
from p3iv.training.run_folder import ENVIRONMENT_FILE, read_environment
from p3iv.types import counted

MAX_CASES = 60
REPORT_FILE = "report.html"
FindPublished = Callable[[RunRecord], Published | None]


@dataclass(frozen=True)
class ReportResult:
    """What was written."""

    path: Path
    num_windows: int  # in predictions.jsonl
    num_cases: int  # windows in the gallery
    num_pictures: int
    notes: tuple[str, ...]  # what the report lacks, and why


def write_report(
    run: Path, *, data: Path | None = None, num_cases: int = 8, find_published: FindPublished = lambda _: None
) -> ReportResult:
    """Write RUN/report.html, one file with everything in it, from the files of `p3iv train` and `p3iv evaluate`.

    Args:
        run: the run folder.
        data: the dataset folder, if it has moved since the training; only its steps and videos are read.
        num_cases: windows in the gallery.
        find_published: returns what the paper printed for the dataset, horizon and protocol of a run.
    """
    if not 0 <= num_cases <= MAX_CASES:
        raise ConfigError(f"--cases {num_cases}, but it must be from 0 to {MAX_CASES}.")
    validated = find_only_scores(run)
    if validated is not None:
        page = cross_validated_page(validated, _find_curve(run, data, validated.planner, validated.feature_fingerprint))
        _write_page(run, page)
        note = "the run has no test side: the report shows its cross-validated scores"
        return ReportResult(run / REPORT_FILE, validated.num_windows, 0, 0, (note,))
    record = read_run(run)
    predictions = evaluation_files(run, "test", SampleSettings()).find_predictions(record.evaluation)
    scan = scan_predictions(predictions) if predictions else None
    chosen = choose_cases(scan.candidates, num_cases) if scan else []
    cases = read_lines_at(predictions, [case.offset for case in chosen], NamedLine) if predictions else []
    frames = _find_frames(record, data, cases)
    notes = [*_check_predictions(predictions), *_check_epoch(record)]
    content = Content(
        run=record,
        published=find_published(record),
        reliability=scan.reliability if scan else None,
        cases=cases,
        frames=frames,
        notes=tuple(notes),
        curve=_find_curve(run, data, record.config.planner, record.feature_fingerprint),
    )
    _write_page(run, build_page(content))
    if chosen and frames.why_empty:
        notes.append(f"no pictures: {frames.why_empty}")
    if frames.num_broken:
        notes.append(f"{counted(frames.num_broken, 'picture')} could not be read from the videos")
    return ReportResult(
        path=run / REPORT_FILE,
        num_windows=len(scan.candidates) if scan else 0,
        num_cases=len(chosen),
        num_pictures=frames.num_read,
        notes=tuple(notes),
    )


def _write_page(run: Path, page: str) -> None:
    with exclusive(run / REPORT_FILE, doing=f"is writing {run / REPORT_FILE}", wait=True):
        remove_leftovers(run / REPORT_FILE)
        write_text(run / REPORT_FILE, page)


def _find_curve(run: Path, data: Path | None, planner: str, fingerprint: str | None) -> LearningCurve | None:
    """The learning curve of the dataset of a run, if it is of the same planner on the same features."""
    folder = data or (read_environment(run).dataset if (run / ENVIRONMENT_FILE).is_file() else None)
    curve = find_curve(folder)
    is_own = curve is not None and (curve.planner, curve.feature_fingerprint) == (planner, fingerprint)
    return curve if is_own else None


def _check_epoch(run: RunRecord) -> Iterator[str]:
    """A run that was resumed after its evaluation may keep another planner than the one that was evaluated."""
    evaluated = run.evaluation.epoch
    if run.kept_epoch is not None and evaluated != run.kept_epoch:
        yield (
            f"the planner of epoch {evaluated} was evaluated, but the run now keeps that of epoch {run.kept_epoch}: "
            "evaluate it again"
        )


def _find_frames(run: RunRecord, data: Path | None, cases: Sequence[NamedLine]) -> FrameSource:
    """The videos of the dataset that was evaluated: in `data`, or in the folder that environment.json names.

    Raises:
        DatasetError: `data` is not a dataset folder, or that of another dataset.
    """
    folder = data or (run.environment.dataset if run.environment else None)
    if data is not None and not (data / "steps.csv").is_file():
        raise DatasetError(f"{data} is not a dataset folder: it has no steps.csv.")
    other = _find_other_video(folder, cases) if folder is not None and (folder / "steps.csv").is_file() else None
    if other is None:
        return _with_shown_videos(FrameSource(folder, page_folder=run.folder), cases)
    what = f"{folder} is not the dataset that was evaluated: video {other} has other steps there"
    if data is not None:
        raise DatasetError(f"{what}. Pass the folder that `p3iv evaluate` used: --data DIR.")
    return FrameSource(None, f"{what}; pass --data DIR")


def _with_shown_videos(frames: FrameSource, cases: Sequence[NamedLine]) -> FrameSource:
    """The source itself, or an empty one if its folder has none of the videos that are shown."""
    if not cases or not frames.files or any(case.video in frames.files for case in cases):
        return frames
    return FrameSource(None, f"{frames.folder} has none of the videos that were evaluated; pass --data DIR")


def _find_other_video(folder: Path, cases: Sequence[NamedLine]) -> str | None:
    """A video that has other steps in a dataset folder than in the predictions; None if the steps cannot be read."""
    try:
        videos = read_folder(folder, with_split=False).videos
    except SourceError:
        return None
    steps_of = {video.id: [step.action for step in video.steps] for video in videos}
    for case in cases:
        steps, first = steps_of.get(case.video or ""), case.first_step
        if steps is not None and first is not None:
            there = tuple(steps[first : first + len(case.reference)])
            if there != case.reference:
                return case.video
    return None


def _check_predictions(predictions: Path | None) -> Iterator[str]:
    if predictions is None:
        yield f"the run has no {PREDICTIONS_FILE}, so there are no plans to show; evaluate it again"
