from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import RunP3iv
from p3iv import __version__


def test_version_and_info(p3iv: RunP3iv) -> None:
    assert p3iv("--version").stdout == f"p3iv {__version__}\n"
    info = json.loads(p3iv("info", "--json").stdout)
    assert info["packages"]["torch"]
    assert info["extras"]["video"] is True


@pytest.mark.parametrize("command", [[], ["data"], ["data", "make"], ["data", "make", "tabletop"], ["data", "import"]])
def test_help_shows_how_to_start(p3iv: RunP3iv, command: list[str]) -> None:
    shown = p3iv(*command, "--help")
    assert shown.returncode == 0
    assert "Usage: " in shown.stdout
    if command[2:] or command[1:] == ["import"]:
        assert "Example: p3iv data" in shown.stdout


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys, p3iv.cli; assert not {'torch', 'numpy', 'av', 'PIL'} & set(sys.modules), 'heavy import'"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data", "import", "coin", "nowhere.json", "d"], "nowhere.json"),
        (["data", "stats", "nowhere"], "nowhere"),
        (["data", "make", "tabletop", "d", "--videos", "1"], "at least 3"),
        (["data", "stats", "nowhere", "--horizons", "x"], "3,4,5,6"),
    ],
)
def test_a_mistake_gets_one_sentence_and_no_traceback(p3iv: RunP3iv, arguments: list[str], message: str) -> None:
    done = p3iv(*arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_check_fails_where_something_is_wrong(p3iv: RunP3iv, tmp_path: Path) -> None:
    (tmp_path / "steps.csv").write_text("video,task,step,start_s,end_s\nv,tea,boil,3,1\nv,tea,pour,3,4\n")
    done = p3iv("data", "check", tmp_path)
    assert done.returncode == 1
    assert "steps.csv:2" in done.stdout


def test_json_is_all_that_stats_prints(p3iv: RunP3iv, tabletop: Path) -> None:
    stats = json.loads(p3iv("data", "stats", tabletop, "--json", "--split", "release").stdout)
    assert stats["videos"] == 40
    assert set(stats["windows"]) == {"3", "4", "5", "6"}
    assert stats["features"]["encoder"] == "state"


def test_import_lists_every_problem_on_standard_error(p3iv: RunP3iv, tmp_path: Path) -> None:
    source = tmp_path / "mine"
    source.mkdir()
    rows = "v,tea,boil,3,1\nv,tea,pour,3,4\nw,tea,pour,nan,4\nw,tea,pour,1,2\n"
    (source / "steps.csv").write_text("video,task,step,start_s,end_s\n" + rows)
    done = p3iv("data", "import", "folder", source, "out")
    assert done.returncode == 0
    assert done.stdout.startswith("2 videos, 1 tasks, 1 actions, 2 steps")
    assert done.stderr.count("problem: ") == 2
    refused = p3iv("data", "import", "folder", source, "strict", "--strict")
    assert refused.returncode == 1
    assert not (tmp_path / "strict").exists()
