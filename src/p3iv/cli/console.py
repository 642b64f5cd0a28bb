"""What commands print: results on standard output; notes, problems, progress and `next:` on standard error.

With --json, standard output is one JSON document (or one per line), and there is no `next:`.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, is_dataclass
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from p3iv.types import UNFIT, OnProgress, Problem, Progress, count_problems, counted

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


def print_json(value: Any, *, in_one_line: bool = False) -> None:
    """Print a result for programs: dataclasses become objects, and nothing else goes to standard output."""
    content = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
    text = json.dumps(content, indent=None if in_one_line else 2, ensure_ascii=False, default=str)
    sys.stdout.write(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")
    if in_one_line:
        sys.stdout.flush()  # one of many: whoever waits for it gets it now


def print_next(*words: str | Path) -> None:
    """Print the command that a user probably wants to type next, quoted for the shell."""
    if _prints_next.get():
        err.print(f"next: p3iv {shlex.join(map(str, words))}", style=_style("bold", err))


def print_next_training(
    folder: Path, options: Mapping[str, tuple[object, object]] | None = None, *, flags: Sequence[str] = ()
) -> None:
    """Print how to train on a dataset, with the options (value, default) of this command that train needs, too."""
    changed = [(name, str(value)) for name, (value, default) in (options or {}).items() if value != default]
    name = folder.resolve().name or "first"
    runs = (Path("runs") / f"{name}{more}" for more in chain([""], (f"-{number}" for number in count(2))))
    free = next(run for run in runs if not run.exists())
    print_next("train", folder, "--out", free, "--planner", "p3iv-plus", *chain.from_iterable(changed), *flags)


_prints_next = ContextVar("prints_next", default=True)


@contextmanager
def without_next() -> Iterator[None]:
    """Print no `next:` in the block, for a command that runs others."""
    token = _prints_next.set(False)
    try:
        yield
    finally:
        _prints_next.reset(token)


SEVERITY_STYLES = {"error": "red", "warning": "yellow", "note": "cyan", "ok": "green"}


def print_finding(severity: str, text: str) -> None:
    """Print a finding, or that all is well, in its colour on a terminal; NO_COLOR switches colours off."""
    out.print(text, style=_style(SEVERITY_STYLES[severity], out))


def print_error(error: object) -> None:
    """Print the sentence that a command ends with."""
    err.print(f"error: {error}", style=_style("red", err))


def _style(style: str, console: Console) -> str | None:
    return style if console.is_terminal else None


def print_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None, num_texts: int = 1
) -> None:
    """Print a table with texts in the first columns and numbers in the others."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for index, header in enumerate(headers):
        table.add_column(header, justify="left" if index < num_texts else "right", header_style="dim")
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
    from p3iv.files import leftovers_of

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


Legend = Callable[[Progress], str]


@contextmanager
def progress(legend: Legend = lambda _: "") -> Iterator[OnProgress]:
    """Yield a callback for progress: it shows a bar on a terminal, and a few plain lines elsewhere.

    What the numbers are about is shown below the bar, or at the end of a line. A legend is printed once, before the
    first line that it explains.
    """
    if not err.is_terminal:
        yield plain_progress(legend)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress
    from rich.text import Text

    class Bar(RichProgress):
        about = ""

        def get_renderables(self) -> Iterator[RenderableType]:
            yield from super().get_renderables()
            if self.about:
                yield Text(self.about, style="dim", no_wrap=False, overflow="fold")

    name, explained = TextColumn("{task.description}", markup=False), False
    with Bar(name, BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn(), console=err, transient=True) as bar:
        task = bar.add_task("Preparing", total=None)

        def show(at: Progress) -> None:
            nonlocal explained
            if not explained and (text := legend(at)):
                explained = True
                err.print(text, style="dim")
            bar.about = at.about
            bar.update(task, description=at.what, completed=at.done, total=at.total)

        yield show


def plain_progress(legend: Legend = lambda _: "", *, every_s: float = 10.0) -> OnProgress:
    """A callback for progress that prints at most 20 lines, some seconds apart."""
    last_s, last_done, explained = time.monotonic(), 0.0, False

    def show(at: Progress) -> None:
        nonlocal last_s, last_done, explained
        if time.monotonic() - last_s >= every_s and at.done - last_done >= at.total / 20 and at.done < at.total:
            if not explained and (text := legend(at)):
                explained = True
                err.print(text)
            last_s, last_done = time.monotonic(), at.done
            err.print(f"{at.what}: {at.done:.0f} of {at.total}{', ' * bool(at.about)}{at.about}")

    return show
