"""The lists that successors of the paper release: the windows, or the videos, of the training and of the test side.

Two JSON files belong together, one for each side; the training list is named, and the test list is found beside it.

- windows: `[{"id": {"vid", "task", "feature", "legal_range": [[start, end, action id], ...], "task_id", "task_name",
  "actions"}, "instruction_len"}, ...]`, all of one length (ViterbiPlanNet; MTID, KEPP and what PDPP writes lack the
  last two keys of `id`);
- videos with their steps: `{VIDEO: {"task", "task_id", "steps": [{"action", "action_id", "start", "end"}, ...]}}`
  (NIV of SCHEMA), and COIN's `[{VIDEO: {"annotation": [...], ...}}, ...]`, which `coin.py` reads;
- videos alone: `[{"vid", "task", "length"}, ...]` (CrossTask), `[{"feature", "task_id"}, ...]` (NIV), and
  `[{"id": {"vid", ...}}, ...]` (SCHEMA's CrossTask). They are splits of the annotations of a release.

The windows of a video are consecutive, so they are the video's steps, from which the same windows, and those of greater
lengths, can be cut again. Their order is kept: it is not always that of the times (two annotations of one video after
each other in CrossTask, unsorted files in NIV).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeGuard

from p3iv.readers.files import JsonObject, UnusableError, is_there, parse_value, read_text, required
from p3iv.readers.rows import (
    LEFT_OUT,
    ORDER_COLUMN,
    VideoCollector,
    order_steps,
    parse_name,
    parse_times,
    parse_whole_number,
    place,
)
from p3iv.readers.taxonomy import ListedActions
from p3iv.types import Annotations, Split, Step, listed
from p3iv.validation import ProblemLog, shown

EXPECTED = "the training list of a release, such as train_list_3_133.json, with its test list beside it"

_TEST_NAMES = (("train", "test"), ("train", "valid"), ("train", "val"), ("False", "True"))

_TRAIN_SHARE = re.compile(r"(?<!\d)70(?!\d)")  # coin_train_70_3.json belongs to coin_test_30_3.json


@dataclass(frozen=True)
class SideLists:
    """The contents of a training list and of its test list."""

    train: Path
    test: Path
    contents: tuple[object, object]

    @property
    def sides(self) -> Iterator[tuple[Path, object]]:
        """Path and content of both, the training list first."""
        return zip((self.train, self.test), self.contents, strict=True)


def open_lists(train: Path) -> SideLists:
    """Read a training list and the test list beside it.

    Raises:
        UnusableError: one of them cannot be read, or there is no test list.
    """
    content = parse_value(read_text(train))
    test = _find_test_list(train)
    try:
        return SideLists(train, test, (content, parse_value(read_text(test))))
    except UnusableError as error:
        raise UnusableError(f"{test.name}: {error}") from error


def _find_test_list(train: Path) -> Path:
    names = [train.name.replace(old, new) for old, new in _TEST_NAMES if old in train.name]
    names = list(dict.fromkeys(name for each in names for name in (_TRAIN_SHARE.sub("30", each), each)))
    if not names:
        raise UnusableError("the name of a training list has `train` in it, as train_list_3.json does")
    for name in names:
        if is_there(train.with_name(name)):
            return train.with_name(name)
    raise UnusableError(f"there is no test list beside it; looked for {listed(names)}")


def is_released_list(content: object) -> bool:
    """Whether a JSON file is a list of windows or videos rather than a split of this project."""
    return (isinstance(content, list) and bool(content)) or _has_steps(content)


def read_list_split(train: Path) -> Split:
    """The videos of a training list and of the test list beside it, whatever else the lists hold.

    Raises:
        UnusableError: a list cannot be read or has another layout.
    """
    train_videos, test_videos = (_videos_of(path.name, content) for path, content in open_lists(train).sides)
    return Split(train_videos, (), test_videos)


def _videos_of(file: str, content: object) -> tuple[str, ...]:
    if _has_steps(content):
        return tuple(content)
    if not isinstance(content, list) or not content:
        raise UnusableError(f"{file} is not a list of windows or videos")
    return tuple(dict.fromkeys(_video_of(f"{file}: entry {number}", entry) for number, entry in enumerate(content, 1)))


def _video_of(where: str, entry: object) -> str:
    about = entry.get("id", entry) if isinstance(entry, JsonObject) else None
    if not isinstance(about, JsonObject):
        raise UnusableError(f"{where} is {shown(entry)}, expected an object about a window or a video")
    if "vid" in about:
        return parse_name(about["vid"], f"{where}: vid")
    if "feature" in about:
        return parse_name(_stem(about["feature"]), f"{where}: feature")
    if len(about) == 1 and isinstance(next(iter(about.values())), JsonObject):
        return parse_name(next(iter(about)), f"{where}: the video's id")
    raise UnusableError(f"{where} names no video, expected a key vid or feature, or the video's id as its only key")


def _stem(feature: object) -> object:
    """The name of a feature file without folder and ending."""
    return PurePosixPath(feature.replace("\\", "/")).stem if isinstance(feature, str) else feature


def read_lists(source: Path) -> Annotations:
    """Read a training list of windows, or of videos with their steps, and the test list beside it.

    Actions are in the order of the lists' numbers, and a taxonomy beside the lists (`*taxonomy*.json`) adds those that
    no video has. Two numbers with one text are two actions, as in CrossTask's 133.
    """
    with required(source, EXPECTED):
        lists = open_lists(source)
        read = _reader_of(lists.contents[0])
        log = ProblemLog()
        actions, sides = ListedActions(), []
        for path, content in lists.sides:
            videos = read(place(path.name), content, actions, log)
            sides.append({video: about for video, about in videos.items() if not about.is_broken})
        _refuse_shared(*sides)
        named = actions.named(source.parent)
    collector = VideoCollector(log)
    for video, about in (pair for side in sides for pair in side.items()):
        task = about.task or named.task_of.get(about.task_id or "") or f"task {about.task_id}"
        collector.add(about.where, video, task, _steps(about.rows, named.name_of), about.aliases)
    return collector.finish(source, source.parent.name or "lists", named.vocabulary, _split(*sides))


def _split(train: Mapping[str, _ListedVideo], test: Mapping[str, _ListedVideo]) -> Split:
    return Split(tuple(train), (), tuple(test))


_Row = tuple[float, float, int]  # start, end and number of an action


@dataclass
class _ListedVideo:
    """A video as its windows, or its steps, describe it."""

    where: str  # its first entry
    task: str | None
    task_id: str | None
    aliases: tuple[str, ...]
    rows: list[_Row]
    is_broken: bool = False


def _refuse_shared(train: Mapping[str, object], test: Mapping[str, object]) -> None:
    if not train or not test:
        raise UnusableError(f"the {'test' if train else 'training'} list has no usable video")
    if shared := sorted(set(train) & set(test)):
        raise UnusableError(
            f"{len(shared)} of its {len(train)} videos are in the test list too ({listed(shared)}); windows of one "
            "video on two sides are not read: `--split window` makes such a split"
        )


def _steps(rows: Sequence[_Row], name_of: Mapping[int, str]) -> list[Step]:
    """The steps; where their order is not that of the times, every step has its place in a column of its own."""
    steps = [Step(name_of[number], start_s, end_s) for start_s, end_s, number in rows]
    if order_steps(steps) == tuple(steps):
        return steps
    return [Step(s.action, s.start_s, s.end_s, ((ORDER_COLUMN, str(i)),)) for i, s in enumerate(steps, start=1)]


_ReadVideos = Callable[[str, object, ListedActions, ProblemLog], dict[str, _ListedVideo]]


def _reader_of(content: object) -> _ReadVideos:
    """The function that reads a list like this one."""
    if _has_steps(content):
        return _read_videos
    first = content[0] if isinstance(content, list) and content else None
    about = first.get("id") if isinstance(first, JsonObject) else None
    if isinstance(about, JsonObject) and "legal_range" in about:
        return _read_windows
    if isinstance(first, JsonObject) and ("vid" in first or "feature" in first or isinstance(about, JsonObject)):
        raise UnusableError(
            "it names videos without their steps; import the annotations of the release with this list as its split: "
            "p3iv data import crosstask|niv SOURCE DIR --release-split LIST"
        )
    if isinstance(first, JsonObject) and len(first) == 1:
        raise UnusableError("it is a list of COIN's videos; type: p3iv data import coin LIST DIR")
    raise UnusableError("neither windows (`id` with `legal_range`) nor videos with `steps`")


def _has_steps(content: object) -> TypeGuard[dict[str, JsonObject]]:
    """Whether it is an object of videos with steps."""
    return (
        isinstance(content, JsonObject)
        and bool(content)
        and all(isinstance(value, JsonObject) and "steps" in value for value in content.values())
    )


def _read_windows(file: str, content: object, actions: ListedActions, log: ProblemLog) -> dict[str, _ListedVideo]:
    """Join the windows of every video to its steps; a video with an unusable window is left out."""
    if not isinstance(content, list):
        raise UnusableError(f"{file} is {shown(content)}, expected a list of windows")
    videos: dict[str, _ListedVideo] = {}
    horizon = None
    for number, entry in enumerate(content, start=1):
        where = f"{file}: entry {number}"
        name = _video_of(where, entry)
        try:
            window = _parse_window(where, entry, actions)
            horizon = horizon or len(window.rows)
            _join(videos.setdefault(name, window), window, horizon)
        except UnusableError as error:
            log.add(where, str(error), LEFT_OUT)
            videos.setdefault(name, _ListedVideo(where, None, None, (), [])).is_broken = True
    return videos


def _join(video: _ListedVideo, window: _ListedVideo, horizon: int) -> None:
    """Add the last step of the next window of a video; the others are the video's last steps."""
    if len(window.rows) != horizon:
        raise UnusableError(f"a window of {len(window.rows)} actions, expected {horizon} as in the others")
    if video is window or video.is_broken:
        return
    num_shared = len(window.rows) - 1
    if video.rows[len(video.rows) - num_shared :] != window.rows[:-1]:
        raise UnusableError("this window does not begin one step after the one before it")
    video.rows.append(window.rows[-1])


