"""Only truth that is about the videos as they came in comes in with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from p3iv.data.folder import open_dataset
from p3iv.data.importing import ImportRequest, import_dataset
from p3iv.types import Problem

HEAD = "video,task,step,start_s,end_s\n"
STEPS = "a,tea,boil,0,1\na,tea,boil,2,3\na,tea,boil,4,5\nb,tea,boil,0,1\nb,tea,pour,2,3\n"


def line(video: str, first: int, *plan: str) -> str:
    return json.dumps({"video": video, "first_step": first, "horizon": len(plan), "plans": [[plan, 1.0]]}) + "\n"


TRUTH = line("a", 0, "boil", "boil") + line("a", 1, "boil", "boil") + line("b", 0, "boil", "pour")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "steps.csv").write_text(HEAD + STEPS)
    (folder / "truth.jsonl").write_text(TRUTH)
    return folder


def import_truth(folder: Path) -> tuple[list[str], tuple[Problem, ...]]:
    report = import_dataset(ImportRequest("folder", folder, folder.parent / "new", overwrite=True))
    return [window.video for window in open_dataset(folder.parent / "new").read_truth()], report.problems


def test_truth_that_fits_comes_in_as_it_is(mine: Path) -> None:
    assert import_truth(mine) == (["a", "a", "b"], ())
    assert (mine.parent / "new" / "truth.jsonl").read_text() == TRUTH


def test_a_video_that_lost_a_row_loses_its_truth_even_where_the_lines_seem_to_fit(mine: Path) -> None:
    (mine / "steps.csv").write_text(HEAD + "a,tea,boil,9,8\n" + STEPS)
    videos, problems = import_truth(mine)
    assert videos == ["b"]
    assert str(problems[-1]) == "truth.jsonl: 2 lines about other steps, of a; lines left out"


@pytest.mark.parametrize("row", [",tea,boil,0,1\n", '"a,tea,boil,0,1\n'])
def test_a_row_of_nobody_knows_which_video_costs_all_truth(mine: Path, row: str) -> None:
    (mine / "steps.csv").write_text(HEAD + STEPS + row)
    videos, problems = import_truth(mine)
    assert videos == []
    assert "3 lines" in str(problems[-1])


def test_lines_that_are_wrong_are_counted_and_named(mine: Path) -> None:
    with (mine / "truth.jsonl").open("ab") as lines:
        lines.write(line("a", 0, "pour").encode() + line("zebra", 0, "boil").encode() + b"\xff\n")
    videos, problems = import_truth(mine)
    assert videos == ["a", "a", "b"]
    assert [problem.what for problem in problems] == ["3 lines about other steps, of a, an unknown video, zebra"]
