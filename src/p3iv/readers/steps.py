"""Read and write steps.csv, the table of steps of a dataset folder."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from p3iv.errors import DatasetError
from p3iv.files import write_text
from p3iv.readers.files import UnusableError, read_bytes, required
from p3iv.readers.rows import FirstTexts, VideoCollector, csv_rows, parse_name, parse_times, place, usable_rows
from p3iv.readers.variants import (
    COLUMNS,
    Header,
    NoteLog,
    decode_sheet,
    find_header,
    join_spellings,
    note_joined,
    note_time,
    parse_seconds,
    spelling_key,
    without_ending,
)
from p3iv.types import Action, Annotations, Step, Video, Vocabulary
from p3iv.validation import ProblemLog, shown

STEPS_FILE = "steps.csv"

KNOWN_COLUMNS = (*COLUMNS, "text")

EXPECTED = f"a dataset folder whose {STEPS_FILE} begins with the line {','.join(COLUMNS)}"

MAX_STEPS_BYTES = 2**29  # about five million rows


@dataclass(frozen=True)
class StepRow:
    """A usable row of steps.csv."""

    where: str  # such as steps.csv:7
    video: str
    task: str
    step: Step
    text: str


@dataclass(frozen=True)
class StepTable:
    """A steps.csv that was read: what can be used of it, what cannot, and what was understood."""

    rows: tuple[StepRow, ...]  # in the order of the file
    videos: VideoCollector
    vocabulary: Vocabulary
    notes: tuple[str, ...]


def read_steps(source: Path) -> StepTable:
    """Read the steps.csv of a folder; this is how every command reads it.

    Raises:
        SourceError: it is not a table of steps; of one without a usable row, the problems say why.
    """
    with required(source / STEPS_FILE, EXPECTED):
        return parse_steps(read_bytes(source / STEPS_FILE, MAX_STEPS_BYTES))


def read_video_column(source: Path) -> list[str | None]:
    """The video of every row of a folder's steps.csv, usable or not; None if a row does not name one."""
    with required(source / STEPS_FILE, EXPECTED):
        return parse_video_column(read_bytes(source / STEPS_FILE, MAX_STEPS_BYTES))


def parse_steps(content: bytes, log: ProblemLog | None = None) -> StepTable:
    """Parse a steps.csv; its actions are in the order of their names."""
    reading = _Reading(VideoCollector(log or ProblemLog()), NoteLog())
    header = reading.read_header(content)
    rows = csv_rows(STEPS_FILE, header.text, reading.log, header.separator)
    next(rows)  # the header
    parsed = usable_rows(rows, lambda where, row: reading.take(header, where, row), reading.log)
    kept = reading.keep_consistent(reading.join_names(parsed))
    return StepTable(tuple(kept), reading.videos, _make_vocabulary(kept, reading.log), reading.notes.notes)


def parse_video_column(content: bytes) -> list[str | None]:
    """The video of every row of a readable steps.csv, in the order of the file; None if a row does not name one."""
    log = ProblemLog()
    header = find_header(STEPS_FILE, decode_sheet(STEPS_FILE, content, NoteLog()), NoteLog())
    rows = csv_rows(STEPS_FILE, header.text, log, header.separator)
    next(rows)
    videos = [parse_video(dict(zip(header.columns, row, strict=False))) for _, row in rows]
    return [*videos, *(None for _ in range(log.total))]  # records that are not CSV are known by their problems only


def parse_video(cells: Mapping[str, str]) -> str | None:
    """The video of a row; None if it does not name one."""
    try:
        return without_ending(parse_name(cells.get("video"), "the video"))
    except UnusableError:
        return None


