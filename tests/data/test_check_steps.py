"""What `p3iv data check` says about steps.csv and videos/, and what `--fix` makes of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from commands import RunP3iv
from p3iv.data.check import check_dataset
from p3iv.data.check_steps import repair_steps
from p3iv.errors import SourceError
from p3iv.features.video_file import write_video
from p3iv.readers.folder import read_folder

HEADER = "video,task,step,start_s,end_s\n"
BY_HAND = """Video;Task;Step;Start;End;;
day0.mp4;make tea;Boil water;0:01;0:03;;
day0.mp4;make tea;pour;0:03;4,5;;
day1.mp4;Make tea;boil  water;0:01;0:02;;
day1.mp4;make tea;pour;5;4;;
day0.mp4;make tea;drink;0:05;0:06;;
day2.mp4;make tea;boil water;0:00;0:01;;
"""


@pytest.fixture
def kitchen(tmp_path: Path) -> Path:
    """Three videos of eight seconds and a steps.csv as Excel writes it in Germany, with one impossible row."""
    folder = tmp_path / "kitchen"
    for number in range(3):
        path = folder / "videos" / f"day{number}.mp4"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_video(path, np.zeros((16, 32, 32, 3), np.uint8), fps=2)
    (folder / "steps.csv").write_text(BY_HAND)
    return folder


def messages(folder: Path, severity: str) -> list[str]:
    return [finding.message for finding in check_dataset(folder) if finding.severity == severity]


def test_the_repaired_file_reads_the_same_and_passes_the_check(kitchen: Path) -> None:
    assert len(messages(kitchen, "note")) == 8
    (error,) = messages(kitchen, "error")
    assert error == "steps.csv:5: the end 4.0 is before the start 5.0, expected start <= end"
    before, content = read_folder(kitchen), (kitchen / "steps.csv").read_bytes()
    repaired = repair_steps(kitchen)
    assert (kitchen / "steps.csv").read_bytes() == content
    assert repaired.path == kitchen / "steps.fixed.csv"
    assert [problem.where for problem in repaired.left_out] == ["steps.csv:5"]
    assert repaired.changes[:-1] == before.notes
    assert repaired.changes[-1].startswith("the rows are ordered by video")
    shutil.move(repaired.path, kitchen / "steps.csv")
    after = read_folder(kitchen)
    assert [video.steps for video in after.videos] == [video.steps for video in before.videos]
    assert (after.vocabulary, after.notes, after.problems) == (before.vocabulary, (), ())
    assert messages(kitchen, "error") == messages(kitchen, "note") == []
    assert repair_steps(kitchen).path is None


def test_the_command_says_each_change_and_keeps_the_original(p3iv: RunP3iv, kitchen: Path) -> None:
    done = p3iv("data", "check", kitchen, "--fix")
    assert done.returncode == 1  # a row was not kept
    assert done.stdout.count("\nchanged: ") == 9
    assert "\nnot kept: steps.csv:5: the end 4.0 is before the start 5.0" in done.stdout
    assert "steps.csv was not changed. To use the copy, rename it to steps.csv." in done.stderr
    shutil.move(kitchen / "steps.fixed.csv", kitchen / "steps.csv")
    done = p3iv("data", "check", kitchen, "--fix")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "steps.csv needs no repair")
    report = json.loads(p3iv("data", "check", kitchen, "--fix", "--json").stdout)
    assert report["repaired"] == {"path": None, "changes": [], "left_out": []}


def test_a_table_without_a_usable_row_is_listed_row_by_row_and_not_repaired(kitchen: Path) -> None:
    (kitchen / "steps.csv").write_text(HEADER + "day0,tea,boil,2,1\nday0,tea,pour,x,3\n")
    errors = messages(kitchen, "error")
    assert [error.partition(": ")[0] for error in errors[:2]] == ["steps.csv:2", "steps.csv:3"]
    assert "steps.csv has no usable row, expected at least one" in errors
    with pytest.raises(SourceError, match="no usable video"):
        repair_steps(kitchen)


@pytest.mark.parametrize(
    ("rows", "severity", "message"),
    [
        (
            "day0,tea,boil,1,5\nday0,tea,pour,4,6\n",
            "warning",
            "steps.csv:3: step 'pour' begins at 4 s, before 'boil' (steps.csv:2) ends at 5 s; if they do not overlap "
            "in video day0, correct a time",
        ),
        (
            "day0,tea,boil,1,2\nday0,tea,pour,12,16\n",
            "error",
            "steps.csv:3: step 'pour' is at 12 to 16 s, but day0.mp4 ends at 8.0 s; correct the times",
        ),
        (
            "day0,tea,boil,1,12\n",
            "warning",
            "steps.csv:2: step 'boil' is at 1 to 12 s, but day0.mp4 ends at 8.0 s; correct the times",
        ),
        (
            "day0,tea,boil,00:01:00,00:05:00\n",
            "error",
            "steps.csv:2: step 'boil' is at 60 to 300 s, but day0.mp4 ends at 8.0 s; if 01:05:00 means 1 minute and 5 "
            "seconds here (Excel writes 1:05 so), write 00:01:05",
        ),
        (
            "day0,tea,boil water,1,2\nday1,tea,boil watre,1,2\n",
            "warning",
            "steps.csv:3: names of steps that are nearly equal: 'boil water' and 'boil watre'; if they are one step, "
            "write one name everywhere",
        ),
        (
            "Day0,tea,boil,1,2\n",
            "error",
            "steps.csv:2: the video is 'Day0', and the file is day0.mp4; capitals and blanks count: write both in the "
            "same way",
        ),
        (
            "day0,tea,boil,1,2\nnight,tea,boil,1,2\n",
            "warning",
            "1 video not in videos/: night (the first in steps.csv:3); add the files, or delete these rows",
        ),
        (
            "day0,tea,boil,1,2\nday1,tea,boil,1,2\n",
            "warning",
            "videos/ has 1 file without steps: day2.mp4; add their rows to steps.csv, or they are not used",
        ),
    ],
)
def test_a_probable_slip_is_named_with_its_line_and_a_remedy(
    kitchen: Path, rows: str, severity: str, message: str
) -> None:
    (kitchen / "steps.csv").write_text(HEADER + rows)
    assert message in messages(kitchen, severity)


def test_steps_that_touch_and_rounded_ends_are_fine(kitchen: Path) -> None:
    rows = [f"day{n},tea,{step}\n" for n in range(3) for step in ("boil,0,4", "pour,4,8.9")]
    (kitchen / "steps.csv").write_text(HEADER + "".join(rows))
    assert [finding.message for finding in check_dataset(kitchen)] == [
        f"no features yet; make them with `p3iv extract {kitchen}`"
    ]


def test_two_files_of_one_name_are_an_error_that_names_both(kitchen: Path) -> None:
    shutil.copy(kitchen / "videos" / "day0.mp4", kitchen / "videos" / "day0.mkv")
    assert "videos/: day0.mkv and day0.mp4 have one name; rename or remove all but one" in messages(kitchen, "error")
