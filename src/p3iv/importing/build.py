"""The import itself: read, check, pack, and move the finished folder into place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from p3iv.annotations import read_coin, read_crosstask, read_folder, read_niv, write_steps
from p3iv.atomic import whole_folder
from p3iv.dataset import open_unfinished, refuse_to_overwrite
from p3iv.errors import ConfigError, SourceError
from p3iv.features import PackedFeatures
from p3iv.importing.cards import card_of
from p3iv.importing.parts import copy_truth, link_videos, pack_features, write_language_of, write_split_of
from p3iv.importing.request import ImportReport, ImportRequest, Progress
from p3iv.types import Annotations, Problem, counted

READERS: dict[str, Callable[[Path], Annotations]] = {
    "crosstask": read_crosstask,
    "coin": read_coin,
    "niv": read_niv,
    "folder": read_folder,
}


def import_dataset(request: ImportRequest, *, progress: Progress | None = None) -> ImportReport:
    """Write the dataset folder, or nothing; `strict` refuses with the list of problems where there are any."""
    request = request.with_parts_of_folder()
    refuse_to_overwrite(request.destination, overwrite=request.overwrite, sources=request.sources)
    annotations = _read(request)
    with whole_folder(request.destination.resolve()) as folder:  # a link keeps leading where it leads
        return _build(request, annotations, folder, progress)


def _build(request: ImportRequest, annotations: Annotations, folder: Path, progress: Progress | None) -> ImportReport:
    """All files in `folder`; dataset.yaml comes last, so that a folder without it is known to be unfinished."""
    problems = list(annotations.problems)
    annotations = write_language_of(request, annotations, folder)
    problems += write_split_of(request, annotations, folder)
    packed = pack_features(request, annotations, folder, progress)
    problems += packed.problems if packed else ()
    problems += link_videos(request, annotations.videos, folder)
    write_steps(folder / "steps.csv", annotations)
    problems += copy_truth(request, open_unfinished(folder))
    if request.strict and problems:
        raise SourceError(_strict_message(problems))
    card_of(request, annotations, packed).write(folder)
    return _report(request, annotations, packed, problems)


def _report(
    request: ImportRequest, annotations: Annotations, packed: PackedFeatures | None, problems: Sequence[Problem]
) -> ImportReport:
    return ImportReport(
        folder=request.destination,
        num_videos=len(annotations.videos),
        num_steps=sum(len(video.steps) for video in annotations.videos),
        num_actions=len(annotations.vocabulary),
        num_tasks=len({video.task for video in annotations.videos}),
        features=packed,
        problems=tuple(problems),
        notes=packed.notes if packed else (),
    )


def _read(request: ImportRequest) -> Annotations:
    if request.keep_tasks_apart:
        if request.kind != "crosstask":
            raise ConfigError(
                f"--keep-tasks-apart is for CrossTask, not for {request.kind}: its steps have names of their own."
            )
        return read_crosstask(request.source, keep_tasks_apart=True)
    return READERS[request.kind](request.source)


def _strict_message(problems: Sequence[Problem]) -> str:
    lines = "\n".join(f"  {problem}" for problem in problems[:20])
    more = f"\n  and {len(problems) - 20} more" if len(problems) > 20 else ""
    return f"--strict: {counted(len(problems), 'problem')}, so nothing was written.\n{lines}{more}"
