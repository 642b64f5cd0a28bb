"""Lines of truth.jsonl: known and unknown numbers of steps; those that do not match the dataset are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p3iv.data.folder import open_dataset
from p3iv.data.truth import ConditionedTruth, Plans, TrueWindow, condition_truth
from p3iv.errors import DatasetError

GOOD: dict[str, Any] = {
    "video": "a",
    "first_step": 1,
    "horizon": 2,
    "plans": [[["pour", "stir"], 0.75], [["stir", "pour"], 0.25]],
}
UNKNOWN: dict[str, Any] = {
    "video": "a",
    "first_step": 1,
    "num_steps": 2,
    "horizons": [1, 3],
    "plans": [[["pour", "stir"], 0.5], [["stir"], 0.25], [["boil", "pour", "stir"], 0.25]],
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
    plans = (((1, 2), 0.75), ((2, 1), 0.25))
    assert read(folder, json.dumps(GOOD).encode()) == [TrueWindow("a", 1, 2, 2, None, plans)]
    both = GOOD | {"horizons": [1, 6]}
    assert read(folder, json.dumps(both).encode()) == [TrueWindow("a", 1, 2, 2, (1, 6), plans)]


def test_a_line_of_unknown_length_has_plans_of_several_lengths(folder: Path) -> None:
    plans = (((1, 2), 0.5), ((2,), 0.25), ((0, 1, 2), 0.25))
    assert read(folder, json.dumps(UNKNOWN).encode()) == [TrueWindow("a", 1, 2, None, (1, 3), plans)]


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
        ({"horizon": None}, "neither `horizon` nor `num_steps` is given"),
        ({"num_steps": 3}, "`num_steps` is 3, but `horizon` is 2"),
        ({"horizons": [3, 6]}, "`horizons` is [3, 6], without the 2 steps of the window"),
        ({"horizons": [1, 6], "plans": [[["pour", "stir"], 0.5], [["stir"], 0.5]]}, "a plan does not have 2 steps"),
    ],
)
def test_a_wrong_line_is_refused_by_its_number(folder: Path, changes: dict[str, Any], message: str) -> None:
    _refused_second(folder, GOOD, changes, message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizons": None}, "neither `horizon` nor `horizons` is given"),
        ({"num_steps": None}, "neither `horizon` nor `num_steps` is given"),
        ({"num_steps": 0}, "`num_steps` is 0; expected greater than 0"),
        ({"horizons": [1, 2]}, "a plan does not have 1 to 2 steps"),
        ({"horizons": [2, 3]}, "a plan does not have 2 to 3 steps"),
        ({"horizons": [3, 1]}, "`horizons` is [3, 1], without the 2 steps of the window"),
        ({"horizons": [0, 3]}, "`horizons[0]` is 0; expected greater than 0"),
        ({"horizons": [1]}, "`horizons[1]` is missing"),
        ({"horizons": 3}, "`horizons` is 3; expected a valid array"),
        ({"num_steps": 1}, "the steps in the video are not among the plans"),
        ({"first_step": 2}, "steps 2 to 3 do not all exist; the video has 3"),
    ],
)
def test_a_wrong_line_of_unknown_length_is_refused_by_its_number(
    folder: Path, changes: dict[str, Any], message: str
) -> None:
    _refused_second(folder, UNKNOWN, changes, message)


def _refused_second(folder: Path, good: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    content = json.dumps(good) + "\n" + json.dumps(good | changes) + "\n"
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
    for good, key in [*((GOOD, key) for key in GOOD), (UNKNOWN, "num_steps"), (UNKNOWN, "horizons")]:
        try:
            read(folder, json.dumps(good | {key: value}).encode())
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


@st.composite
def true_plans(draw: st.DrawFn) -> Plans:
    plans = draw(st.sets(st.lists(st.integers(0, 2), min_size=1, max_size=3).map(tuple), min_size=1, max_size=8))
    weights = draw(st.lists(st.floats(0.1, 1.0) | st.just(0.0), min_size=len(plans), max_size=len(plans)))
    total = sum(weights) or 1.0
    return tuple((plan, weight / total) for plan, weight in zip(sorted(plans), weights, strict=True))


@given(true_plans(), st.integers(0, 2), st.integers(1, 3))
def test_the_truth_under_a_condition_is_restricted_and_scaled(plans: Plans, step: int, length: int) -> None:
    found = condition_truth(plans, lambda plan: step not in plan and len(plan) <= length)
    joint = {plan: p for plan, p in plans if p > 0 and step not in plan and len(plan) <= length}
    assert found.share == pytest.approx(sum(joint.values()))
    assert {plan: p * found.share for plan, p in found.plans} == pytest.approx(joint)
    if joint:
        assert sum(p for _, p in found.plans) == pytest.approx(1.0)


@given(true_plans(), st.integers(0, 2), st.integers(1, 3))
def test_two_conditions_one_after_the_other_equal_both_at_once(plans: Plans, step: int, length: int) -> None:
    first = condition_truth(plans, lambda plan: step in plan)
    second = condition_truth(first.plans, lambda plan: len(plan) == length)
    both = condition_truth(plans, lambda plan: step in plan and len(plan) == length)
    assert dict(second.plans) == pytest.approx(dict(both.plans))
    assert first.share * second.share == pytest.approx(both.share)


def test_a_condition_can_be_impossible_under_the_truth() -> None:
    plans = (((1, 2), 1.0), ((2, 1), 0.0))
    assert condition_truth(plans, lambda plan: 3 in plan) == ConditionedTruth(0.0, ())
    assert condition_truth(plans, lambda plan: plan[0] == 2) == ConditionedTruth(0.0, ())
    assert condition_truth(plans, lambda plan: plan[0] > 0) == ConditionedTruth(1.0, (((1, 2), 1.0),))