@dataclass
class _Reading:
    """The reading of one steps.csv."""

    videos: VideoCollector
    notes: NoteLog
    named: dict[str, str] = field(default_factory=dict)  # id -> how its first row writes it
    unnamed: set[int] = field(default_factory=set)  # columns without a name, but with cells

    @property
    def log(self) -> ProblemLog:
        return self.videos.log

    def read_header(self, content: bytes) -> Header:
        header = find_header(STEPS_FILE, decode_sheet(STEPS_FILE, content, self.notes), self.notes)
        twice = [column for column, count in Counter(header.columns).items() if column and count > 1]
        if twice:
            raise UnusableError(f"column {shown(twice[0])} is twice in its header, expected once")
        columns = tuple(self._check_column(header.line, column) for column in header.columns)
        return replace(header, columns=columns)

    def _check_column(self, where: str, column: str) -> str:
        try:
            return parse_name(column, "a column's name") if column else ""
        except UnusableError as error:
            self.log.add(where, str(error), "column left out")
            return ""

    def take(self, header: Header, where: str, row: list[str]) -> StepRow:
        """Parse a row; its video counts as named even if the rest of the row is unusable."""
        cells = dict(zip(header.columns, row, strict=False))
        video = self.parse_video(where, parse_name(cells.get("video"), "the video"))
        row = self._check_width(header, where, row)
        start_s, end_s = self._parse_times(where, cells["start_s"], cells["end_s"], header.separator)
        extra = tuple((name, cell) for name, cell in cells.items() if name and name not in KNOWN_COLUMNS)
        step = Step(parse_name(cells["step"], "the step"), start_s, end_s, extra)
        return StepRow(where, video, parse_name(cells["task"], "the task"), step, cells.get("text", "").strip())

    def parse_video(self, where: str, written: str) -> str:
        video = without_ending(written)
        first = self.named.setdefault(video, written)
        if written != video:
            if first != video and first.casefold() != written.casefold():
                what = f"the video is {shown(written)}, and {shown(first)} in a row before"
                raise UnusableError(f"{what}; give two videos two names that differ before the ending")
            self.notes.add(where, f"video {shown(written)} is read as {shown(video)}, without the ending", "ending")
        return video

    def _check_width(self, header: Header, where: str, row: list[str]) -> list[str]:
        """The row without empty cells after its last column; cells in a column without a name are a problem."""
        width = len(header.columns)
        if len(row) < width or any(cell.strip() for cell in row[width:]):
            commas = " (a name or a number with a comma needs quotes around it)"
            advice = commas if header.separator == "," and len(row) > width else ""
            raise UnusableError(f"{len(row)} columns, expected the {width} of the header{advice}")
        for number, (column, cell) in enumerate(zip(header.columns, row, strict=False)):
            if not column and cell.strip() and number not in self.unnamed:
                self.unnamed.add(number)
                self.log.add(where, f"column {number + 1} has no name in the header, expected one", "column left out")
        return row[:width]

    def _parse_times(self, where: str, start: str, end: str, separator: str) -> tuple[float, float] | tuple[None, None]:
        if not start.strip() and not end.strip():
            return None, None
        if not start.strip() or not end.strip():
            what = f"the times are {shown(start)} and {shown(end)}"
            raise UnusableError(f"{what}, expected both, or none in the whole video")
        parsed = {what: parse_seconds(cell, what, separator) for what, cell in (("start", start), ("end", end))}
        times = parse_times(parsed["start"][0], parsed["end"][0])
        for cell, (seconds, how) in zip((start, end), parsed.values(), strict=True):
            if how is not None:
                note_time(self.notes, where, cell, seconds, how)
        return times

    def join_names(self, rows: list[StepRow]) -> list[StepRow]:
        """The rows with one spelling of each task and step; steps of which the texts differ stay apart."""
        tasks = join_spellings(row.task for row in rows)
        steps = join_spellings((row.step.action for row in rows), _told_apart(rows))
        if not tasks and not steps:
            return rows
        for row in rows:
            for what, name, joined in (("task", row.task, tasks), ("step", row.step.action, steps)):
                if name in joined:
                    note_joined(self.notes, row.where, what, name, joined[name])
        return [
            replace(
                row,
                task=tasks.get(row.task, row.task),
                step=replace(row.step, action=steps.get(row.step.action, row.step.action)),
            )
            for row in rows
        ]

    def keep_consistent(self, rows: list[StepRow]) -> list[StepRow]:
        """Collect the videos; returns the rows that belong to them, in the order of the file."""
        by_video: dict[str, list[StepRow]] = {video: [] for video in self.named}
        for row in rows:
            by_video[row.video].append(row)
        kept: set[str] = set()
        for video, its_rows in by_video.items():
            consistent = _keep_consistent(its_rows, self.log)
            kept.update(row.where for row in consistent)
            task, written = consistent[0].task if consistent else "", self.named[video]
            aliases = (written,) if written != video else ()
            where = f"{STEPS_FILE}: video {place(video)}"
            self.videos.add(where, video, task, [row.step for row in consistent], aliases)
        return [row for row in rows if row.where in kept]


