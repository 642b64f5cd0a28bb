"""The shape of the package: few import levels, files of a readable size, complete layers, light imports.

A limit may rise when the product grows; say why in the commit.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "p3iv"
MAX_LEVELS = 29
MAX_MODULES = 293
MAX_LAYERS = 20
MAX_LINES = 450
MIN_MEDIAN_LINES = 120


def name_of(path: Path) -> str:
    """p3iv/data/folder.py -> p3iv.data.folder."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TREES = {name_of(path): ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
FILES = [path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"]


def imports_of(name: str) -> set[str]:
    """The modules of this package that a module imports, at its top or in a function."""
    wanted = set()
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Import):
            wanted |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import"
            # `p3iv` imports everything when asked for it; its version is there before that.
            inner = {f"{node.module}.{alias.name}" for alias in node.names if alias.name != "__version__"}
            wanted |= {module if module in TREES else str(node.module) for module in inner}
    return wanted & TREES.keys() - {name}


def count_lines(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


def test_imports_have_few_levels_and_no_cycle() -> None:
    graph = {name: imports_of(name) for name in TREES}
    levels: dict[str, int] = {}
    for name in TopologicalSorter(graph).static_order():  # raises CycleError
        levels[name] = 1 + max((levels[other] for other in graph[name]), default=0)
    assert max(levels.values()) <= MAX_LEVELS


def test_files_are_neither_many_nor_long_nor_short() -> None:
    assert len(FILES) <= MAX_MODULES
    assert median(map(count_lines, FILES)) >= MIN_MEDIAN_LINES
    everything = [*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    assert [path for path in everything if count_lines(path) > MAX_LINES] == []


def test_the_contract_has_every_module_in_one_of_few_layers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = project["tool"]["importlinter"]["contracts"]
    assert contract["exhaustive"] is True  # `make check` then fails for a module without a layer
    assert contract["exhaustive_ignores"] == ["__main__"]
    assert len(contract["layers"]) <= MAX_LAYERS


def test_importing_p3iv_is_light() -> None:
    code = "import p3iv, sys; assert not {'torch', 'numpy', 'pydantic', 'typer', 'av', 'fastapi'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_only_serve_imports_the_web_stack() -> None:
    code = """
import sys
from typer.testing import CliRunner
from p3iv.cli.app import app
words = ["plan", "tabletop-demo", "--start", "tabletop-demo/eggs.mp4@12", "--goal", "tabletop-demo/eggs.mp4@26"]
assert CliRunner().invoke(app, words).exit_code == 0
assert not {"fastapi", "starlette", "uvicorn", "prometheus_client"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_test_uses_a_private_name() -> None:
    used = {path.name: private_names(path) for path in (ROOT / "tests").rglob("*.py")}
    assert {name: names for name, names in used.items() if names} == {}


def private_names(path: Path) -> list[str]:
    """The private names of p3iv that a file imports, reads from something imported, or names in a string."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported, private = set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "p3iv":
            imported |= {alias.asname or alias.name for alias in node.names}
            private += [alias.name for alias in node.names if is_private(alias.name)]
        elif isinstance(node, ast.Import):
            imported |= {alias.asname or "p3iv" for alias in node.names if alias.name.split(".")[0] == "p3iv"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and root_of(node) in imported:
            private.append(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            private += re.findall(r"\bp3iv(?:\.\w+)*\._[a-z]\w*", node.value)
    return private


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def root_of(node: ast.expr) -> str | None:
    """The first name of a dotted expression: a of a.b.c."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
