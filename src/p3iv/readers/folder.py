"""Read the annotations of a dataset folder: steps.csv, split.json and the name in dataset.yaml."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from p3iv.errors import SplitError
from p3iv.files import write_text
from p3iv.readers.files import JsonObject, UnusableError, is_there, parse_value, read_text, required
from p3iv.readers.lists import is_released_list, read_list_split
from p3iv.readers.rows import VideoCollector, parse_name, place
from p3iv.readers.steps import STEPS_FILE, read_steps
from p3iv.readers.variants import without_ending
from p3iv.types import SIDES, Annotations, Side, Split, listed
from p3iv.validation import MAX_YAML_BYTES, ProblemLog, parse_yaml, shown

EXPECTED_SPLIT = (
    '{"train": [VIDEO, ...], "val": [...], "test": [...]}; val may be left out. Or the training list of a release, '
    "such as train_list.json, with its test list beside it"
)


def read_folder(source: Path, *, with_split: bool = True) -> Annotations:
    """Read a dataset folder: steps.csv, and the name in dataset.yaml and split.json if they exist.

    Args:
        source: The folder.
        with_split: Whether to read split.json, which raises an error if it is not a split.
    """
    table = read_steps(source)
    videos = table.videos
    name = _read_name(source, videos.log)
    split = _read_own_split(source, videos) if with_split else None
    return replace(videos.finish(source, name, table.vocabulary, split), notes=table.notes)


def _read_name(source: Path, log: ProblemLog) -> str:
    folder_name = place(source.absolute().name) or "dataset"
    path = source / "dataset.yaml"
    if not is_there(path):
        return folder_name
    try:
        return parse_name(_parse_yaml(read_text(path, MAX_YAML_BYTES)).get("name"), "the dataset's name")
    except UnusableError as error:
        log.add(path.name, str(error), f"the folder's name {shown(folder_name)} is used")
        return folder_name


def _parse_yaml(text: str) -> dict[object, object]:
    try:
        content = parse_yaml(text)
    except ValueError as error:
        raise UnusableError(str(error)) from error
    if not isinstance(content, dict):
        raise UnusableError(f"YAML of {shown(content)}, expected name: and other keys")
    return content


def _read_own_split(source: Path, videos: VideoCollector) -> Split | None:
    """Read split.json; videos that are not in steps.csv are logged and left out."""
    path = source / "split.json"
    if not is_there(path):
        return None
    split = read_split(path)
    unknown = [place(video) for side in SIDES for video in split.side(side) if video not in videos.videos]
    if not unknown:
        return split
    what = f"{len(unknown)} videos without usable steps in {STEPS_FILE}: {listed(unknown)}"
    videos.log.add(path.name, what, "left out of the split")
    return Split(*(tuple(video for video in split.side(side) if video in videos.videos) for side in SIDES))


def read_split(path: Path) -> Split:
    """Read a file of video ids by side, or a released training list, whose test list is beside it.

    Raises:
        SourceError: the file has another format.
        SplitError: a video is listed twice.
    """
    with required(path, EXPECTED_SPLIT):
        content = parse_value(read_text(path))
        split = read_list_split(path) if is_released_list(content) else _parse_split(content)
    _check_listed_once(path, split)
    return split


def _parse_split(content: object) -> Split:
    if not isinstance(content, JsonObject):
        raise UnusableError("JSON, but not an object")
    unknown = [key for key in content if key not in SIDES]
    if unknown or content.repeated:
        raise UnusableError(f"key {shown((*unknown, *content.repeated)[0])}, expected each of {', '.join(SIDES)} once")
    return Split(*(_parse_side(content, side) for side in SIDES))


def _parse_side(content: JsonObject, side: Side) -> tuple[str, ...]:
    videos = content.get(side, [] if side == "val" else None)
    if not isinstance(videos, list):
        raise UnusableError(f"{side} is {shown(videos)}, expected a list of video ids")
    return tuple(without_ending(parse_name(video, f"a video of {side}")) for video in videos)


def _check_listed_once(path: Path, split: Split) -> None:
    side_of: dict[str, Side] = {}
    for side in SIDES:
        for video in split.side(side):
            if video in side_of:
                raise SplitError(
                    f"{path}: video {shown(video)} is listed under {side_of[video]} and again under {side}. "
                    "Delete one of the two: a video belongs to one side."
                )
            side_of[video] = side


def write_split(path: Path, split: Split) -> None:
    """Write a split that `read_split` reads."""
    _check_listed_once(path, split)
    write_text(path, json.dumps({side: split.side(side) for side in SIDES}, indent=1) + "\n")
