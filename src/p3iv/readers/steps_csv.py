"""Read and write steps.csv: one row per step, with or without times."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from p3iv.errors import DatasetError
from p3iv.files import write_text
from p3iv.readers.files import UnusableError, decode
from p3iv.readers.rows import FirstTexts, VideoCollector, csv_rows, parse_name, parse_times, place, usable_rows
from p3iv.types import Action, Annotations, ProblemLog, Step, Video, Vocabulary
from p3iv.validation import shown

STEPS_FILE = "steps.csv"

COLUMNS = ("video", "task", "step", "start_s", "end_s")

KNOWN_COLUMNS = (*COLUMNS, "text")


@dataclass(frozen=True)
class _Row:
    where: str
    task: str
    step: Step
    text: str


def parse_steps(text: str, videos: VideoCollector) -> Vocabulary:
    """Collect the videos of a steps.csv and return its actions in the order of their first appearance."""
    rows = csv_rows(STEPS_FILE, text, videos.log)
    columns = _parse_header(rows, videos.log)
    by_video: dict[str, list[_Row]] = {}
    in_file_order = usable_rows(rows, partial(_take_row, columns, by_video), videos.log)
    kept: set[str] = set()
    for video, video_rows in by_video.items():
        consistent = _keep_consistent(video_rows, videos.log)
        kept.update(row.where for row in consistent)
        task = consistent[0].task if consistent else ""
        videos.add(f"{STEPS_FILE}: video {place(video)}", video, task, [row.step for row in consistent])
    return _make_vocabulary([row for row in in_file_order if row.where in kept], videos.log)


def parse_video_column(text: str) -> list[str | None]:
    """The video of every row of a readable steps.csv, in the order of the file; None if a row does not name one."""
    log = ProblemLog()
    rows = csv_rows(STEPS_FILE, text, log)
    columns = _parse_header(rows, ProblemLog())
    videos = [_parse_video(dict(zip(columns, row, strict=False))) for _, row in rows]
    return [*videos, *(None for _ in log.problems)]  # records that are not CSV are known by their problems only


def _parse_video(cells: dict[str, str]) -> str | None:
    try:
        return parse_name(cells.get("video"), "the video")
    except UnusableError:
        return None


def _parse_header(rows: Iterator[tuple[str, list[str]]], log: ProblemLog) -> tuple[str, ...]:
    """The names of the columns; a column without a usable name is logged and called ""."""
    where, cells = next(rows, ("", []))
    columns = tuple(_parse_column(where, cell, log) for cell in cells)
    missing = [column for column in COLUMNS if column not in columns]
    if missing:
        raise UnusableError(f"no column {', '.join(missing)} in its header, expected {','.join(COLUMNS)}[,text]")
    twice = [column for column, count in Counter(columns).items() if column and count > 1]
    if twice:
        raise UnusableError(f"column {shown(twice[0])} is twice in its header, expected once")
    return columns


def _parse_column(where: str, cell: str, log: ProblemLog) -> str:
    try:
        return parse_name(cell, "a column's name")
    except UnusableError as error:
        log.add(where, str(error), "column left out")
        return ""


def _take_row(columns: tuple[str, ...], by_video: dict[str, list[_Row]], where: str, row: list[str]) -> _Row:
    """Parse a row and add it to its video; the video counts as named even if the rest of the row is unusable."""
    cells = dict(zip(columns, row, strict=False))
    video_rows = by_video.setdefault(parse_name(cells.get("video"), "the video"), [])
    if len(row) != len(columns):
        raise UnusableError(f"{len(row)} columns, expected the {len(columns)} of the header")
    start_s, end_s = _parse_optional_times(cells["start_s"], cells["end_s"])
    extra = tuple((name, cell) for name, cell in cells.items() if name and name not in KNOWN_COLUMNS)
    step = Step(parse_name(cells["step"], "the step"), start_s, end_s, extra)
    taken = _Row(where, parse_name(cells["task"], "the task"), step, cells.get("text", "").strip())
    video_rows.append(taken)
    return taken


def _parse_optional_times(start: str, end: str) -> tuple[float | None, float | None]:
    if not start.strip() and not end.strip():
        return None, None
    if not start.strip() or not end.strip():
        raise UnusableError(f"the times are {shown(start)} and {shown(end)}, expected both, or none in the whole video")
    return parse_times(start, end)


def _keep_consistent(rows: list[_Row], log: ProblemLog) -> list[_Row]:
    """The rows of a video that have the task of its first row and, if any row has times, have times."""
    same_task = [row for row in rows if row.task == rows[0].task]
    is_timed = any(row.step.start_s is not None for row in same_task)
    kept = []
    for row in rows:
        if row.task != rows[0].task:
            what = f"the task is {shown(row.task)}, expected {shown(rows[0].task)} as in the video's first row"
            log.add(row.where, what, "row left out")
        elif is_timed and row.step.start_s is None:
            log.add(row.where, "no times, expected both as in other rows of the video", "row left out")
        else:
            kept.append(row)
    return kept


def _make_vocabulary(rows: list[_Row], log: ProblemLog) -> Vocabulary:
    """The actions of the rows; the text of an action without one is its name."""
    texts = FirstTexts(log)
    for row in rows:
        if row.text:
            texts.add(row.where, row.step.action, row.text)
    names = dict.fromkeys(row.step.action for row in rows)
    return Vocabulary(tuple(Action(name, texts.text_of.get(name, name)) for name in names))


def write_steps(path: Path, annotations: Annotations) -> None:
    """Write the videos as a steps.csv that reads back the same.

    Aliases are not written. Every step gets a cell in every further column that any step has.

    Raises:
        DatasetError: a video would not read back the same.
    """
    text = _render(annotations)
    _check_reads_back(text, annotations)
    write_text(path, text)


def _render(annotations: Annotations) -> str:
    steps = [step for video in annotations.videos for step in video.steps]
    text_of = {action.name: action.text for action in annotations.vocabulary.actions}
    with_text = any(text_of.get(step.action, step.action) != step.action for step in steps)
    extra = list(dict.fromkeys(column for step in steps for column, _ in step.extra))
    lines = [_csv_line([*(KNOWN_COLUMNS if with_text else COLUMNS), *extra])]
    for video in annotations.videos:
        for step in video.steps:
            text = [text_of.get(step.action, step.action)] if with_text else []
            values = dict(step.extra)
            times = [_render_time(step.start_s), _render_time(step.end_s)]
            cells = [video.id, video.task, step.action, *times, *text, *(values.get(column, "") for column in extra)]
            lines.append(_csv_line(cells))
    return "".join(lines)


def _csv_line(cells: list[str]) -> str:
    """One record. csv quotes a line break in a cell only if its own line end has it, so write CRLF and cut it off."""
    line = io.StringIO(newline="")
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue()[:-2] + "\n"


def _render_time(seconds: float | None) -> str:
    return "" if seconds is None else repr(float(seconds))


def _check_reads_back(text: str, annotations: Annotations) -> None:
    videos = VideoCollector(ProblemLog())
    try:
        parse_steps(decode(text.encode("utf-8")), videos)
    except (UnusableError, UnicodeEncodeError) as error:
        raise DatasetError(f"these steps cannot be written to {STEPS_FILE}: {error}") from error
    for video in annotations.videos:
        again = videos.videos.get(video.id)
        if again is None or _without_empty_cells(again) != _without_empty_cells(replace(video, aliases=())):
            first = f" ({videos.log.problems[0]})" if videos.log.problems else ""
            raise DatasetError(
                f"video {shown(video.id)} would not read back the same from {STEPS_FILE}{first}. Expected one video "
                "of each id, steps ordered by start and end, both times or none, names without blanks around them."
            )


def _without_empty_cells(video: Video) -> Video:
    """The video without empty cells: in steps.csv, a further column that a step lacks is an empty cell."""
    return replace(
        video,
        steps=tuple(replace(step, extra=tuple(sorted(pair for pair in step.extra if pair[1]))) for step in video.steps),
    )
