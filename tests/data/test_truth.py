"""Lines of truth.jsonl that do not match the dataset are refused with their number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p3iv.data.folder import open_dataset
from p3iv.data.truth import TrueWindow
from p3iv.errors import DatasetError

GOOD: dict[str, Any] = {
    "video": "a",
    "first_step": 1,
    "horizon": 2,
    "plans": [[["pour", "stir"], 0.75], [["stir", "pour"], 0.25]],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = "a,tea,boil,0,1\na,tea,pour,2,3\na,tea,stir,4,5\n"
    (tmp_path / "steps.csv").write_text(f"video,task,step,start_s,end_s\n{rows}")
    return tmp_path


def read(folder: Path, content: bytes) -> list[TrueWindow]:
    (folder / "truth.jsonl").write_bytes(content)
    return list(open_dataset(folder).read_truth())


def test_a_good_line_reads(folder: Path) -> None:
    assert read(folder, json.dumps(GOOD).encode()) == [TrueWindow("a", 1, 2, (((1, 2), 0.75), ((2, 1), 0.25)))]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"plans": [[["stir", "pour"], 1.0]]}, "the steps in the video are not among the plans"),
        ({"plans": [[["pour", "stir"], 0.5], [["pour", "stir"], 0.5]]}, "the same plan twice"),
        ({"horizon": 0, "plans": [[[], 1.0]]}, "`horizon` is 0; expected greater than 0"),
        ({"horizon": -1}, "`horizon` is -1"),
        ({"first_step": 2}, "steps 2 to 3 do not all exist; the video has 3"),
        ({"first_step": -1}, "steps -1 to 0 do not all exist"),
        ({"horizon": 3}, "a plan does not have 3 steps"),
        ({"plans": [[["pour", "stir"], float("inf")]]}, "`plans[0][1]` is inf; expected a finite number"),
        ({"plans": [[["pour", "stir"], float("nan")]]}, "`plans[0][1]` is nan; expected a finite number"),
        ({"plans": [[["pour", "stir"], 10**400]]}, "expected a finite number"),
        ({"plans": [[["pour", "stir"], -1], [["stir", "pour"], 2]]}, "is -1; expected greater than or equal to 0"),
        ({"plans": [[["pour", "stir"], True]]}, "is true; expected a valid number"),
        ({"plans": [[["pour", "stir"], 0.5]]}, "sum to 0.500000, not to 1"),
        ({"plans": [[["pour", "dance"], 1.0]]}, "step 'dance' is unknown"),
        ({"plans": 3}, "`plans` is 3; expected a valid array"),
        ({"video": "z"}, "video 'z' is unknown"),
        ({"video": ["a"]}, "`video` is a list; expected a valid string"),
        ({"first_step": 1.5}, "`first_step` is 1.5; expected a valid integer"),
        ({"first_step": 10**30}, "do not all exist"),
        ({"horizon": True}, "`horizon` is true; expected a valid integer"),
    ],
)
def test_a_wrong_line_is_refused_by_its_number(folder: Path, changes: dict[str, Any], message: str) -> None:
    content = json.dumps(GOOD) + "\n" + json.dumps(GOOD | changes) + "\n"
    with pytest.raises(DatasetError) as refused:
        read(folder, content.encode())
    assert "truth.jsonl:2: " in str(refused.value)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe",
        b"1e999",
        b'{"video": "a", "first_step": 1e999, "horizon": 1e999, "plans": []}',
        b"[" * 100_000,
        b"\n",
    ],
)
def test_invalid_bytes_are_refused(folder: Path, content: bytes) -> None:
    with pytest.raises(DatasetError, match=r"truth\.jsonl:1: "):
        read(folder, content)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists, max_leaves=8))
def test_any_values_give_windows_or_a_dataset_error(folder: Path, value: Any) -> None:
    for key in GOOD:
        try:
            read(folder, json.dumps(GOOD | {key: value}).encode())
        except DatasetError:
            continue


def test_a_folder_or_a_broken_link_is_a_dataset_error(folder: Path) -> None:
    (folder / "truth.jsonl").mkdir()
    with pytest.raises(DatasetError, match="cannot be read"):
        list(open_dataset(folder).read_truth())
    (folder / "truth.jsonl").rmdir()
    (folder / "truth.jsonl").symlink_to("nowhere")
    with pytest.raises(DatasetError, match="cannot be read"):
        list(open_dataset(folder).read_truth())
