"""What the shell offers when a user presses TAB after an option; nothing here imports torch."""

from __future__ import annotations

from collections.abc import Callable, Collection

Complete = Callable[[str], list[str]]


def complete_names(names: Collection[str]) -> Complete:
    """Offer the names that begin with what was typed."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def complete_list(names: Collection[str]) -> Complete:
    """Offer the same after the last comma of a list."""

    def complete(incomplete: str) -> list[str]:
        done, comma, last = incomplete.rpartition(",")
        given = done.split(",")
        return [f"{done}{comma}{name}" for name in names if name.startswith(last) and name not in given]

    return complete


def complete_setting(incomplete: str) -> list[str]:
    """Offer KEY=DEFAULT for `--set`; of a switch, both values."""
    from p3iv.config import describe_settings  # imports pydantic

    offered = []
    for info in describe_settings():
        values = ["true", "false"] if isinstance(info.default, bool) else [info.default]
        offered += [f"{info.name}={'null' if value is None else value}" for value in values]
    return [text for text in offered if text.startswith(incomplete)]


def complete_tables(incomplete: str) -> list[str]:
    """Offer the tables and figures of `p3iv reproduce`."""
    from p3iv.experiments.declarations import declarations

    return [name for name in ("all", *declarations()) if name.startswith(incomplete)]
