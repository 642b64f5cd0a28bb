"""Recognise annotation files by their content, and read them as `Annotations`; and the other way round."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import cast

from p3iv.errors import ConfigError, SourceError, one_of
from p3iv.readers.files import MAX_BYTES, FolderFiles, UnusableError, is_folder, parse_value, parse_xml, read_text
from p3iv.readers.rows import LEFT_OUT, VideoCollector, make_vocabulary, place
from p3iv.readers.tools.registry import FORMATS, WRITERS, Format
from p3iv.readers.tools.spans import Clock, MadeVideo, ToolFile, VideoSpans, show_rate
from p3iv.types import Action, Annotations, counted, list_problems, listed
from p3iv.validation import ProblemLog

_SUFFIXES = (".json", ".eaf", ".xml", ".vtt", ".srt", ".csv", ".txt")  # of annotation files in a folder

_KINDS = {"{": "json", "[": "json", "<": "xml"}  # of content, by its first character

_BRACKETED_TIME = re.compile(r"\s*\[\d+:", re.ASCII)  # of a chapter: [0:00] Title


@dataclass(frozen=True)
class ToolReading:
    """The annotations of some files, and how they were read."""

    annotations: Annotations
    notes: tuple[str, ...]  # one per file: its format, its times, what of it is not a step


@dataclass
class _FileNotes:
    """What is said about one file."""

    format: Format
    num_videos: int = 0
    sources: dict[Fraction, dict[str, None]] = field(default_factory=dict)  # of the rates of frames
    skipped: Counter[str] = field(default_factory=Counter)
    refused: dict[str, list[VideoSpans]] = field(default_factory=dict)  # by the reason

    def text(self, name: str) -> str:
        times = [
            f"frames at {show_rate(fps)} per second, from {listed(list(names), 3)}"
            for fps, names in self.sources.items()
        ] or [f"times in {self.format.times}"]
        left_out = [f"{counted(number, what)} left out" for what, number in self.skipped.items()]
        return "; ".join([f"{name}: {self.format.title}, {counted(self.num_videos, 'video')}", *times, *left_out])


def read_tool_files(paths: Sequence[Path], clock: Clock, *, format_name: str | None = None) -> ToolReading:
    """Read annotation files of any format; what cannot be read is listed.

    Args:
        paths: Files, or folders of frame labels.
        clock: Converts frames to seconds; it has the user's options.
        format_name: The format of all files; without it, it is recognised by their content.

    Raises:
        ConfigError: there is no such format.
        SourceError: nothing can be read.
    """
    if format_name is not None and format_name not in FORMATS:
        raise ConfigError(f"--format {format_name}, but it must be {one_of(format_name, FORMATS)}")
    videos, texts, notes = VideoCollector(ProblemLog()), dict[str, str](), []
    for path in _expanded(paths, format_name):
        try:
            file, form = _open(path, format_name)
            said = _FileNotes(form)
            for found in _find(form, form.read)(file, clock.options, videos.log):
                _add(found, clock, videos, texts, said)
            _log_refused(said, file, videos.log)
        except UnusableError as error:
            videos.log.add(place(path.name), str(error), "file left out")
        else:
            notes += [said.text(file.name)] if said.num_videos else []
    return ToolReading(_finish(paths, videos, texts), tuple(notes))


def _expanded(paths: Sequence[Path], format_name: str | None) -> Iterator[Path]:
    """The paths, and in place of a folder that is not one of frame labels, the annotation files in it."""
    labels = FORMATS["frame-labels"]
    for path in paths:
        if not is_folder(path) or format_name == "frame-labels" or _find(labels, labels.recognise)(path):
            yield path
            continue
        found = [name for name in FolderFiles(path).names("") if Path(name).suffix.lower() in _SUFFIXES]
        if not found:
            raise SourceError(f"{path} has no annotation file, expected one that ends in {', '.join(_SUFFIXES)}.")
        yield from (path / name for name in found)


def _find(form: Format, function: str) -> Callable[..., Iterator[VideoSpans]]:
    return cast("Callable[..., Iterator[VideoSpans]]", _load(form.module, function))


def _load(module: str, function: str) -> object:
    return getattr(import_module(f"p3iv.readers.tools.{module}"), function)


def _open(path: Path, format_name: str | None) -> tuple[ToolFile, Format]:
    """The parsed file and its format."""
    if format_name is not None:
        form = FORMATS[format_name]
        return (ToolFile(path) if form.content == "folder" else _parse(path, read_text(path), form.content)), form
    labels = FORMATS["frame-labels"]
    if _find(labels, labels.recognise)(path):
        return ToolFile(path), labels
    text = read_text(path, MAX_BYTES)
    kind = "text" if _BRACKETED_TIME.match(text) else _KINDS.get(text.lstrip()[:1], "text")
    file = _parse(path, text, kind)
    for form in FORMATS.values():
        content = file.text if kind == "text" else file.content
        if form.content == kind and _find(form, form.recognise)(content):
            return file, form
    raise UnusableError(_unknown(kind))


def _parse(path: Path, text: str, kind: str) -> ToolFile:
    content = parse_value(text) if kind == "json" else parse_xml(text) if kind == "xml" else None
    return ToolFile(path, text, content)


def _unknown(kind: str) -> str:
    known = [name for name, form in FORMATS.items() if form.content == kind]
    return f"not a format that is known; if it is one of {', '.join(known)}, pass --format NAME"


def _add(found: VideoSpans, clock: Clock, videos: VideoCollector, texts: dict[str, str], said: _FileNotes) -> None:
    """Add one video with its steps in seconds, or note why it is left out."""
    said.skipped.update(found.skipped)
    try:
        task = _task_of(found, clock)
        steps, rate = clock.steps_of(found)
    except UnusableError as error:
        said.refused.setdefault(str(error), []).append(found)
        return
    if videos.add(found.where, found.video, task, steps, found.aliases):
        said.num_videos += 1
        if rate is not None:
            said.sources.setdefault(rate.fps, {})[rate.source] = None
        for step in steps:
            texts.setdefault(step.action, found.texts.get(step.action, step.action))


def _log_refused(said: _FileNotes, file: ToolFile, log: ProblemLog) -> None:
    """List the videos that are left out; those with one reason, such as a missing --task, together."""
    for reason, found in said.refused.items():
        if len(found) == 1:
            log.add(found[0].where, reason, LEFT_OUT)
        else:
            names = listed([place(one.video) for one in found], 3)
            log.add(file.name, reason, f"{counted(len(found), 'video')} left out: {names}")


def _task_of(found: VideoSpans, clock: Clock) -> str:
    task = found.task or clock.options.task
    if task is None:
        raise UnusableError("the task (the procedure that a video shows) is not in the file; pass --task NAME")
    return task


def _finish(paths: Sequence[Path], videos: VideoCollector, texts: dict[str, str]) -> Annotations:
    if not videos.videos:
        names = listed([place(path.name) for path in paths])
        problems = videos.log.problems
        raise SourceError(f"no step can be read from {names}.\n{list_problems(problems)}")
    vocabulary = make_vocabulary(Action(name, text) for name, text in sorted(texts.items()))
    return Annotations("annotations", tuple(videos.videos.values()), vocabulary, videos.log.problems)


def render(format_name: str, videos: Sequence[MadeVideo]) -> str:
    """The text of one annotation file.

    Raises:
        UnusableError: the format cannot hold this.
    """
    module, _, function = WRITERS[format_name].location.partition(":")
    return cast("Callable[[Sequence[MadeVideo]], str]", _load(module, function))(videos)