def _parse_window(where: str, entry: object, actions: ListedActions) -> _ListedVideo:
    about = entry.get("id") if isinstance(entry, JsonObject) else None
    if not isinstance(about, JsonObject):
        raise UnusableError(f"its id is {shown(about)}, expected an object with legal_range")
    ranges, texts = _list_in(about, "legal_range"), about.get("actions")
    if texts is not None and (not isinstance(texts, list) or len(texts) != len(ranges)):
        raise UnusableError(f"actions is {shown(texts)}, expected a text for each of the {len(ranges)} in legal_range")
    task = parse_name(about["task_name"], "task_name") if "task_name" in about else None
    task_id = about.get("task_id", about.get("task"))
    rows = []
    for row, text in zip(ranges, texts if isinstance(texts, list) else [None] * len(ranges), strict=True):
        rows.append(_parse_range(row))
        actions.add(rows[-1][2], None if text is None else parse_name(text, "an action"), task)
    alias = parse_name(_stem(about["feature"]), "feature") if "feature" in about else None
    return _ListedVideo(where, task, None if task_id is None else str(task_id), (alias,) if alias else (), rows)


def _list_in(about: JsonObject, key: str) -> list[object]:
    value = about.get(key)
    if not isinstance(value, list) or not value:
        raise UnusableError(f"{key} is {shown(value)}, expected a list")
    return value


