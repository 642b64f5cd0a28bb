"""Import the files of annotation tools as a dataset folder, and write a dataset's annotations for such tools."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path

from p3iv.data.folder import find_videos
from p3iv.data.importing import ImportReport, ImportRequest, import_read, refuse_problems, report_of
from p3iv.errors import ConfigError, DatasetError, FeatureError, MissingExtraError, SourceError, one_of
from p3iv.files import atomic_folder, exclusive, remove_leftovers, write_text
from p3iv.readers.files import UnusableError
from p3iv.readers.folder import read_folder
from p3iv.readers.rows import LEFT_OUT
from p3iv.readers.steps import write_steps
from p3iv.readers.tools.reading import ToolReading, read_tool_files, render
from p3iv.readers.tools.registry import ANNOTATION_FILES, WRITERS, Writer
from p3iv.readers.tools.spans import MAX_FPS, Clock, MadeVideo, ToolOptions, VideoFacts
from p3iv.types import Annotations, OnProgress, Problem, Video, list_problems
from p3iv.validation import ProblemLog, make_plain

NUM_FIRST_ROWS = 10


@dataclass(frozen=True)
class AnnotationSource:
    """The files to read, and what the user says about them."""

    files: tuple[Path, ...]
    options: ToolOptions
    format: str | None = None  # of all files; without it, it is recognised


@dataclass(frozen=True)
class VideoFolder:
    """Video files at hand, whose frame rates and lengths are measured when they are needed."""

    folder: Path | None
    may_lack_av: bool = False  # the rate of frames is known, so that video files need not be opened

    @cached_property
    def paths(self) -> dict[str, Path]:
        if self.folder is None:
            return {}
        if not self.folder.is_dir():
            raise SourceError(f"--videos {self.folder} is not a folder.")
        return find_videos(self.folder)

    @cached_property
    def _measured(self) -> dict[Path, VideoFacts]:
        return {}

    def find(self, names: Sequence[str]) -> VideoFacts | None:
        """Rate and length of the video with one of these names; None if there is no such file.

        Raises:
            UnusableError: the file is not a video that can be read.
        """
        path = next((self.paths[name] for name in names if name in self.paths), None)
        if path is None:
            return None
        if path not in self._measured:
            try:
                self._measured[path] = _measure(path)
            except FeatureError as error:
                raise UnusableError(str(error)) from error
            except MissingExtraError:
                if self.may_lack_av:
                    return None
                raise
        return self._measured[path]


def _measure(path: Path) -> VideoFacts:
    from p3iv.features.video_file import measure_s, read_rate  # needs PyAV

    return VideoFacts(path.name, read_rate(path), measure_s(path))


def parse_fps(fps: float | None) -> Fraction | None:
    """The option --fps as a fraction."""
    if fps is None:
        return None
    if not 0 < fps <= MAX_FPS:
        raise ConfigError(f"--fps {fps:g}, but it must be a number of frames per second above 0, up to {MAX_FPS}.")
    return Fraction(str(fps))


def import_annotation_files(
    request: ImportRequest, source: AnnotationSource, *, dry_run: bool = False, on_progress: OnProgress | None = None
) -> ImportReport:
    """Read annotation files and write a dataset folder; with `dry_run`, only say what would be written."""
    readings: list[ToolReading] = []

    def read() -> Annotations:
        videos = VideoFolder(request.videos, may_lack_av=source.options.fps is not None)
        _ = videos.paths  # a wrong --videos is an error, also where no video is needed
        reading = read_tool_files(source.files, Clock(source.options, videos.find), format_name=source.format)
        readings.append(reading)
        return replace(reading.annotations, name=make_plain(Path(os.path.realpath(request.destination)).name))

    report = _preview(request, read()) if dry_run else import_read(request, read, on_progress=on_progress)
    return replace(report, notes=(*readings[0].notes, *report.notes))


def request_of(destination: Path, source: AnnotationSource) -> ImportRequest:
    """A request for these files, without further parts."""
    if not source.files:
        raise ConfigError("No annotation file. Name at least one.")
    return ImportRequest(ANNOTATION_FILES, source.files[0], destination, more_sources=source.files[1:])


def _preview(request: ImportRequest, annotations: Annotations) -> ImportReport:
    refuse_problems(request, annotations.problems)
    rows = [
        (video.id, video.task, step.action, step.start_s, step.end_s)
        for video in annotations.videos
        for step in video.steps
    ]
    report = report_of(request, annotations, None, annotations.problems)
    return replace(report, first_rows=tuple(rows[:NUM_FIRST_ROWS]))


@dataclass(frozen=True)
class AnnotationExport:
    """The annotation files that were written, and what they do not hold."""

    path: Path  # a file, or a folder of one file per video
    num_files: int
    num_videos: int
    num_steps: int
    problems: tuple[Problem, ...] = ()


def export_annotation_files(
    folder: Path, out: Path, *, format_name: str, fps: float | None = None, overwrite: bool = False
) -> AnnotationExport:
    """Write the annotations of a dataset folder for an annotation tool.

    Raises:
        ConfigError: there is no such format.
        DatasetError: `out` is there already, or no video can be written.
    """
    if format_name not in WRITERS:
        raise ConfigError(f"--format {format_name}, but it must be {one_of(format_name, WRITERS)}")
    writer, rate = WRITERS[format_name], parse_fps(fps)
    annotations = read_folder(folder, with_split=False)
    log = ProblemLog()
    with exclusive(out, doing=f"is writing {out}"):
        remove_leftovers(out)
        _refuse_to_replace(out, writer, overwrite=overwrite)
        if format_name == "csv":
            kept, num_files = list(annotations.videos), 1
            write_steps(out, annotations)
        else:
            made = _made_videos(folder, annotations.videos, rate if writer.needs_rate else None, log, writer)
            kept = _write(format_name, out, made, log)
            num_files = len(kept) if writer.is_per_video else 1
    num_steps = sum(len(video.steps) for video in kept)
    return AnnotationExport(out, num_files, len(kept), num_steps, (*annotations.problems, *log.problems))


def _refuse_to_replace(out: Path, writer: Writer, *, overwrite: bool) -> None:
    """Replace a file or a folder of such files only with --overwrite, and nothing else."""
    if writer.is_per_video:
        if out.exists() and not out.is_dir():
            raise DatasetError(f"{out} is a file; name a folder, for one {writer.suffix} file per video.")
        others = [path for path in out.iterdir() if path.suffix != writer.suffix] if out.is_dir() else []
        if others:
            raise DatasetError(f"{out} has other files, such as {others[0].name}. Name another folder.")
    elif out.is_dir():
        raise DatasetError(f"{out} is a folder; name a file, such as {out / f'annotations{writer.suffix}'}.")
    if out.exists() and not overwrite and (out.is_file() or any(out.iterdir())):
        raise DatasetError(f"{out} exists. Name another one, or pass --overwrite to replace it.")


def _made_videos(
    folder: Path, videos: Sequence[Video], rate: Fraction | None, log: ProblemLog, writer: Writer
) -> list[MadeVideo]:
    """The videos that an annotation tool can have, with the names of their files."""
    files = VideoFolder(folder / "videos" if (folder / "videos").is_dir() else None)
    made = []
    for video in videos:
        try:
            made.append(_made_video(video, files, rate, needs_rate=writer.needs_rate))
        except UnusableError as error:
            log.add(f"video {make_plain(video.id)}", str(error), LEFT_OUT)
    return made


def _made_video(video: Video, files: VideoFolder, rate: Fraction | None, *, needs_rate: bool) -> MadeVideo:
    if Path(video.id).name != video.id or "\\" in video.id or video.id.startswith("."):
        raise UnusableError("its id cannot be a file name")
    if not video.is_timed:
        raise UnusableError("its steps have no times")
    path = files.paths.get(video.id)
    if needs_rate and rate is None:
        facts = files.find((video.id,))
        rate = facts.fps if facts else None
    return MadeVideo(video, path.name if path else f"{video.id}.mp4", rate)


def _write(format_name: str, out: Path, made: Sequence[MadeVideo], log: ProblemLog) -> list[Video]:
    """Write one file, or one per video; the videos that are in them."""
    texts: dict[str, str] = {}
    kept: list[MadeVideo] = []
    for one in made:  # each alone, so that one that cannot be written does not stop the others
        try:
            texts[one.video.id] = render(format_name, [one])
            kept.append(one)
        except UnusableError as error:
            log.add(f"video {make_plain(one.video.id)}", str(error), LEFT_OUT)
    if not kept:
        raise DatasetError(f"no video can be written as {format_name}.\n{list_problems(log.problems)}")
    if WRITERS[format_name].is_per_video:
        with atomic_folder(out) as temporary:
            for video, text in texts.items():
                write_text(temporary / f"{video}{WRITERS[format_name].suffix}", text)
    else:
        write_text(out, render(format_name, kept))
    return [one.video for one in kept]
