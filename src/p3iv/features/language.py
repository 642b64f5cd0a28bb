"""Step embeddings: reading and writing language.npz, and matching its rows to the actions of annotations."""

from __future__ import annotations

import csv
import difflib
import io
import json
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import numpy as np

from p3iv.errors import FeatureError, SourceError
from p3iv.features.arrays import Archive, is_zip, read_content
from p3iv.files import atomic_file
from p3iv.types import Action, Array, Vocabulary, listed
from p3iv.validation import parse_json, shown

_MAX_SUGGESTIONS: Final = 100  # steps for which similar names are searched: difflib takes milliseconds for each


@dataclass(frozen=True)
class MatchedLanguage:
    """A vocabulary with one embedding per action."""

    vocabulary: Vocabulary
    embedding: Array  # (A, F_l) float32


def match_language(vocabulary: Vocabulary, table: LanguageTable, rename: Mapping[str, str]) -> MatchedLanguage:
    """Find the row of every action, and add the remaining rows to the vocabulary.

    The result has the order of the table, so that no video decides how actions are numbered; actions that share a row
    keep the order of the annotations. An action is matched by id if both have one, then by name, then by text; actions
    with the same text may share a row. `rename` maps names of the table to names (or texts) of the annotations.

    Raises:
        SourceError: listing every action without a row, or every unknown name in `rename`.
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
    rows_of = [row for row in matched if row is not None] + further
    order = sorted(range(len(actions)), key=rows_of.__getitem__)
    return MatchedLanguage(Vocabulary(tuple(actions[i] for i in order)), table.embedding[[rows_of[i] for i in order]])


def read_rename(path: Path) -> dict[str, str]:
    """Read a mapping from names in a language table to names in the annotations: JSON, or a CSV without a header.

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
    """Finds the row of an action in a table."""

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
                f"{len(rows)} rows of the language table are called {shown(action.text)} and differ; "
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
    unknown = [name for name in rename if name not in set(table.names)]
    if unknown:
        raise SourceError(f"the rename file renames {listed(unknown)}, which the language table does not have")
    targets = [name for name in rename.values() if name not in known]
    if targets:
        raise SourceError(f"the rename file renames to {listed(targets)}, which the annotations do not have")


def _what_is_missing(missing: list[Action], table: LanguageTable, free: list[str]) -> str:
    """List every step without an embedding with similar names, and a rename file to copy."""
    names = sorted(set(table.names))
    lines, rename = [], {}
    for number, action in enumerate(missing):
        near = difflib.get_close_matches(action.text, names) if number < _MAX_SUGGESTIONS else []
        lines.append(f"  {action.name}" + (f"  (nearest: {'; '.join(near)})" if near else ""))
        unused = [name for name in near if name in free and name not in rename]
        if unused:
            rename[unused[0]] = action.text
    advice = "Add their embeddings to the language table."
    if rename:
        pasted = json.dumps(rename, indent=2, ensure_ascii=False)
        advice = f"If these are the same steps, save this as rename.json and pass --rename rename.json:\n{pasted}"
    have = "step has" if len(missing) == 1 else "steps have"
    return f"{len(missing)} {have} no embedding in the language table:\n" + "\n".join(lines) + f"\n{advice}"


def _json_pairs(text: str) -> list[tuple[str, str]]:
    pairs = cast(list[tuple[object, object]], parse_json(text, object_pairs_hook=lambda found: found))
    if not all(isinstance(name, str) and isinstance(target, str) for name, target in pairs):
        raise ValueError("every entry must map a name to a name")
    return cast(list[tuple[str, str]], pairs)


def _csv_pairs(text: str) -> list[tuple[str, str]]:
    rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text, newline="")) if row]
    wrong = next((row for row in rows if len(row) != 2), None)
    if wrong is not None:
        raise ValueError(f"a line of {len(wrong)} columns: {','.join(wrong)}")
    return [(row[0], row[1]) for row in rows]


_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # a fixed date, so that the same table gives the same bytes


