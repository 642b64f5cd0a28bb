"""The documentation agrees with the code, and its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import unquote

import pytest
from pydantic import BaseModel

from p3iv.config import setting_names
from p3iv.evaluation.cross_validated import CrossValidation
from p3iv.evaluation.predictions import PredictionLine
from p3iv.evaluation.result import Evaluation
from p3iv.readers.tools.registry import FORMATS, WRITERS

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
OF_TODAY = [page for page in PAGES if page.name != "CHANGELOG.md"]  # a changelog names what was renamed
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE_FILE = re.compile(r"`((?:[\w*]+/)*[\w*]+\.(?:py|toml)|(?:src|tests|docs|tools)/[\w/*.]+)`")


def test_generated_parts_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "tools/docs.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_every_setting_says_what_it_means() -> None:
    page = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith("| `") and line.endswith("|  |")] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in LINK.findall(text):
        path, _, anchor = unquote(link).partition("#")
        if path.startswith(("https://", "http://")):
            continue
        target = (page.parent / path) if path else page
        assert target.exists(), f"{link} does not exist"
        assert not anchor or anchor in headings(target), f"{link}: there is no such heading"


@pytest.mark.parametrize("page", OF_TODAY, ids=lambda page: str(page.relative_to(ROOT)))
def test_settings_that_a_page_names_exist(page: Path) -> None:
    known = setting_names()
    sections = "|".join({name.split(".")[0] for name in known if "." in name})
    named = re.findall(rf"(?:`|--set )((?:{sections})\.\w+)\b(?!/)", page.read_text(encoding="utf-8"))
    files = (".py", ".json", ".yaml", ".csv", ".safetensors")
    assert [name for name in named if name not in known and not name.endswith(files)] == []


@pytest.mark.parametrize("page", OF_TODAY, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_that_a_page_names_exist(page: Path) -> None:
    option = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
    known = set(option.findall((ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")))
    elsewhere = {"--no-deps", "--nproc-per-node", "--replay", "--minutes", "--only"}  # of pip, torchrun, the soak
    elsewhere |= {"--python"}  # of check_deps
    elsewhere |= {"--logdir", "--backend-store-uri"}  # of TensorBoard and MLflow
    assert set(option.findall(page.read_text(encoding="utf-8"))) - known - elsewhere == set()


@pytest.mark.parametrize("page", OF_TODAY, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_of_the_code_that_a_page_names_exist(page: Path) -> None:
    names = re.findall(
        r"`((?:[\w*]+/)*[\w*]+\.(?:py|toml)|(?:src|tests|docs|tools)/[\w/*.]+)`", page.read_text("utf-8")
    )
    places = (ROOT, ROOT / "src" / "p3iv")
    missing = [name for name in names if not any(any(place.glob(name.rstrip("/"))) for place in places)]
    assert [name for name in missing if "NEW" not in name] == []


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub and the site make them."""
    titles = re.findall(r"(?m)^#+ (.*)$", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize(
    ("page", "contents"),
    [("run_folder.md", [Evaluation, CrossValidation]), ("prediction_file.md", [PredictionLine])],
    ids=["run", "lines"],
)
def test_the_fields_of_a_file_are_those_of_its_class(page: str, contents: list[type[BaseModel]]) -> None:
    text = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| (`[^|]*`) \|", "".join(text.split("| field |")[1:]))
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == {
        name for content in contents for name in content.model_fields
    }


def test_the_page_of_annotation_formats_has_them_all() -> None:
    text = (ROOT / "docs" / "reference" / "annotation_formats.md").read_text(encoding="utf-8")
    read, written = (part.split("\n\n")[0] for part in text.split("| `--format` |")[1:])
    for part, formats in ((read, FORMATS), (written, WRITERS)):
        rows = re.findall(r"(?m)^\| (`[^|]*`) \|", part)
        assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row)} == set(formats)


def test_every_page_is_in_the_navigation() -> None:
    site = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert set(re.findall(r'"([\w/]+\.md)"', site)) == pages


def test_the_architecture_page_shows_the_layers_of_the_contract() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = project["tool"]["importlinter"]["contracts"]
    layers = [set(re.split(r"\s*[|:]\s*", layer)) for layer in contract["layers"]]
    page = (ROOT / "docs" / "design" / "architecture.md").read_text(encoding="utf-8")
    rows = page.split("| layer |")[1].split("\n\n")[0].splitlines()[2:]
    assert [set(re.findall(r"`(\w+)`", row.split("|")[1])) for row in rows] == layers
