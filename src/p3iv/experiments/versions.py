"""Which code made a figure: a hash of the code that can change one, and the commit that it belongs to.

The hash decides whether a finished run can be used again. The commit cannot: it changes with every page of
documentation, and it does not change with an edit that nobody has committed yet.
"""

from __future__ import annotations

import ast
import hashlib
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
# The folders and files that can change a figure. All else shows figures, or makes data, which has its own fingerprint.
_FIGURES = (
    "config.py",
    "types.py",
    "features/",
    "encoders/",
    "data/folder.py",
    "data/stats.py",
    "data/tensors.py",
    "data/truth.py",
    "data/windows.py",
    "extraction/align.py",
    "plans/",
    "planners/",
    "training/",
    "metrics/",
    "evaluation/",
    "experiments/measure.py",
    "experiments/timing.py",
)


@cache
def code_version() -> str:
    """A hash of the code that training, sampling, decoding and scoring are made of."""
    paths = (path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).as_posix().startswith(_FIGURES))
    return hash_code(path.read_text(encoding="utf-8") for path in paths)


def hash_code(sources: Iterable[str]) -> str:
    """A hash of Python sources that ignores comments, docstrings, imports and which file a definition stands in.

    >>> hash_code(["from a import b", "x = b + 1"]) == hash_code(["x = b + 1  # a comment"])
    True
    """
    statements = [node for source in sources for node in ast.parse(source).body if not _is_import_or_text(node)]
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                node.body = [child for child in node.body if not _is_import_or_text(child)] or [ast.Pass()]
    return hashlib.sha256("\n".join(sorted(map(ast.dump, statements))).encode()).hexdigest()[:12]


def _is_import_or_text(node: ast.stmt) -> bool:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or isinstance(node, ast.Import | ast.ImportFrom)


@cache
def commit() -> str | None:
    """The commit of a checkout, with `+` where files differ from it; None where git does not know the package."""
    try:
        _git("ls-files", "--error-unmatch", "__init__.py")  # an installed copy may lie inside another repository
        head = _git("rev-parse", "--short=12", "HEAD")
        return head + ("+" if _git("status", "--porcelain", "--untracked-files=no", "--", str(PACKAGE)) else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*words: str) -> str:
    found = subprocess.run(["git", "-C", str(PACKAGE), *words], capture_output=True, text=True, check=True)  # noqa: S603, S607
    return found.stdout.strip()
