"""Which row of a language table belongs to which action of the annotations."""

from __future__ import annotations

import csv
import difflib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from p3iv.errors import SourceError
from p3iv.features.language import LanguageTable
from p3iv.features.thawing import Array
from p3iv.types import Action, Vocabulary, listed

_MOST_NEAREST: Final = 100  # steps for which nearest names are searched: difflib takes milliseconds for each


@dataclass(frozen=True)
class MatchedLanguage:
    """A vocabulary with one embedding per action."""

    vocabulary: Vocabulary
    embedding: Array  # (A, F_l) float32


def match_language(vocabulary: Vocabulary, table: LanguageTable, rename: Mapping[str, str]) -> MatchedLanguage:
    """Give every action its row of the table, and every further row a place in the vocabulary.

    One rule: the actions of the annotations in their order, then the rows that match none, in the table's order. An
    action is matched by id where both have one, then by name, then by text; actions that share a text may share a row.
    `rename` maps names of the table to names (or texts) of the annotations.

    Raises:
        SourceError: listing every action without a row, or for a rename of what is not there.
    """
    _check_rename(vocabulary, table, rename)
    rows = _Rows(table, tuple(rename.get(name, name) for name in table.names))
    matched = [rows.of(action) for action in vocabulary.actions]
    missing = [action for action, row in zip(vocabulary.actions, matched, strict=True) if row is None]
    used = {row for row in matched if row is not None}
    further = [row for row in range(len(table.names)) if row not in used]
    if missing:
        raise SourceError(_what_is_missing(missing, table, [table.names[row] for row in further]))
    actions = (*vocabulary.actions, *_further_actions(table, further, set(vocabulary.names)))
    order = [row for row in matched if row is not None] + further
    return MatchedLanguage(Vocabulary(actions), table.embedding[order])


def read_rename(path: Path) -> dict[str, str]:
    """Names in a language table -> names in the annotations: a JSON object, or a CSV of two columns without a header.

    Raises:
        SourceError: naming the file.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        pairs = _json_pairs(text) if text.lstrip().startswith("{") else _csv_pairs(text)
    except FileNotFoundError as error:
        raise SourceError(f"{path}: there is no such file; {_RENAME_FORMAT}") from error
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        raise SourceError(f"{path} is not a rename file ({error}); {_RENAME_FORMAT}") from error
    rename = dict(pairs)
    if len(rename) != len(pairs):
        raise SourceError(f"{path} renames the same name twice")
    return rename


_RENAME_FORMAT: Final = 'write {"name in the table": "name in the annotations", ...}, or a CSV of those two columns'


class _Rows:
    """Finds the row of an action."""

    def __init__(self, table: LanguageTable, names: tuple[str, ...]) -> None:
        self._by_id = {name: row for row, name in enumerate(table.ids or ())}
        self._by_name: dict[str, list[int]] = {}
        for row, name in enumerate(names):
            self._by_name.setdefault(name, []).append(row)
        self._embedding = table.embedding

    def of(self, action: Action) -> int | None:
        if action.id is not None and action.id in self._by_id:
            return self._by_id[action.id]
        rows = self._by_name.get(action.name) or self._by_name.get(action.text) or []
        if len(rows) > 1 and not (self._embedding[rows] == self._embedding[rows[0]]).all():
            raise SourceError(
                f"{len(rows)} rows of the language table are called {action.text!r} and differ; "
                "give the table a `step_id` that the annotations have too"
            )
        return rows[0] if rows else None


def _further_actions(table: LanguageTable, rows: list[int], taken: set[str]) -> list[Action]:
    actions = []
    for row in rows:
        number = table.ids[row] if table.ids is not None else None
        name = table.names[row]
        while name in taken:
            name = f"{name} [{number if number is not None else row}]"
        taken.add(name)
        actions.append(Action(name, table.names[row], number))
    return actions


def _check_rename(vocabulary: Vocabulary, table: LanguageTable, rename: Mapping[str, str]) -> None:
    known = {*vocabulary.names, *(action.text for action in vocabulary.actions)}
    strangers = [name for name in rename if name not in set(table.names)]
    if strangers:
        raise SourceError(f"the rename file renames {listed(strangers)}, which the language table does not hold")
    targets = [name for name in rename.values() if name not in known]
    if targets:
        raise SourceError(f"the rename file renames to {listed(targets)}, which is no step of the annotations")


def _what_is_missing(missing: list[Action], table: LanguageTable, free: list[str]) -> str:
    """Every step without an embedding, its nearest names, and a rename file to paste."""
    names = sorted(set(table.names))
    lines, rename = [], {}
    for number, action in enumerate(missing):
        near = difflib.get_close_matches(action.text, names) if number < _MOST_NEAREST else []
        lines.append(f"  {action.name}" + (f"  (nearest: {'; '.join(near)})" if near else ""))
        unused = [name for name in near if name in free and name not in rename]
        if unused:
            rename[unused[0]] = action.text
    advice = "Add their embeddings to the language table."
    if rename:
        pasted = json.dumps(rename, indent=2, ensure_ascii=False)
        advice = f"If these are the same steps, save this as rename.json and pass --rename rename.json:\n{pasted}"
    return f"{len(missing)} steps have no embedding in the language table:\n" + "\n".join(lines) + f"\n{advice}"


def _json_pairs(text: str) -> list[tuple[str, str]]:
    pairs = json.loads(text, object_pairs_hook=lambda found: found)
    if not all(isinstance(name, str) and isinstance(target, str) for name, target in pairs):
        raise ValueError("every entry is a pair of names")
    return list(pairs)


def _csv_pairs(text: str) -> list[tuple[str, str]]:
    rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text, newline="")) if row]
    wrong = next((row for row in rows if len(row) != 2), None)
    if wrong is not None:
        raise ValueError(f"a line of {len(wrong)} columns: {','.join(wrong)}")
    return [(row[0], row[1]) for row in rows]