@dataclass(frozen=True)
class LanguageTable:
    """Steps and their text embeddings."""

    names: tuple[str, ...]  # (A,)
    ids: tuple[str, ...] | None  # (A,)
    embedding: Array  # (A, F_l) float32


def read_language(path: Path) -> LanguageTable:
    """Read a .npz with `step` (names), `embedding` (one row per name) and optionally `step_id`.

    Names may repeat if there is a `step_id`.

    Raises:
        SourceError: names the file; raised for any invalid bytes.
    """
    try:
        return _table(_members(path))
    except FileNotFoundError as error:
        raise SourceError(f"{path}: there is no such file; a table of step embeddings is a .npz") from error
    except Exception as error:  # zipfile, zlib and numpy raise a dozen kinds on hostile bytes
        known = isinstance(error, FeatureError | SourceError)
        reason = str(error) if known else f"cannot be read ({type(error).__name__}: {str(error)[:200]})"
        raise SourceError(f"{path}: {reason}") from error


def write_language(path: Path, names: Sequence[str], embedding: Array, ids: Sequence[str] | None = None) -> None:
    """Write a table that `read_language` reads; the same table always gives the same bytes.

    Raises:
        SourceError: the table could not be read back.
    """
    members = {"step": np.array(list(names), dtype=np.str_), "embedding": np.asarray(embedding)}
    if ids is not None:
        members["step_id"] = np.array(list(ids), dtype=np.str_)
    table = _table(members)
    if table.names != tuple(names) or (ids is not None and table.ids != tuple(ids)):
        raise SourceError("a step name or id ends in a NUL character, which .npz cannot store")
    with atomic_file(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        for name, array in (members | {"embedding": table.embedding}).items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EPOCH), member.getvalue())


def _members(path: Path) -> dict[str, Array]:
    content = read_content(path)
    if not is_zip(content):
        raise SourceError("not a .npz; a table has `step` (names), `embedding` and optionally `step_id`")
    archive = Archive(content)
    wanted = [name for name in ("step", "embedding", "step_id") if name in archive.names]
    if wanted[:2] != ["step", "embedding"]:
        raise SourceError(f"holds {listed(archive.names) or 'nothing'}; `step` (names) and `embedding` are needed")
    return {name: archive.read_array(name) for name in wanted}


def _table(members: dict[str, Array]) -> LanguageTable:
    names = _texts("step", members["step"])
    ids = _texts("step_id", members["step_id"]) if "step_id" in members else None
    if ids is not None and len(ids) != len(names):
        raise SourceError(f"{len(names)} names in `step`, {len(ids)} in `step_id`")
    _require_distinct("step_id" if ids is not None else "step", ids if ids is not None else names)
    return LanguageTable(names, ids, _embedding(members["embedding"], len(names)))


def _texts(key: str, values: Array) -> tuple[str, ...]:
    if values.ndim != 1 or not len(values) or values.dtype.kind not in ("USiu" if key == "step_id" else "US"):
        raise SourceError(f"`{key}` is {values.dtype} of shape {values.shape}; a list of names is expected")
    return tuple(value.decode("utf-8") if isinstance(value, bytes) else str(value) for value in values.tolist())


def _require_distinct(key: str, values: tuple[str, ...]) -> None:
    twice = [value for value, count in Counter(values).items() if count > 1]
    if twice:
        raise SourceError(f"`{key}` holds {listed(twice)} more than once")


def _embedding(values: Array, num_names: int) -> Array:
    if values.dtype.kind not in "iuf" or values.ndim != 2 or len(values) != num_names or not values.shape[1]:
        raise SourceError(f"`embedding` is {values.dtype} of shape {values.shape}; ({num_names}, width) is expected")
    with np.errstate(over="ignore"):
        embedding = np.ascontiguousarray(values, np.float32)
    wrong = np.flatnonzero(~np.isfinite(embedding).all(axis=1))
    if len(wrong):
        raise SourceError(
            f"`embedding` has values that are not finite in {len(wrong)} rows, the first is row {wrong[0]}"
        )
    return embedding
