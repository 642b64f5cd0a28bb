from __future__ import annotations

import json
from pathlib import Path

from commands import RunP3iv
from report.runs import make_run


def test_report_writes_one_page_and_says_where(p3iv: RunP3iv, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    done = p3iv("report", run, "--cases", "2")
    assert (done.returncode, done.stdout) == (0, f"20 windows, 2 of them in the gallery -> {run / 'report.html'}\n")
    assert done.stderr.startswith("note: no pictures: ")
    assert (run / "report.html").read_text().startswith("<!DOCTYPE html>")
    result = json.loads(p3iv("report", run, "--json").stdout)
    assert (result["num_cases"], result["num_pictures"]) == (8, 0)


def test_a_run_without_an_evaluation_gets_one_sentence(p3iv: RunP3iv, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "evaluation.json").unlink()
    done = p3iv("report", run)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(f"Type: p3iv evaluate {run}\n")
