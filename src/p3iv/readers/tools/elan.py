"""ELAN: one .eaf file per video, with tiers of annotations in milliseconds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, tostring

from p3iv.readers.files import UnusableError
from p3iv.readers.rows import parse_name, parse_times, place, usable_rows
from p3iv.readers.tools.spans import (
    MadeVideo,
    Span,
    ToolFile,
    ToolOptions,
    VideoSpans,
    base_name,
    optional_name,
    pick_one,
    video_of,
)
from p3iv.validation import ProblemLog, shown

_MAX_CHAIN = 20  # annotations that refer to one another

_TASK = "task"  # the property of the header that names the task

_MILLISECONDS = 1000

_OWN_TIER = re.compile(r"step( \d+)?", re.ASCII)

_NOT_XML = re.compile("[\ufffe\uffff]")


@dataclass(frozen=True)
class _Slots:
    """When each annotation is, in milliseconds."""

    times: dict[str, str]  # of a time slot; "" if it has none
    annotations: dict[str, Element]  # by id
    origin_ms: float  # of the media file

    def times_of(self, annotation: Element) -> tuple[float, float]:
        """Start and end in seconds; an annotation of another one has the times of that."""
        for _ in range(_MAX_CHAIN):
            if annotation.tag == "ALIGNABLE_ANNOTATION":
                return self._aligned(annotation)
            reference = annotation.get("ANNOTATION_REF", "")
            if reference not in self.annotations:
                raise UnusableError(f"it refers to {shown(reference)}, expected another annotation")
            annotation = self.annotations[reference]
        raise UnusableError(f"more than {_MAX_CHAIN} annotations that refer to one another")

    def _aligned(self, annotation: Element) -> tuple[float, float]:
        values = [self.times.get(annotation.get(f"TIME_SLOT_REF{end}", ""), "") for end in (1, 2)]
        if not all(values):
            raise UnusableError("its time slots have no times, expected an annotation that is aligned with the video")
        start_ms, end_ms = parse_times(*values)
        if start_ms + self.origin_ms < 0:
            raise UnusableError(f"it starts before the video, whose TIME_ORIGIN is {self.origin_ms:g}")
        return (start_ms + self.origin_ms) / _MILLISECONDS, (end_ms + self.origin_ms) / _MILLISECONDS


def recognise_elan(content: object) -> bool:
    """The root has this name in every version."""
    return isinstance(content, Element) and content.tag == "ANNOTATION_DOCUMENT"


def read_elan(file: ToolFile, options: ToolOptions, log: ProblemLog) -> Iterator[VideoSpans]:
    """The annotations of one tier."""
    root = file.content
    if not isinstance(root, Element):
        raise UnusableError("not the XML of an .eaf file")
    tiers = {tier.get("TIER_ID", ""): _annotations(tier) for tier in root.findall("TIER")}
    names = _chosen([name for name, inner in tiers.items() if inner], options.tier)
    media = _media(root)
    slots = _Slots(
        {slot.get("TIME_SLOT_ID", ""): slot.get("TIME_VALUE", "") for slot in root.findall("TIME_ORDER/TIME_SLOT")},
        {one.get("ANNOTATION_ID", ""): one for inner in tiers.values() for one in inner},
        _origin_ms(media),
    )
    rows = [
        (f"{file.name}: annotation {place(one.get('ANNOTATION_ID', str(number)))}", one)
        for number, one in enumerate((one for name in names for one in tiers[name]), start=1)
    ]
    spans = usable_rows(rows, lambda _, one: _span(one, slots), log)
    url = (media.get("RELATIVE_MEDIA_URL") or media.get("MEDIA_URL")) if media is not None else None
    video = video_of(base_name(url) if url else file.path.stem)
    yield VideoSpans(
        f"{file.name}: tier {place(names[0])}", video, spans, task=_task(root), aliases=_aliases(file, video)
    )


def _chosen(names: list[str], wanted: str | None) -> list[str]:
    """The tiers that hold the steps; `p3iv data export` writes several if steps overlap."""
    if wanted is None and names and all(_OWN_TIER.fullmatch(name) for name in names):
        return names
    return [pick_one(names, wanted, "tier")]


def _aliases(file: ToolFile, video: str) -> tuple[str, ...]:
    return (file.path.stem,) if file.path.stem != video else ()


def _annotations(tier: Element) -> list[Element]:
    tags = ("ALIGNABLE_ANNOTATION", "REF_ANNOTATION")
    return [inner for one in tier.findall("ANNOTATION") for inner in one if inner.tag in tags]


def _span(annotation: Element, slots: _Slots) -> Span:
    start_s, end_s = slots.times_of(annotation)
    return Span(parse_name(annotation.findtext("ANNOTATION_VALUE"), "the value"), start_s, end_s)


def _media(root: Element) -> Element | None:
    """The first media file; a video rather than its sound."""
    media = root.findall("HEADER/MEDIA_DESCRIPTOR")
    videos = [one for one in media if one.get("MIME_TYPE", "").startswith("video")]
    return next(iter([*videos, *media]), None)


def _origin_ms(media: Element | None) -> float:
    """TIME_ORIGIN: how much of the media file is before time 0 of the annotations."""
    text = media.get("TIME_ORIGIN", "0") if media is not None else "0"
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    return sign * parse_times(digits, digits)[0]


def _task(root: Element) -> str | None:
    texts = [one.text for one in root.findall("HEADER/PROPERTY") if one.get("NAME") == _TASK]
    return optional_name(texts[0]) if texts else None


@dataclass(frozen=True)
class _Annotation:
    step: str
    start_ms: int
    end_ms: int


def render_elan(videos: Sequence[MadeVideo]) -> str:
    """An .eaf file of one video."""
    (made,) = videos
    names = [made.video.id, made.video.task, *(step for step, *_ in made.timed_steps)]
    if any(_NOT_XML.search(name) for name in names):
        raise UnusableError("a name has a character that XML cannot have (U+FFFE or U+FFFF)")
    root = Element("ANNOTATION_DOCUMENT", AUTHOR="", DATE="1970-01-01T00:00:00+00:00", FORMAT="3.0", VERSION="3.0")
    header = SubElement(root, "HEADER", MEDIA_FILE="", TIME_UNITS="milliseconds")
    url = quote(made.media)
    SubElement(header, "MEDIA_DESCRIPTOR", MEDIA_URL=url, MIME_TYPE="video/mp4", RELATIVE_MEDIA_URL=f"./{url}")
    SubElement(header, "PROPERTY", NAME=_TASK).text = made.video.task
    tiers = _without_overlaps(made)
    slot_of = _add_slots(root, [one for tier in tiers for one in tier])
    for number, tier in enumerate(tiers, start=1):
        _add_tier(root, number, tier, slot_of)
    kind = {"LINGUISTIC_TYPE_ID": "default-lt", "TIME_ALIGNABLE": "true", "GRAPHIC_REFERENCES": "false"}
    SubElement(root, "LINGUISTIC_TYPE", kind)
    return tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _without_overlaps(made: MadeVideo) -> list[list[_Annotation]]:
    """The steps on as few tiers as possible: annotations of one tier must not overlap in ELAN, nor be empty."""
    tiers: list[list[_Annotation]] = []
    for step, start_s, end_s in made.timed_steps:
        start_ms = round(start_s * _MILLISECONDS)
        one = _Annotation(step, start_ms, max(start_ms + 1, round(end_s * _MILLISECONDS)))
        free = next((tier for tier in tiers if tier[-1].end_ms <= start_ms), None)
        if free is None:
            tiers.append([one])
        else:
            free.append(one)
    return tiers


def _add_slots(root: Element, annotations: list[_Annotation]) -> dict[int, str]:
    """Write the time slots, in order; every time has one."""
    order = SubElement(root, "TIME_ORDER")
    times = sorted({time for one in annotations for time in (one.start_ms, one.end_ms)})
    slot_of = {time: f"ts{number}" for number, time in enumerate(times, start=1)}
    for time, slot in slot_of.items():
        SubElement(order, "TIME_SLOT", TIME_SLOT_ID=slot, TIME_VALUE=str(time))
    return slot_of


def _add_tier(root: Element, number: int, annotations: list[_Annotation], slot_of: dict[int, str]) -> None:
    name = "step" if number == 1 else f"step {number}"
    tier = SubElement(root, "TIER", LINGUISTIC_TYPE_REF="default-lt", TIER_ID=name)
    for index, one in enumerate(annotations, start=1):
        slots = {"TIME_SLOT_REF1": slot_of[one.start_ms], "TIME_SLOT_REF2": slot_of[one.end_ms]}
        outer = SubElement(tier, "ANNOTATION")
        inner = SubElement(outer, "ALIGNABLE_ANNOTATION", {"ANNOTATION_ID": f"a{number}_{index}", **slots})
        SubElement(inner, "ANNOTATION_VALUE").text = one.step
