"""What every annotation file becomes: spans of videos, in seconds or in frames; frames become seconds only here."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from p3iv.readers.files import JsonObject, UnusableError
from p3iv.readers.rows import parse_name, parse_times, place
from p3iv.types import Step, Video, counted, listed
from p3iv.validation import ProblemLog, make_plain, shown

MEDIA_SUFFIXES = (
    *(".mp4", ".mkv", ".webm", ".avi", ".mov", ".m4v", ".mpg", ".mpeg", ".ts", ".mts", ".m2ts", ".flv", ".wmv", ".ogv"),
    *(".3gp", ".wav", ".mp3", ".m4a", ".aac", ".ogg", ".flac"),
)

MAX_FPS = 1000

TOLERANCE_S = 1  # containers round their length, and tools count a frame more

MAX_FRAME = 10**9

# Labels of frames in which nothing of the procedure happens, in Breakfast, GTEA, 50Salads and their copies.
BACKGROUND = frozenset(("sil", "background", "bg", "action_start", "action_end"))

_CLOCK = re.compile(r"(?:(\d{1,4}):)?(\d{1,4}):(\d{1,2}(?:[.,]\d{1,9})?)", re.ASCII)


@dataclass(frozen=True)
class ToolFile:
    """One annotation file."""

    path: Path
    text: str = ""  # empty for a folder
    content: object = None  # of a JSON file its value, of an XML file its root

    @property
    def name(self) -> str:
        return place(self.path.name)


@dataclass(frozen=True)
class ToolOptions:
    """What a user may have to say about annotation files."""

    tier: str | None = None  # of ELAN; of VIA, the attribute
    level: int = 1  # of GoalStep: 1 steps, 2 substeps
    cues_are_steps: bool = False  # of subtitles
    task: str | None = None  # of the videos whose annotations name none
    fps: Fraction | None = None  # of frame numbers


@dataclass(frozen=True)
class Span:
    """One step between two times; both are None if only the order is known."""

    step: str
    start: float | None
    end: float | None  # None with a start: at the end of the video
    extra: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class VideoSpans:
    """The steps that a file has for one video."""

    where: str
    video: str
    spans: Sequence[Span]
    task: str | None = None
    aliases: tuple[str, ...] = ()
    in_frames: bool = False  # times are frames, the first of which is 0, and the end is the frame after the last
    fps: Fraction | None = None  # of the frames, if the file says so
    skipped: Mapping[str, int] = field(default_factory=dict)  # what is not a step, and how much of it there is
    texts: Mapping[str, str] = field(default_factory=dict)  # descriptions of steps, by name


@dataclass(frozen=True)
class MadeVideo:
    """A video to write annotations of, with the name of its file."""

    video: Video
    media: str  # kitchen.mp4, also where the file is not at hand
    fps: Fraction | None = None

    @property
    def timed_steps(self) -> list[tuple[str, float, float]]:
        """The names and times of the steps."""
        return [
            (step.action, step.start_s, step.end_s)
            for step in self.video.steps
            if step.start_s is not None and step.end_s is not None
        ]


@dataclass(frozen=True)
class VideoFacts:
    """What is known about a video file."""

    name: str
    fps: Fraction
    length_s: Fraction


FindVideo = Callable[[Sequence[str]], VideoFacts | None]  # the file of one of these names; may raise UnusableError


@dataclass(frozen=True)
class Rate:
    """How many frames there are in a second, and who says so."""

    fps: Fraction
    source: str  # --fps, the file, or the name of a video


@dataclass(frozen=True)
class Clock:
    """Converts the times of a video to seconds, and says how.

    Frames are counted by the rate of --fps, else by the rate that the annotation file names, else by that of the
    video. The rate of --fps comes first: Label Studio counts 24 frames per second whatever the video has, unless its
    labelling configuration says otherwise.
    """

    options: ToolOptions
    find: FindVideo

    def steps_of(self, video: VideoSpans) -> tuple[list[Step], Rate | None]:
        """The steps in seconds, and by which rate frames were counted.

        Raises:
            UnusableError: the rate is unknown, or the video is too short for the frames.
        """
        if not video.in_frames:
            return self._in_seconds(video), None
        rate = self._rate_of(video)
        facts = self._facts(video, needed=False)
        if facts is not None:
            _refuse_beyond(video, facts, rate.fps)
        steps = [
            Step(span.step, float(Fraction(span.start) / rate.fps), float(Fraction(span.end) / rate.fps), span.extra)
            for span in video.spans
            if span.start is not None and span.end is not None
        ]
        return steps, rate

    def _rate_of(self, video: VideoSpans) -> Rate:
        if self.options.fps is not None:
            return Rate(self.options.fps, "--fps")
        if video.fps is not None:
            return Rate(video.fps, "the file")
        facts = self._facts(video, needed=True)
        if facts is None:
            raise UnusableError(
                "its times are frames, and how many there are in a second is not known; pass --videos FOLDER, where "
                "the video is, or --fps N"
            )
        return Rate(facts.fps, facts.name)

    def _facts(self, video: VideoSpans, *, needed: bool) -> VideoFacts | None:
        try:
            return self.find((video.video, *video.aliases))
        except UnusableError:
            if needed:
                raise
            return None

    def _in_seconds(self, video: VideoSpans) -> list[Step]:
        open_ended = any(span.start is not None and span.end is None for span in video.spans)
        facts = self._facts(video, needed=True) if open_ended else None
        if open_ended and facts is None:
            raise UnusableError(
                "its last step ends with the video, whose length is not known; pass --videos FOLDER, where the video is"
            )
        steps = []
        for span in video.spans:
            end = span.end
            if span.start is not None and end is None and facts is not None:
                end = float(facts.length_s)
                if end < span.start:
                    raise UnusableError(f"a step starts at {span.start} s, but {facts.name} ends at {end:.1f} s")
            steps.append(Step(span.step, span.start, end, span.extra))
        return steps


def _refuse_beyond(video: VideoSpans, facts: VideoFacts, rate: Fraction) -> None:
    last = max((span.end for span in video.spans if span.end is not None), default=0)
    if Fraction(last) / rate > facts.length_s + TOLERANCE_S:
        raise UnusableError(
            f"frame {last:g} is {float(Fraction(last) / rate):.1f} s at {show_rate(rate)} per second, but {facts.name} "
            f"ends at {float(facts.length_s):.1f} s; pass the rate that the frames were counted with as --fps N, and "
            "check that these are frames, not milliseconds"
        )


def show_rate(fps: Fraction) -> str:
    """29.97, 25: at most five digits."""
    return f"{float(fps):.5g}"


def parse_span(step: object, start: object, end: object, extra: Sequence[tuple[str, object]] = ()) -> Span:
    """A span in seconds from unchecked values."""
    name = parse_name(step, "the step")
    start_s, end_s = parse_times(start, end)
    return Span(name, start_s, end_s, clean_extra(extra))


def clean_extra(extra: Sequence[tuple[str, object]]) -> tuple[tuple[str, str], ...]:
    """Further columns of a step; values that are no texts, numbers or truth values are left out."""
    texts = [(name, _cell(value)) for name, value in extra]
    return tuple((name, text) for name, text in texts if text)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return make_plain(" ".join(value.split())).strip() if isinstance(value, str) else ""


def parse_frame(value: object, what: str) -> int:
    """A frame number; seconds with decimals are refused."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value.strip()) < 12:
        value = int(value)
    number = int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_FRAME else value
    if type(number) is not int or not 0 <= number <= MAX_FRAME:
        raise UnusableError(f"{what} is {shown(value)}, expected a frame, which is a whole number, not seconds")
    return number


