"""The figures that README and docs print are those of the result files."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
DATASETS = {"captaincook4d": "CaptainCook4D", "crosstask_simulated": "CrossTask", "tabletop": "Tabletop"}
README_ROWS = {"retrieval": "retrieval", "`graph`": "graph", "DDN": "ddn", "P3IV (": "p3iv", "P3IV+": "p3iv-plus"}
FILES = {**DATASETS, "tabletop": "tabletop", "ikea_asm": "IKEA ASM"}  # of the simple baselines
Rows = dict[tuple[str, str], dict[str, str]]  # by horizon and planner


def read_rows(dataset: str, kind: str = "comparison") -> Rows:
    with (RESULTS / f"{kind}_{dataset}.csv").open(encoding="utf-8", newline="") as lines:
        return {(row["horizon"], row["planner"]): row for row in csv.DictReader(lines)}


def success(row: dict[str, str]) -> str:
    value, low, high = (100 * float(row[f"success_rate{end}"]) for end in ("", "_low", "_high"))
    return f"{value:.1f} [{low:.1f}, {high:.1f}]"


def tables(text: str) -> list[list[list[str]]]:
    """The cells of every Markdown table, without header and rule."""
    found = re.findall(r"(?m)(?:^\|.*\n)+", text)
    return [[[cell.strip() for cell in line.split("|")[1:-1]] for line in part.splitlines()[2:]] for part in found]


def test_the_readme_shows_the_success_rates_of_the_comparison() -> None:
    (results,) = tables((ROOT / "README.md").read_text(encoding="utf-8"))
    files = [read_rows(dataset) for dataset in DATASETS]
    for label, planner in README_ROWS.items():
        (cells,) = [cells for cells in results if cells[0].startswith(label)]
        assert cells[1:] == [success(rows["3", planner]) for rows in files]


@pytest.mark.parametrize("dataset", DATASETS)
def test_the_comparison_page_shows_the_figures_of_its_file(dataset: str) -> None:
    page = (RESULTS / "comparison.md").read_text(encoding="utf-8")
    section = re.split(r"(?m)^## ", page.split(f"## {DATASETS[dataset]}")[1])[0]
    rows = read_rows(dataset)
    for horizon, table in zip("34", tables(section), strict=False):
        assert {cells[0] for cells in table} == {planner for number, planner in rows if number == horizon}
        for planner, *cells in table:
            row = rows[horizon, planner]
            shares = [f"{100 * float(row[name]):.1f}" for name in ("mean_accuracy", "mean_iou")]
            nats = [f"{float(row[name]):.2f}" for name in ("kl", "nll")]
            recall = f"{100 * float(row['mode_recall']):.1f}"
            assert cells[:6] == [success(row), *shares, *nats, recall]


def test_the_simple_baselines_have_the_figures_of_their_files() -> None:
    page = (RESULTS / "comparison.md").read_text(encoding="utf-8")
    (table,) = tables(re.split(r"(?m)^## ", page.split("## Simple baselines today")[1])[0])
    label, found = "", []
    for dataset, planner, *cells in table:
        label = dataset or label
        (name,) = [name for name in FILES if label.startswith(FILES[name])]
        row = read_rows(name, "simple_baselines")["3", planner]
        assert cells == [success(row), *(f"{100 * float(row[name]):.1f}" for name in ("mean_accuracy", "mean_iou"))]
        found.append((name, planner))
    assert {name for name, _ in found} == set(FILES)


PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
GENERATED = {"cli.md", "settings.md", "python.md"}
FIGURE = re.compile(r"(?<![\w.-])\d+\.\d+(?![\w.])")
MEASURES = re.compile(
    r"\bp3iv\s+(compare|reproduce|train|evaluate|score|demo|extract|data\s+stats)\b|python\s+-m\s+benchmarks\.\w+|tests/\w+/test_\w+\.py|tools/make_\w+\.py"
)


def sections(page: Path) -> dict[str, str]:
    """The text of a page under every heading; a subsection is a part of its section."""
    parts = re.split(r"(?m)^(?=##? )", page.read_text(encoding="utf-8"))
    return {part.partition("\n")[0]: part for part in parts}


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in GENERATED], ids=lambda page: page.name)
def test_figures_have_a_command_that_makes_them_again(page: Path) -> None:
    """A section with figures names a command, or says that there is none."""
    for heading, text in sections(page).items():
        figures = FIGURE.findall(re.sub(r"(?ms)^```.*?^```|`[^`]*`", "", text))
        if len(figures) > 2:
            assert MEASURES.search(text) or "cannot be made again" in text, f"{page.name}, {heading}: {figures[:9]}"
