"""CrossTask: 18 primary tasks, one file of numbered steps per video (Zhukov et al., CVPR 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from p3iv.readers.files import Files, UnusableError, open_release, required
from p3iv.readers.rows import (
    StepFile,
    VideoCollector,
    collect_step_files,
    make_vocabulary,
    parse_name,
    parse_whole_number,
)
from p3iv.types import Action, Annotations
from p3iv.validation import ProblemLog, shown

TASKS_FILE = "tasks_primary.txt"

TOP_FOLDERS = ("", "crosstask_release/")

EXPECTED = f"crosstask_release.zip, or the folder that holds {TASKS_FILE} and annotations/"


@dataclass(frozen=True)
class _Task:
    name: str
    actions: tuple[Action, ...]  # in the order of their numbers in the annotations, which count from 1

    def action_of(self, cell: str) -> str:
        number = parse_whole_number(cell, "the step")
        if not 1 <= number <= len(self.actions):
            raise UnusableError(f"step {number} of {shown(self.name)}, expected 1 to {len(self.actions)}")
        return self.actions[number - 1].name


def read_crosstask(source: Path, *, keep_tasks_apart: bool = False) -> Annotations:
    """Read the release's folder or its zip.

    Args:
        source: `crosstask_release.zip`, the folder in it, or a folder that contains that folder.
        keep_tasks_apart: Whether "pour water" in two tasks is two actions (133 in all) or one (105).
    """
    videos = VideoCollector(ProblemLog())
    with open_release(source, EXPECTED) as files:
        top = _find_top(files)
        with required(source / top / TASKS_FILE, EXPECTED):
            tasks = _read_tasks(files.read(top + TASKS_FILE), keep_tasks_apart, videos.log)
        collect_step_files(files, f"{top}annotations/", lambda stem: _identify(stem, tasks), videos, top=top)
    vocabulary = make_vocabulary(action for task in tasks.values() for action in task.actions)
    return videos.finish(source, "crosstask", vocabulary)


def _find_top(files: Files) -> str:
    for top in TOP_FOLDERS:
        if TASKS_FILE in files.names(top):
            return top
    raise UnusableError(f"no {TASKS_FILE} in it")


def _identify(stem: str, tasks: dict[str, _Task]) -> StepFile:
    task_id, _, video = stem.partition("_")
    if task_id not in tasks:
        raise UnusableError(f"task {shown(task_id)} is unknown, expected TASK_VIDEO.csv with a task of {TASKS_FILE}")
    task = tasks[task_id]
    return StepFile(parse_name(video, "the video's id"), task.name, task.action_of, aliases=(stem,))


def _read_tasks(text: str, keep_tasks_apart: bool, log: ProblemLog) -> dict[str, _Task]:
    tasks: dict[str, _Task] = {}
    for line, block in _blocks(text):
        try:
            task_id, task = _parse_task(block, keep_tasks_apart)
        except UnusableError as error:
            log.add(f"{TASKS_FILE}:{line}", str(error), "task left out")
            continue
        if tasks.setdefault(task_id, task) is not task:
            what = f"task {shown(task_id)} was already read, expected once"
            log.add(f"{TASKS_FILE}:{line}", what, "task left out, the first one is used")
    if not tasks:
        raise UnusableError("no usable task in it, expected blocks of id, name, url, number of steps, steps")
    return tasks


def _blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """Blocks of five lines, separated by blank lines, each with the number of its first line."""
    numbered = enumerate((line.strip() for line in text.splitlines()), start=1)
    for is_text, run in groupby(numbered, key=lambda pair: bool(pair[1])):
        lines = list(run) if is_text else []
        for first in range(0, len(lines), 5):
            yield lines[first][0], [line for _, line in lines[first : first + 5]]


def _parse_task(block: list[str], keep_tasks_apart: bool) -> tuple[str, _Task]:
    if len(block) != 5:
        raise UnusableError(f"a block of {len(block)} lines, expected 5: id, name, url, number of steps, steps")
    task_id, name = parse_name(block[0], "the task's id"), parse_name(block[1], "the task's name")
    texts = [parse_name(text, "a step") for text in block[4].split(",")]
    if parse_whole_number(block[3], "the number of steps") != len(texts):
        raise UnusableError(f"{block[3]} steps announced and {len(texts)} listed, expected the same number")
    return task_id, _Task(name, tuple(Action(f"{name}: {text}" if keep_tasks_apart else text, text) for text in texts))