def parse_clock(text: str) -> float:
    """The seconds of h:mm:ss, mm:ss or mm:ss.mmm; the decimal sign may be a comma."""
    found = _CLOCK.fullmatch(text.strip())
    if not found or (found[1] and int(found[2]) > 59) or float(found[3].replace(",", ".")) >= 60:
        raise UnusableError(f"the time is {shown(text)}, expected h:mm:ss or mm:ss")
    seconds = Fraction(found[3].replace(",", "."))
    return float(seconds + 60 * int(found[2]) + 3600 * int(found[1] or 0))


def base_name(url: object, what: str = "the video") -> str:
    """The file name at the end of a path or an address, without %20 and the like."""
    if not isinstance(url, str) or len(url) > 4000:
        raise UnusableError(f"{what} is {shown(url)}, expected a path or an address")
    try:
        parts = urlsplit(url)
        path = parse_qs(parts.query).get("d", [parts.path])[0] if parts.query else parts.path
    except ValueError as error:
        raise UnusableError(f"{what} is {shown(url)}, expected a path or an address") from error
    return unquote(path).replace("\\", "/").rstrip("/").rpartition("/")[2]


def plain_base_name(path: str) -> str:
    """The file name at the end of a path that is not an address."""
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]


def video_of(file_name: str, what: str = "the video") -> str:
    """The id of a video: its file name without .mp4 and the like, also without two of them."""
    name = file_name
    while True:
        stem, dot, suffix = name.rpartition(".")
        if not stem.strip() or dot + suffix.strip().lower() not in MEDIA_SUFFIXES:
            return parse_name(name, what)
        name = stem.rstrip()


def pick_one(names: Collection[str], wanted: str | None, what: str) -> str:
    """The tier or attribute that holds the steps: the one that the user names, or the only one."""
    if not names:
        raise UnusableError(f"no {what} with times in it")
    if wanted is not None:
        if wanted not in names:
            raise UnusableError(
                f"no {what} {shown(wanted)} with times, expected --tier with one of {listed(list(names))}"
            )
        return wanted
    if len(names) > 1:
        raise UnusableError(
            f"{counted(len(names), what)} with times ({listed(list(names))}), expected --tier NAME to say which has "
            "the steps"
        )
    return next(iter(names))


def as_object(value: object, what: str) -> JsonObject:
    """The value, if it is a JSON object."""
    if not isinstance(value, JsonObject):
        raise UnusableError(f"{what} is {shown(value)}, expected an object")
    return value


def as_list(value: object, what: str) -> list[object]:
    """The value, if it is a JSON list."""
    if not isinstance(value, list):
        raise UnusableError(f"{what} is {shown(value)}, expected a list")
    return value


def optional_name(value: object) -> str | None:
    """A task, if the value can be one."""
    try:
        return parse_name(value, "the task")
    except UnusableError:
        return None


def log_repeated(content: JsonObject, file: str, log: ProblemLog) -> None:
    """List the videos that a JSON object has twice."""
    for video in content.repeated:
        log.add(f"{file}: video {place(video)}", "listed again, expected once", "the first one is used")
