"""CVAT for video 1.1: XML of tracks; a step is as long as its track is visible."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from p3iv.readers.files import UnusableError
from p3iv.readers.rows import parse_name, usable_rows
from p3iv.readers.tools.spans import (
    Span,
    ToolFile,
    ToolOptions,
    VideoSpans,
    base_name,
    parse_frame,
    plain_base_name,
    video_of,
)
from p3iv.validation import ProblemLog, shown

_STEP = re.compile(r"step\s*=\s*(\d{1,6})", re.ASCII)


def recognise_cvat(content: object) -> bool:
    """The root has this name; tracks are those of a video."""
    return isinstance(content, Element) and content.tag == "annotations" and content.find("meta") is not None


def read_cvat(file: ToolFile, _: ToolOptions, log: ProblemLog) -> Iterator[VideoSpans]:
    """Every time that a track is visible is one step, named by the track's label."""
    root = file.content
    meta = root.find("meta") if isinstance(root, Element) else None
    if not isinstance(root, Element) or meta is None:
        raise UnusableError("no <meta> in it, expected an export of CVAT for video 1.1")
    if root.find("track") is None:
        has_images = root.find("image") is not None
        raise UnusableError(f"no track{', but images' if has_images else ''}; export it as CVAT for video 1.1")
    if len(list(meta.iter("task"))) > 1:
        raise UnusableError("several tasks in one file, whose frames are numbered together; export one task at a time")
    step = _frame_step(meta)
    rows = [(f"{file.name}: track {number}", track) for number, track in enumerate(root.findall("track"))]
    found = usable_rows(rows, lambda _, track: _spans(track, step), log)
    spans = [span for some in found for span in some]
    yield VideoSpans(f"{file.name}: tracks", _video_of(file, meta), spans, in_frames=True)


def _frame_step(meta: Element) -> int:
    """How many frames of the video are from one frame of the task to the next."""
    text = next((one.text for one in meta.iter("frame_filter")), None) or ""
    step = _STEP.search(text)
    if text.strip() and not step:
        raise UnusableError(f"the frame filter is {shown(text)}, expected step=N")
    return int(step[1]) if step else 1


def _video_of(file: ToolFile, meta: Element) -> str:
    source = next((one.text for one in meta.iter("source") if one.text), None)
    if not source:
        return video_of(file.path.stem)
    return video_of(base_name(source) if "://" in source else plain_base_name(source))


def _spans(track: Element, step: int) -> list[Span]:
    """From a shape that is not outside to the next one that is, or to the end of the track.

    CVAT writes the frames of the video: it has already applied `start_frame` and `frame_filter` (`abs_frame_id` in
    its exporter).
    """
    label = parse_name(track.get("label"), "the label")
    shapes = [(parse_frame(one.get("frame"), "the frame"), _is_outside(one)) for one in track if one.get("frame")]
    spans, start, last = [], None, None
    for frame, is_outside in sorted(shapes):
        if start is None and not is_outside:
            start = frame
        elif start is not None and is_outside:
            spans.append((start, frame))
            start = None
        last = frame
    if start is not None and last is not None:
        spans.append((start, last + step))
    if not spans:
        raise UnusableError("it is never visible, expected a shape with outside=0")
    return [Span(label, first, end) for first, end in spans]


def _is_outside(shape: Element) -> bool:
    """Whether a shape is invisible; a skeleton is, if all of its points are."""
    points = [one for one in shape if one.get("outside")] if shape.tag == "skeleton" else []
    return all(one.get("outside") == "1" for one in points or [shape])
