"""NIV: five tasks, one file of named steps per video (Alayrac et al., CVPR 2016)."""

from __future__ import annotations

import re
from pathlib import Path

from p3iv.readers.files import UnusableError, open_release
from p3iv.readers.rows import StepFile, VideoCollector, collect_step_files, make_vocabulary, parse_name
from p3iv.types import Action, Annotations
from p3iv.validation import ProblemLog, shown

EXPECTED = "the folder of the TASK_N.csv files, or the folder that contains it as csvs/"

STEM = re.compile(r"(?P<task>.+)_\d+", re.ASCII)


def read_niv(source: Path) -> Annotations:
    """Read a folder of `TASK_N.csv`, or its parent; actions are ordered by task, then by first appearance."""
    videos = VideoCollector(ProblemLog())
    with open_release(source, EXPECTED) as files:
        folder = "csvs/" if files.names("csvs/") else ""
        if not any(name.lower().endswith(".csv") for name in files.names(folder)):
            raise UnusableError(f"no .csv file in {folder or 'it'}")
        collect_step_files(files, folder, _identify, videos)
    by_task = sorted(videos.videos.values(), key=lambda video: video.task)
    vocabulary = make_vocabulary(Action(step.action, step.action) for video in by_task for step in video.steps)
    return videos.finish(source, "niv", vocabulary)


def _identify(stem: str) -> StepFile:
    video = parse_name(stem, "the file's name")
    match = STEM.fullmatch(video)
    if not match:
        raise UnusableError(f"the file's name is {shown(stem)}, expected TASK_N.csv such as coffee_0001.csv")
    return StepFile(video, match["task"], lambda cell: parse_name(cell, "the step"))
