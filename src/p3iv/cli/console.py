"""What commands print: results on standard output; notes, problems and progress on standard error."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.segment import Segment
from rich.table import Column, Table

from p3iv.files import leftovers_of
from p3iv.types import OnProgress, Problem, Progress, count_problems, counted
from p3iv.validation import UNFIT

if TYPE_CHECKING:
    from p3iv.features.store import PackedFeatures


class PlainConsole(Console):
    """Prints text as it is: no markup, and nothing that a name in a file could use to control the terminal."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, soft_wrap=True, emoji=False, markup=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Everything that is printed comes through here, cells of tables included."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else _CONTROL.sub("\N{REPLACEMENT CHARACTER}", segment.text)
            yield segment._replace(text=text)


_CONTROL = re.compile(f"(?![\n\t]){UNFIT.pattern}")  # lines and tabs are ours: names have none

out = PlainConsole()
err = PlainConsole(stderr=True)


def print_json(value: Any) -> None:
    """Print a result for programs: dataclasses become objects, and nothing else goes to standard output."""
    content = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
    text = json.dumps(content, indent=2, ensure_ascii=False, default=str)
    sys.stdout.write(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None) -> None:
    """Print a table with text in the first column and numbers in the others."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for index, header in enumerate(headers):
        table.add_column(header, justify="left" if index == 0 else "right", header_style="dim")
    for row in rows:
        table.add_row(*row)
    out.print(table)


def print_note(text: str) -> None:
    """Print something that the user should know, on standard error."""
    err.print(f"note: {text}")


def print_problems(problems: Sequence[Problem], *, advice: str = "") -> None:
    """Print every problem of the input and how many there are, on standard error."""
    for problem in problems:
        err.print(f"problem: {problem}")
    if problems:
        err.print(f"{counted(count_problems(problems), 'problem')}, see above{advice}.")


def note_leftovers(folder: Path) -> None:
    """Name what killed processes left beside `folder`; the user decides whether to delete it."""
    for path in leftovers_of(folder):
        holds = f"; {path.name}/was holds the folder that it was replacing" if (path / "was").exists() else ""
        print_note(f"{path} was left by an interrupted run{holds}. Delete it unless that command is still running.")


def describe_features(packed: PackedFeatures) -> str:
    return (
        f"{counted(packed.num_videos, 'video')}: {counted(packed.num_rows, 'row')} of {packed.width} {packed.dtype} "
        f"values, feature fingerprint {packed.fingerprint[:12]}"
    )


@contextmanager
def interruptible(message: str) -> Iterator[None]:
    """Turn Ctrl-C into a message that says how to continue, and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        err.print(f"interrupted; {message}")
        raise typer.Exit(130) from None


@contextmanager
def progress() -> Iterator[OnProgress]:
    """Yield a callback for progress: it shows a bar on a terminal, and a few plain lines elsewhere."""
    if not err.is_terminal:
        yield plain_progress()
        return
    rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")  # the other columns keep their width
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[about]}", markup=False, table_column=rest),
    )
    with Bar(*columns, console=err, transient=True, expand=True) as bar:
        task = bar.add_task("Preparing", total=None, about="")

        def show(at: Progress) -> None:
            bar.update(task, description=at.what, completed=at.done, total=at.total, about=at.about)

        yield show


def plain_progress(every_s: float = 10.0) -> OnProgress:
    """A callback for progress that prints at most 20 lines, some seconds apart."""
    last_s, last_done = time.monotonic(), 0.0

    def show(at: Progress) -> None:
        nonlocal last_s, last_done
        if time.monotonic() - last_s >= every_s and at.done - last_done >= at.total / 20 and at.done < at.total:
            last_s, last_done = time.monotonic(), at.done
            err.print(f"{at.what}: {at.done:.0f} of {at.total}{', ' * bool(at.about)}{at.about}")

    return show
