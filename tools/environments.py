"""Builds of p3iv, and empty environments to install them in. Shared by tools/try_install.py and tools/check_deps.py."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"

# Variables that would lead a new environment to other packages, or compile every module in each process again.
UNWANTED = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTEST_ADDOPTS", "PYTHONDONTWRITEBYTECODE")

Done = subprocess.CompletedProcess[str]


class InstallError(Exception):
    """A build or an installation failed; the message is what was printed."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment, in which commands are run."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def run(self, program: str, *words: str | Path, cwd: Path) -> Done:
        """Run a program of this environment in a folder."""
        return _run([self.folder / "bin" / program, *words], cwd)

    def install(self, *words: str | Path) -> None:
        """Run `pip install`, with its own pip; most modules of torch are never imported, so none is compiled now."""
        options = ("--no-compile", "--progress-bar", "off")
        _check(self.run("python", "-m", "pip", "install", *options, *words, cwd=self.folder))

    def versions(self) -> dict[str, str]:
        """The installed packages, under names as PyPI compares them."""
        frozen = _check(self.run("python", "-m", "pip", "list", "--format", "freeze", cwd=self.folder))
        lines = [line.partition("==") for line in frozen.stdout.splitlines() if "==" in line]
        return {canonical(name): version for name, _, version in lines}


def make_environment(folder: Path, python: Path | str = sys.executable) -> Environment:
    """An environment with nothing but pip."""
    _check(_run([python, "-m", "venv", folder], folder.parent))
    return Environment(folder)


def build(out: Path, source: Path, *kinds: str) -> None:
    """Build `--sdist`, `--wheel` or, by default, an sdist and the wheel that is built from it; needs no network."""
    words: list[str | Path] = [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", out, source]
    _check(_run(words, out.parent))


def canonical(name: str) -> str:
    """A package's name as PyPI compares it: `PyYAML` and `types_PyYAML` become `pyyaml` and `types-pyyaml`."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(path: Path = CONSTRAINTS) -> Mapping[str, str]:
    """The versions of constraints.txt by canonical name."""
    lines = [line.partition("==") for line in path.read_text(encoding="utf-8").splitlines() if "==" in line]
    return {canonical(name): version.strip() for name, _, version in lines}


@contextmanager
def timed(title: str) -> Iterator[None]:
    """Print a line about one step of the work with its duration."""
    began = time.monotonic()
    print(f"{title} ...", end="", flush=True)
    try:
        yield
    except BaseException:
        print(" failed")
        raise
    print(f" {time.monotonic() - began:.0f} s", flush=True)


def _run(words: list[str | Path], cwd: Path) -> Done:
    kept = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    environment = {**kept, "COLUMNS": "160", "OMP_NUM_THREADS": "1"}
    return subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def _check(done: Done) -> Done:
    if done.returncode:
        raise InstallError(f"{' '.join(map(str, done.args))}\n{done.stdout[-2000:]}{done.stderr[-1000:]}")
    return done
