from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from p3iv.errors import SourceError
from p3iv.readers.coin import read_coin
from p3iv.types import Action, Annotations, Split, Step


def read_with(path: Path, video: str, **changes: object) -> Annotations:
    """Read the file once some fields of a video are changed, or a new video is added."""
    content: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    entry = {"class": "MakeTea", "subset": "training", "annotation": [{"id": "1", "label": "pour", "segment": [0, 1]}]}
    content["database"].setdefault(video, entry).update(changes)
    path.write_text(json.dumps(content), encoding="utf-8")
    return read_coin(path)


def test_videos_steps_and_split(coin_file: Path) -> None:
    annotations = read_coin(coin_file)
    first, second = annotations.videos
    assert (annotations.name, annotations.problems) == ("coin", ())
    assert (first.id, first.task) == ("-0bbAfOuh-M", "MakePaperDice")
    assert first.steps == (Step("measure and mark", 13.5, 78.0), Step("fold [98]", 81.0, 112.5))
    assert second.steps == (Step("fold [100]", 0.0, 5.0),)
    assert annotations.split == Split(train=("-0bbAfOuh-M",), val=(), test=("b",))


def test_vocabulary_is_sorted_by_number_and_tells_equal_labels_apart(coin_file: Path) -> None:
    assert read_coin(coin_file).vocabulary.actions == (
        Action("fold [98]", "fold", "98"),
        Action("fold [100]", "fold", "100"),
        Action("measure and mark", "measure and mark", "352"),
    )


def test_names_are_unique_even_if_a_label_ends_like_an_id(coin_file: Path) -> None:
    row = {"id": "7", "label": "fold [98]", "segment": [0, 1]}
    names = read_with(coin_file, "c", annotation=[row]).vocabulary.names
    assert names == ("fold [98] [7]", "fold [98]", "fold [100]", "measure and mark")


def test_a_folder_may_hold_the_file(coin_file: Path) -> None:
    assert read_coin(coin_file.parent) == read_coin(coin_file)


def test_an_id_with_two_labels_keeps_the_first(coin_file: Path) -> None:
    rows = [{"id": "352", "label": "mark", "segment": [0, 1]}] * 2
    annotations = read_with(coin_file, "c", annotation=rows)
    (problem,) = annotations.problems
    assert problem.where == "COIN.json: video c, annotation 1"
    assert problem.what.startswith("step '352' is 'mark' here and 'measure and mark' before")
    assert problem.done == "the first text is used"
    assert annotations.videos[2].steps[0].action == "measure and mark"


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"id": "x", "label": "pour", "segment": [0, 1]}, "the id is 'x', expected a whole number"),
        ({"id": True, "label": "pour", "segment": [0, 1]}, "the id is true, expected a whole number"),
        ({"id": "1", "label": 3, "segment": [0, 1]}, "the label is 3, expected a text"),
        ({"id": "1", "label": "\ud800", "segment": [0, 1]}, r"the label is '\ud800', expected a text"),
        ({"id": "1", "label": "pour", "segment": [2, 1]}, "the end 1.0 is before the start 2.0"),
        ({"id": "1", "label": "pour", "segment": [float("nan"), 1]}, "the start is nan"),
        ({"id": "1", "label": "pour", "segment": [0, float("inf")]}, "the end is inf"),
        ({"id": "1", "label": "pour", "segment": [0, 10**4000]}, "the end is inf"),
        ({"id": "1", "label": "pour", "segment": [False, 1]}, "the start is false"),
        ({"id": "1", "label": "pour", "segment": [1]}, "the segment is a list, expected [start, end]"),
        ({"id": "1", "label": "pour"}, "the segment is null"),
        ("pour", "got 'pour', expected an object"),
    ],
)
def test_an_unusable_annotation_is_listed_and_left_out(coin_file: Path, row: object, what: str) -> None:
    sound = {"id": "1", "label": "pour", "segment": [0, 1]}
    annotations = read_with(coin_file, "c", annotation=[sound, row])
    (problem,) = annotations.problems
    assert (problem.where, problem.done) == ("COIN.json: video c, annotation 2", "row left out")
    assert what in problem.what
    assert annotations.videos[2].steps == (Step("pour", 0.0, 1.0),)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"annotation": []}, "no usable step"),
        ({"annotation": {"id": "1"}}, "its annotation is an object, expected a list"),
        ({"class": None}, "its class is null"),
        ({"class": " "}, "its class is ' '"),
    ],
)
def test_an_unusable_video_is_listed_and_left_out(coin_file: Path, changes: dict[str, object], what: str) -> None:
    annotations = read_with(coin_file, "c", **changes)
    (problem,) = annotations.problems
    assert (problem.where, problem.done) == ("COIN.json: video c", "video left out")
    assert what in problem.what
    assert [video.id for video in annotations.videos] == ["-0bbAfOuh-M", "b"]


@pytest.mark.parametrize("subset", ["nosuch", None, ["training"]])
def test_a_video_of_an_unknown_subset_is_on_no_side(coin_file: Path, subset: object) -> None:
    annotations = read_with(coin_file, "c", subset=subset)
    (problem,) = annotations.problems
    assert problem.done == "video left out of the split"
    assert "expected one of training, validation, testing" in problem.what
    assert len(annotations.videos) == 3
    assert annotations.split == Split(train=("-0bbAfOuh-M",), val=(), test=("b",))


def test_the_first_of_two_equal_keys_is_used(coin_file: Path) -> None:
    text = coin_file.read_text(encoding="utf-8")
    coin_file.write_text(text[:-2] + ', "b": {"class": "X", "annotation": []}}}', encoding="utf-8")
    annotations = read_coin(coin_file)
    (problem,) = annotations.problems
    assert (problem.where, problem.done) == ("COIN.json: video b", "video left out, the first one is used")
    assert annotations.videos[1].task == "MakePaperPlane"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[1]", "not an object"),
        (b"{}", 'exactly one object "database"'),
        (b'{"database": [1]}', 'exactly one object "database"'),
        (b'{"database": {}, "database": {}}', 'exactly one object "database"'),
        (b'{"database": {}}', "no usable video"),
    ],
)
def test_a_file_that_is_not_the_release_is_refused(coin_file: Path, content: bytes, message: str) -> None:
    coin_file.write_bytes(content)
    with pytest.raises(SourceError, match=message):
        read_coin(coin_file)


def test_a_missing_file_is_refused_with_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"no such file\. Give the official COIN\.json"):
        read_coin(tmp_path / "nowhere.json")


def test_released_features_are_named_by_class_recipe_type_and_video(coin_file: Path) -> None:
    annotations = read_with(coin_file, "c", recipe_type=78)
    assert [video.aliases for video in annotations.videos] == [(), (), ("MakeTea_78_c",)]
