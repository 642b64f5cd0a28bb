"""Prediction files: what is written is read back, and a wrong line is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.lines import write_predictions
from p3iv.data.padding import pad_plans
from p3iv.errors import PlanError
from p3iv.evaluation.actions import ActionList, read_actions
from p3iv.evaluation.predictions import Predictions, read_predictions
from p3iv.metrics.counts import PlanCounts, count_plans

GOOD: dict[str, Any] = {
    "window": "a",
    "plan": [0, 1],
    "reference": [1, 1],
    "samples": [[[0, 1], 3], [[1, 1], 1]],
    "video": "v",
}
FOUR = ActionList(4)


def write_lines(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def same(ours: Predictions, theirs: Predictions) -> bool:
    def parts(all_of: Predictions) -> list[Any]:
        samples = all_of.samples or PlanCounts(*[torch.zeros(1)] * 3)
        tables = (all_of.plans, all_of.references, samples.plans, samples.counts, samples.first)
        return [all_of.windows, all_of.videos, *(table.tolist() for table in tables)]

    return parts(ours) == parts(theirs)


@settings(max_examples=40)
@given(
    st.lists(st.text(min_size=1), min_size=1, max_size=6, unique=True),
    st.sets(st.sampled_from(["video", "samples"])),
    st.integers(1, 4),
    st.integers(0, 10),
)
def test_written_predictions_are_read_back(
    tmp_path: Path, windows: list[str], extras: set[str], horizon: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    plans = torch.randint(0, 4, (2, len(windows), horizon), generator=generator)
    samples = count_plans(torch.randint(0, 4, (len(windows), 9, horizon), generator=generator))
    videos = tuple(f"v{len(window)}" for window in windows) if "video" in extras else None
    predictions = Predictions(tuple(windows), videos, plans[0], plans[1], samples if "samples" in extras else None)
    write_predictions(tmp_path / "p.jsonl", predictions)
    assert same(read_predictions(tmp_path / "p.jsonl", FOUR), predictions)
    assert [path.name for path in tmp_path.iterdir()] == ["p.jsonl"]


plan_of_any_length = st.lists(st.integers(0, 3), min_size=1, max_size=4).map(tuple)


@settings(max_examples=40)
@given(st.lists(st.lists(plan_of_any_length, min_size=5, max_size=5), min_size=1, max_size=4))
def test_plans_of_several_lengths_are_read_back(tmp_path: Path, lines: list[list[tuple[int, ...]]]) -> None:
    width = max(len(plan) for line in lines for plan in line)
    plans, references, *samples = (pad_plans(column, width) for column in zip(*lines, strict=True))
    windows = tuple(map(str, range(len(lines))))
    predictions = Predictions(windows, None, plans, references, count_plans(torch.stack(samples, dim=1)))
    read = read_predictions(write_predictions(tmp_path / "p.jsonl", predictions), FOUR)
    assert same(read, predictions)
    assert read.has_one_length == (len({len(plan) for line in lines for plan in line}) == 1)


def test_long_plans_of_one_length_are_read(tmp_path: Path) -> None:
    lines = [{"window": window, "plan": [0] * 1200, "reference": [0] * 1200} for window in "ab"]
    assert read_predictions(write_lines(tmp_path / "p", *lines), FOUR).plans.shape == (2, 1200)


@pytest.mark.parametrize(
    "content",
    [
        'video,window,plan,more,reference,samples\nv,a,"[0, 1]",x,"[1,1]","[[[0,1],3],[[1,1],1]]"\n',
        'window,plan,reference,samples,video\n\na,0 1,1 1,"[[[1,1],1],[[0,1],2],[[0,1],1]]",v\n',
        '\ufeffwindow,plan,reference,samples,video\r\na,0 1,1 1,"[[[1,1],1],[[0,1],3]]",v,\r\n'.replace(",\r", "\r"),
        'window,plan,reference,samples,video\na,"[\n0,\n1]",1 1,"[[[1,1],1],[[0,1],3]]",v\n',
        json.dumps(GOOD | {"more": [None, True]}),
        "\n" + json.dumps(GOOD) + "\n\n",
    ],
)
def test_one_line_can_be_written_in_several_ways(tmp_path: Path, content: str) -> None:
    (tmp_path / "p").write_bytes(content.encode())
    write_lines(tmp_path / "plain", GOOD)
    assert same(read_predictions(tmp_path / "p", FOUR), read_predictions(tmp_path / "plain", FOUR))


@pytest.mark.parametrize("listing", ["boil\npour water\n3\nstir\n", '["boil", "pour water", "3", "stir"]'])
def test_names_and_ids_mean_the_same_where_names_are_listed(tmp_path: Path, listing: str) -> None:
    (tmp_path / "names.txt").write_text(listing)
    actions = read_actions(str(tmp_path / "names.txt"))
    named = {"plan": ["boil", 1], "reference": ["pour water", "pour water"], "samples": [[["boil", 1], 3]]}
    plain = GOOD | {"samples": [[[0, 1], 3]]}
    found = read_predictions(write_lines(tmp_path / "p", GOOD | named), actions)
    assert same(found, read_predictions(write_lines(tmp_path / "q", plain), FOUR))
    found = read_predictions(write_lines(tmp_path / "r", GOOD | {"plan": [3, "3"]}), actions)
    assert found.plans.tolist() == [[3, 2]]
    with pytest.raises(PlanError, match="p:1: `plan`: 'dance' is not an action; expected an id from 0 to 3 or"):
        read_predictions(write_lines(tmp_path / "p", GOOD | {"plan": ["boil", "dance"]}), actions)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"plan": [0, 4]}, "`plan`: 4 is not an action; expected an id from 0 to 3"),
        ({"reference": [0, -1]}, "`reference`: -1 is not an action"),
        ({"plan": [0, True]}, "`plan[1]` is true; expected a valid integer or a valid string"),
        ({"plan": [0, 1.0]}, "`plan[1]` is 1.0; expected a valid integer"),
        ({"plan": [0, 10**400]}, "`plan`: 1000"),
        ({"plan": [0, "boil"]}, "'boil' is not an action; expected an id from 0 to 3 (for names, pass a list"),
        ({"plan": [0, [1]]}, "`plan[1]` is a list; expected a valid integer"),
        ({"plan": [0, None]}, "`plan[1]` is null; expected"),
        ({"plan": []}, "`plan` is a list; Tuple should have at least 1 item"),
        ({"plan": {"0": 1}}, "`plan` is an object; expected a valid array"),
        ({"plan": "0 1"}, "`plan` is '0 1'; expected a valid array"),
        ({"plan": None}, "`plan` is null; expected a valid array"),
        ({"plan": [float("nan"), 0]}, "`plan[0]` is nan; expected"),
        ({"reference": []}, "`reference` is missing"),
        ({"window": None}, "`window` is null; expected a valid string"),
        ({"window": ""}, "`window` is ''; Value should have at least 1 item"),
        ({"window": ["a"]}, "`window` is a list; expected a valid string"),
        ({"window": "first"}, "window 'first' is also on line 1"),
        ({"video": 1.5}, "`video` is 1.5; expected a valid string"),
        ({"video": None}, "no `video`, unlike line 1"),
        ({"samples": None}, "no `samples`, unlike line 1"),
        ({"samples": []}, "`samples` is empty; expected at least one [[actions], count]"),
        ({"samples": [[0, 1]]}, "`samples[0][0]` is 0; expected a valid array"),
        ({"samples": [[[0, 1]]]}, "`samples[0][1]` is missing"),
        ({"samples": [[[], 1]]}, "`samples[0][0]` is a list; Tuple should have at least 1 item"),
        ({"samples": [[[0, -1], 1]]}, "`samples`: -1 is not an action"),
        ({"plan": [0, -1]}, "`plan`: -1 is not an action"),
        ({"samples": [[[0, 9], 1]]}, "`samples`: 9 is not an action"),
        ({"samples": [[[0, True], 1]]}, "`samples[0][0][1]` is true; expected a valid integer"),
        ({"samples": [[[0, 1], -1]]}, "`samples[0][1]` is -1; expected greater than or equal to 1"),
        ({"samples": [[[0, 1], 1.5]]}, "`samples[0][1]` is 1.5; expected a valid integer"),
        ({"samples": [[[0, 1], True]]}, "`samples[0][1]` is true; expected a valid integer"),
        ({"samples": [[[0, 1], "3"]]}, "`samples[0][1]` is '3'; expected a valid integer"),
        ({"samples": [[[0, 1], 10**30]]}, "`samples[0][1]` is 1000000000000000000000000000000; expected less than"),
        ({"samples": [[[0, 1], float("inf")]]}, "`samples[0][1]` is inf; expected"),
        ({"plan": [0] * 1001}, "a plan of 1001 actions; plans of several lengths have at most 1000"),
        ({"samples": [[[0] * 1001, 1], [[0], 1]]}, "a plan of 1001 actions; plans of several lengths have at most"),
        ({"plan_probability": 1.5}, "`plan_probability` is 1.5; expected less than or equal to 1"),
        ({"start_s": "soon"}, "`start_s` is 'soon'; expected a valid number"),
    ],
)
def test_a_wrong_line_is_refused_with_its_number(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = write_lines(tmp_path / "p.jsonl", GOOD | {"window": "first"}, GOOD | changes)
    with pytest.raises(PlanError) as caught:
        read_predictions(path, FOUR)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "p: the file is empty"),
        (b"\n \n", "p: the file is empty"),
        (b"window,plan,reference\n", "p: a header, and no line after it"),
        (b"window,plan\na,0 1\n", "p:2: `reference` is missing"),
        (b"window,plan,reference\na,0 1,0 1\nb,0 1\n", "p:3: `reference` is missing"),
        (b"window,plan,reference\na,0 1,0 1,5\n", "p:2: 4 cells, but the header names 3 columns"),
        (b'window,plan,reference\na,"0 1,0 1\n', "p:2: not CSV: unexpected end of data"),
        (b'window,plan,reference\na,"[0, 1",0 1\n', "p:2: not JSON: Expecting ',' delimiter"),
        (b"window,plan,reference\na,0.5 1,0 1\n", "p:2: `plan`: '0.5' is not an action"),
        (b"window,plan,reference\na,0 1,0 99999999999999999999\n", "p:2: `reference`: '99999999999999999999'"),
        (b"[0, 1]\n", "p: a header, and no line after it"),
        (b'{"window": "a"}\n[0, 1]\n', "p:1: `plan` is missing"),
        (b'{"window": "a"\n', "p:1: not JSON"),
        (b'{"window": ' + b"[" * 100_000 + b"\n", "p:1: not JSON: recursion limit exceeded"),
        (b'{"window": ' + b"9" * 10_000 + b', "plan": [0], "reference": [0]}\n', "p:1: not JSON: number out of range"),
        (b'{"window": "\xff"}\n', "p:1: byte 13 of the line is not UTF-8"),
        (b"window,plan,reference\n\n\xff,0,0\n", "p:3: byte 1 of the line is not UTF-8"),
        (b"\x00\x01\x02" * 100, "p: a header, and no line after it"),
        (b'{"window": "a", "prediction": [0], "reference": [0]}\n', "p:1: `plan` is missing: it was called"),
        (b"window,prediction,reference\na,0 1,0 1\n", "p:2: `plan` is missing: it was called `prediction`"),
    ],
)
def test_a_file_in_another_format_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "p").write_bytes(content)
    with pytest.raises(PlanError) as caught:
        read_predictions(tmp_path / "p", FOUR)
    assert str(caught.value).startswith(f"{tmp_path}/{message}")


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="a folder; expected a file of JSON lines, or a CSV"):
        read_predictions(tmp_path, FOUR)
    with pytest.raises(PlanError, match="there is no such file"):
        read_predictions(tmp_path / "nowhere", FOUR)
    with pytest.raises(PlanError, match="not a regular file"):
        read_predictions(Path("/dev/null"), FOUR)


@settings(max_examples=60)
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_random_bytes_give_a_plan_error_or_none(tmp_path: Path, content: bytes) -> None:
    start = json.dumps(GOOD)[:-1].encode()
    for text in (content, b"window,plan,reference\n" + content, start + content, start + b"," + content + b"}"):
        (tmp_path / "p").write_bytes(text)
        try:
            read_predictions(tmp_path / "p", FOUR)
        except PlanError as error:
            assert str(error).startswith(str(tmp_path / "p"))


def test_references_in_a_file_of_their_own(tmp_path: Path) -> None:
    lines = [GOOD | {"window": window} for window in "ab"]
    whole = read_predictions(write_lines(tmp_path / "whole", *lines), FOUR)
    apart = write_lines(tmp_path / "p", *({k: v for k, v in line.items() if k != "reference"} for line in lines))
    (tmp_path / "r.csv").write_text("window,reference\nb,1 1\na,1 1\n")
    assert same(read_predictions(apart, FOUR, tmp_path / "r.csv"), whole)
    assert same(read_predictions(tmp_path / "whole", FOUR, tmp_path / "r.csv"), whole)
    without_video = write_lines(tmp_path / "q", {"window": "a", "plan": [0, 1]})
    named = write_lines(tmp_path / "v", {"window": "a", "reference": [1, 1], "video": "v", "plan": "anything"})
    assert read_predictions(without_video, FOUR, named).videos == ("v",)


@pytest.mark.parametrize(
    ("references", "message"),
    [
        ("window,reference\na,1 1\n", r"p:2: window 'b' is not among the references"),
        ("window,reference\na,1 1\nb,1 2\n", r"p:2: another reference than on line 3 of the references"),
        ("window,reference\na,1 1\nb,1 1\nc,1 1\nd,1 1\n", r"p: no plan for 2 windows of .*r: c, d"),
        ("window,reference\na,1 1\nb,1 9\n", r"r:3: `reference`: 9 is not an action"),
        ("window,reference\na,1 1\na,1 1\n", r"r:3: window 'a' is also on line 2"),
        ("window,reference\na,1 1 1\nb,1 1 1\n", r"p:1: another reference"),
    ],
)
def test_references_that_do_not_fit_are_refused(tmp_path: Path, references: str, message: str) -> None:
    (tmp_path / "r").write_text(references)
    lines = write_lines(tmp_path / "p", *(GOOD | {"window": window} for window in "ab"))
    with pytest.raises(PlanError, match=message):
        read_predictions(lines, FOUR, tmp_path / "r")


@pytest.mark.parametrize("text", ["0", "-3", "100001", "9" * 5000, "+-5", "nowhere.txt"])
def test_a_number_of_actions_is_from_1_to_100000(text: str) -> None:
    with pytest.raises(PlanError, match=r"from 1 to 100000|there is no such file"):
        read_actions(text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"boil\n\nstir\n", "name 2 is empty"),
        (b"boil\nstir\nboil\n", "name 3 is 'boil', as is name 1"),
        (b"", "name 1 is empty"),
        (b"[]", "0 names; expected 1 to"),
        (b'["boil", 3]', "expected a JSON list of names"),
        (b'["boil"', "not JSON"),
        (b"\xff", "byte 1 is not UTF-8"),
    ],
)
def test_a_wrong_list_of_names_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "names").write_bytes(content)
    with pytest.raises(PlanError) as caught:
        read_actions(str(tmp_path / "names"))
    assert f"{tmp_path}/names: {message}" in str(caught.value)


@pytest.mark.parametrize("wrong", ["windows", "videos", "references", "samples"])
def test_predictions_of_unequal_size_are_refused(wrong: str) -> None:
    plans = torch.zeros(2, 3, dtype=torch.int64)
    parts: dict[str, Any] = {"windows": ("a", "b"), "videos": ("v", "v"), "plans": plans, "references": plans}
    parts["samples"] = count_plans(torch.zeros(2, 4, 3, dtype=torch.int64))
    Predictions(**parts)
    narrow = count_plans(torch.zeros(2, 4, 2, dtype=torch.int64)) if wrong == "samples" else parts[wrong][:1]
    with pytest.raises(PlanError):
        Predictions(**parts | {wrong: narrow})
