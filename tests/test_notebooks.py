"""The notebooks run from top to bottom, with parameters that make them small."""

from __future__ import annotations

import re
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


def run_notebook(name: str, folder: Path, **parameters: Any) -> dict[str, Any]:
    """Run the cells of a notebook in a folder, with some of the parameters of its first code cell replaced."""
    text = (NOTEBOOKS / name).read_text(encoding="utf-8")
    for parameter, value in parameters.items():
        assigned = f"{parameter} = {value!r}".replace("\\", "\\\\")
        text, found = re.subn(rf"(?m)^{parameter} = .*$", assigned, text, count=1)
        assert found, f"{name} has no parameter {parameter}"
    names: dict[str, Any] = {}
    with chdir(folder):
        exec(compile(text, name, "exec"), names)  # noqa: S102 - our own lines
    return names


def cells_of(path: Path) -> list[str]:
    return re.split(r"(?m)^# %%", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.py")), ids=lambda path: path.name)
def test_a_notebook_begins_with_a_title_and_explains_its_code(path: Path) -> None:
    before, *cells = cells_of(path)
    assert before == ""
    assert cells[0].startswith(" [markdown]\n# # ")
    texts = [cell for cell in cells if cell.startswith(" [markdown]")]
    assert all(line.startswith("#") for text in texts for line in text.splitlines()[1:] if line)
    assert 3 <= len(cells) - len(texts) <= 2 * len(texts)
    for cell in cells:
        compile(cell.partition("\n")[2], path.name, "exec")


def test_first_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_notebook("first_plan.py", tmp_path)
    assert "recommended, with a probability of" in capsys.readouterr().out
    assert (tmp_path / "plan.svg").read_text().startswith("<svg")


@pytest.mark.slow
def test_own_videos(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_notebook("own_videos.py", tmp_path, NUM_VIDEOS=5, EPOCHS=2)
    assert "of the plans are right" in capsys.readouterr().out


def test_compare_planners(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = run_notebook("compare_planners.py", tmp_path, NUM_VIDEOS=12, PLANNERS=["random", "graph"], SEEDS=[0])
    assert [row["planner"] for row in names["compared"].rows] == ["random", "graph"]
    assert "has the highest success rate" in capsys.readouterr().out
