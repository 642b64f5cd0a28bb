"""Releases with one CSV file of `step,start,end` per video: CrossTask and NIV."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from p3iv.annotations.files import Files, UnusableError
from p3iv.annotations.rows import LEFT_OUT, VideoCollector, csv_rows, parse_times, place, usable_rows
from p3iv.types import Step


@dataclass(frozen=True)
class StepFile:
    """What the name of a file of `step,start,end` rows says about it."""

    video: str
    task: str
    action_of: Callable[[str], str]  # from a row's first cell to the name of the action; UnusableError if it has none
    aliases: tuple[str, ...] = ()


def collect_step_files(
    files: Files, folder: str, identify: Callable[[str], StepFile], videos: VideoCollector, *, top: str = ""
) -> None:
    """Read each `folder/STEM.csv` of a release, one video per file.

    Args:
        files: The release.
        folder: Where the CSV files stand, with a slash at its end.
        identify: From a file's stem to its video; UnusableError where there is none.
        videos: Where the videos and the problems go.
        top: The part of the folder that the places in problems leave away.
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
        videos.add(where, file.video, file.task, steps, file.aliases)


def _read_not_empty(files: Files, name: str) -> str:
    text = files.read(name)
    if not text.strip():
        raise UnusableError("the file is empty, expected rows of step,start,end")
    return text


def _timed_step(action_of: Callable[[str], str], _where: str, row: list[str]) -> Step:
    if len(row) != 3:
        raise UnusableError(f"{len(row)} columns, expected the 3 of step,start,end")
    start_s, end_s = parse_times(row[1], row[2])
    return Step(action_of(row[0]), start_s, end_s)
