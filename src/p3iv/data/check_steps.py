"""Check the steps.csv and the videos/ of a dataset folder, and repair the former."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

from p3iv.catalogue import VIDEO_SUFFIXES
from p3iv.data.folder import find_twins
from p3iv.environment import install_command
from p3iv.errors import FeatureError
from p3iv.readers.rows import order_steps
from p3iv.readers.steps import STEPS_FILE, StepRow, StepTable, read_steps, read_video_column, write_steps
from p3iv.readers.variants import describe_near, near_names, spelling_key
from p3iv.types import Problem, Video, counted, listed
from p3iv.validation import shown

FIXED_FILE = "steps.fixed.csv"

MAX_PAST_END_S = 1.0  # that a step may end after its video: times are often rounded to seconds

MAX_FINDINGS = 20  # videos whose steps are past their end

ORDERED = "the rows are ordered by video, and by time within a video"


@dataclass(frozen=True)
class Finding:
    """Something that `p3iv data check` found; errors make it fail, warnings and notes do not."""

    severity: str  # error | warning | note
    message: str


def check_steps(folder: Path) -> Iterator[Finding]:
    """Check steps.csv: what was understood, what cannot be used, and what is probably a slip."""
    table = read_steps(folder)
    yield from (Finding("note", note) for note in table.notes)
    problems = table.videos.log.problems
    yield from (Finding("error", f"{problem.where}: {problem.what}") for problem in problems)
    if not table.rows:
        yield Finding("error", f"{STEPS_FILE} has no usable row, expected at least one")
        return
    videos = list(table.videos.videos.values())
    if twice := [video.id for video in videos if _has_twin_steps(video)]:
        yield Finding("warning", f"{counted(len(twice), 'video')} with the same step at the same time: {listed(twice)}")
    runs = Counter(video for video, _ in groupby(read_video_column(folder)) if video is not None)
    if scattered := [video for video, count in runs.items() if count > 1]:
        what = f"steps.csv has the rows of {counted(len(scattered), 'video')} in several places"
        yield Finding("warning", f"{what}; is one id used for two videos? {listed(scattered)}")
    if untimed := [video.id for video in videos if not video.is_timed]:
        what = f"{counted(len(untimed), 'video')} without times, which give one window each"
        yield Finding("warning", f"{what}: {listed(untimed)}")
    yield from _check_overlaps(table.rows)
    yield from _check_near_names(table)


def _has_twin_steps(video: Video) -> bool:
    timed = [(step.action, step.start_s, step.end_s) for step in video.steps if step.start_s is not None]
    return len(set(timed)) < len(timed)


def _check_overlaps(rows: Sequence[StepRow]) -> Iterator[Finding]:
    """Steps that begin before the step before them in the same video has ended."""
    overlaps = [pair for timed in _timed_rows(rows).values() for pair in _overlapping(timed)]
    if not overlaps:
        return
    number_of = {row.where: number for number, row in enumerate(rows)}
    (before, row), *others = sorted(overlaps, key=lambda pair: number_of[pair[1].where])
    what = f"step {shown(row.step.action)} begins at {row.step.start_s:g} s, before {shown(before.step.action)} "
    what += f"({before.where}) ends at {before.step.end_s:g} s"
    more = f" (and {len(others)} more overlaps)" if others else ""
    yield Finding("warning", f"{row.where}: {what}{more}; if they do not overlap in video {row.video}, correct a time")


def _timed_rows(rows: Sequence[StepRow]) -> dict[str, list[StepRow]]:
    """The rows with times of every video, in the order of the time."""
    by_video: dict[str, list[StepRow]] = {}
    for row in rows:
        if row.step.start_s is not None:
            by_video.setdefault(row.video, []).append(row)
    return {video: sorted(timed, key=_times) for video, timed in by_video.items()}


def _times(row: StepRow) -> tuple[float, float]:
    return row.step.start_s or 0.0, row.step.end_s or 0.0


def _overlapping(rows: Sequence[StepRow]) -> Iterator[tuple[StepRow, StepRow]]:
    """The pairs of a step and a later one that begins before it ends; equal steps are reported elsewhere."""
    latest = rows[0]
    for row in rows[1:]:
        if _times(row)[0] < _times(latest)[1] and row.step != latest.step:
            yield latest, row
        latest = max(latest, row, key=lambda each: _times(each)[1])


def _check_near_names(table: StepTable) -> Iterator[Finding]:
    """Steps and tasks that are probably one, with a slip in one of the names."""
    first_line: dict[tuple[str, str], str] = {}
    for row in table.rows:
        first_line.setdefault(("step", row.step.action), row.where)
        first_line.setdefault(("task", row.task), row.where)
    for what in ("step", "task"):
        if pairs := near_names([name for kind, name in first_line if kind == what]):
            where = first_line[what, pairs[0][1]]
            names = f"names of {what}s that are nearly equal: {describe_near(pairs)}"
            yield Finding("warning", f"{where}: {names}; if they are one {what}, write one name everywhere")


def check_videos(folder: Path, rows: Sequence[StepRow]) -> Iterator[Finding]:
    """Check for missing, unknown, equally named, unreadable and truncated files, and for steps after their end.

    Nothing if there is no videos/.
    """
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        yield Finding("error", "videos is a file or a broken link; it must be a folder of video files")
        return
    entries = sorted(folder.iterdir())
    files = [path for path in entries if path.is_file() and path.suffix.lower() in VIDEO_SUFFIXES]
    twins = find_twins(folder)
    yield from (Finding("error", f"videos/: {sentence}") for sentence in twins.values())
    yield from _check_file_names(entries, files, rows)
    lengths_s: dict[str, tuple[Path, float]] = {}
    yield from _check_contents(files, lengths_s)
    yield from _check_ends(rows, {stem: of for stem, of in lengths_s.items() if stem not in twins})


def _check_file_names(entries: list[Path], files: list[Path], rows: Sequence[StepRow]) -> Iterator[Finding]:
    if broken := [path.name for path in entries if not path.is_file()]:
        yield Finding("error", f"videos/ has folders or broken links: {listed(broken)}")
    if others := [path.name for path in entries if path.is_file() and path.suffix.lower() not in VIDEO_SUFFIXES]:
        what = f"videos/ has {counted(len(others), 'file')} with an ending other than {', '.join(VIDEO_SUFFIXES)}"
        yield Finding("warning", f"{what}: {listed(others)}")
    line_of: dict[str, str] = {}
    for row in rows:
        line_of.setdefault(row.video, row.where)
    at_hand = {path.stem: path.name for path in files}
    spelled = {spelling_key(stem): name for stem, name in at_hand.items() if stem not in line_of}
    missing = [video for video in line_of if video not in at_hand]
    for video in [video for video in missing if spelling_key(video) in spelled]:
        name = spelled.pop(spelling_key(video))
        missing.remove(video)
        what = f"the video is {shown(video)}, and the file is {name}"
        yield Finding("error", f"{line_of[video]}: {what}; capitals and blanks count: write both in the same way")
    if missing:
        what = f"{counted(len(missing), 'video')} not in videos/: {listed(missing)}"
        where = f"the first in {line_of[missing[0]]}"
        yield Finding("warning", f"{what} ({where}); add the files, or delete these rows")
    if unknown := [name for name in spelled.values() if line_of]:
        what = f"videos/ has {counted(len(unknown), 'file')} without steps: {listed(sorted(unknown))}"
        yield Finding("warning", f"{what}; add their rows to {STEPS_FILE}, or they are not used")


def _check_contents(files: list[Path], lengths_s: dict[str, tuple[Path, float]]) -> Iterator[Finding]:
    """Open the files, and put the length of those that can be read into `lengths_s`."""
    if empty := [path.name for path in files if path.stat().st_size == 0]:
        yield Finding("error", f"videos/ has {counted(len(empty), 'empty file')}: {listed(empty)}")
    if find_spec("av") is None:
        yield Finding("warning", f"the files in videos/ were not opened: PyAV is missing ({install_command('video')})")
        return
    from p3iv.features.video_file import measure_s, naming_faults  # needs PyAV

    faulty = []
    for path in files:
        if path.name in empty:
            continue
        try:
            with naming_faults(path):
                lengths_s[path.stem] = (path, float(measure_s(path)))
        except FeatureError as error:
            faulty.append(f"{path.name}: {str(error).removeprefix(f'{path}: ')}")
    if faulty:
        yield Finding("error", f"videos/: {counted(len(faulty), 'file')} cannot be used: {listed(faulty)}")


def _check_ends(rows: Sequence[StepRow], lengths_s: Mapping[str, tuple[Path, float]]) -> Iterator[Finding]:
    """Steps that end after their video does: an error if they begin there, too."""
    num_videos = 0
    for video, timed in _timed_rows(rows).items():
        path, length_s = lengths_s.get(video, (Path(), float("inf")))
        late = [row for row in timed if _times(row)[1] > length_s + MAX_PAST_END_S]
        num_videos += bool(late)
        if not late or num_videos > MAX_FINDINGS:
            continue
        outside = [row for row in late if _times(row)[0] > length_s]
        row = (outside or late)[0]
        begins, ends = _times(row)
        what = f"step {shown(row.step.action)} is at {begins:g} to {ends:g} s, but {path.name} ends at {length_s:.1f} s"
        more = f" (and {len(late) - 1} more of its steps)" if len(late) > 1 else ""
        advice = _advise_hours(timed, length_s) or "correct the times"
        yield Finding("error" if outside else "warning", f"{row.where}: {what}{more}; {advice}")
    if num_videos > MAX_FINDINGS:
        yield Finding("warning", f"{num_videos - MAX_FINDINGS} more videos end before their last step")


def _advise_hours(rows: Sequence[StepRow], length_s: float) -> str:
    """Excel takes 1:05 for a time of the day and writes 01:05:00: then all times are whole minutes."""
    times = [time for row in rows for time in _times(row)]
    if any(time % 60 for time in times) or max(times) / 60 > length_s + MAX_PAST_END_S:
        return ""
    return "if 01:05:00 means 1 minute and 5 seconds here (Excel writes 1:05 so), write 00:01:05"


@dataclass(frozen=True)
class RepairedSteps:
    """A repaired copy of a steps.csv."""

    path: Path | None  # None if there is nothing to repair
    changes: tuple[str, ...] = ()
    left_out: tuple[Problem, ...] = ()  # what could not be used


def repair_steps(folder: Path) -> RepairedSteps:
    """Write steps.fixed.csv beside steps.csv: what is understood in the documented way, without unusable rows.

    Raises:
        SourceError: steps.csv has no usable row.
    """
    table = read_steps(folder)
    annotations = table.videos.finish(folder, folder.name, table.vocabulary)
    if not table.notes and not annotations.problems:
        return RepairedSteps(None)
    path = folder / FIXED_FILE
    write_steps(path, annotations)
    in_order = [(video.id, step) for video in annotations.videos for step in order_steps(video.steps)]
    changes = [*table.notes, *([] if in_order == [(row.video, row.step) for row in table.rows] else [ORDERED])]
    return RepairedSteps(path, tuple(changes), annotations.problems)
