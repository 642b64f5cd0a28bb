"""The options with which `p3iv plan` and `p3iv follow` say what a plan must satisfy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from p3iv.cli.help import split_words
from p3iv.cli.options import step_option
from p3iv.errors import ConfigError

if TYPE_CHECKING:
    from p3iv.plans.conditions import Conditions

Without = Annotated[list[str] | None, step_option("--without", "Leave this step out")]
Including = Annotated[list[str] | None, step_option("--with", "This step must occur")]
First = Annotated[str | None, typer.Option("--first", metavar="STEP", help="The first step.")]
Last = Annotated[str | None, typer.Option("--last", metavar="STEP", help="The last step.")]
At = Annotated[
    list[str] | None, typer.Option("--at", metavar="N STEP", help="The step at position N; may be repeated.")
]
Before = Annotated[
    list[str] | None,
    typer.Option("--before", metavar="A B", help="Step A comes before step B, if both occur; may be repeated."),
]
Done = Annotated[list[str] | None, step_option("--done", "Already done, so not done again")]


def read_conditions(
    *,
    without: Sequence[str] | None,
    including: Sequence[str] | None,
    first: str | None,
    last: str | None,
    at: Sequence[str] | None,
    before: Sequence[str] | None,
    done: Sequence[str] | None,
) -> Conditions:
    """What the options say.

    Raises:
        ConfigError: a position is not a number.
    """
    from p3iv.plans.conditions import Conditions

    return Conditions(
        without=tuple(without or ()),
        including=tuple(including or ()),
        first=first,
        last=last,
        at=tuple(_position(*split_words(text)) for text in at or ()),
        before=tuple(split_words(text) for text in before or ()),
        done=tuple(done or ()),
    )


def _position(number: str, step: str) -> tuple[int, str]:
    if not number.isdecimal():
        raise ConfigError(f"--at {number} {step}, but N must be a position from 1, such as --at 2 STEP.")
    return int(number), step
