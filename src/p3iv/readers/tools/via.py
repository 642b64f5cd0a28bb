"""VGG Image Annotator 3: a project's JSON, and both of its CSV exports."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from p3iv.readers.files import JsonObject, UnusableError, parse_value
from p3iv.readers.rows import LEFT_OUT, csv_rows, parse_name, parse_times, place, usable_rows
from p3iv.readers.tools.spans import (
    MadeVideo,
    Span,
    ToolFile,
    ToolOptions,
    VideoSpans,
    as_list,
    as_object,
    base_name,
    optional_name,
    pick_one,
    plain_base_name,
    video_of,
)
from p3iv.validation import ProblemLog, shown

HEADER = "# CSV_HEADER ="

_ATTRIBUTES = ("# ATTRIBUTE =", "# ATTRIBUTES =")

_TASK = "task"  # the attribute of a whole file that names its task

_SEGMENT_COLUMNS = ("temporal_segment_start", "temporal_segment_end")

_REMOTE = 2  # files with an address, not a name


@dataclass(frozen=True)
class _Attribute:
    name: str
    options: dict[str, str]

    def texts(self, value: object) -> list[str]:
        """The texts of a value: of an option's id, of several ids of check boxes, or a text itself."""
        if not isinstance(value, str):
            raise UnusableError(
                f"the attribute {shown(self.name)} is {shown(value)}, expected a text or an option's id"
            )
        ids = value.split(",")
        if value not in self.options and len(ids) > 1 and all(id_ in self.options for id_ in ids):
            return [parse_name(self.options[id_], "the option") for id_ in ids]
        return [parse_name(self.options.get(value, value), f"the attribute {shown(self.name)}")]


@dataclass
class _Found:
    """What the rows of one video hold."""

    task: str | None = None
    segments: list[tuple[str, float, float, JsonObject]] = field(default_factory=list)
    num_stills: int = 0


def recognise_via_project(content: object) -> bool:
    """A project has attributes, files, views and metadata."""
    return isinstance(content, JsonObject) and {"attribute", "file", "view", "metadata"} <= content.keys()


def read_via_project(file: ToolFile, options: ToolOptions, log: ProblemLog) -> Iterator[VideoSpans]:
    """The temporal segments of every view, which shows one file."""
    project = as_object(file.content, "the project")
    attributes = _parse_attributes(project.get("attribute"))
    names = _view_names(project)
    found: dict[str, _Found] = {}
    rows = [
        (f"{file.name}: metadata {place(key)}", value)
        for key, value in as_object(project.get("metadata"), "metadata").items()
    ]

    def take(where: str, value: object) -> None:
        entry = as_object(value, "the entry")
        name = names.get(str(entry.get("vid")))
        if name is None:
            raise UnusableError(f"its view is {shown(entry.get('vid'))}, expected one with a file")
        _take(found.setdefault(name, _Found()), where, entry.get("z"), entry.get("av"), attributes)

    usable_rows(rows, take, log)
    return _videos(file, found, attributes, options, log)


def _parse_attributes(value: object) -> dict[str, _Attribute]:
    attributes = {}
    for id_, one in as_object(value, "the attributes").items():
        if isinstance(one, str):  # of an old CSV export: the name alone
            attributes[id_] = _Attribute(one, {})
        elif isinstance(one, JsonObject) and isinstance(one.get("aname"), str):
            options = one.get("options")
            texts = options.items() if isinstance(options, JsonObject) else ()
            attributes[id_] = _Attribute(str(one["aname"]), {key: text for key, text in texts if isinstance(text, str)})
    return attributes


def _view_names(project: JsonObject) -> dict[str, str]:
    files, names = as_object(project.get("file"), "file"), {}
    for view, value in as_object(project.get("view"), "view").items():
        fids = value.get("fid_list") if isinstance(value, JsonObject) else None
        entry = files.get(str(fids[0])) if isinstance(fids, list) and fids else None
        if isinstance(entry, JsonObject):
            name = entry.get("src") if entry.get("loc") == _REMOTE else entry.get("fname")
            names[view] = base_name(name) if entry.get("loc") == _REMOTE else plain_base_name(str(name))
    return names


def _take(found: _Found, where: str, z: object, av: object, attributes: dict[str, _Attribute]) -> None:
    """Add one entry of the metadata: a segment, a still, or something about the whole file."""
    times, values = as_list(z, "z"), as_object(av, "av")
    if not times:
        for id_, value in values.items():
            if _attribute(id_, attributes).name.casefold() == _TASK:
                found.task = optional_name(value)
    elif len(times) == 1:
        found.num_stills += 1
    elif len(times) == 2:
        found.segments.append((where, *parse_times(*times), values))
    else:
        raise UnusableError(f"{len(times)} times in z, expected start and end")


def _attribute(key: str, attributes: dict[str, _Attribute]) -> _Attribute:
    """The attribute with that id or, as in the export of segments, that name."""
    named = (one for one in attributes.values() if one.name == key)
    return attributes.get(key) or next(named, None) or _Attribute(key, {})


