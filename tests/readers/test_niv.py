from __future__ import annotations

from pathlib import Path

import pytest

from p3iv.errors import SourceError
from p3iv.readers.niv import read_niv
from p3iv.types import Step


def test_videos_tasks_and_steps(niv_folder: Path) -> None:
    annotations = read_niv(niv_folder)
    car, repot = annotations.videos
    assert (annotations.name, annotations.problems) == ("niv", ())
    assert (car.id, car.task) == ("jump_car_0002", "jump_car")
    assert repot.steps == (Step("COVER HOLE", 5.8, 8.5), Step("PUT SOIL", 46.7, 49.25))
    assert annotations.vocabulary.names == ("GET CAR", "OPEN HOOD", "COVER HOLE", "PUT SOIL")


def test_the_folder_of_the_files_will_do(niv_folder: Path) -> None:
    assert read_niv(niv_folder / "csvs").videos == read_niv(niv_folder).videos


def test_problems_are_listed_with_file_and_line(niv_folder: Path) -> None:
    (niv_folder / "csvs" / "readme.csv").write_text("A,1,2\n", encoding="utf-8")
    (niv_folder / "csvs" / "repot_0002.csv").write_text("A,1,2\n ,1,2\nB,2,x\n", encoding="utf-8")
    (niv_folder / "csvs" / "repot_0003.csv").write_text("", encoding="utf-8")
    (niv_folder / "csvs" / "repot_0004.csv").write_text("A,2,1\n", encoding="utf-8")
    assert [str(problem) for problem in read_niv(niv_folder).problems] == [
        "csvs/readme.csv: the file's name is 'readme', expected TASK_N.csv such as coffee_0001.csv; video left out",
        "csvs/repot_0002.csv:2: the step is ' ', expected a text without control characters; row left out",
        "csvs/repot_0002.csv:3: the end is 'x', expected a finite number of seconds from 0; row left out",
        "csvs/repot_0003.csv: the file is empty, expected rows of step,start,end; video left out",
        "csvs/repot_0004.csv:1: the end 1.0 is before the start 2.0, expected start <= end; row left out",
        "csvs/repot_0004.csv: no usable step, expected at least one; video left out",
    ]


def test_a_quote_that_never_closes_costs_its_line_only(niv_folder: Path) -> None:
    (niv_folder / "csvs" / "repot_0001.csv").write_text('A,1,2\n"B,2,3\nC,3,4\n', encoding="utf-8")
    annotations = read_niv(niv_folder)
    assert [step.action for step in annotations.videos[1].steps] == ["A", "C"]
    assert [problem.where for problem in annotations.problems] == ["csvs/repot_0001.csv:2"]


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"no \.csv file in it"):
        read_niv(tmp_path)
    with pytest.raises(SourceError, match=r"no such file\. Give the folder of the TASK_N\.csv files"):
        read_niv(tmp_path / "nowhere")
