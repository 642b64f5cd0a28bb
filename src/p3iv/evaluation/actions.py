"""The list of actions: ids from 0, and names where they are known (`actions.json`)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from p3iv.errors import PlanError
from p3iv.files import write_text
from p3iv.types import counted
from p3iv.validation import parse_json, shown

ACTIONS_FILE = "actions.json"
MAX_ACTIONS = 100_000


@dataclass(frozen=True)
class ActionList:
    """Ids from 0, and names where they are listed."""

    number: int
    names: tuple[str, ...] = ()

    @cached_property
    def _id_of(self) -> dict[int | str, int]:
        return {number: number for number in range(self.number)} | {name: n for n, name in enumerate(self.names)}

    def to_ids(self, actions: Sequence[int | str]) -> list[int]:
        """Ids of actions given by id or by name.

        Raises:
            ValueError: naming the first that is neither.
        """
        try:
            return [self._id_of[action] for action in actions]
        except KeyError as error:
            names = "or one of the names listed" if self.names else "(for names, pass a list: --actions FILE)"
            raise ValueError(
                f"{shown(error.args[0])} is not an action; expected an id from 0 to {self.number - 1} {names}"
            ) from error


def read_actions(text: str) -> ActionList:
    """Read `--actions`: a number of actions, or a file of their names, one per line or as a JSON list.

    Raises:
        PlanError: for a number out of range, and for a file that is not a list of names.
    """
    if re.fullmatch(r"[+-]?\d+", text):
        if len(text) > 9 or not 1 <= int(text) <= MAX_ACTIONS:
            raise PlanError(f"--actions {text[:20]}: expected a number from 1 to {MAX_ACTIONS}, or a file of names.")
        return ActionList(int(text))
    require_file(Path(text), "the number of actions, or a file of their names")
    try:
        names = _parse_names(Path(text).read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise PlanError(f"{text}: byte {error.start + 1} is not UTF-8.") from error
    except ValueError as error:
        raise PlanError(f"{text}: {error}") from error
    return ActionList(len(names), tuple(names))


def write_actions(path: Path, names: Sequence[str]) -> None:
    """Write a JSON list that `read_actions` reads."""
    write_text(path, json.dumps(list(names), ensure_ascii=False, indent=0) + "\n")


def require_file(path: Path, expected: str) -> None:
    """Allow only regular files and links to them; reading a pipe or a device might never end.

    Raises:
        PlanError: saying what is there instead.
    """
    if not path.is_file():
        what = "a folder" if path.is_dir() else "not a regular file" if path.exists() else "there is no such file"
        raise PlanError(f"{path}: {what}; expected {expected}.")


def _parse_names(text: str) -> list[str]:
    """One name per line, or a JSON list of them."""
    if text.lstrip().startswith("["):
        names = parse_json(text)
        if not isinstance(names, list) or any(not isinstance(name, str) for name in names):
            raise ValueError("expected a JSON list of names")
    else:
        names = [line.strip() for line in text.rstrip().split("\n")]
    line_of: dict[str, int] = {}
    for number, name in enumerate(names, start=1):
        if not name or name in line_of:
            raise ValueError(f"name {number} is " + (f"{shown(name)}, as is name {line_of[name]}" if name else "empty"))
        line_of[name] = number
    if not 1 <= len(names) <= MAX_ACTIONS:
        raise ValueError(f"{counted(len(names), 'name')}; expected 1 to {MAX_ACTIONS}")
    return names
