"""CONTRIBUTING's examples of a reader, an encoder, a planner, a metric and a command work as written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clips import write_clip

ROOT = Path(__file__).parents[1]
COMMANDS = """
data import intervals source data --videos videos
extract data --encoder thumbnail
train data --out run --planner constant
evaluate run --samples 10
report run
compare data --planners constant --horizons 3 --seeds 0 --samples 10 --out compared
actions run
"""


def add_example(package: Path, block: str) -> None:
    """Write the file that a block shows, or insert its lines into the table that it names."""
    place, _, lines = block.partition("\n")
    path, _, name = place.removeprefix("# src/p3iv/").partition(", in ")
    file = package / path
    if not name:
        file.write_text(lines, encoding="utf-8")
        return
    imports = [line for line in lines.splitlines() if line.startswith("from ")]
    entry = [line for line in lines.splitlines() if line not in imports]
    text = file.read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(text) if re.match(rf"(def )?{name}\b", line))
    end = ")" if name == "app" else "({"  # an entry of a table comes first in it, a command after the app is made
    at = next(number for number in range(start, len(text)) if text[number].endswith(tuple(end)))
    text[at + 1 : at + 1] = entry
    first = text.index("from __future__ import annotations") + 1
    text[first:first] = imports
    file.write_text("\n".join(text) + "\n", encoding="utf-8")


@pytest.mark.slow
def test_the_examples_of_contributing_work(tmp_path: Path) -> None:
    package = tmp_path / "code" / "p3iv"
    shutil.copytree(ROOT / "src" / "p3iv", package, ignore=shutil.ignore_patterns("__pycache__"))
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        add_example(package, block)
    for number in range(6):
        write_clip(tmp_path / f"day{number}.mp4", range(0, 14_000, 500))
        (tmp_path / "source" / "make tea").mkdir(parents=True, exist_ok=True)
        steps = "1 4 boil water\n5 9 pour water\n10 12 stir\n"
        (tmp_path / "source" / "make tea" / f"day{number}.txt").write_text(steps)
    (tmp_path / "videos").mkdir()
    for clip in tmp_path.glob("*.mp4"):
        clip.rename(tmp_path / "videos" / clip.name)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "code"), "COLUMNS": "160"}
    printed = ""
    for command in COMMANDS.strip().splitlines():
        done = subprocess.run(
            [sys.executable, "-m", "p3iv", *command.split()],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        printed += done.stdout
    assert "accuracy of the first step" in printed
    assert "pour water" in done.stdout
