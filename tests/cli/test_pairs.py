"""`p3iv plan --pairs`: many pairs of moments from a CSV or from standard input."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import RunP3iv
from p3iv.cli.pairs import MAX_LINE, Pair, read_pairs
from p3iv.data.folder import open_dataset
from p3iv.errors import ConfigError
from p3iv.planner import Planner
from p3iv.plans.distribution import PlanDistribution


def pairs_of(text: str | bytes) -> list[Pair]:
    content = text.encode() if isinstance(text, str) else text
    return list(read_pairs(io.BytesIO(content), "pairs.csv"))


@pytest.fixture(scope="module")
def video(tabletop: Path) -> str:
    return open_dataset(tabletop).videos[0].id


def test_a_pair_gets_the_plans_that_it_gets_alone(p3iv: RunP3iv, plus_run: Path, video: str, tmp_path: Path) -> None:
    rows = [(f"{video}@{start}", f"{video}@{start + 8}") for start in (1, 2, 3)]
    lines = "".join(f"{start},{goal},kitchen {number}\n" for number, (start, goal) in enumerate(rows))
    (tmp_path / "pairs.csv").write_text(f"start,goal,room\n{lines}")
    done = p3iv("plan", plus_run, "--pairs", "pairs.csv", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["id"], line["start"], line["goal"]) for line in found] == [
        (str(number), *row) for number, row in enumerate(rows, start=1)
    ]
    assert [line["columns"] for line in found] == [{"room": f"kitchen {number}"} for number in range(3)]
    planner = Planner.from_pretrained(plus_run)
    for line, row in zip(found, rows, strict=True):
        assert PlanDistribution.from_dict(line) == planner.plan(*row)


def test_a_bad_pair_does_not_stop_the_others_and_is_listed_at_the_end(
    p3iv: RunP3iv, plus_run: Path, video: str, tmp_path: Path
) -> None:
    good = f"{video}@1,{video}@9"
    bad = ["nowhere.jpg,x.jpg", f"{video}@1", f'"{video}@1,{video}@9', f"{video}@1,{video}@1e9"]
    (tmp_path / "pairs.csv").write_text("\n".join(["start,goal", *bad, good, ""]))
    done = p3iv("plan", plus_run, "--pairs", "pairs.csv", "--json")
    assert done.returncode == 1
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert ["error" in line for line in found] == [True] * 4 + [False]
    assert [line.split(": ")[1] for line in done.stderr.splitlines()[:4]] == [f"pairs.csv:{n}" for n in (2, 3, 4, 5)]
    assert done.stderr.endswith("4 of 5 pairs without a plan\n")
    shown = p3iv("plan", plus_run, "--pairs", "pairs.csv")
    assert shown.returncode == 1
    assert shown.stdout.count("no plan: ") == 4
    assert shown.stdout.count("plan (probability ") == 1
    assert "pair 5: " in shown.stdout


def test_standard_input_is_answered_line_by_line(plus_run: Path, video: str) -> None:
    command = [sys.executable, "-m", "p3iv", "plan", str(plus_run), "--pairs", "-", "--json"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("id,start,goal\n")
        for number in range(3):  # each is answered before the next is written
            process.stdin.write(f"p{number},{video}@{number},{video}@{number + 9}\n")
            assert json.loads(process.stdout.readline())["id"] == f"p{number}"
        process.stdin.close()
        assert process.stdout.read() == ""
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["--pairs", "p.csv", "--start", "a@1"],
            "--pairs names both moments of every pair",
        ),
        (["--start", "a@1"], "There is no goal, and this planner needs a picture of one"),
        (["--pairs", "p.csv", "--svg", "a.svg"], "--svg a.svg draws the plans of one pair"),
        (["--pairs", "nowhere.csv"], "--pairs nowhere.csv, but there is no such file"),
        (["--pairs", "p.csv"], "p.csv:1: 0 columns are named start, expected 1. The first line names the columns"),
        (["--pairs", "empty.csv"], "empty.csv is empty. The first line must name the columns"),
        (["--pairs", "header.csv"], "there is no pair after the header"),
    ],
)
def test_a_mistake_gets_one_sentence(
    p3iv: RunP3iv, plus_run: Path, tmp_path: Path, options: list[str], sentence: str
) -> None:
    (tmp_path / "p.csv").write_text("a@1,a@2\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("start,goal\n")
    done = p3iv("plan", plus_run, *options)
    assert (done.returncode, done.stdout) == (1, "")
    assert sentence in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "start,goal\na@1,b@2\n",
        "\ufeffstart,goal\r\na@1,b@2\r\n",
        "Goal; Start\nb@2;a@1",
        "start\tgoal\n\na@1\tb@2\n",
        'goal, start\n"b@2", "a@1"\n',
    ],
)
def test_forms_of_a_csv(text: str) -> None:
    (pair,) = pairs_of(text)
    assert (pair.id, pair.start, pair.goal, pair.fault) == ("1", "a@1", "b@2", "")


def test_a_line_without_an_end_does_not_fill_the_memory() -> None:
    content = io.BytesIO(b"x" * (300 * MAX_LINE))
    tracemalloc.start()
    try:
        with pytest.raises(ConfigError, match=f"longer than the {MAX_LINE} bytes"):
            list(read_pairs(content, "x"))
        assert tracemalloc.get_traced_memory()[1] < 20 * MAX_LINE
    finally:
        tracemalloc.stop()


def test_lines_that_are_not_text_are_faults() -> None:
    odd = b"start,goal\n\xff\xfe,x\n" + b"y" * (MAX_LINE + 10) + b"\na\x1b[2J@1,b@2\na@1,b@2,c\na@1,b@2\n"
    found = pairs_of(odd)
    assert [bool(pair.fault) for pair in found] == [True, True, True, True, False]
    assert [pair.where for pair in found] == [f"pairs.csv:{number}" for number in range(2, 7)]


@given(st.binary(max_size=300))
def test_any_bytes_are_pairs_or_faults(content: bytes) -> None:
    for pair in pairs_of(b"start,goal,id\n" + content):
        assert bool(pair.fault) != bool(pair.start and pair.goal)
    try:
        pairs_of(content)
    except ConfigError as error:
        assert "The first line names the columns" in str(error) or "is empty" in str(error)


def test_names_in_a_csv_cannot_control_the_terminal(p3iv: RunP3iv, plus_run: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("start,goal,id\na@1\x1b[2J,b@2,\x1b[31m\nx.jpg,y.jpg,\u202eabc\n")
    done = p3iv("plan", plus_run, "--pairs", "pairs.csv")
    assert done.returncode == 1
    assert not set("\x1b\u202e") & set(done.stdout + done.stderr)
    assert os.linesep in done.stdout
