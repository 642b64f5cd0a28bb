"""Annotations of other tools in, and out again, as functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from p3iv.errors import ConfigError

if TYPE_CHECKING:
    from p3iv.data.annotation_files import AnnotationExport
    from p3iv.data.importing import ImportReport
    from p3iv.types import OnProgress


def import_annotations(
    files: str | Path | Sequence[str | Path],
    data: str | Path,
    *,
    videos: str | Path | None = None,
    fps: float | None = None,
    task: str | None = None,
    tier: str | None = None,
    level: int = 1,
    cues_are_steps: bool = False,
    format: str | None = None,
    dry_run: bool = False,
    features: str | Path | None = None,
    language: str | Path | None = None,
    rename: str | Path | None = None,
    release_split: str | Path | None = None,
    encoder: str | None = None,
    text_encoder: str | None = None,
    simulated: bool = False,
    dtype: str | None = None,
    strict: bool = False,
    overwrite: bool = False,
    progress: OnProgress | None = None,
) -> ImportReport:
    """Import the files of annotation tools, subtitles and chapters; the command is `p3iv data import annotations`.

    The format of every file is recognised by its content. `notes` of the result says how times were read.

    Args:
        files: one file or several; a folder for frame labels (groundTruth/ and mapping.txt).
        data: the dataset folder to write.
        videos: a folder of videos to link, one file per video; frame numbers are counted by their rates.
        fps: frames per second of frame numbers; it comes before the rate of the video.
        task: the task (the procedure) of videos whose annotations name none.
        tier: ELAN: the tier that has the steps; VIA: the attribute.
        level: Ego4D GoalStep: 1 for steps, 2 for substeps.
        cues_are_steps: every cue of subtitles, or segment of Whisper, is a step; otherwise they are refused as speech.
        format: the format of all files, instead of recognising it.
        dry_run: write nothing; `first_rows` of the result has the first steps.
        features: a folder of features, as in `import_dataset`.
        language: step embeddings, as in `import_dataset`.
        rename: JSON or CSV, step name in `language` -> name in the dataset.
        release_split: the split of `split="release"`, JSON {"train": [...], "val": [...], "test": [...]} of video ids,
            or a released training list with its test list beside it.
        encoder: name of the encoder that made the features.
        text_encoder: name of the encoder that made the step embeddings.
        simulated: the features are simulated; every printed result will say so.
        dtype: type of the stored features; without it, that of the source.
        strict: write nothing if any part of the files cannot be used.
        overwrite: replace the files that are already there.
        progress: is called after every video whose features were packed.

    Raises:
        SourceError: nothing can be read; with `strict`, any part of the files cannot be used.
        ConfigError: an argument has a value that is not allowed.

    Example:
        >>> export = p3iv.export_annotations("demo/tabletop", "project.json", format="via")
        >>> report = p3iv.import_annotations("project.json", "again")
        >>> report.num_videos, report.notes[0]
        (40, 'project.json: VIA 3 project, 40 videos; times in seconds')
    """
    from p3iv.data.annotation_files import AnnotationSource, import_annotation_files, parse_fps, request_of
    from p3iv.encoders.registry import has_text_encoder
    from p3iv.readers.tools.spans import ToolOptions

    if level not in (1, 2):
        raise ConfigError(f"level={level}, but it must be 1 (steps) or 2 (substeps).")
    options = ToolOptions(tier=tier, level=level, cues_are_steps=cues_are_steps, task=task, fps=parse_fps(fps))
    named = [files] if isinstance(files, str | Path) else files
    source = AnnotationSource(tuple(map(Path, named)), options, format)
    request = replace(
        request_of(Path(data), source),
        features=None if features is None else Path(features),
        language=None if language is None else Path(language),
        rename=None if rename is None else Path(rename),
        split=None if release_split is None else Path(release_split),
        videos=None if videos is None else Path(videos),
        encoder=encoder,
        text_encoder=text_encoder,
        dtype=dtype,
        simulated=simulated,
        embed=has_text_encoder(),
        strict=strict,
        overwrite=overwrite,
    )
    return import_annotation_files(request, source, dry_run=dry_run, on_progress=progress)


def export_annotations(
    data: str | Path, out: str | Path, *, format: str, fps: float | None = None, overwrite: bool = False
) -> AnnotationExport:
    """Write the annotations of a dataset folder for an annotation tool; the command is `p3iv data export`.

    Every format can be imported again with `import_annotations`.

    Args:
        data: the dataset folder.
        out: the file to write; for elan and webvtt, the folder of one file per video.
        format: label-studio, elan, via, webvtt or csv.
        fps: frames per second of Label Studio's frame numbers; without it, the rate of each video in videos/.
        overwrite: replace what is already there.

    Raises:
        ConfigError: there is no such format.
        DatasetError: no video can be written, or `out` is there already.

    Example:
        >>> export = p3iv.export_annotations("demo/tabletop", "subtitles", format="webvtt")
        >>> export.num_files, len(export.problems)
        (40, 0)
    """
    from p3iv.data.annotation_files import export_annotation_files

    return export_annotation_files(Path(data), Path(out), format_name=format, fps=fps, overwrite=overwrite)
