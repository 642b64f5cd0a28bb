from __future__ import annotations

from pathlib import Path

import pytest

from p3iv.errors import SourceError
from p3iv.readers.crosstask import read_crosstask
from p3iv.types import Problem, Step

JELLO = "annotations/23521_a_b-c.csv"


def problems_after(folder: Path, name: str, content: str | bytes) -> tuple[Problem, ...]:
    """What the reader lists once a file holds something else."""
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_crosstask(folder).problems


def test_videos_tasks_and_steps(crosstask_folder: Path) -> None:
    annotations = read_crosstask(crosstask_folder)
    jello, lemonade = annotations.videos
    assert annotations.name == "crosstask"
    assert annotations.problems == ()
    assert (jello.id, jello.task, jello.aliases) == ("a_b-c", "Make Jello Shots", ("23521_a_b-c",))
    assert jello.steps == (Step("pour water", 0.25, 3.0), Step("stir mixture", 7.5, 9.0))
    assert [step.action for step in lemonade.steps] == ["pour water", "cut lemon"]


def test_equal_texts_are_one_action_by_default(crosstask_folder: Path) -> None:
    vocabulary = read_crosstask(crosstask_folder).vocabulary
    assert vocabulary.names == ("pour water", "pour juice", "stir mixture", "cut lemon")


def test_tasks_kept_apart_have_actions_of_their_own(crosstask_folder: Path) -> None:
    annotations = read_crosstask(crosstask_folder, keep_tasks_apart=True)
    assert annotations.vocabulary.names == (
        "Make Jello Shots: pour water",
        "Make Jello Shots: pour juice",
        "Make Jello Shots: stir mixture",
        "Make Lemonade: cut lemon",
        "Make Lemonade: pour water",
    )
    assert [action.text for action in annotations.vocabulary.actions][-1] == "pour water"
    assert annotations.videos[1].steps[0].action == "Make Lemonade: pour water"


@pytest.mark.parametrize(
    ("first", "second", "used"),
    [
        ("1,0,4\n2,5,8\n3,9,12\n", "1,0.5,4\n2,5,7\n", "first"),
        ("1,0,4\n3,9,12\n", "1,0.5,4\n2,5,7\n3,9,11.5\n", "second"),
        ("1,0,4\n2,5,8\n", "2,4.5,8\n1,9,10\n", "first"),  # equally long, one step differs
    ],
)
def test_of_two_passes_over_a_video_the_longer_one_is_used(
    crosstask_folder: Path, first: str, second: str, used: str
) -> None:
    (problem,) = problems_after(crosstask_folder, JELLO, first + second)
    num = first.count("\n"), second.count("\n")
    what = f"two passes over the video, of {num[0]} and {num[1]} steps, expected one; the {used} pass is used"
    assert str(problem) == f"{JELLO}: {what}"
    both = read_crosstask(crosstask_folder).videos[0]
    assert problems_after(crosstask_folder, JELLO, first if used == "first" else second) == ()
    assert both == read_crosstask(crosstask_folder).videos[0]


@pytest.mark.parametrize(
    "rows",
    [
        "1,5,6\n2,7,8\n1,0,1\n2,2,3\n",  # the same steps, at other times
        "1,0,4\n2,5,8\n3,0,4\n1,5,8\n",  # other steps, at the same times
        "1,0,4\n2,5,8\n1,0,4\n2,5,8\n1,0,4\n",  # the times go back twice
        "2,5,8\n1,0,5\n",
    ],
)
def test_rows_that_are_only_out_of_order_are_sorted(crosstask_folder: Path, rows: str) -> None:
    assert problems_after(crosstask_folder, JELLO, rows) == ()
    steps = read_crosstask(crosstask_folder).videos[0].steps
    assert [step.start_s for step in steps] == sorted(float(row.split(",")[1]) for row in rows.split())


def test_a_folder_may_contain_the_release(crosstask_folder: Path) -> None:
    assert read_crosstask(crosstask_folder.parent) == read_crosstask(crosstask_folder)