def _parse_range(row: object) -> _Row:
    if not isinstance(row, list) or len(row) != 3:
        raise UnusableError(f"legal_range has {shown(row)}, expected [start, end, action]")
    return (*parse_times(row[0], row[1]), parse_whole_number(row[2], "an action's number"))


def _read_videos(file: str, content: object, actions: ListedActions, log: ProblemLog) -> dict[str, _ListedVideo]:
    """Read videos with their steps; a video with an unusable step is left out."""
    if not _has_steps(content):
        raise UnusableError(f"{file} is not an object of videos with steps")
    videos = {}
    for name, value in content.items():
        where = f"{file}: video {place(name)}"
        try:
            videos[parse_name(name, "the video's id")] = _parse_video(where, value, actions)
        except UnusableError as error:
            log.add(where, str(error), LEFT_OUT)
    return videos


def _parse_video(where: str, value: JsonObject, actions: ListedActions) -> _ListedVideo:
    task = parse_name(value.get("task"), "its task")
    rows = []
    for step in _objects(_list_in(value, "steps")):
        number = parse_whole_number(step.get("action_id"), "action_id")
        rows.append((*parse_times(step.get("start"), step.get("end")), number))
        actions.add(number, parse_name(step.get("action"), "an action"), task)
    return _ListedVideo(where, task, None, (), rows)


def _objects(values: Iterable[object]) -> Iterator[JsonObject]:
    for value in values:
        if not isinstance(value, JsonObject):
            raise UnusableError(f"a step is {shown(value)}, expected an object of action, action_id, start, end")
        yield value
