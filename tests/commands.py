"""Run `p3iv ARGS...` in a folder, inside the test process or as a separate process."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import torch

# The consoles ask at import whether they write to a terminal. Under `pytest -s` they would, and would print colours.
with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
    from p3iv.cli.app import main
    from p3iv.cli.console import err, out

Done = subprocess.CompletedProcess[str]
RunP3iv = Callable[..., Done]
WIDTH = 160


def run_in_process(folder: Path, *args: str | Path) -> Done:
    """Run a command as a user would in `folder`, without the seconds that a new process needs to import torch.

    An exception that the command line does not turn into a sentence reaches the test.
    """
    stdout, stderr = io.StringIO(), io.StringIO()
    words = ["p3iv", *map(str, args)]
    with chdir(folder), _unchanged_process(), patch.object(sys, "argv", words):
        with redirect_stdout(stdout), redirect_stderr(stderr):
            code = _exit_code()
        return Done(words, code, stdout.getvalue(), stderr.getvalue())


def run_as_process(folder: Path, *args: str | Path) -> Done:
    """Run `python -m p3iv ARGS...` in `folder`."""
    words = [sys.executable, "-m", "p3iv", *map(str, args)]
    environment = {**os.environ, "COLUMNS": str(WIDTH)}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def _exit_code() -> int:
    try:
        main()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0


@contextmanager
def _unchanged_process() -> Iterator[None]:
    """Restore what a command may change for the whole process, and fix the width of what it prints."""
    threads, hook, widths = torch.get_num_threads(), sys.excepthook, [out.width, err.width]
    try:
        with patch.dict(os.environ, COLUMNS=str(WIDTH)), torch.random.fork_rng(devices=[]):
            out.width = err.width = WIDTH
            yield
    finally:
        out.width, err.width = widths
        sys.excepthook = hook
        torch.set_num_threads(threads)
