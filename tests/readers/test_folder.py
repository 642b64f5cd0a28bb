from __future__ import annotations

from pathlib import Path

import pytest

from p3iv.errors import SourceError, SplitError
from p3iv.readers.folder import read_folder, read_split, write_split
from p3iv.types import Action, Annotations, Split, Step

HEADER = "video,task,step,start_s,end_s"


def read_steps(folder: Path, *lines: str) -> Annotations:
    """Read a folder that has nothing but these lines."""
    folder.mkdir(exist_ok=True)
    (folder / "steps.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read_folder(folder)


def test_videos_texts_name_and_split(dataset_folder: Path) -> None:
    annotations = read_folder(dataset_folder)
    timed, ordered = annotations.videos
    assert (annotations.name, annotations.problems) == ("my kitchen", ())
    assert timed.steps == (
        Step("boil", 1.5, 4.25, extra=(("has_errors", "0"),)),
        Step("pour", 4.0, 6.0, extra=(("has_errors", "1"),)),
    )
    assert annotations.vocabulary.actions == (Action("boil", "boil the water"), Action("pour", "pour it over"))
    assert annotations.split == Split(train=("v1",), val=(), test=("v2",))
    assert ordered.task == "tea"


def test_a_video_without_any_times_keeps_the_order_of_the_file(dataset_folder: Path) -> None:
    ordered, empty = read_folder(dataset_folder).videos[1], (("has_errors", ""),)
    assert ordered.steps == (Step("pour", extra=empty), Step("boil", extra=empty))
    assert not ordered.is_timed


def test_only_steps_csv_is_needed(tmp_path: Path) -> None:
    annotations = read_steps(tmp_path / "mine", HEADER, "v,tea,pour,0,1")
    assert (annotations.name, annotations.split) == ("mine", None)
    assert annotations.vocabulary.actions == (Action("pour", "pour"),)


def test_rows_of_a_video_may_be_scattered_and_columns_in_any_order(tmp_path: Path) -> None:
    annotations = read_steps(tmp_path, "step,video,task,end_s,start_s", "b,v,t,3,2", "c,w,t,1,0", "a,v,t,1,0")
    assert [[step.action for step in video.steps] for video in annotations.videos] == [["a", "b"], ["c"]]
    assert annotations.vocabulary.names == ("a", "b", "c")


def test_a_text_may_have_line_breaks(tmp_path: Path) -> None:
    annotations = read_steps(tmp_path, f"{HEADER},text", 'v,t,a,0,1,"one\ntwo"', "v,t,b,9,8,")
    assert annotations.vocabulary.actions[0].text == "one\ntwo"
    assert annotations.problems[0].where == "steps.csv:4"


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("v,tea,pour,,4", "the times are '' and '4', expected both, or none in the whole video"),
        ("v,tea,pour,3, ", "the times are '3' and ' ', expected both"),
        ("v,tea,pour,,", "no times, expected both as in other rows of the video"),
        ("v,tea,pour,3,inf", "the end is 'inf'"),
        ("v,tea,pour,3", "4 columns, expected the 5 of the header"),
        ("v,tea,pour,3,4,5", "6 columns, expected the 5 of the header"),
        (",tea,pour,3,4", "the video is ''"),
        ("v,,pour,3,4", "the task is ''"),
        ("v,tea,,3,4", "the step is ''"),
        ("v,tea,po\x7fur,3,4", r"the step is 'po\x7fur'"),
        ("v,coffee,pour,3,4", "the task is 'coffee', expected 'tea' as in the video's first row"),
        ('v,tea,"pour"ed,3,4', "not a CSV record"),
    ],
)
def test_an_unusable_row_is_listed_with_its_line_and_left_out(tmp_path: Path, row: str, what: str) -> None:
    annotations = read_steps(tmp_path, HEADER, "v,tea,boil,0,1", row, "v,tea,drink,5,6")
    (problem,) = annotations.problems
    assert (problem.where, problem.done) == ("steps.csv:3", "row left out")
    assert what in problem.what
    assert [step.action for step in annotations.videos[0].steps] == ["boil", "drink"]
    assert annotations.vocabulary.names == ("boil", "drink")


def test_a_video_whose_rows_all_failed_is_listed(tmp_path: Path) -> None:
    annotations = read_steps(tmp_path, HEADER, "v,tea,boil,0,1", "w,tea,boil,2,1", "x,tea")
    assert [str(problem) for problem in annotations.problems[2:]] == [
        "steps.csv: video w: no usable step, expected at least one; video left out",
        "steps.csv: video x: no usable step, expected at least one; video left out",
    ]


