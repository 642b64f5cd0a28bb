"""What readers share: checked names and times, CSV rows, and the collection of usable videos."""

from __future__ import annotations

import csv
import io
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from p3iv.errors import SourceError
from p3iv.readers.files import Files, UnusableError
from p3iv.types import Action, Annotations, Split, Step, Video, Vocabulary, counted
from p3iv.validation import ProblemLog, check_plain, cut, shown

Row = TypeVar("Row")

Parsed = TypeVar("Parsed")

NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)

WHOLE_NUMBER = re.compile(r"\d{1,9}", re.ASCII)

MAX_LINES = 100  # of one CSV record, so that a quote that never closes costs at most these

MAX_VIDEO_BYTES = 2**20  # of the steps of one video, about 50,000

LEFT_OUT = "video left out"

ORDER_COLUMN = "order"  # of steps.csv: the place of a step in its video, where the times do not give it


def place(name: str) -> str:
    """The name of a file or a video for `Problem.where`: short and printable."""
    return cut(name if name.isprintable() else repr(name)[1:-1])


def parse_name(value: object, what: str) -> str:
    """Parse the name of a video, a task or a step, without blanks around it."""
    name = value.strip() if isinstance(value, str) else ""
    if not name:
        raise UnusableError(f"{what} is {shown(value)}, expected a text without control characters")
    try:
        return check_plain(name)
    except ValueError as error:
        raise UnusableError(f"{what} is {error}") from error


def parse_whole_number(value: object, what: str) -> int:
    """Parse the number of a step, from digits or a JSON number."""
    text = value.strip() if isinstance(value, str) else str(value) if type(value) is int else ""
    if not WHOLE_NUMBER.fullmatch(text):
        raise UnusableError(f"{what} is {shown(value)}, expected a whole number")
    return int(text)


def parse_times(start: object, end: object) -> tuple[float, float]:
    """Parse the start and the end of a step in seconds."""
    start_s, end_s = _parse_time(start, "start"), _parse_time(end, "end")
    if end_s < start_s:
        raise UnusableError(f"the end {end_s!r} is before the start {start_s!r}, expected start <= end")
    return start_s, end_s


def _parse_time(value: object, what: str) -> float:
    seconds, text = math.nan, value.strip() if isinstance(value, str) else value
    if (isinstance(text, str) and NUMBER.fullmatch(text)) or type(text) in (int, float):
        seconds = float(text)  # type: ignore[arg-type]
    if not 0 <= seconds < math.inf:
        raise UnusableError(f"the {what} is {shown(value)}, expected a finite number of seconds from 0")
    return seconds + 0.0  # -0.0 becomes 0.0