def _videos(
    file: ToolFile, found: dict[str, _Found], attributes: dict[str, _Attribute], options: ToolOptions, log: ProblemLog
) -> Iterator[VideoSpans]:
    if not any(one.segments for one in found.values()):
        raise UnusableError("no temporal segment in it, expected at least one")
    used = {_attribute(key, attributes).name: None for one in found.values() for *_, av in one.segments for key in av}
    step = pick_one(used, options.tier, "attribute")
    for name, one in found.items():
        where = f"{file.name}: video {place(name)}"
        try:
            video = video_of(name)
        except UnusableError as error:
            log.add(where, str(error), LEFT_OUT)
            continue
        rows = [(at, (start, end, av)) for at, start, end, av in one.segments]
        spans = usable_rows(rows, lambda _, row: _spans(*row, step, attributes), log)
        skipped = {"still": one.num_stills} if one.num_stills else {}
        yield VideoSpans(where, video, [span for some in spans for span in some], task=one.task, skipped=skipped)


def _spans(start_s: float, end_s: float, av: JsonObject, step: str, attributes: dict[str, _Attribute]) -> list[Span]:
    for key, value in av.items():
        attribute = _attribute(key, attributes)
        if attribute.name == step:
            return [Span(text, start_s, end_s) for text in attribute.texts(value)]
    raise UnusableError(f"no value of the attribute {shown(step)}, expected the step")


def recognise_via_csv(text: str) -> bool:
    """Both exports begin with comments, one of which names the columns."""
    head = text[:20000]
    return HEADER in head or ("temporal_segment_start" in head and "metadata" in head)


def read_via_csv(file: ToolFile, options: ToolOptions, log: ProblemLog) -> Iterator[VideoSpans]:
    """Rows of either export; comments name the columns and, in one of them, the attributes."""
    lines = file.text.split("\n")
    comments = [line.strip() for line in lines if line.startswith("#")]
    rows = csv_rows(file.name, "\n".join("" if line.startswith("#") else line for line in lines), log)
    named = [line.removeprefix(HEADER) for line in comments if line.startswith(HEADER)]
    columns = [cell.strip() for cell in (named[0].split(",") if named else next(rows, ("", []))[1])]
    attributes = _commented_attributes(comments)
    found: dict[str, _Found] = {}

    def take(where: str, row: list[str]) -> None:
        cells = dict(zip(columns, row, strict=False))
        name = _first_file(cells["file_list"]) if "file_list" in cells else file.path.stem
        _take(
            found.setdefault(name, _Found()), where, _times(cells), parse_value(cells.get("metadata", "")), attributes
        )

    usable_rows(rows, take, log)
    return _videos(file, found, attributes, options, log)


def _commented_attributes(comments: Sequence[str]) -> dict[str, _Attribute]:
    for line in comments:
        for mark in _ATTRIBUTES:
            if line.startswith(mark):
                return _parse_attributes(parse_value(line.removeprefix(mark)))
    return {}


def _first_file(cell: str) -> str:
    """The first of a JSON list of files, or a name alone; some are addresses."""
    names = parse_value(cell) if cell.startswith("[") else [cell]
    name = names[0] if isinstance(names, list) and names else None
    if not isinstance(name, str):
        raise UnusableError(f"file_list is {shown(cell)}, expected a list of files")
    return base_name(name) if "://" in name else plain_base_name(name)


def _times(cells: dict[str, str]) -> list[object]:
    if "temporal_coordinates" in cells:
        return as_list(parse_value(cells["temporal_coordinates"]), "temporal_coordinates")
    missing = [column for column in _SEGMENT_COLUMNS if column not in cells]
    if missing:
        raise UnusableError(f"no cell {missing[0]}, expected the columns of a VIA export")
    return [cells[column] for column in _SEGMENT_COLUMNS]


def render_via(videos: Sequence[MadeVideo]) -> str:
    """A project with one view per video; the steps are options of one attribute, the task is one of each file."""
    steps = list(dict.fromkeys(step for made in videos for step, *_ in made.timed_steps))
    id_of = {step: str(number) for number, step in enumerate(steps)}
    attribute = {
        "1": _made_attribute("step", "FILE1_Z2_XY0", 4, dict(zip(id_of.values(), steps, strict=True))),
        "2": _made_attribute(_TASK, "FILE1_Z0_XY0", 1, {}),
    }
    files: dict[str, object] = {}
    metadata: dict[str, object] = {}
    for number, made in enumerate(videos, start=1):
        fid = str(number)
        files[fid] = {"fid": fid, "fname": made.media, "type": 4, "loc": 1, "src": ""}
        entries = [([], {"2": made.video.task}), *(([s, e], {"1": id_of[step]}) for step, s, e in made.timed_steps)]
        for index, (z, av) in enumerate(entries):
            metadata[f"{fid}_{index:08d}"] = {"vid": fid, "flg": 0, "z": z, "xy": [], "av": av}
    project = {
        "project": {"pid": "__VIA_PROJECT_ID__", "pname": "p3iv", "vid_list": list(files)},
        "config": {
            "file": {"loc_prefix": {"1": "", "2": "", "3": "", "4": ""}},
            "ui": {"file_content_align": "center"},
        },
        "attribute": attribute,
        "file": files,
        "metadata": metadata,
        "view": {fid: {"fid_list": [fid]} for fid in files},
    }
    return json.dumps(project) + "\n"


def _made_attribute(name: str, anchor: str, type_: int, options: dict[str, str]) -> dict[str, object]:
    common = {"desc": "", "default_option_id": ""}
    return {"aname": name, "anchor_id": anchor, "type": type_, "options": options, **common}
