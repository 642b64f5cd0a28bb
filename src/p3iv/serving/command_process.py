"""What runs in the process of an extraction or a training that a page started: it reports one JSON object per line.

Progress is {"what": ..., "done": ..., "total": ..., "about": ...}. The last line is {"result": ...} or {"error": ...}.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from p3iv.data.folder import open_dataset, read_card
from p3iv.encoders.registry import DEFAULT_ENCODER
from p3iv.errors import DatasetError, P3ivError
from p3iv.parallel import follow_parent
from p3iv.types import Progress, counted

LONGEST = 6  # steps of a plan
REPORT_S = 0.2  # at most so often


class _Reporter:
    """Prints progress, not too often."""

    def __init__(self) -> None:
        self._reported_at, self._what = 0.0, ""

    def __call__(self, at: Progress) -> None:
        now = time.monotonic()
        if now - self._reported_at < REPORT_S and at.what == self._what and at.done < at.total:
            return
        self._reported_at, self._what = now, at.what
        _print({"what": at.what, "done": at.done, "total": at.total, "about": at.about})


def run_extraction(folder: Path, report: _Reporter) -> str:
    """Compute the features of every second, so that the planner can also follow videos."""
    from p3iv.api.features import extract

    known = read_card(folder).encoder
    if known is not None and known.name != DEFAULT_ENCODER:
        raise DatasetError(
            f"The features here are of {known}, and the page only makes those of {DEFAULT_ENCODER}. Extract with the "
            "command line: p3iv extract DIR, with the options of the first extraction."
        )
    made = extract(folder, overwrite=True, progress=report)
    left_out = f"; {counted(len(made.problems), 'problem')}, the first: {made.problems[0]}" if made.problems else ""
    return f"Features of {counted(made.features.num_videos, 'video')}{left_out}"


def run_training(folder: Path, run: Path, report: _Reporter) -> str:
    """Train a planner for every number of steps up to the longest video, at most six."""
    from p3iv.api.runs import train

    longest = min(LONGEST, max((len(video.steps) for video in open_dataset(folder).videos), default=1))
    horizon = f"1-{longest}" if longest > 1 else "1"
    result = train(folder, run, planner="p3iv-plus", horizon=horizon, progress=report, threads=1, on_note=_ignore)
    return f"Trained for {counted(result.epochs, 'epoch')}"


def _ignore(_: str) -> None:
    """Notes are for the command line."""


def main(kind: str, folder: Path, run: Path) -> None:
    """Do the job and report it."""
    follow_parent(os.getppid())
    report = _Reporter()
    try:
        result = run_extraction(folder, report) if kind == "extract" else run_training(folder, run, report)
    except P3ivError as error:
        _print({"error": str(error)})
        sys.exit(1)
    _print({"result": result})


def _print(content: dict[str, object]) -> None:
    print(json.dumps(content), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
