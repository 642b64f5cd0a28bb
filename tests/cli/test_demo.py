"""`p3iv demo`, the first command that anybody runs."""

from __future__ import annotations

from pathlib import Path

from p3iv.planner import Planner


def test_the_demo_runs_from_videos_to_a_plan_and_a_report(demo: Path) -> None:
    lines = (demo / "printed.txt").read_text().splitlines()
    commands = [line.split()[2] for line in lines if line.startswith("$ p3iv")]
    assert commands == ["data", "extract", "data", "data", "train", "evaluate", "plan", "report"]
    assert any(line.startswith("the steps in the video: ") for line in lines)
    assert lines[-1].endswith(f"Open {demo}/run/report.html in a browser.")
    assert (demo / "run" / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert Planner.from_pretrained(demo / "run").horizon == 3
