"""How the command line speaks: plain lines, tables, JSON, and progress that suits a terminal or a log."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

out = Console(highlight=False, soft_wrap=True, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def print_json(value: Any) -> None:
    """Print a result for programs: dataclasses become objects, and nothing else goes to standard output."""
    content = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
    sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n")


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None) -> None:
    """Print a table: the first column is text, the others are figures."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for index, header in enumerate(headers):
        table.add_column(header, justify="left" if index == 0 else "right", header_style="dim")
    for row in rows:
        table.add_row(*map(escape, row))
    out.print(table)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function of (done, total): a bar on a terminal, a line every few seconds elsewhere; on standard error."""
    if not err.is_terminal:
        yield plain_progress(what)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def plain_progress(what: str, every_s: float = 10.0) -> Callable[[int, int], None]:
    """A function of (done, total) that prints a line every few seconds."""
    last = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= every_s and done < total:
            last = time.monotonic()
            err.print(f"{what}: {done} of {total}")

    return show