def test_a_step_with_two_texts_keeps_the_first(tmp_path: Path) -> None:
    rows = ("v,t,a,0,1,", "v,t,a,1,2,one", "v,t,a,2,3,two", "v,t,a,3,4,two")
    annotations = read_steps(tmp_path, f"{HEADER},text", *rows)
    (problem,) = annotations.problems
    assert (problem.where, problem.done) == ("steps.csv:4", "the first text is used")
    assert annotations.vocabulary.actions == (Action("a", "one"),)


def test_a_column_without_a_name_is_listed(tmp_path: Path) -> None:
    annotations = read_steps(tmp_path, f"{HEADER},,note,", "v,t,a,0,1,x,y,z")
    assert [problem.done for problem in annotations.problems] == ["column left out"] * 2
    assert annotations.videos[0].steps[0].extra == (("note", "y"),)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no column video, task, step, start_s, end_s in its header"),
        ("v,t,a,0,1\n", r"line 1 is 'v,t,a,0,1', not a header. Write the names of the columns above it"),
        ("video,task,step,start_s\n", "no column end_s in its header"),
        (f"{HEADER},note,note\n", "column 'note' is twice"),
        (f"{HEADER}\n", "no usable video"),
    ],
)
def test_a_file_that_is_not_a_step_list_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "steps.csv").write_text(content, encoding="utf-8")
    with pytest.raises(SourceError, match=message):
        read_folder(tmp_path)


def test_a_missing_steps_csv_is_refused_with_advice(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"no such file\. Give a dataset folder whose steps\.csv begins with"):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "- a list",
        "nme: x",
        "name: [x]",
        "name: 'x",
        '"\\UFFFFFFFF"',
        "[" * 2000,
        "name: &a [*a]",
        "%YAML " + "9" * 5000,
    ],
)
def test_an_unusable_dataset_yaml_is_listed_and_the_folder_names_the_dataset(
    dataset_folder: Path, content: str
) -> None:
    (dataset_folder / "dataset.yaml").write_text(content, encoding="utf-8")
    annotations = read_folder(dataset_folder)
    assert annotations.name == "kitchen"
    assert [problem.where for problem in annotations.problems] == ["dataset.yaml"]


def test_videos_of_the_split_that_are_not_there_are_listed(dataset_folder: Path) -> None:
    (dataset_folder / "split.json").write_text('{"train": ["v1", "v7"], "test": ["v2", "v8"]}', encoding="utf-8")
    annotations = read_folder(dataset_folder)
    assert annotations.split == Split(train=("v1",), val=(), test=("v2",))
    (problem,) = annotations.problems
    assert str(problem) == "split.json: 2 videos without usable steps in steps.csv: v7, v8; left out of the split"


def test_an_unusable_split_is_refused(dataset_folder: Path) -> None:
    (dataset_folder / "split.json").write_text('{"train": ["v1"], "test": ["v1"]}', encoding="utf-8")
    with pytest.raises(SplitError, match="v1"):
        read_folder(dataset_folder)


@pytest.mark.parametrize("split", [Split(("a", "é"), ("b",), ("c",)), Split((), (), ())])
def test_a_split_reads_back_the_same(tmp_path: Path, split: Split) -> None:
    write_split(tmp_path / "new" / "split.json", split)
    assert read_split(tmp_path / "new" / "split.json") == split


def test_val_may_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "split.json").write_text('\ufeff{"test": ["b"], "train": ["a"]}', encoding="utf-8")
    assert read_split(tmp_path / "split.json") == Split(("a",), (), ("b",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "not an object"),
        ("{", "not JSON"),
        ('{"train": []}', "test is null, expected a list"),
        ('{"train": [], "test": [], "dev": []}', "key 'dev', expected each of train, val, test once"),
        ('{"train": [], "test": [], "train": []}', "key 'train', expected each of train, val, test once"),
        ('{"train": "abc", "test": []}', "train is 'abc', expected a list"),
        ('{"train": [1], "test": []}', "a video of train is 1, expected a text"),
        ('{"train": ["\\ud800"], "test": []}', "a video of train is"),
        ('{"train": [], "test": [], "val": null}', "val is null"),
    ],
)
def test_other_keys_and_types_are_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "split.json").write_text(content, encoding="utf-8")
    with pytest.raises(SourceError, match=rf'{message}.*Give {{"train"'):
        read_split(tmp_path / "split.json")


@pytest.mark.parametrize("split", [Split(("a", "v9"), ("v9",), ()), Split(("v9", "v9"), (), ())])
def test_a_video_listed_twice_is_refused_by_name(tmp_path: Path, split: Split) -> None:
    with pytest.raises(SplitError, match="'v9' is listed under train and again"):
        write_split(tmp_path / "split.json", split)
    content = f'{{"train": {list(split.train)}, "val": {list(split.val)}, "test": []}}'.replace("'", '"')
    (tmp_path / "split.json").write_text(content, encoding="utf-8")
    with pytest.raises(SplitError, match="'v9' is listed under train and again"):
        read_split(tmp_path / "split.json")
