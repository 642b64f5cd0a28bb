"""How `p3iv COMMAND --help` looks: nothing is cut, the required options are in the first line, examples can be copied.

typer formats this in a way that changes from version to version. Here only names, help texts and defaults of the
parameters are taken from it.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Collection, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from p3iv.errors import ConfigError

EXAMPLE = "Example:"


class _Help:
    """The help of commands and of groups of commands."""

    help: str | None
    epilog: str | None

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        return params

    def get_short_help_str(self, limit: int = 0) -> str:  # noqa: ARG002
        """The first sentence, for lists of commands; `limit`, at which typer would cut it, is not used."""
        return " ".join(inspect.cleandoc(self.help or "").partition("\n\n")[0].split())

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The arguments and the required options: DIR --out RUN [OPTIONS]."""
        params = self.get_params(ctx)
        arguments = [_usage_of(param) for param in params if _is_argument(param)]
        required = [param for param in params if param.required and not _is_argument(param)]
        return [*arguments, *(f"{param.opts[0]} {param.metavar}" for param in required), "[OPTIONS]"]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a list of arguments and one of options."""
        params = [param for param in self.get_params(ctx) if not getattr(param, "hidden", False)]
        for title, is_here in (("Arguments", True), ("Options", False)):
            rows = [(_name_of(param), _about(param)) for param in params if _is_argument(param) is is_here]
            if rows:
                write_rows(formatter, title, rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the text after the options; a command after `Example:` is broken so that it can be copied."""
        text, example, command = (self.epilog or "").partition(EXAMPLE)
        formatter.write_paragraph()
        with formatter.indentation():
            if text.strip():
                formatter.write_text(text.strip())
            if example and text.strip():
                formatter.write_paragraph()
            if example:
                lines = wrap_command(command.strip(), formatter.width - 4)
                formatter.write("".join(f"{line}\n" for line in ("  Example:", *(f"    {line}" for line in lines))))


class Command(_Help, TyperCommand):
    """A command with our help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments.

        An option whose metavar has two words, such as `--at N STEP`, takes two words and may be repeated. typer has no
        such options, so it gets the two as one text, which `split_words` takes apart.
        """
        of_two = {name for param in self.get_params(ctx) if " " in (param.metavar or "") for name in param.opts}
        found: list[str] = super().parse_args(ctx, _join_words(args, of_two))
        return found


_BETWEEN = "\x1f"  # the two words of an option; no shell gives it


def _join_words(args: Sequence[str], of_two: Collection[str]) -> list[str]:
    """The arguments, in which the two words after an option of two words are one."""
    joined, left = [], list(args)
    while left:
        word = left.pop(0)
        joined.append(word)
        if word in of_two and len(left) >= 2:
            joined.append(f"{left.pop(0)}{_BETWEEN}{left.pop(0)}")
    return joined


def split_words(text: str) -> tuple[str, str]:
    """The two words of an option that takes two."""
    first, between, second = text.partition(_BETWEEN)
    if not between:
        raise ConfigError(f"{text}: this option takes two words; put a step of several words in quotes.")
    return first, second


class Group(_Help, TyperGroup):
    """A group of commands with our help."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return ["COMMAND", "[OPTIONS]"]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        super().format_options(ctx, formatter)
        rows = [(name, self.commands[name].get_short_help_str()) for name in self.list_commands(ctx)]
        write_rows(formatter, "Commands", rows)


class App(typer.Typer):
    """A group of commands, as `typer.Typer` with our help for the group and for its commands."""

    def __init__(self, *, cls: type[Group] = Group, **settings: Any) -> None:
        settings = {"no_args_is_help": True, "add_completion": False, **settings}
        super().__init__(cls=cls, rich_markup_mode=None, pretty_exceptions_enable=False, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Add a command; `epilog` ends with `Example: p3iv ...`."""
        return super().command(name, cls=Command, **settings)


def write_rows(formatter: Any, title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Write names and what they mean in two columns; names are never broken, and long ones get a line of their own."""
    limit = 26 if formatter.width > 70 else 20
    width = max(len(name) for name, _ in rows if len(name) <= limit) + 2
    lines = ["", f"{title}:"]
    for name, about in rows:
        text = _wrap(about, formatter.width - width - 2)
        first = "" if len(name) > limit else text.pop(0) if text else ""
        lines.append(f"  {name:<{width}}{first}".rstrip())
        lines += [f"  {'':<{width}}{line}" for line in text]
    formatter.write("".join(f"{line}\n" for line in lines))


def _wrap(text: str, width: int) -> list[str]:
    """The lines of a text; names such as p3iv-plus and what is in square brackets stay whole where they fit."""
    whole = re.sub(r"\[[^\]]{,20}\]", lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
    lines = textwrap.wrap(whole, width, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def wrap_command(command: str, width: int) -> list[str]:
    """The lines of a command, each but the last with the backslash that a shell needs."""
    lines = textwrap.wrap(command, width - 2, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
    return [*(f"{line} \\" for line in lines[:-1]), *lines[-1:]]


def _is_argument(param: Any) -> bool:
    return bool(param.param_type_name == "argument")


def _usage_of(argument: Any) -> str:
    name = f"{argument.metavar} ..." if argument.nargs == -1 else str(argument.metavar)
    return name if argument.required else f"[{name}]"


def _name_of(param: Any) -> str:
    if _is_argument(param):
        return str(param.metavar)
    names = ", ".join(sorted((*param.opts, *param.secondary_opts), key=len))
    return names if getattr(param, "is_flag", False) or not param.metavar else f"{names} {param.metavar}"


def _about(param: Any) -> str:
    """The help text, and the default if there is one to tell."""
    if param.required:
        note = "" if _is_argument(param) else "[required]"
    else:
        note = f"[default: {default}]" if (default := _default_of(param)) else ""
    return "  ".join(part for part in (param.help, note) if part)


def _default_of(param: Any) -> str:
    if isinstance(param.show_default, str):
        return param.show_default
    is_told = param.default is None or param.default is False or param.default in ((), [], "")
    return "" if is_told else str(param.default)
