"""Which code made a figure: a hash of the sources that can change one, and the commit that they belong to.

The hash, not the commit, decides whether a run is done before: a commit also changes with every page of documentation,
and does not change with an edit that nobody has committed yet.
"""

from __future__ import annotations

import hashlib
import subprocess
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
# Rooms that only show, import, extract or make data: what they can change is in the fingerprint of the data, or is no
# figure. The files that measure are in after all.
_NO_FIGURES = ("cli", "report", "importing", "inspection", "tabletop", "extraction", "experiments")
_FILES_AFTER_ALL = (
    "extraction/align.py",
    "experiments/measure.py",
    "experiments/timing.py",
    "inspection/statistics.py",
)
_SINGLE = ("planner.py", "moments.py", "environment.py", "processes.py", "cluster.py", "__main__.py")


@cache
def code_version() -> str:
    """A hash of all sources that training, sampling, decoding and scoring are made of."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        is_left_out = name.split("/")[0] in _NO_FIGURES or name in _SINGLE
        if not is_left_out or name in _FILES_AFTER_ALL:
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


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
