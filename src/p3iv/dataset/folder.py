"""Opening a dataset folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from p3iv.annotations import read_folder
from p3iv.atomic import is_leftover
from p3iv.dataset.card import DatasetCard, read_card
from p3iv.dataset.truth import TRUTH_FILE, TrueWindow, TruthReader
from p3iv.errors import DatasetError
from p3iv.features import FeatureStore, LanguageTable, read_language
from p3iv.types import Action, Split, Video, Vocabulary, listed

VIDEO_SUFFIXES = (".mp4", ".mkv", ".webm", ".mov", ".avi", ".m4v", ".mpg", ".mpeg", ".ts")  # of the files in videos/


@dataclass(frozen=True)
class Dataset:
    """An opened dataset folder."""

    folder: Path
    card: DatasetCard
    videos: tuple[Video, ...]
    vocabulary: Vocabulary
    split: Split | None
    language: np.ndarray | None  # (A, F_l), a row per action of the vocabulary

    @cached_property
    def features(self) -> FeatureStore | None:
        """The packed features, mapped into memory, or None where the folder has none; a broken link is an error."""
        return FeatureStore.open(self.folder / "features") if os.path.lexists(self.folder / "features") else None

    @property
    def has_truth(self) -> bool:
        return os.path.lexists(self.folder / TRUTH_FILE)

    def read_truth(self) -> Iterator[TrueWindow]:
        """The lines of `truth.jsonl`; none where there is no such file."""
        if not self.has_truth:
            return
        path, reader = self.folder / TRUTH_FILE, TruthReader(self.videos, self.vocabulary)
        try:
            with path.open("rb") as lines:
                for number, line in enumerate(lines, start=1):
                    yield _read_line(f"{path}:{number}", line, reader)
        except OSError as error:
            raise DatasetError(f"{path} cannot be read ({error.strerror}).") from error


def open_dataset(folder: Path) -> Dataset:
    """Open a dataset folder; anything in it that cannot be used is an error that says how to see all of it."""
    refuse_leftover(folder)
    return open_unfinished(folder)


def refuse_leftover(folder: Path) -> None:
    """A killed import or make leaves an unfinished folder under a name of its own, which is no dataset."""
    if is_leftover(folder):
        raise DatasetError(
            f"{folder} is what an interrupted run left behind, not a dataset. Unless that run is still under way, "
            f"delete it; then run the same command again."
        )


def open_unfinished(folder: Path) -> Dataset:
    """Open a folder that is still being written, under whatever name."""
    annotations = read_folder(folder)
    if annotations.problems:
        raise DatasetError(
            f"{folder} has {len(annotations.problems)} rows that cannot be used, the first: {annotations.problems[0]}. "
            f"See all with `p3iv data check {folder}`, or make a clean folder with `p3iv data import folder`."
        )
    language = read_language(folder / "language.npz") if os.path.lexists(folder / "language.npz") else None
    vocabulary = annotations.vocabulary
    if language is not None:
        _require_one_row_each(language, vocabulary, folder)
        vocabulary = extend_vocabulary(vocabulary, language)
    return Dataset(
        folder=folder,
        card=read_card(folder),
        videos=annotations.videos,
        vocabulary=vocabulary,
        split=annotations.split,
        language=None if language is None else language.embedding,
    )


def extend_vocabulary(seen: Vocabulary, language: LanguageTable) -> Vocabulary:
    """The rows of language.npz with their ids and the texts that steps.csv gives, then the steps that have no row."""
    text_of = {action.name: action.text for action in seen.actions}
    ids = language.ids or (None,) * len(language.names)
    rows = [Action(name, text_of.get(name, name), id_) for name, id_ in zip(language.names, ids, strict=True)]
    known = set(language.names)
    return Vocabulary((*rows, *(action for action in seen.actions if action.name not in known)))


def _require_one_row_each(language: LanguageTable, seen: Vocabulary, folder: Path) -> None:
    known = set(language.names)
    again = f"Import the folder again with `p3iv data import folder {folder} NEW --language FILE`."
    if len(known) < len(language.names):
        raise DatasetError(f"{folder / 'language.npz'} has two rows for one step. {again}")
    if missing := [name for name in seen.names if name not in known]:
        raise DatasetError(
            f"{folder / 'language.npz'} has no embedding for {len(missing)} steps: {listed(missing)}. {again}"
        )


def _read_line(where: str, line: bytes, reader: TruthReader) -> TrueWindow:
    try:
        return reader.read(line)
    except ValueError as error:
        raise DatasetError(f"{where}: {error}") from error
