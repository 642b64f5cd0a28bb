"""Every public name has types, a docstring, an example that runs, an entry in the reference, and a test."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

import p3iv
from test_tutorials import make_videos
from tools.python_reference import examples, methods_of, properties_of, public_names, python_reference, result_classes

ROOT = Path(__file__).parents[1]


def documented() -> dict[str, Any]:
    """Public names and the methods of public classes."""
    found = {name: getattr(p3iv, name) for name in p3iv.__all__}
    methods = {f"{name}.{each}": method for name, kind in found.items() for each, method in methods_if(kind)}
    return found | methods


def methods_if(kind: Any) -> Iterator[tuple[str, Any]]:
    return methods_of(kind) if inspect.isclass(kind) else iter(())


DOCUMENTED = documented()
FUNCTIONS = {name: value for name, value in DOCUMENTED.items() if not inspect.isclass(value)}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_it_has_a_docstring(name: str) -> None:
    doc = inspect.getdoc(DOCUMENTED[name])
    assert doc, f"{name} has no docstring"
    assert doc.splitlines()[0].endswith("."), f"the docstring of {name} does not begin with a sentence"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_its_parameters_have_types_and_are_described(name: str) -> None:
    known = inspect.signature(FUNCTIONS[name])
    assert known.return_annotation is not known.empty
    doc = inspect.getdoc(FUNCTIONS[name]) or ""
    for parameter in list(known.parameters.values())[name.count(".") and "self" in known.parameters :]:
        assert parameter.annotation is not parameter.empty, f"{name}: {parameter.name} has no type"
        assert "Args:" not in doc or f"    {parameter.name}: " in doc, f"{name}: {parameter.name} is not described"


def test_fields_and_properties_of_public_classes_and_results_are_documented() -> None:
    kinds = [kind for name in p3iv.__all__ if inspect.isclass(kind := getattr(p3iv, name))] + result_classes()
    silent = [f"{kind.__name__}.{name}" for kind in kinds for name, value in properties_of(kind) if not value.__doc__]
    assert silent == []


def test_the_reference_has_every_public_name_and_no_empty_entry() -> None:
    entries = re.split(r"(?m)^#{2,4} (.+)$", python_reference())[1:]
    texts = dict(zip(entries[::2], entries[1::2], strict=True))
    titles = {f"p3iv.{name}" if "." not in name else name for name in DOCUMENTED}
    assert titles <= set(texts)
    entire = {title: re.sub(r"```python\n.*?\n```", "", text, flags=re.DOTALL).strip() for title, text in texts.items()}
    groups = {"Plan", "Datasets", "Train, evaluate and export", "Progress and errors", "Results"}
    assert {title for title, text in entire.items() if not text} == groups


def test_every_public_name_is_used_in_a_test() -> None:
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]
    words = {word for path in files for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    assert {name.split(".")[-1] for name in DOCUMENTED} - words == set()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tabletop: Path, plus_run: Path, query_run: Path) -> Path:
    """What the examples read: demo/tabletop, a dataset; runs/first and runs/any, runs of it; my_kitchen, own videos."""
    place = tmp_path_factory.mktemp("examples")
    shutil.copytree(tabletop, place / "demo" / "tabletop")
    shutil.copytree(plus_run, place / "runs" / "first")
    shutil.copytree(query_run, place / "runs" / "any")
    make_videos(place / "my_kitchen", "kitchen-{}")
    return place


def test_every_public_name_has_an_example() -> None:
    assert [name for name, value in DOCUMENTED.items() if not examples(inspect.getdoc(value) or "")] == []


@pytest.mark.parametrize("name", [name for name, value in DOCUMENTED.items() if examples(inspect.getdoc(value) or "")])
def test_its_example_does_what_it_says(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = examples(inspect.getdoc(DOCUMENTED[name]) or "")
    names = {"p3iv": p3iv} | {public: getattr(p3iv, public) for public in p3iv.__all__}
    with chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # notes about so few videos
        if ">>>" not in example:
            exec(compile(example, name, "exec"), names)  # noqa: S102 - our own lines
            return
        test = doctest.DocTestParser().get_doctest(example, names, name, None, None)
        result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(test)
    assert result.attempted
    assert not result.failed, capsys.readouterr().out


def test_names_for_type_checkers_are_those_that_are_loaded() -> None:
    tree = ast.parse((ROOT / "src" / "p3iv" / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert imported == {name: getattr(p3iv, name).__module__ for name in p3iv.__all__}
    assert sorted(public_names()) == sorted(imported)


def test_public_names_are_listed_before_they_are_loaded() -> None:
    code = """
import sys, p3iv
assert set(p3iv.__all__) <= set(dir(p3iv)) and not {"torch", "numpy"} & set(sys.modules)
from p3iv import *
assert train is p3iv.train and not {"torch", "typer"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(p3iv, "nothing")  # noqa: B009 - mypy knows that it is not there
