"""Read and write the annotations of a dataset folder: steps.csv, split.json and the name in dataset.yaml."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from p3iv.errors import DatasetError, SplitError
from p3iv.files import write_text
from p3iv.readers.files import JsonObject, UnusableError, decode, is_there, parse_object, read_text, required
from p3iv.readers.rows import FirstTexts, VideoCollector, csv_rows, parse_name, parse_times, place, usable_rows
from p3iv.types import SIDES, Action, Annotations, Side, Split, Step, Video, Vocabulary, listed
from p3iv.validation import MAX_YAML_BYTES, ProblemLog, parse_yaml, shown

STEPS_FILE = "steps.csv"

COLUMNS = ("video", "task", "step", "start_s", "end_s")

KNOWN_COLUMNS = (*COLUMNS, "text")

EXPECTED = f"a dataset folder whose {STEPS_FILE} begins with the line {','.join(COLUMNS)}"

EXPECTED_SPLIT = '{"train": [VIDEO, ...], "val": [...], "test": [...]}; val may be left out'

MAX_STEPS_BYTES = 2**29  # about five million rows


def read_folder(source: Path, *, with_split: bool = True) -> Annotations:
    """Read a dataset folder: steps.csv, and the name in dataset.yaml and split.json if they exist.

    Args:
        source: The folder.
        with_split: Whether to read split.json, which raises an error if it is not a split.
    """
    videos = VideoCollector(ProblemLog())
    with required(source / STEPS_FILE, EXPECTED):
        vocabulary = parse_steps(read_text(source / STEPS_FILE, MAX_STEPS_BYTES), videos)
    name = _read_name(source, videos.log)
    return videos.finish(source, name, vocabulary, _read_own_split(source, videos) if with_split else None)


def read_video_column(source: Path) -> list[str | None]:
    """The video of every row of a folder's steps.csv, usable or not; None if a row does not name one."""
    with required(source / STEPS_FILE, EXPECTED):
        return parse_video_column(read_text(source / STEPS_FILE, MAX_STEPS_BYTES))


def _read_name(source: Path, log: ProblemLog) -> str:
    folder_name = place(source.absolute().name) or "dataset"
    path = source / "dataset.yaml"
    if not is_there(path):
        return folder_name
    try:
        return parse_name(_parse_yaml(read_text(path, MAX_YAML_BYTES)).get("name"), "the dataset's name")
    except UnusableError as error:
        log.add(path.name, str(error), f"the folder's name {shown(folder_name)} is used")
        return folder_name


def _parse_yaml(text: str) -> dict[object, object]:
    try:
        content = parse_yaml(text)
    except ValueError as error:
        raise UnusableError(str(error)) from error
    if not isinstance(content, dict):
        raise UnusableError(f"YAML of {shown(content)}, expected name: and other keys")
    return content


def _read_own_split(source: Path, videos: VideoCollector) -> Split | None:
    """Read split.json; videos that are not in steps.csv are logged and left out."""
    path = source / "split.json"
    if not is_there(path):
        return None
    split = read_split(path)
    unknown = [place(video) for side in SIDES for video in split.side(side) if video not in videos.videos]
    if not unknown:
        return split
    what = f"{len(unknown)} videos without usable steps in {STEPS_FILE}: {listed(unknown)}"
    videos.log.add(path.name, what, "left out of the split")
    return Split(*(tuple(video for video in split.side(side) if video in videos.videos) for side in SIDES))


def read_split(path: Path) -> Split:
    """Read a file of video ids by side.

    Raises:
        SourceError: the file has another format.
        SplitError: a video is listed twice.
    """
    with required(path, EXPECTED_SPLIT):
        content = parse_object(read_text(path))
        unknown = [key for key in content if key not in SIDES]
        if unknown or content.repeated:
            raise UnusableError(
                f"key {shown((*unknown, *content.repeated)[0])}, expected each of {', '.join(SIDES)} once"
            )
        split = Split(*(_parse_side(content, side) for side in SIDES))
    _check_listed_once(path, split)
    return split


def _parse_side(content: JsonObject, side: Side) -> tuple[str, ...]:
    videos = content.get(side, [] if side == "val" else None)
    if not isinstance(videos, list):
        raise UnusableError(f"{side} is {shown(videos)}, expected a list of video ids")
    return tuple(parse_name(video, f"a video of {side}") for video in videos)


def _check_listed_once(path: Path, split: Split) -> None:
    side_of: dict[str, Side] = {}
    for side in SIDES:
        for video in split.side(side):
            if video in side_of:
                raise SplitError(
                    f"{path}: video {shown(video)} is listed under {side_of[video]} and again under {side}. "
                    "Delete one of the two: a video belongs to one side."
                )
            side_of[video] = side


def write_split(path: Path, split: Split) -> None:
    """Write a split that `read_split` reads."""
    _check_listed_once(path, split)
    write_text(path, json.dumps({side: split.side(side) for side in SIDES}, indent=1) + "\n")


@dataclass(frozen=True)
class _Row:
    where: str
    task: str
    step: Step
    text: str


def parse_steps(text: str, videos: VideoCollector) -> Vocabulary:
    """Collect the videos of a steps.csv and return its actions in the order of their names."""
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
    return [*videos, *(None for _ in range(log.total))]  # records that are not CSV are known by their problems only


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
    names = sorted({row.step.action for row in rows})
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
            first = f" ({videos.log.problems[0]})" if videos.log.total else ""
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
