"""Subtitles and chapters: WebVTT, SRT, Whisper's JSON, chapters of YouTube as text or in yt-dlp's .info.json."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from p3iv.readers.files import JsonObject, UnusableError
from p3iv.readers.rows import parse_name, parse_times, usable_rows
from p3iv.readers.tools.spans import (
    MadeVideo,
    Span,
    ToolFile,
    ToolOptions,
    VideoSpans,
    as_list,
    as_object,
    optional_name,
    parse_clock,
    parse_span,
    video_of,
)
from p3iv.validation import ProblemLog

_ARROW = re.compile(r"^[ \t]*(\d[\d:.,]*)[ \t]*-->[ \t]*(\d[\d:.,]*)", re.ASCII | re.MULTILINE)

_TAG = re.compile(r"<[^>\n]{0,200}>")

_ROLLING = re.compile(r"<\d\d:\d\d", re.ASCII)  # the time of a word within a cue: captions that YouTube made itself

_LANGUAGE = re.compile(r"(?P<stem>.+)\.[a-z]{2,3}(-[A-Za-z0-9]{2,8})?", re.ASCII)  # kitchen.en-US

_NOTE = re.compile(r"(?P<key>video|task): (?P<value>.*)")

_CHAPTER = re.compile(
    r"[ \t]*[(\[]?((?:\d{1,2}:)?\d{1,3}:\d{2})[)\]]?[ \t]*[-\u2013\u2014:|.]?[ \t]+(\S.*)", re.ASCII
)  # (1:02:45) - Title

_SPEECH = (
    "its cues are what is said, not steps; pass --cues-are-steps if somebody has written one cue per step, or label "
    "the steps with an annotation tool"
)


@dataclass(frozen=True)
class _Cue:
    start_s: float
    end_s: float
    lines: tuple[str, ...]


def recognise_webvtt(text: str) -> bool:
    return text.startswith("WEBVTT")


def recognise_srt(text: str) -> bool:
    return not recognise_webvtt(text) and bool(_ARROW.search(text[:20000]))


def read_subtitles(file: ToolFile, options: ToolOptions, log: ProblemLog) -> Iterator[VideoSpans]:
    """One step per cue; notes of `p3iv data export` name video and task."""
    _refuse_speech(options)
    text = file.text.replace("\r\n", "\n").replace("\r", "\n")
    gap = r"\n\n+" if recognise_webvtt(text) else r"\n[ \t]*\n+"  # captions of YouTube have lines of one blank
    blocks = [block.split("\n") for block in re.split(gap, text)]
    notes = dict(_notes(blocks))
    parts = [part for block in filter(_is_cue, blocks) for part in _cue_parts(block)]
    rows = [(f"{file.name}: cue {number}", part) for number, part in enumerate(parts, start=1)]
    cues = usable_rows(rows, lambda _, block: _parse_cue(block), log)
    if any(_ROLLING.search(line) for cue in cues for line in cue.lines) or _repeats(cues):
        cues = _unrolled(cues)
    named = [(f"{file.name}: cue {number}", cue) for number, cue in enumerate(cues, start=1)]
    spans = usable_rows(named, lambda _, cue: _span(cue), log)
    name, language = file.path.stem, _LANGUAGE.fullmatch(file.path.stem)
    video = optional_name(notes.get("video")) or video_of(language["stem"] if language else name)
    yield VideoSpans(f"{file.name}: cues", video, spans, task=optional_name(notes.get("task")), aliases=(name,))


def _refuse_speech(options: ToolOptions) -> None:
    if not options.cues_are_steps:
        raise UnusableError(_SPEECH)


def _is_cue(block: list[str]) -> bool:
    return any("-->" in line for line in block) and not block[0].startswith(("NOTE", "STYLE", "REGION"))


def _cue_parts(block: list[str]) -> Iterator[list[str]]:
    """The cues of a block: a line of times begins another cue, also without an empty line before it, as in WebVTT.

    The number that SRT has before the times is not a line of the cue before.
    """
    arrows = [at for at, line in enumerate(block) if "-->" in line]
    for start, end in pairwise([*arrows, len(block)]):
        is_numbered = end < len(block) and end - start > 2 and block[end - 1].strip().isdigit()
        yield block[start : end - 1 if is_numbered else end]


def _notes(blocks: Sequence[list[str]]) -> Iterator[tuple[str, str]]:
    for block in blocks:
        if block[0].strip() == "NOTE":
            for line in block[1:]:
                if found := _NOTE.fullmatch(line):
                    yield found["key"], html.unescape(found["value"])


def _parse_cue(block: list[str]) -> _Cue:
    found = _ARROW.match(block[0])
    if not found:
        raise UnusableError("no times around its arrow, expected 00:01:02.000 --> 00:01:05.500")
    start_s, end_s = parse_times(parse_clock(found[1]), parse_clock(found[2]))
    return _Cue(start_s, end_s, tuple(line for line in block[1:] if line.strip()))


def _repeats(cues: Sequence[_Cue]) -> bool:
    """Whether a cue of several lines begins with the last line of the one before: captions that roll."""
    return any(len(cue.lines) > 1 and before.lines[-1:] == cue.lines[:1] for before, cue in pairwise(cues))


def _unrolled(cues: Sequence[_Cue]) -> list[_Cue]:
    """Captions that roll, without the lines that were there before; a cue with nothing new lengthens the last one."""
    kept: list[_Cue] = []
    shown: tuple[str, ...] = ()
    for cue in cues:
        lines = tuple(text for line in cue.lines if (text := _TAG.sub("", line).strip()))
        num_old = next((n for n in range(len(lines), 0, -1) if shown[-n:] == lines[:n]), 0)
        if lines[num_old:]:
            kept.append(replace(cue, lines=lines[num_old:]))
        elif kept:
            kept[-1] = replace(kept[-1], end_s=max(kept[-1].end_s, cue.end_s))
        shown = lines or shown
    return kept


def _span(cue: _Cue) -> Span:
    text = html.unescape(_TAG.sub("", " ".join(line.strip() for line in cue.lines)))
    return Span(parse_name(text, "the text"), cue.start_s, cue.end_s)


def recognise_whisper(content: object) -> bool:
    """Segments with times and texts."""
    segments = content.get("segments") if isinstance(content, JsonObject) else None
    return isinstance(segments, list) and any(
        isinstance(one, JsonObject) and {"start", "end", "text"} <= one.keys() for one in segments
    )


def read_whisper(file: ToolFile, options: ToolOptions, log: ProblemLog) -> Iterator[VideoSpans]:
    """One step per segment."""
    _refuse_speech(options)
    segments = as_list(as_object(file.content, "the file").get("segments"), "segments")
    rows = [(f"{file.name}: segment {number}", one) for number, one in enumerate(segments, start=1)]
    spans = usable_rows(rows, lambda _, one: _timed(one, "text", "start", "end"), log)
    yield VideoSpans(f"{file.name}: segments", video_of(file.path.stem), spans)


def _timed(one: object, text: str, start: str, end: str) -> Span:
    entry = as_object(one, "the entry")
    return parse_span(entry.get(text), entry.get(start), entry.get(end))


def recognise_ytdlp(content: object) -> bool:
    """What yt-dlp writes beside a video; its chapters may be missing."""
    return isinstance(content, JsonObject) and "chapters" in content and "id" in content


def read_ytdlp(file: ToolFile, _: ToolOptions, log: ProblemLog) -> Iterator[VideoSpans]:
    """The chapters of a video."""
    content = as_object(file.content, "the file")
    if content.get("chapters") is None:
        raise UnusableError("the video has no chapters")
    chapters = as_list(content["chapters"], "chapters")
    rows = [(f"{file.name}: chapter {number}", one) for number, one in enumerate(chapters, start=1)]
    spans = usable_rows(rows, lambda _, one: _timed(one, "title", "start_time", "end_time"), log)
    names = [name for key in ("id", "title") if (name := optional_name(content.get(key)))]
    stem = file.path.stem.removesuffix(".info")
    yield VideoSpans(f"{file.name}: chapters", video_of(stem), spans, aliases=tuple(names))


def recognise_chapters(text: str) -> bool:
    """At least two lines that begin with a time, the first at 0:00, as YouTube needs it."""
    times = [found[1] for line in text[:20000].split("\n") if (found := _CHAPTER.fullmatch(line.rstrip()))]
    return len(times) > 1 and not times[0].strip("0:")


def read_chapters(file: ToolFile, _: ToolOptions, log: ProblemLog) -> Iterator[VideoSpans]:
    """Lines of a time and a title; others, such as the rest of a description, are not read."""
    rows = [
        (f"{file.name}:{number}", found)
        for number, line in enumerate(file.text.split("\n"), start=1)
        if (found := _CHAPTER.fullmatch(line.rstrip()))
    ]
    starts = usable_rows(rows, lambda _, found: (parse_clock(found[1]), parse_name(found[2], "the title")), log)
    if any(later[0] < earlier[0] for earlier, later in pairwise(starts)):
        raise UnusableError("the times go back, expected chapters in their order")
    ends = [*(start for start, _ in starts[1:]), None]
    spans = [Span(title, start, end) for (start, title), end in zip(starts, ends, strict=False)]
    yield VideoSpans(f"{file.name}: chapters", video_of(file.path.stem), spans)


def render_webvtt(videos: Sequence[MadeVideo]) -> str:
    """The steps of one video as cues, which players show as subtitles."""
    (made,) = videos
    notes = f"NOTE\nvideo: {_escaped(made.video.id)}\ntask: {_escaped(made.video.task)}"
    cues = [f"{_clock(start_s)} --> {_clock(end_s)}\n{_escaped(step)}" for step, start_s, end_s in made.timed_steps]
    return "\n\n".join(["WEBVTT", notes, *cues]) + "\n"


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)


def _clock(seconds: float) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}.{rest % 1000:03d}"
