"""The language table: one text embedding per step, and how its rows meet the actions of the annotations."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from p3iv.atomic import whole_file
from p3iv.errors import FeatureError, SourceError
from p3iv.features.npy import Archive, is_zip, read_content
from p3iv.features.thawing import Array
from p3iv.types import listed

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the same table gives the same bytes, whatever the clock


@dataclass(frozen=True)
class LanguageTable:
    """Steps and their text embeddings."""

    names: tuple[str, ...]  # (A,)
    ids: tuple[str, ...] | None  # (A,)
    embedding: Array  # (A, F_l) float32


def read_language(path: Path) -> LanguageTable:
    """A .npz with `step` (names), `embedding` (one row per name) and perhaps `step_id`.

    Names may repeat where `step_id` tells the steps apart.

    Raises:
        SourceError: naming the file, whatever its bytes.
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
        SourceError: for a table that could not be read back.
    """
    members = {"step": np.array(list(names), dtype=np.str_), "embedding": np.asarray(embedding)}
    if ids is not None:
        members["step_id"] = np.array(list(ids), dtype=np.str_)
    table = _table(members)
    if table.names != tuple(names) or (ids is not None and table.ids != tuple(ids)):
        raise SourceError("a step name or id that ends in a NUL character cannot be kept")
    with whole_file(path) as beside, zipfile.ZipFile(beside, "w", zipfile.ZIP_STORED) as archive:
        for name, array in (members | {"embedding": table.embedding}).items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EPOCH), member.getvalue())


def _members(path: Path) -> dict[str, Array]:
    content = read_content(path)
    if not is_zip(content):
        raise SourceError("not a .npz; a table holds `step` (names), `embedding` and perhaps `step_id`")
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
    seen: set[str] = set()
    twice = [value for value in values if value in seen or seen.add(value)]  # type: ignore[func-returns-value]
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
