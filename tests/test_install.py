"""What pyproject.toml and constraints.txt declare is what the code needs, and `make check-deps` tries all of it."""

from __future__ import annotations

import ast
import tomllib
from importlib.metadata import packages_distributions

from packaging.requirements import Requirement

from tools.check_deps import USES, Tried, lowest_versions
from tools.environments import ROOT, canonical, pins
from tools.try_install import TORCH_FREE

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CORE = {canonical(Requirement(line).name) for line in PROJECT["dependencies"]}
DECLARED = [
    Requirement(line)
    for lines in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    for line in lines
]


def test_the_pinned_versions_are_in_the_declared_ranges() -> None:
    wanted = [each for each in DECLARED if each.name != "p3iv"]
    assert [str(each) for each in wanted if pins()[canonical(each.name)] not in each.specifier] == []


def test_every_package_but_torch_is_tried_in_its_lowest_version() -> None:
    assert lowest_versions().keys() == USES.keys()
    assert [path for uses in USES.values() for path in uses.tests if not (ROOT / path).is_file()] == []


def test_the_packages_that_replace_torch_are_those_of_the_documentation() -> None:
    page = (ROOT / "docs" / "reference" / "onnx.md").read_text(encoding="utf-8")
    assert f"    pip install {' '.join(TORCH_FREE)}\n" in page


def test_all_that_is_imported_is_declared_and_only_the_core_at_the_top_of_a_module() -> None:
    declared = {canonical(each.name) for each in DECLARED}
    owners = packages_distributions()
    undeclared, eager = set(), set()
    for path in (ROOT / "src" / "p3iv").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for module, is_at_top in imported_modules(tree):
            packages = {canonical(name) for name in owners.get(module, ())} - {"p3iv"}
            if packages and not packages & declared:
                undeclared.add((path.name, module))
            if packages and is_at_top and not packages & CORE:
                eager.add((path.relative_to(ROOT / "src" / "p3iv").as_posix(), module))
    assert undeclared == set()
    # Folders that are imported only where they are needed.
    assert {path.partition("/")[0] for path, _ in eager} <= {"tabletop", "export", "serving"}


def imported_modules(tree: ast.Module) -> list[tuple[str, bool]]:
    """The first names of all imports, and whether each is made when the module is imported, without `try`."""
    top = {id(node) for node in tree.body}
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [(alias.name.partition(".")[0], id(node) in top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append((node.module.partition(".")[0], id(node) in top))
    return names


def test_a_package_works_if_it_was_imported_and_its_tests_passed() -> None:
    html, charts = USES["markupsafe"].tests
    versions = {"markupsafe": "2.1"}
    tried = Tried(versions, passed={html: 3, charts: 4})
    assert tried.verdict("markupsafe") == "2.1 (7 tests)"
    assert tried.verdict("rich") == "not installed"
    assert tried.is_good
    for spoilt in (
        Tried(versions, passed={html: 3}, failed={charts: 4}),
        Tried(versions, passed={html: 3}, broken={"markupsafe": "ImportError"}),
        Tried(versions),
        Tried(),
    ):
        assert not spoilt.is_good
    assert Tried(versions, passed={html: 3}, failed={charts: 4}).verdict("markupsafe") == "2.1 (4 OF 7 TESTS FAILED)"
