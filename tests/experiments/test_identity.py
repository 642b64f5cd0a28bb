"""A run is named by its configuration, the content of its data, and the code that can change a figure."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from p3iv.errors import SplitError
from p3iv.experiments import identity
from p3iv.experiments.declarations import declarations
from p3iv.experiments.identity import Source, open_sources
from p3iv.experiments.runs import RunOptions, runs_for_cell
from test_structure import imports_of, name_of

OPTIONS = RunOptions(seeds=(0,))
TREE_PATHS = {name_of(path): path.relative_to(identity.PACKAGE).as_posix() for path in identity.PACKAGE.rglob("*.py")}
CANNOT_CHANGE_A_FIGURE = {
    *("catalogue.py", "environment.py", "errors.py", "files.py", "validation.py"),
    "onnx_model.py",  # reads exported planners and encoders, which no job uses
    "metrics/intervals.py",  # intervals are made from the values of windows whenever tables are written
    *("experiments/declarations.py", "experiments/identity.py", "experiments/runs.py"),  # their outcome is in the key
}


def key(source: Source, options: RunOptions = OPTIONS) -> str:
    spec = next(declarations()["memory"].cell_specs)
    return runs_for_cell(spec, source, options).runs[0].key


def test_a_run_is_named_by_configuration_data_and_code(
    tabletop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tabletop, copy)
    [here], [there] = open_sources((tabletop,)), open_sources((copy,))
    assert key(here) == key(there)
    assert key(here) != key(here, replace(OPTIONS, settings={"optim.epochs": 3}))
    assert key(here) != key(here, replace(OPTIONS, seeds=(1,)))
    with (copy / "steps.csv").open("a") as file:
        file.write("\n")
    [changed] = open_sources((copy,))
    assert key(here) != key(changed)
    before = key(here)
    monkeypatch.setattr("p3iv.experiments.runs.code_version", lambda: "another")
    assert key(here) != before


def test_a_run_is_named_by_the_content_of_a_split_file_not_by_its_path(tabletop: Path, tmp_path: Path) -> None:
    [source] = open_sources((tabletop,))

    def key_with(path: Path) -> str:
        return key(source, replace(OPTIONS, settings={"data.split": str(path)}))

    one, other = tmp_path / "one.json", tmp_path / "other.json"
    shutil.copyfile(tabletop / "split.json", one)
    shutil.copyfile(tabletop / "split.json", other)
    assert key_with(one) == key_with(other)
    other.write_text(other.read_text() + "\n")
    assert key_with(one) != key_with(other)
    with pytest.raises(SplitError, match="is not a file that can be read, and not one of video"):
        key_with(tmp_path / "none.json")


def test_a_commit_is_that_of_the_package_not_of_a_repository_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        done = subprocess.run(["git", *who, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    package = tmp_path / "venv" / "p3iv"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (tmp_path / ".gitignore").write_text("venv\n")
    git("init")
    git("add", ".gitignore")
    git("commit", "-m", "theirs")
    monkeypatch.setattr(identity, "PACKAGE", package)
    assert identity.commit.__wrapped__() is None
    git("add", "--force", "venv")
    git("commit", "-m", "ours")
    assert identity.commit.__wrapped__() == git("rev-parse", "--short=12", "HEAD")


def test_every_path_of_the_code_version_exists() -> None:
    for path in identity.CODE:
        place = identity.PACKAGE / path
        assert place.is_dir() if path.endswith("/") else place.is_file(), path


def test_the_code_version_covers_all_that_a_job_imports() -> None:
    seen: set[str] = set()
    waiting = ["p3iv.experiments.job"]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += imports_of(name)
    paths = {TREE_PATHS[name] for name in seen}
    not_covered = {path for path in paths if not path.startswith(identity.CODE) and not path.endswith("__init__.py")}
    assert not_covered == CANNOT_CHANGE_A_FIGURE


def test_the_code_version_changes_with_code_that_can_change_a_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = ("cli/app.py", "report/page.py", "experiments/pages.py", "metrics/intervals.py")
    for name in ("metrics/plans.py", "experiments/job.py", *shown):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("a = 1\n")
    monkeypatch.setattr(identity, "PACKAGE", tmp_path)
    version = identity.code_version.__wrapped__
    before = version()
    for name in shown:
        (tmp_path / name).write_text("a = 2\n")
    assert version() == before
    for name in ("metrics/plans.py", "experiments/job.py"):
        (tmp_path / name).write_text("a = 2\n")
        assert version() != before
        before = version()


def test_the_code_version_ignores_comments_docstrings_and_files() -> None:
    one = ['from a import b\n\n\nclass C:\n    """Text."""\n\n    def f(self):\n        return b  # why\n', "X = 1\n"]
    moved = ['X = 1\n\n\nclass C:\n    def f(self):\n        """Other text."""\n        return b\n']
    assert identity.hash_code(one) == identity.hash_code(moved)
    assert identity.hash_code(one) != identity.hash_code([one[0], "X = 2\n"])