def order_steps(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Sort by start, then end; equal steps and steps without times keep their order.

    Where every step has a whole number in the column `order`, that is their order.
    """
    steps = list(steps)
    places = [dict(step.extra).get(ORDER_COLUMN, "").strip() for step in steps]
    if all(WHOLE_NUMBER.fullmatch(place) for place in places):
        return tuple(step for _, step in sorted(zip(map(int, places), steps, strict=True), key=lambda pair: pair[0]))
    return tuple(sorted(steps, key=lambda step: (_start(step), step.end_s or 0.0)))


def keep_one_pass(where: str, steps: list[Step], log: ProblemLog) -> list[Step]:
    """The longer of two passes over a video that a file holds one after the other; the first if they are equal.

    49 files of CrossTask are two annotations of one video: the times go back once, and then the same steps follow
    again at the same times. Sorted by time, every step would be there twice. Rows that are only out of order, as in
    NIV, are one pass. The two differ clearly: in the 49 files, 71 % or more of the steps of the shorter pass overlap
    the same step of the other one; in the files of NIV that go back in time, none does. The limit is half. Videos of
    COIN never go back in time, and in a steps.csv rows may be in any order on purpose.
    """
    breaks = [row for row in range(1, len(steps)) if _start(steps[row]) < _start(steps[row - 1])]
    if len(breaks) != 1:
        return steps
    first, second = steps[: breaks[0]], steps[breaks[0] :]
    kept, other = (second, first) if len(second) > len(first) else (first, second)
    if 2 * _num_repeated(other, kept) < len(other):
        return steps
    what = f"two passes over the video, of {len(first)} and {len(second)} steps, expected one"
    log.add(where, what, f"the {'second' if kept is second else 'first'} pass is used")
    return kept


def _num_repeated(steps: list[Step], others: list[Step]) -> int:
    """How many steps overlap the same action among `others`, which are ordered by start."""
    spans: dict[str, tuple[list[float], list[float]]] = {}  # of an action: starts, and the latest end up to each
    for step in others:
        starts, ends = spans.setdefault(step.action, ([], []))
        starts.append(_start(step))
        ends.append(max([step.end_s or 0.0, *ends[-1:]]))
    num = 0
    for step in steps:
        starts, ends = spans.get(step.action, ([], []))
        before = bisect_left(starts, step.end_s or 0.0)  # the others that start before this step ends
        num += before > 0 and ends[before - 1] > _start(step)
    return num


def _start(step: Step) -> float:
    return step.start_s or 0.0


@dataclass(frozen=True)
class CsvRecord:
    """One record of a CSV text."""

    line: int  # its first one, from 1
    text: str  # as it is in the file, with its end of line
    cells: tuple[str, ...]  # none, if it is broken
    fault: str | None = None  # why it is broken


def csv_records(text: str, separator: str = ",") -> Iterator[CsvRecord]:
    """All records of a CSV text, blank lines included; a broken record has one line."""
    lines, number = io.StringIO(text, newline=""), 1
    while line := lines.readline():
        after, fault, num_lines = lines.tell(), None, 1
        rest = islice(lines, MAX_LINES - 1 if '"' in line else 0)  # only after a quote may a record have a second line
        reader = csv.reader([line, *rest], strict=True, delimiter=separator)
        cells: list[str] = []
        try:
            cells, num_lines = next(reader), reader.line_num
        except csv.Error as error:
            fault = str(error)
        if '"' in line:
            lines.seek(after)
            line += "".join(lines.readline() for _ in range(num_lines - 1))
        yield CsvRecord(number, line, tuple(cells), fault)
        number += num_lines


def csv_rows(name: str, text: str, log: ProblemLog, separator: str = ",") -> Iterator[tuple[str, list[str]]]:
    """The rows of a CSV file with their line numbers, without blank lines; a broken record costs one line."""
    file = place(name)
    for record in csv_records(text, separator):
        where = f"{file}:{record.line}"
        if record.fault is not None:
            what = f"not a CSV record ({record.fault}), expected closed quotes and short fields"
            log.add(where, what, "row left out")
        elif any(cell.strip() for cell in record.cells):
            yield where, list(record.cells)


def usable_rows(rows: Iterable[tuple[str, Row]], parse: Callable[[str, Row], Parsed], log: ProblemLog) -> list[Parsed]:
    """Parse each row; those that raise UnusableError are logged and left out."""
    kept = []
    for where, row in rows:
        try:
            kept.append(parse(where, row))
        except UnusableError as error:
            log.add(where, str(error), "row left out")
    return kept


def make_vocabulary(actions: Iterable[Action]) -> Vocabulary:
    """The actions in their order; of several with one name, the first."""
    by_name: dict[str, Action] = {}
    for action in actions:
        by_name.setdefault(action.name, action)
    return Vocabulary(tuple(by_name.values()))


@dataclass
class FirstTexts:
    """The text of every action; of several texts, the first."""

    log: ProblemLog
    text_of: dict[str, str] = field(default_factory=dict)
    refused: set[tuple[str, str]] = field(default_factory=set)

    def add(self, where: str, action: str, text: str) -> None:
        first = self.text_of.setdefault(action, text)
        if first != text and (action, text) not in self.refused:
            self.refused.add((action, text))
            what = f"step {shown(action)} is {shown(text)} here and {shown(first)} before, expected one text"
            self.log.add(where, what, "the first text is used")


@dataclass
class VideoCollector:
    """The usable videos of a source; of several with one id, the first."""

    log: ProblemLog
    videos: dict[str, Video] = field(default_factory=dict)

    def add(self, where: str, video: str, task: str, steps: Sequence[Step], aliases: tuple[str, ...] = ()) -> bool:
        """Add a video with its steps in the order of the source; False if it is left out."""
        if not steps:
            self.log.add(where, "no usable step, expected at least one", LEFT_OUT)
        elif video in self.videos:
            what = f"video {shown(video)} was already read (task {shown(self.videos[video].task)}), expected once"
            self.log.add(where, what, f"{LEFT_OUT}, the first one is used")
        else:
            self.videos[video] = Video(video, task, order_steps(steps), aliases)
            return True
        return False

    def finish(self, source: Path, name: str, vocabulary: Vocabulary, split: Split | None = None) -> Annotations:
        """The annotations.

        Raises:
            SourceError: no video is left.
        """
        if not self.videos:
            total = self.log.total
            first = f" The first of {counted(total, 'problem')}: {self.log.problems[0]}." if total else ""
            raise SourceError(
                f"{source}: no usable video, expected at least one.{first} Repair the files, then try again."
            )
        return Annotations(name, tuple(self.videos.values()), vocabulary, self.log.problems, split)


@dataclass(frozen=True)
class StepFile:
    """What a file of `step,start,end` rows is about, from its name."""

    video: str
    task: str
    action_of: Callable[[str], str]  # from a row's first cell to the action's name; may raise UnusableError
    aliases: tuple[str, ...] = ()


def collect_step_files(
    files: Files, folder: str, identify: Callable[[str], StepFile], videos: VideoCollector, *, top: str = ""
) -> None:
    """Read each `folder/STEM.csv` of a release with one file per video, such as CrossTask and NIV.

    Args:
        files: The release.
        folder: The folder of the CSV files, with a slash at its end.
        identify: From a file's stem to its video; may raise UnusableError.
        videos: Collects the videos and the problems.
        top: The part of the folder that is left out of the places in problems.
    """
    for name in files.names(folder):
        if not name.lower().endswith(".csv"):
            continue
        where = place((folder + name).removeprefix(top))
        try:
            file = identify(name[:-4])
            text = _read_not_empty(files, folder + name)
        except UnusableError as error:
            videos.log.add(where, str(error), LEFT_OUT)
            continue
        rows = csv_rows(where, text, videos.log)
        steps = usable_rows(rows, partial(_timed_step, file.action_of), videos.log)
        videos.add(where, file.video, file.task, keep_one_pass(where, steps, videos.log), file.aliases)


def _read_not_empty(files: Files, name: str) -> str:
    text = files.read(name, MAX_VIDEO_BYTES)
    if not text.strip():
        raise UnusableError("the file is empty, expected rows of step,start,end")
    return text


def _timed_step(action_of: Callable[[str], str], _where: str, row: list[str]) -> Step:
    if len(row) != 3:
        raise UnusableError(f"{len(row)} columns, expected the 3 of step,start,end")
    start_s, end_s = parse_times(row[1], row[2])
    return Step(action_of(row[0]), start_s, end_s)