def test_byte_order_marks_and_crlf_are_accepted(crosstask_folder: Path) -> None:
    before = read_crosstask(crosstask_folder)
    for path in (crosstask_folder / "tasks_primary.txt", crosstask_folder / JELLO):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert read_crosstask(crosstask_folder) == before


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("4,1,2", "step 4 of 'Make Jello Shots', expected 1 to 3"),
        ("0,1,2", "step 0 of 'Make Jello Shots', expected 1 to 3"),
        ("one,1,2", "the step is 'one', expected a whole number"),
        ("9" * 5000 + ",1,2", "expected a whole number"),
        ("1,3,2.5", "the end 2.5 is before the start 3.0, expected start <= end"),
        ("1,nan,2", "the start is 'nan', expected a finite number of seconds from 0"),
        ("1,1,1e999", "the end is '1e999', expected a finite number of seconds from 0"),
        ("1,-1,2", "the start is '-1', expected a finite number of seconds from 0"),
        ("1," + "1" * 100_000 + "x,2", "the start is '1111"),
        ("1,1_0,20", "the start is '1_0', expected a finite number of seconds from 0"),
        ("1,2", "2 columns, expected the 3 of step,start,end"),
        ("1,2,3,4", "4 columns, expected the 3 of step,start,end"),
        ('1,2,"3', "not a CSV record"),
        ("1,2," + "3" * 200_000, "not a CSV record"),
        ("1,\0,3", "the start is '\\x00', expected a finite number of seconds from 0"),
    ],
)
def test_an_unusable_row_is_listed_with_its_line_and_left_out(crosstask_folder: Path, row: str, what: str) -> None:
    (crosstask_folder / JELLO).write_text(f"1,0,1\n\n{row}\n2,5,6\n", encoding="utf-8")
    annotations = read_crosstask(crosstask_folder)
    (problem,) = annotations.problems
    assert (problem.where, problem.done) == (f"{JELLO}:3", "row left out")
    assert what in problem.what
    assert annotations.videos[0].steps == (Step("pour water", 0.0, 1.0), Step("pour juice", 5.0, 6.0))


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"", "empty"), (b" \n\n", "empty"), (b"1,\xff,3\n", "byte 3 is not UTF-8"), (b"1,2\n", "no usable step")],
)
def test_an_unusable_file_is_listed_and_left_out(crosstask_folder: Path, content: bytes, what: str) -> None:
    problem = problems_after(crosstask_folder, JELLO, content)[-1]
    assert (problem.where, problem.done) == (JELLO, "video left out")
    assert what in problem.what


def test_folders_and_broken_links_in_place_of_files_are_listed(crosstask_folder: Path) -> None:
    (crosstask_folder / "annotations" / "23521_folder.csv").mkdir()
    (crosstask_folder / "annotations" / "23521_link.csv").symlink_to("nowhere.csv")
    first, second = read_crosstask(crosstask_folder).problems
    assert str(first) == "annotations/23521_folder.csv: a folder, expected a file; video left out"
    assert str(second) == "annotations/23521_link.csv: not a regular file, expected a file; video left out"


def test_an_unknown_task_is_listed(crosstask_folder: Path) -> None:
    (problem,) = problems_after(crosstask_folder, "annotations/777_v.csv", "1,0,1\n")
    assert (problem.where, problem.done) == ("annotations/777_v.csv", "video left out")
    assert "task '777' is unknown" in problem.what


def test_the_first_of_two_equal_videos_is_used(crosstask_folder: Path) -> None:
    (problem,) = problems_after(crosstask_folder, "annotations/44047_a_b-c.csv", "1,0,1\n")
    assert problem.where == "annotations/44047_a_b-c.csv"
    assert "'a_b-c' was already read (task 'Make Jello Shots')" in problem.what
    assert read_crosstask(crosstask_folder).videos[0].task == "Make Jello Shots"


@pytest.mark.parametrize(
    ("block", "what"),
    [
        ("7\nBake\nurl\n3\nmix,bake", "3 steps announced and 2 listed"),
        ("7\nBake\nurl\nmany\nmix,bake", "the number of steps is 'many'"),
        ("7\nBake\nurl\n2\nmix,", "a step is ''"),
        ("7\nBake\nurl", "a block of 3 lines, expected 5"),
        ("23521\nBake\nurl\n1\nmix", "task '23521' was already read"),
    ],
)
def test_an_unusable_task_is_listed_with_its_line(crosstask_folder: Path, block: str, what: str) -> None:
    tasks = (crosstask_folder / "tasks_primary.txt").read_text(encoding="utf-8")
    (problem,) = problems_after(crosstask_folder, "tasks_primary.txt", f"{tasks}\n{block}\n")
    assert problem.where == "tasks_primary.txt:13"
    assert problem.done.startswith("task left out")
    assert what in problem.what


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tasks_primary.txt", b"", "no usable task"),
        ("tasks_primary.txt", b"\xff", "tasks_primary.txt: byte 1 is not UTF-8"),
        (None, None, "no usable video, expected at least one. The first of 4 problems"),
    ],
)
def test_a_release_without_tasks_or_videos_is_refused(
    crosstask_folder: Path, name: str | None, content: bytes | None, message: str
) -> None:
    for path in (crosstask_folder / "annotations").iterdir():
        path.write_bytes(b"1,2\n")
    if name is not None and content is not None:
        (crosstask_folder / name).write_bytes(content)
    with pytest.raises(SourceError, match=message):
        read_crosstask(crosstask_folder)


def test_a_source_that_is_not_a_release_is_refused_with_advice(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello", encoding="utf-8")
    for source, got in (
        (tmp_path, "no tasks_primary.txt"),
        (tmp_path / "no", "no such file"),
        (tmp_path / "notes.txt", "zip"),
    ):
        with pytest.raises(SourceError, match=rf"{got}.*Give crosstask_release\.zip, or the folder"):
            read_crosstask(source)
