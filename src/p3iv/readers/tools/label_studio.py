"""Label Studio: timeline labels in frames, audio labels in seconds; JSON, JSON_MIN, and tasks to import there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from urllib.parse import quote

from p3iv.readers.files import JsonObject, UnusableError
from p3iv.readers.rows import LEFT_OUT, parse_name, usable_rows
from p3iv.readers.tools.spans import (
    MAX_FPS,
    MEDIA_SUFFIXES,
    MadeVideo,
    Span,
    ToolFile,
    ToolOptions,
    VideoSpans,
    as_list,
    as_object,
    base_name,
    optional_name,
    parse_frame,
    parse_span,
    video_of,
)
from p3iv.validation import ProblemLog

_UPLOAD = re.compile(r"(?P<hash>[0-9a-f]{8})-(?P<name>.+)", re.ASCII)  # what Label Studio puts before uploaded files

_MEDIA_KEYS = ("video", "video_url", "audio", "url", "media", "file")

_TASK_KEYS = ("task", "procedure")

Region = tuple[str, JsonObject]  # where it is, and its value


def recognise_label_studio(content: object) -> bool:
    """A task with annotations, or of JSON_MIN, or a list of such."""
    tasks = content if isinstance(content, list) else [content]
    return any(isinstance(task, JsonObject) and (_is_full(task) or bool(_minimal_regions(task))) for task in tasks)


def _is_full(task: JsonObject) -> bool:
    return isinstance(task.get("annotations"), list) and isinstance(task.get("data"), JsonObject)


def read_label_studio(file: ToolFile, _: ToolOptions, log: ProblemLog) -> Iterator[VideoSpans]:
    """One task per video; of several annotations of a task, the first is used, and predictions are not."""
    tasks = file.content if isinstance(file.content, list) else [file.content]
    for number, task in enumerate(tasks, start=1):
        where = f"{file.name}: task {number}"
        try:
            found = _read_task(where, as_object(task, "the task"), log)
        except UnusableError as error:
            log.add(where, str(error), LEFT_OUT)
        else:
            yield found


def _read_task(where: str, task: JsonObject, log: ProblemLog) -> VideoSpans:
    data = as_object(task["data"], "data") if _is_full(task) else task
    regions = _full_regions(where, task, log) if _is_full(task) else _minimal_regions(task)
    timeline = [region for region in regions if "timelinelabels" in region[1]]
    audio = [region for region in regions if "timelinelabels" not in region[1]]
    if timeline and audio:
        log.add(where, f"{len(audio)} labels in seconds beside timeline labels in frames", "the frames are used")
    rows = [(f"{where}, {what}", value) for what, value in (timeline or audio)]
    found = usable_rows(rows, _timeline_spans if timeline else _audio_spans, log)
    video, aliases = _video_of(data)
    return VideoSpans(
        where,
        video,
        [span for spans in found for span in spans],
        task=next((name for key in _TASK_KEYS if (name := optional_name(data.get(key)))), None),
        aliases=aliases,
        in_frames=bool(timeline),
        fps=_rate_of(data),
    )


def _full_regions(where: str, task: JsonObject, log: ProblemLog) -> list[Region]:
    annotations = [
        one
        for one in as_list(task["annotations"], "annotations")
        if isinstance(one, JsonObject) and one.get("was_cancelled") is not True
    ]
    if not annotations:
        raise UnusableError("no annotation that was submitted, expected one")
    if len(annotations) > 1:
        log.add(where, f"{len(annotations)} annotations of one video, expected one", "the first one is used")
    regions = []
    for number, result in enumerate(as_list(annotations[0].get("result"), "result"), start=1):
        if not isinstance(result, JsonObject) or result.get("type") not in ("timelinelabels", "labels"):
            continue  # boxes, transcriptions and choices are about something else
        regions.append((f"result {number}", as_object(result.get("value"), "the value of a result")))
    return regions


def _minimal_regions(task: JsonObject) -> list[Region]:
    """The regions of JSON_MIN: in lists named after the controls of the labelling configuration."""
    return [
        (f"{key} {number}", value)
        for key, values in task.items()
        if isinstance(values, list)
        for number, value in enumerate(values, start=1)
        if isinstance(value, JsonObject) and ({"ranges", "timelinelabels"} <= value.keys() or _is_audio(value))
    ]


def _is_audio(value: JsonObject) -> bool:
    return {"start", "end", "labels"} <= value.keys()


def _timeline_spans(_where: str, value: JsonObject) -> list[Span]:
    """Frames count from 1, and the last one belongs to the step."""
    labels = _labels(value.get("timelinelabels"))
    spans = []
    for one in as_list(value.get("ranges"), "ranges"):
        limits = as_object(one, "a range")
        start, end = parse_frame(limits.get("start"), "the start"), parse_frame(limits.get("end"), "the end")
        if start < 1:
            raise UnusableError("the start is 0, but Label Studio counts frames from 1: are these seconds?")
        if end < start:
            raise UnusableError(f"the end {end} is before the start {start}, expected start <= end")
        spans += [Span(label, start - 1, end) for label in labels]
    return spans


def _audio_spans(_where: str, value: JsonObject) -> list[Span]:
    return [parse_span(label, value.get("start"), value.get("end")) for label in _labels(value.get("labels"))]


def _labels(value: object) -> list[str]:
    labels = [parse_name(label, "the label") for label in as_list(value, "the labels")]
    if not labels:
        raise UnusableError("no label, expected one")
    return labels


def _video_of(data: JsonObject) -> tuple[str, tuple[str, ...]]:
    """The id of the video, and the name under which Label Studio has stored it."""
    values = [data.get(key) for key in _MEDIA_KEYS] + list(data.values())
    for value in values:
        if isinstance(value, str) and base_name(value).lower().endswith(MEDIA_SUFFIXES):
            name = video_of(base_name(value))
            uploaded = _UPLOAD.fullmatch(name) if "upload/" in value else None
            return (uploaded["name"], (name,)) if uploaded else (name, ())
    raise UnusableError(
        f"data names no video or audio file, expected one that ends in {', '.join(MEDIA_SUFFIXES[:3])}, ..."
    )


def _rate_of(data: JsonObject) -> Fraction | None:
    fps = data.get("fps")
    if type(fps) not in (int, float) or not 0 < fps <= MAX_FPS:  # type: ignore[operator]
        return None
    return Fraction(str(fps))


def render_label_studio(videos: Sequence[MadeVideo]) -> str:
    """Tasks with annotations; frames count from 1."""
    return json.dumps([_task(number, made) for number, made in enumerate(videos, start=1)], indent=1) + "\n"


def _task(number: int, made: MadeVideo) -> dict[str, object]:
    if made.fps is None:
        raise UnusableError(
            "Label Studio counts frames, and how many there are in a second is not known; put the video into videos/, "
            "or pass --fps N"
        )
    results = []
    for index, (step, start_s, end_s) in enumerate(made.timed_steps, start=1):
        end = max(1, round(Fraction(end_s) * made.fps))
        start = min(end, round(Fraction(start_s) * made.fps) + 1)  # a step has at least one frame
        value = {"ranges": [{"start": start, "end": end}], "timelinelabels": [step]}
        names = {"from_name": "steps", "to_name": "video", "type": "timelinelabels"}
        results.append({"id": f"step{number}-{index}", **names, "value": value})
    data = {"video": f"/data/local-files/?d={quote(made.media)}", "task": made.video.task, "fps": float(made.fps)}
    return {"id": number, "data": data, "annotations": [{"result": results}]}