def _told_apart(rows: Sequence[StepRow]) -> set[str]:
    """The steps that share their letters with another one, but not its text."""
    texts: dict[str, dict[str, str]] = {}  # by what their spellings have in common: step -> its first text
    for row in rows:
        if row.text:
            texts.setdefault(spelling_key(row.step.action), {}).setdefault(row.step.action, row.text)
    return {name for text_of in texts.values() if len(set(text_of.values())) > 1 for name in text_of}


def _keep_consistent(rows: list[StepRow], log: ProblemLog) -> list[StepRow]:
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


def _make_vocabulary(rows: list[StepRow], log: ProblemLog) -> Vocabulary:
    """The actions of the rows; the text of an action without one is its name."""
    texts = FirstTexts(log)
    for row in rows:
        if row.text:
            texts.add(row.where, row.step.action, row.text)
    names = sorted({row.step.action for row in rows})
    return Vocabulary(tuple(Action(name, texts.text_of.get(name, name)) for name in names))


def write_steps(path: Path, annotations: Annotations) -> None:
    """Write the videos as a steps.csv that reads back the same.

    Aliases are not written. Every step gets a cell in every further column that any step has. Tasks that differ in
    capitals or blanks only get one spelling, as when they are read.

    Raises:
        DatasetError: a video would not read back the same.
    """
    tasks = join_spellings(video.task for video in annotations.videos)
    videos = tuple(replace(video, task=tasks.get(video.task, video.task)) for video in annotations.videos)
    annotations = replace(annotations, videos=videos)
    text = _render(annotations)
    _check_reads_back(text, annotations)
    write_text(path, text)


def _render(annotations: Annotations) -> str:
    steps = [step for video in annotations.videos for step in video.steps]
    text_of = {action.name: action.text for action in annotations.vocabulary.actions}
    with_text = any(text_of.get(step.action, step.action) != step.action for step in steps)
    with_text = with_text or bool(join_spellings(step.action for step in steps))  # their texts keep them apart
    extra = list(dict.fromkeys(column for step in steps for column, _ in step.extra))
    lines = [csv_line([*(KNOWN_COLUMNS if with_text else COLUMNS), *extra])]
    for video in annotations.videos:
        for step in video.steps:
            text = [text_of.get(step.action, step.action)] if with_text else []
            values = dict(step.extra)
            times = [render_time(step.start_s), render_time(step.end_s)]
            cells = [video.id, video.task, step.action, *times, *text, *(values.get(column, "") for column in extra)]
            lines.append(csv_line(cells))
    return "".join(lines)


def csv_line(cells: Sequence[str], separator: str = ",") -> str:
    """One record. csv quotes a line break in a cell only if its own line end has it, so write CRLF and cut it off."""
    line = io.StringIO(newline="")
    csv.writer(line, lineterminator="\r\n", delimiter=separator).writerow(cells)
    return line.getvalue()[:-2] + "\n"


def render_time(seconds: float | None) -> str:
    """A time as a cell of steps.csv."""
    return "" if seconds is None else repr(float(seconds))


def _check_reads_back(text: str, annotations: Annotations) -> None:
    try:
        videos = parse_steps(text.encode("utf-8")).videos
    except (UnusableError, UnicodeEncodeError) as error:
        raise DatasetError(f"these steps cannot be written to {STEPS_FILE}: {error}") from error
    for video in annotations.videos:
        again = videos.videos.get(video.id)
        if again is None or _without_empty_cells(again) != _without_empty_cells(replace(video, aliases=())):
            first = f" ({videos.log.problems[0]})" if videos.log.total else ""
            raise DatasetError(
                f"video {shown(video.id)} would not read back the same from {STEPS_FILE}{first}. Expected one video "
                "of each id, steps ordered by start and end, both times or none, names without blanks around them, ids "
                "without the ending of a video file, and steps that differ in more than capitals and blanks."
            )


def _without_empty_cells(video: Video) -> Video:
    """The video without empty cells: in steps.csv, a further column that a step lacks is an empty cell."""
    return replace(
        video,
        steps=tuple(replace(step, extra=tuple(sorted(pair for pair in step.extra if pair[1]))) for step in video.steps),
    )
