"""`p3iv data import annotations` and `p3iv data export`: the files of annotation tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from p3iv.cli.completion import complete_names
from p3iv.cli.console import out, print_json, print_next, print_problems, print_table
from p3iv.cli.options import AsJson, DatasetDir, Overwrite, choice, name_option
from p3iv.errors import ConfigError
from p3iv.readers.tools.registry import ANNOTATION_FILES, FORMATS, WRITERS
from p3iv.types import counted

if TYPE_CHECKING:
    from p3iv.data.importing import ImportReport

_MAX_SHOWN = 30  # characters of a name in a table

EXPORT_EXAMPLE = "Example: p3iv data export my_kitchen subtitles --format webvtt"

Fps = Annotated[
    float | None,
    typer.Option(
        "--fps", metavar="N", help="Frames per second of frame numbers; without it, the rate of the file or the video."
    ),
]
ImportFps = Annotated[
    float | None,
    typer.Option("--fps", metavar="N", help="annotations: frames per second; without it, the rate of each video."),
]
Task = Annotated[
    str | None,
    typer.Option("--task", metavar="NAME", help="annotations: the task of the videos whose file names none."),
]
Tier = Annotated[
    str | None,
    typer.Option("--tier", metavar="NAME", help="annotations: the tier (ELAN) or attribute (VIA) that has the steps."),
]
Level = Annotated[
    int | None,
    typer.Option(
        "--level",
        metavar="1|2",
        min=1,
        max=2,
        help="annotations, GoalStep: 1 for steps (the default), 2 for substeps.",
        autocompletion=complete_names(("1", "2")),
    ),
]
CuesAreSteps = Annotated[
    bool,
    typer.Option("--cues-are-steps", help="annotations: each cue of the subtitles is a step, not something said."),
]
FileFormat = Annotated[
    str | None,
    name_option("--format", FORMATS, f"annotations: the format, if it is not recognised: {', '.join(FORMATS)}."),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="annotations: write nothing; print how times are read, counts and the first steps."),
]


@dataclass(frozen=True)
class AnnotationOptions:
    """The options of `p3iv data import` that only annotation files have."""

    fps: float | None
    task: str | None
    tier: str | None
    level: int | None
    cues_are_steps: bool
    format: str | None
    dry_run: bool

    def as_arguments(self) -> dict[str, Any]:
        """The arguments of `p3iv.import_annotations`, without those that are not given."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def refuse_for(self, kind: str) -> None:
        """Raise an error if one of them is given for a release."""
        given = [name for name, value in vars(self).items() if value not in (None, False)]
        if given:
            raise ConfigError(f"--{given[0].replace('_', '-')} is for {ANNOTATION_FILES}, not for {kind}.")


def import_sources(
    kind: str, sources: Sequence[Path], folder: Path, only: AnnotationOptions, *, keep_tasks_apart: bool, **more: Any
) -> ImportReport:
    """Import a release or annotation files."""
    from p3iv.api.annotations import import_annotations  # keeps `p3iv --help` quick
    from p3iv.api.datasets import import_dataset

    if kind == ANNOTATION_FILES:
        if keep_tasks_apart:
            raise ConfigError(f"--keep-tasks-apart is for crosstask, not for {kind}.")
        return import_annotations(sources, folder, **only.as_arguments(), **more)
    only.refuse_for(kind)
    if len(sources) > 1:
        raise ConfigError(f"{kind} takes one SOURCE and a DIR, but got {counted(len(sources) + 1, 'path')}.")
    return import_dataset(kind, sources[0], folder, keep_tasks_apart=keep_tasks_apart, **more)


def print_dry_run(report: ImportReport) -> None:
    """Print the first rows of the steps.csv that would be written."""
    from p3iv.validation import cut  # loads pydantic

    rows = [
        (*(cut(name, _MAX_SHOWN) for name in names), _seconds(start), _seconds(end))
        for *names, start, end in report.first_rows
    ]
    print_table(("video", "task", "step", "start_s", "end_s"), rows, num_texts=3)
    more = report.num_steps - len(rows)
    rest = f"and {counted(more, 'more row')}; " if more else ""
    out.print(f"{rest}nothing was written")


def _seconds(time_s: float | None) -> str:
    return "" if time_s is None else f"{time_s:.3f}"


def export_command(
    folder: DatasetDir,
    target: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="The file to write; for elan and webvtt, the folder of one file per video."),
    ],
    form: Annotated[str, choice("--format", WRITERS, help="The tool or format to write for.")],
    fps: Fps = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write the annotations of a dataset for an annotation tool.

    `p3iv data import annotations` reads every one of these formats again.
    """
    from p3iv.api.annotations import export_annotations  # keeps `p3iv --help` quick

    report = export_annotations(folder, target, format=form, fps=fps, overwrite=overwrite)
    if as_json:
        print_json(report)
        return
    print_problems(report.problems)
    counts = f"{counted(report.num_videos, 'video')}, {counted(report.num_steps, 'step')}"
    files = f" ({counted(report.num_files, 'file')})" if WRITERS[form].is_per_video else ""
    out.print(f"{counts} -> {report.path}{files}")
    speech = ("--cues-are-steps",) if form == "webvtt" else ()
    videos = ("--videos", folder / "videos") if (folder / "videos").is_dir() else ()
    print_next("data", "import", ANNOTATION_FILES, report.path, f"{folder}-again", *speech, *videos)
