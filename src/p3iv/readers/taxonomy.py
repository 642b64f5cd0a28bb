"""The actions of released lists: their numbers, and their texts from the lists or from a taxonomy beside them.

A taxonomy is `{"0_23521_Make Jello Shots": {"0": "pour water", ...}, ...}`: the number of a task, CrossTask's own
number where there is one, and its name, with the numbers and texts of its actions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from p3iv.readers.files import JsonObject, UnusableError, parse_object, read_text
from p3iv.readers.rows import make_vocabulary, parse_name, parse_whole_number
from p3iv.types import Action, Vocabulary
from p3iv.validation import shown

_TASK = re.compile(r"(?P<number>\d+)_(?:\d+_)?(?P<name>.+)", re.ASCII)


@dataclass(frozen=True)
class NamedActions:
    """The vocabulary of the lists, and names by the lists' numbers."""

    vocabulary: Vocabulary
    name_of: Mapping[int, str]
    task_of: Mapping[str, str]  # names of tasks by their numbers, from the taxonomy


@dataclass
class ListedActions:
    """The actions of the lists: a number, a text and a task each, as far as the lists say so."""

    text_of: dict[int, str] = field(default_factory=dict)
    task_of: dict[int, str] = field(default_factory=dict)  # of each action, the first
    numbers: set[int] = field(default_factory=set)

    def add(self, number: int, text: str | None, task: str | None) -> None:
        """Add an action; a number has one text."""
        self.numbers.add(number)
        if text is not None and self.text_of.setdefault(number, text) != text:
            raise UnusableError(f"action {number} is {shown(text)} here and {shown(self.text_of[number])} before")
        if task is not None:
            self.task_of.setdefault(number, task)

    def named(self, folder: Path) -> NamedActions:
        """Names of all actions, with the taxonomy in the folder that fits.

        Raises:
            UnusableError: neither the lists nor a taxonomy have the text of an action.
        """
        taxonomy = self._taxonomy(folder)
        texts = {**taxonomy.text_of, **self.text_of}
        if missing := sorted(self.numbers - set(texts)):
            raise UnusableError(
                f"it has no text for action {missing[0]}, and no taxonomy beside it has all actions. Put the taxonomy "
                'of these lists into its folder, *taxonomy*.json: {"0_TASK": {"NUMBER": TEXT, ...}, ...}'
            )
        names = _distinct_names(texts, {**taxonomy.task_of, **self.task_of})
        vocabulary = make_vocabulary(Action(names[number], texts[number]) for number in sorted(texts))
        return NamedActions(vocabulary, names, taxonomy.tasks)

    def _taxonomy(self, folder: Path) -> _Taxonomy:
        """The smallest taxonomy that has every action of the lists, with the same texts."""
        found = [_read_taxonomy(path) for path in sorted(folder.glob("*taxonomy*.json"))]
        fitting = [
            each
            for each in found
            if self.numbers <= set(each.text_of) and all(each.text_of[n] == text for n, text in self.text_of.items())
        ]
        return min(fitting, key=lambda each: len(each.text_of), default=_Taxonomy({}, {}, {}))


@dataclass(frozen=True)
class _Taxonomy:
    text_of: Mapping[int, str]
    task_of: Mapping[int, str]  # the task of an action
    tasks: Mapping[str, str]  # names of tasks by their numbers


def _read_taxonomy(path: Path) -> _Taxonomy:
    texts: dict[int, str] = {}
    task_of: dict[int, str] = {}
    tasks: dict[str, str] = {}
    try:
        for key, value in parse_object(read_text(path)).items():
            task_id, task, actions = _parse_task(key, value)
            tasks[task_id] = task
            texts |= actions
            task_of |= dict.fromkeys(actions, task)
    except UnusableError as error:
        raise UnusableError(f"the taxonomy {path.name} cannot be used: {error}") from error
    return _Taxonomy(texts, task_of, tasks)


def _parse_task(key: str, value: object) -> tuple[str, str, dict[int, str]]:
    """Number, name and actions of a task."""
    match = _TASK.fullmatch(key)
    if not match or not isinstance(value, JsonObject):
        raise UnusableError(f"{shown(key)} is {shown(value)}, expected NUMBER_TASK and an object of actions")
    actions = {parse_whole_number(n, "an action's number"): parse_name(text, "an action") for n, text in value.items()}
    return match["number"], parse_name(match["name"], "the task"), actions


def _distinct_names(texts: Mapping[int, str], task_of: Mapping[int, str]) -> dict[int, str]:
    """Texts as names; those of several actions get their task in front, and their number if that is not enough."""
    times = Counter(texts.values())
    names = {n: f"{task_of[n]}: {text}" if times[text] > 1 and n in task_of else text for n, text in texts.items()}
    shared = {name for name, count in Counter(names.values()).items() if count > 1}
    return {number: f"{name} [{number}]" if name in shared else name for number, name in names.items()}
