"""COIN: 180 tasks, one JSON file for all videos (Tang et al., CVPR 2019), or the two lists that successors released."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from p3iv.readers.files import JsonObject, UnusableError, is_folder, parse_value, read_text, required
from p3iv.readers.lists import open_lists
from p3iv.readers.rows import (
    LEFT_OUT,
    FirstTexts,
    VideoCollector,
    make_vocabulary,
    parse_name,
    parse_times,
    parse_whole_number,
    place,
    usable_rows,
)
from p3iv.types import SIDES, Action, Annotations, Side, Split, Step, Video
from p3iv.validation import ProblemLog, shown

EXPECTED = (
    'the official COIN.json: {"database": {VIDEO: {"annotation": [...], "class": ..., "subset": ...}}}; or a released '
    "training list, coin_train_70.json: [{VIDEO: {...}}, ...], with its test list beside it"
)

SIDE_OF: dict[str, Side] = {"training": "train", "validation": "val", "testing": "test"}

ENDS_IN_ID = re.compile(r".* \[\d+\]", re.ASCII)


@dataclass
class _Sides:
    """Collects the release's own split; videos with an unknown subset are logged."""

    log: ProblemLog
    videos: dict[Side, list[str]] = field(default_factory=lambda: {side: [] for side in SIDES})

    def add(self, where: str, video: str, subset: object) -> None:
        side = SIDE_OF.get(subset) if isinstance(subset, str) else None
        if side:
            self.videos[side].append(video)
        else:
            what = f"subset is {shown(subset)}, expected one of {', '.join(SIDE_OF)}"
            self.log.add(where, what, "video left out of the split")

    def split(self) -> Split | None:
        return Split(*(tuple(self.videos[side]) for side in SIDES)) if any(self.videos.values()) else None


@dataclass(frozen=True)
class _Entry:
    video: str
    task: str
    subset: object
    annotation: list[object]
    aliases: tuple[str, ...]


def read_coin(source: Path) -> Annotations:
    """Read the official JSON file, the folder that holds it as `COIN.json`, or a training list and its test list.

    The split of lists is theirs, whatever the subsets of their videos are.
    """
    path = source / "COIN.json" if is_folder(source) else source
    log = ProblemLog()
    videos, labels, sides = VideoCollector(log), FirstTexts(log), _Sides(log)
    for where, entry in _read_entries(path, log):
        rows = ((f"{where}, annotation {number}", row) for number, row in enumerate(entry.annotation, start=1))
        steps = usable_rows(rows, partial(_parse_step, labels), log)
        if videos.add(where, entry.video, entry.task, steps, entry.aliases):
            sides.add(where, entry.video, entry.subset)
    actions = _make_actions(labels.text_of)
    videos.videos = {video.id: _with_names(video, actions) for video in videos.videos.values()}
    return videos.finish(source, "coin", make_vocabulary(actions.values()), sides.split())


def _read_entries(path: Path, log: ProblemLog) -> Iterator[tuple[str, _Entry]]:
    """The usable videos of the official file, or of two lists."""
    with required(path, EXPECTED):
        content = parse_value(read_text(path))
        if isinstance(content, list):
            _as_database(path.name, content)  # before its test list is looked for
            databases = [(file.name, _as_database(file.name, entries)) for file, entries in open_lists(path).sides]
        else:
            databases = [(path.name, _get_database(content))]
    subsets = ("training", "testing") if len(databases) > 1 else (None,)
    for (name, database), subset in zip(databases, subsets, strict=True):
        for where, entry in _usable_entries(place(name), database, log):
            yield where, entry if subset is None else replace(entry, subset=subset)


def _get_database(content: object) -> JsonObject:
    database = content.get("database") if isinstance(content, JsonObject) else None
    if not isinstance(content, JsonObject) or not isinstance(database, JsonObject) or content.repeated:
        raise UnusableError('expected exactly one object "database" in it')
    return database


def _as_database(name: str, entries: object) -> JsonObject:
    """The entries of a list, `[{VIDEO: {...}}, ...]`, in the form of the official file."""
    database, repeated = JsonObject(), []
    for entry in entries if isinstance(entries, list) else [entries]:
        if not isinstance(entry, JsonObject) or len(entry) != 1:
            raise UnusableError(f"an entry of {name} is {shown(entry)}, not an object of one video")
        ((video, value),) = entry.items()
        if video in database:
            repeated.append(video)
        database.setdefault(video, value)
    database.repeated = tuple(repeated)
    return database


def _usable_entries(file: str, database: JsonObject, log: ProblemLog) -> Iterator[tuple[str, _Entry]]:
    for video in database.repeated:
        log.add(f"{file}: video {place(video)}", "listed again, expected once", f"{LEFT_OUT}, the first one is used")
    for video, value in database.items():
        where = f"{file}: video {place(video)}"
        try:
            entry = _parse_entry(video, value)
        except UnusableError as error:
            log.add(where, str(error), LEFT_OUT)
        else:
            yield where, entry


def _parse_entry(video: str, value: object) -> _Entry:
    if not isinstance(value, JsonObject):
        raise UnusableError(f"its entry is {shown(value)}, expected an object")
    if value.repeated:
        raise UnusableError(f"its entry has {shown(value.repeated[0])} twice, expected every key once")
    annotation = value.get("annotation")
    if not isinstance(annotation, list):
        raise UnusableError(f"its annotation is {shown(annotation)}, expected a list")
    task = parse_name(value.get("class"), "its class")
    name = parse_name(video, "the video's id")
    return _Entry(name, task, value.get("subset"), annotation, _aliases(name, task, value.get("recipe_type")))


def _aliases(video: str, task: str, recipe_type: object) -> tuple[str, ...]:
    """The released features of COIN are named CLASS_RECIPETYPE_VIDEO."""
    return (f"{task}_{recipe_type}_{video}",) if type(recipe_type) in (int, str) else ()


def _parse_step(labels: FirstTexts, where: str, row: object) -> Step:
    """Parse one annotation; the step is named by its id until all labels are known."""
    if not isinstance(row, JsonObject):
        raise UnusableError(f"got {shown(row)}, expected an object of id, label, segment")
    segment = row.get("segment")
    if not isinstance(segment, list) or len(segment) != 2:
        raise UnusableError(f"the segment is {shown(segment)}, expected [start, end]")
    start_s, end_s = parse_times(*segment)
    number = str(parse_whole_number(row.get("id"), "the id"))
    labels.add(where, number, parse_name(row.get("label"), "the label"))
    return Step(number, start_s, end_s)


def _make_actions(label_of: dict[str, str]) -> dict[str, Action]:
    """Actions by id, in numeric order; labels shared by several ids, or ending like one, get their id appended."""
    num_ids = Counter(label_of.values())
    shared = {label for label in num_ids if num_ids[label] > 1 or ENDS_IN_ID.fullmatch(label)}
    return {
        number: Action(f"{label} [{number}]" if label in shared else label, label, number)
        for number, label in sorted(label_of.items(), key=lambda item: int(item[0]))
    }


def _with_names(video: Video, actions: dict[str, Action]) -> Video:
    return replace(video, steps=tuple(replace(step, action=actions[step.action].name) for step in video.steps))
