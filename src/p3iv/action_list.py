"""The actions that plans in a file may name, by id or by name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from p3iv.errors import PlanError
from p3iv.records import parse_json, require_file, shown
from p3iv.types import counted

MOST_ACTIONS = 100_000


@dataclass(frozen=True)
class ActionList:
    """Ids from 0, and names where they are listed."""

    number: int
    id_of: Mapping[str, int] = field(default_factory=dict)

    def to_ids(self, actions: Sequence[Any]) -> Sequence[int]:
        """Ids of actions given by id or by name.

        Raises:
            ValueError: naming the first that is neither.
        """
        if set(map(type, actions)) == {int} and min(actions) >= 0 and max(actions) < self.number:
            return actions
        return [self._id(action) for action in actions]

    def _id(self, action: object) -> int:
        if isinstance(action, str) and action in self.id_of:
            return self.id_of[action]
        if type(action) is int and 0 <= action < self.number:
            return action
        names = "or one of the names listed" if self.id_of else "(names need a list: --actions FILE)"
        raise ValueError(f"{shown(action)} is not an action; expected an id from 0 to {self.number - 1} {names}")


def read_actions(text: str) -> ActionList:
    """A number of actions, or a file of their names: one per line, or a JSON list.

    Raises:
        PlanError: for a number out of range, and for a file that is not such a list.
    """
    if re.fullmatch(r"[+-]?\d+", text):
        if len(text) > 9 or not 1 <= int(text) <= MOST_ACTIONS:
            raise PlanError(f"--actions {text[:20]}: expected a number from 1 to {MOST_ACTIONS}, or a file of names.")
        return ActionList(int(text))
    require_file(Path(text), "the number of actions, or a file of their names")
    try:
        names = _parse_names(Path(text).read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise PlanError(f"{text}: byte {error.start + 1} is not UTF-8.") from error
    except ValueError as error:
        raise PlanError(f"{text}: {error}") from error
    return ActionList(len(names), {name: number for number, name in enumerate(names)})


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
    if not 1 <= len(names) <= MOST_ACTIONS:
        raise ValueError(f"{counted(len(names), 'name')}; expected 1 to {MOST_ACTIONS}")
    return names
