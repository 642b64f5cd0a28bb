"""What decides a run's figures besides its configuration: the content of the dataset, and the code.

The hash of the code decides whether a finished run can be used again. The commit cannot: it changes with every page of
documentation, and it does not change with an edit that is not committed yet.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from p3iv.data.folder import CARD_FILE, read_card
from p3iv.errors import DatasetError
from p3iv.experiments.declarations import PAPER_DATASETS
from p3iv.features.store import FeatureStore
from p3iv.files import atomic_folder
from p3iv.readers.steps import STEPS_FILE
from p3iv.types import listed

PACKAGE = Path(__file__).resolve().parents[1]
# The files and folders that can change a figure. All others show figures, or make data, which has its own fingerprint;
# metrics/intervals.py makes intervals from the values of windows, which every run keeps, whenever tables are written.
CODE = (
    "config.py",
    "types.py",
    "readers/files.py",
    "readers/folder.py",
    "readers/lists.py",
    "readers/steps.py",
    "readers/taxonomy.py",
    "readers/variants.py",
    "readers/rows.py",
    "features/",
    "encoders/",
    "data/folder.py",
    "data/following.py",
    "data/observations.py",
    "data/padding.py",
    "data/seconds.py",
    "data/stats.py",
    "data/tensors.py",
    "data/truth.py",
    "data/windows.py",
    "extraction/align.py",
    "plans/",
    "planners/",
    "training/",
    "metrics/counts.py",
    "metrics/distributions.py",
    "metrics/plans.py",
    "metrics/references.py",
    "metrics/released.py",
    "evaluation/",
    "experiments/job.py",
)
_DATASET_FILES = (STEPS_FILE, "split.json", "language.npz", CARD_FILE)  # with the features, all that runs read


@dataclass(frozen=True)
class Source:
    """One dataset folder."""

    folder: Path
    name: str
    label: str  # printed beside every figure; says SIMULATED if the features are
    fingerprint: str  # of everything that runs read from it

    @property
    def slug(self) -> str:
        """Its label as part of a file name, so that simulated features are not taken for others."""
        return re.sub(r"[^a-z0-9]+", "-", self.label.casefold()).strip("-")

    @property
    def paper_name(self) -> str | None:
        """The dataset of the paper with the same name, with any features."""
        return next((name for name in PAPER_DATASETS if name == self.name.casefold()), None)


def open_sources(folders: tuple[Path, ...]) -> tuple[Source, ...]:
    """Fingerprint dataset folders without reading the features: every call does, even if it has nothing to do."""
    if not folders:
        raise DatasetError(
            "No data is given. Pass --data DIR, once per dataset folder; make one with "
            "`p3iv data make tabletop DIR --skip-rendering` or `p3iv data import`."
        )
    sources = tuple(_open(folder) for folder in folders)
    labels = [source.label for source in sources]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise DatasetError(f"Two datasets are called {twice[0]}: give one of them another name in its dataset.yaml.")
    return sources


def link_dataset(folder: Path, copy: Path) -> None:
    """Make a dataset folder that links to the features of another and has its own copies of the small files."""
    with atomic_folder(copy) as temporary:
        for name in _DATASET_FILES:
            if (folder / name).exists():
                shutil.copyfile(folder / name, temporary / name)
        (temporary / "features").symlink_to((folder / "features").resolve())


def _open(folder: Path) -> Source:
    missing = [name for name in (STEPS_FILE, "features", "language.npz") if not os.path.lexists(folder / name)]
    if missing:
        raise DatasetError(
            f"{folder} lacks {listed(missing)}, so planners cannot be trained on it. Make a dataset with `p3iv data "
            f"make tabletop {folder} --skip-rendering`, import one with `p3iv data import`, or add features with "
            f"`p3iv extract`."
        )
    digest = hashlib.sha256(FeatureStore.open(folder / "features").fingerprint.encode())
    for name in _DATASET_FILES:
        digest.update(f"\0{name}\0".encode())
        digest.update((folder / name).read_bytes() if (folder / name).exists() else b"")
    card = read_card(folder)
    return Source(folder, card.name, card.label, digest.hexdigest())


@cache
def code_version() -> str:
    """A hash of the code of training, sampling, decoding and scoring."""
    paths = (path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).as_posix().startswith(CODE))
    return hash_code(path.read_text(encoding="utf-8") for path in paths)


def hash_code(sources: Iterable[str]) -> str:
    """A hash of Python sources that ignores comments, docstrings, imports and which file a definition is in.

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
    """The commit of a checkout, with `+` if files differ from it; None if the package is not in a git repository."""
    try:
        _git("ls-files", "--error-unmatch", "__init__.py")  # an installed copy may lie inside another repository
        head = _git("rev-parse", "--short=12", "HEAD")
        return head + ("+" if _git("status", "--porcelain", "--untracked-files=no", "--", str(PACKAGE)) else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*words: str) -> str:
    found = subprocess.run(["git", "-C", str(PACKAGE), *words], capture_output=True, text=True, check=True)  # noqa: S603, S607
    return found.stdout.strip()
