"""Released lists of windows and videos, in files that each test writes in their layouts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p3iv.config import CurationSettings
from p3iv.data.folder import open_dataset
from p3iv.data.importing import ImportRequest, import_dataset
from p3iv.data.windows import cut_windows
from p3iv.errors import SourceError, SplitError
from p3iv.readers.coin import read_coin
from p3iv.readers.folder import read_split
from p3iv.readers.lists import read_lists
from p3iv.types import Annotations, Split

Rows = Sequence[tuple[int, int, int]]  # start, end, number of the action

TEXTS = {0: "pour water", 1: "boil", 2: "add tea", 3: "stir", 4: "pour water", 5: "wash"}  # 0 and 4 share a text
TASKS = {
    0: (0, "Make Tea"),
    1: (0, "Make Tea"),
    2: (0, "Make Tea"),
    3: (0, "Make Tea"),
    4: (1, "Clean"),
    5: (1, "Clean"),
}

TEA: Rows = [(1, 3, 0), (4, 6, 1), (7, 9, 2), (9, 12, 3)]
CLEAN: Rows = [(0, 2, 4), (5, 6, 5), (8, 9, 4)]
TWICE: Rows = [(1, 3, 0), (4, 6, 1), (1, 4, 0), (4, 7, 1)]  # two annotations of one video, one after the other


def windows(video: str, rows: Rows, horizon: int = 3, *, texts: bool = True) -> list[dict[str, Any]]:
    """The windows of a video as ViterbiPlanNet lists them; without texts, as MTID does."""
    number, task = TASKS[rows[0][2]]
    entries = []
    for first in range(len(rows) - horizon + 1):
        window = rows[first : first + horizon]
        about = {
            "vid": video,
            "feature": f"./dataset/features/{number}_{video}.npy",
            "legal_range": [list(row) for row in window],
            "task_id": number,
        }
        if texts:
            about |= {"task_name": task, "actions": [TEXTS[row[2]] for row in window]}
        entries.append({"id": about, "instruction_len": len(rows)})
    return entries


def write_lists(
    folder: Path, train: object, test: object, names: tuple[str, str] = ("train_3.json", "test_3.json")
) -> Path:
    """Write both lists; returns the training list."""
    for name, content in zip(names, (train, test), strict=True):
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder / names[0]


def cut(annotations: Annotations, horizon: int) -> list[tuple[str, tuple[int, ...], float | None, float | None]]:
    found = cut_windows(annotations.videos, annotations.vocabulary, CurationSettings(horizon=horizon))
    return [(window.video, window.action_ids, window.start_s, window.goal_s) for window in found]


def listed(videos: dict[str, Rows], horizon: int) -> list[tuple[str, tuple[int, ...], float, float]]:
    """The windows of videos, cut as the lists are made."""
    found = []
    for video, rows in videos.items():
        for first in range(len(rows) - horizon + 1):
            window = rows[first : first + horizon]
            found.append((video, tuple(row[2] for row in window), float(window[0][0]), float(window[-1][1])))
    return found


def test_windows_are_cut_again_exactly_as_listed(tmp_path: Path) -> None:
    annotations = read_lists(write_lists(tmp_path, windows("a", TEA) + windows("c", TWICE), windows("b", CLEAN)))
    assert annotations.problems == ()
    assert annotations.split == Split(("a", "c"), (), ("b",))
    assert annotations.vocabulary.names == (
        "Make Tea: pour water",
        "boil",
        "add tea",
        "stir",
        "Clean: pour water",
        "wash",
    )
    assert [video.aliases for video in annotations.videos] == [("0_a",), ("0_c",), ("1_b",)]
    videos = {"a": TEA, "c": TWICE, "b": CLEAN}
    assert cut(annotations, 3) == listed(videos, 3)
    assert cut(annotations, 4) == listed(videos, 4)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=3, max_size=9))
@settings(max_examples=30)
def test_any_order_of_times_survives_the_dataset_folder(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]]
) -> None:
    rows = [(start, start + 2, action) for start, action in steps]
    folder = tmp_path_factory.mktemp("lists")
    source = write_lists(folder, windows("a", rows) + windows("c", TEA), windows("b", CLEAN))
    import_dataset(ImportRequest("lists", source, folder / "data"))
    dataset = open_dataset(folder / "data")
    names = [TEXTS[action] for _, action in steps]
    video = next(video for video in dataset.videos if video.id == "a")
    assert [step.action.removeprefix("Make Tea: ") for step in video.steps] == names
    assert [(step.start_s, step.end_s) for step in video.steps] == [(row[0], row[1]) for row in rows]


def test_a_taxonomy_gives_texts_and_the_actions_that_no_video_has(tmp_path: Path) -> None:
    source = write_lists(tmp_path, windows("a", TEA, texts=False), windows("c", TEA, texts=False))
    with pytest.raises(SourceError, match=r"no text for action 0.*taxonomy"):
        read_lists(source)
    actions = {"0": "pour water", "1": "boil", "2": "add tea", "3": "stir"}
    small, large = {"0_23521_Make Tea": actions}, {"0_Make Tea": {**actions, "4": "serve"}, "1_Clean": {"9": "wash"}}
    (tmp_path / "taxonomy_2.json").write_text(json.dumps(large), encoding="utf-8")
    assert read_lists(source).vocabulary.names == (*actions.values(), "serve", "wash")
    (tmp_path / "taxonomy_1.json").write_text(json.dumps(small), encoding="utf-8")
    annotations = read_lists(source)
    assert annotations.vocabulary.names == tuple(actions.values())
    assert {video.task for video in annotations.videos} == {"Make Tea"}


def test_a_feature_file_names_the_video_where_nothing_else_does(tmp_path: Path) -> None:
    entries = windows("x_0001", TEA)
    for entry in entries:
        entry["id"] |= {"feature": "/data/NIV/processed_data/x_0001.npy"}
        del entry["id"]["vid"]
    annotations = read_lists(write_lists(tmp_path, entries, windows("b", CLEAN), ("train70_3.json", "test30_3.json")))
    assert annotations.videos[0].id == "x_0001"


def test_videos_with_steps_are_read(tmp_path: Path) -> None:
    def video(rows: Rows) -> dict[str, Any]:
        steps = [{"action": TEXTS[n], "action_id": n, "start": start, "end": end} for start, end, n in rows]
        return {"task": TASKS[rows[0][2]][1], "task_id": 0, "steps": steps}

    source = write_lists(tmp_path, {"a": video(TEA)}, {"b": video(CLEAN)}, ("niv_train.json", "niv_valid.json"))
    annotations = read_lists(source)
    assert cut(annotations, 3) == listed({"a": TEA, "b": CLEAN}, 3)
    assert read_split(source) == annotations.split == Split(("a",), (), ("b",))


def _set(path: Sequence[str | int], value: object) -> Callable[[list[dict[str, Any]]], None]:
    def change(entries: list[dict[str, Any]]) -> None:
        at: Any = entries
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set([1, "id", "legal_range"], []), "legal_range is"),
        (_set([1, "id", "legal_range", 0], [1, 2]), r"expected \[start, end, action\]"),
        (_set([1, "id", "legal_range", 2, 1], 0), "the end 0.0 is before the start"),
        (_set([1, "id", "legal_range", 2, 2], "tea"), "an action's number is 'tea'"),
        (_set([1, "id", "legal_range", 0], [4, 6, 2]), "is 'boil' here and 'add tea' before"),
        (_set([1, "id", "actions"], ["boil"]), "expected a text for each of the 3"),
        (_set([1, "id"], windows("a", TEA, 2)[0]["id"]), "a window of 2 actions, expected 3"),
        (_set([1], windows("a", TEA)[0]), "does not begin one step after"),
    ],
)
def test_a_video_with_an_unusable_window_is_left_out(
    tmp_path: Path, change: Callable[[list[dict[str, Any]]], None], message: str
) -> None:
    entries = windows("a", TEA)
    change(entries)
    annotations = read_lists(write_lists(tmp_path, entries + windows("c", TEA), windows("b", CLEAN)))
    (problem,) = annotations.problems
    assert (problem.where, problem.done) == ("train_3.json: entry 2", "video left out")
    assert re.search(message, problem.what)
    assert [video.id for video in annotations.videos] == ["c", "b"]


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ("tea", "neither windows"),
        ([], "neither windows"),
        ([3], "neither windows"),
        ([{"vid": "a", "task": "1", "length": 3}], "names videos without their steps.*--release-split"),
        ([{"feature": "a.npy", "task_id": 0}], "names videos without their steps"),
        ([{"a": {"annotation": []}}], "p3iv data import coin"),
        (windows("b", TEA), "1 of its 1 videos are in the test list too"),
        ([{"id": {"legal_range": [[0, 1, 2]]}}], "names no video"),
    ],
)
def test_other_lists_are_refused_in_one_sentence(tmp_path: Path, train: object, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        read_lists(write_lists(tmp_path, train, windows("b", CLEAN)))


def test_a_list_needs_its_test_list_and_a_name(tmp_path: Path) -> None:
    source = write_lists(tmp_path, windows("a", TEA), [], ("coin_train_70_3.json", "other.json"))
    with pytest.raises(SourceError, match=r"no test list beside it; looked for coin_test_30_3.json"):
        read_lists(source)
    (tmp_path / "coin_test_30_3.json").write_text("{", encoding="utf-8")
    with pytest.raises(SourceError, match=r"coin_test_30_3.json: not JSON"):
        read_lists(source)
    with pytest.raises(SourceError, match="`train` in it"):
        read_lists(source.rename(tmp_path / "windows.json"))


@pytest.mark.parametrize(
    ("entries", "names"),
    [
        (
            [{"vid": "a", "task": "1", "length": 3}, {"vid": "c", "task": "1", "length": 4}],
            ("train_list.json", "test_list.json"),
        ),
        ([{"feature": "/x/a.npy", "task_id": 0}, {"feature": "c.npy", "task_id": 1}], ("train70.json", "test30.json")),
        ([{"id": {"vid": "a"}}, {"id": {"vid": "c"}}], ("data_False.json", "data_True.json")),
        ([{"a": {"annotation": []}}, {"c": {"annotation": []}}], ("coin_train_70.json", "coin_test_30.json")),
    ],
)
def test_lists_of_videos_are_splits(tmp_path: Path, entries: list[Any], names: tuple[str, str]) -> None:
    test = json.loads(json.dumps(entries[:1]).replace('"a"', '"b"').replace("/a.npy", "/b.npy"))
    assert read_split(write_lists(tmp_path, entries, test, names)) == Split(("a", "c"), (), ("b",))
    with pytest.raises(SplitError, match="'a' is listed under train and again under test"):
        read_split(write_lists(tmp_path, entries, entries, names))


def test_coin_lists_have_their_own_split(tmp_path: Path) -> None:
    def entry(video: str) -> dict[str, Any]:
        rows = [{"id": "7", "label": "fold", "segment": [0, 1]}, {"id": "5", "label": "cut", "segment": [2, 3]}]
        return {video: {"class": "MakeBox", "recipe_type": 3, "subset": "testing", "annotation": rows}}

    names = ("coin_train_70.json", "coin_test_30.json")
    annotations = read_coin(write_lists(tmp_path, [entry("a"), entry("c"), entry("a")], [entry("b")], names))
    assert annotations.split == Split(("a", "c"), (), ("b",))
    assert annotations.videos[0].aliases == ("MakeBox_3_a",)
    (problem,) = annotations.problems
    assert "listed again" in problem.what
    with pytest.raises(SourceError, match="not an object of one video"):
        read_coin(write_lists(tmp_path, [entry("a") | entry("c")], [entry("b")], names))


def test_lists_and_released_features_become_a_dataset(tmp_path: Path) -> None:
    features = tmp_path / "processed_data"
    features.mkdir()
    rng = np.random.default_rng(0)
    frames = {name: rng.standard_normal((14, 8), np.float32) for name in ("0_a", "1_b")}
    for name, rows in frames.items():
        content: Any = {"frames_features": rows, "steps_features": rows[:3], "steps_ids": np.arange(3), "cls": 23521}
        np.save(features / f"{name}.npy", content)
    source = write_lists(tmp_path, windows("a", TEA), windows("b", CLEAN))
    report = import_dataset(ImportRequest("lists", source, tmp_path / "data", features=features, encoder="s3d"))
    assert (report.num_videos, report.num_actions, report.problems) == (2, 6, ())
    dataset = open_dataset(tmp_path / "data")
    assert dataset.features is not None
    assert dataset.split == Split(("a",), (), ("b",))
    np.testing.assert_array_equal(dataset.features.rows("b"), frames["1_b"])
