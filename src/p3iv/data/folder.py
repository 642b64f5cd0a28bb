"""The dataset folder: its files, its card, how it is opened, and who may write it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass as model

from p3iv.catalogue import VIDEO_SUFFIXES
from p3iv.data.truth import TRUTH_FILE, TrueWindow, TruthReader
from p3iv.encoders.identity import IdentityOrNone
from p3iv.encoders.registry import DEFAULT_ENCODER, DEFAULT_TEXT_ENCODER
from p3iv.errors import DatasetError
from p3iv.features.language import LanguageTable, read_language
from p3iv.features.store import FeatureStore
from p3iv.files import atomic_folder, exclusive, is_leftover, remove_leftovers, write_text
from p3iv.readers.folder import read_folder
from p3iv.types import Action, Split, Video, Vocabulary, count_problems, counted, listed
from p3iv.validation import PlainText, explain, make_plain, read_mapping


def refuse_to_overwrite(folder: Path, *, overwrite: bool, sources: Iterable[Path] = ()) -> None:
    """Replace a folder only with --overwrite, and never one that is not a dataset or has a source in it."""
    destination = _resolved(folder)
    if destination.exists() and not destination.is_dir():
        raise DatasetError(f"{folder} is a file; name a folder.")
    if Path.cwd().is_relative_to(destination):
        raise DatasetError(f"{folder} is the current folder or a parent of it. Name a folder in it, such as dataset.")
    for source in sources:
        if _resolved(source).is_relative_to(destination):
            raise DatasetError(
                f"{source} is in {folder}, which would be replaced, --overwrite or not. Name another folder."
            )
    if not destination.is_dir() or not any(destination.iterdir()):
        return
    if not (destination / "steps.csv").is_file():
        raise DatasetError(
            f"{folder} is not empty and has no steps.csv, so it is not a dataset folder and is never replaced, "
            f"--overwrite or not. Name another folder, or empty this one yourself."
        )
    if not overwrite:
        raise DatasetError(f"{folder} exists and is not empty. Name another folder, or pass --overwrite to replace it.")


@contextmanager
def replacing_dataset(folder: Path, *, overwrite: bool, sources: Iterable[Path] = ()) -> Iterator[Path]:
    """Yield a temporary folder that replaces the dataset folder if the block succeeds.

    Only one process does so at a time, and it removes what killed ones left, unless a source is in it.

    Raises:
        BusyError: another process is writing the same dataset folder.
        DatasetError: the folder exists and must not be replaced.
    """
    sources = list(sources)
    refuse_to_overwrite(folder, overwrite=overwrite, sources=sources)
    destination = folder.resolve()  # a link stays, and its target is replaced
    with exclusive(destination, doing=f"is writing {folder}"):
        if not any(is_leftover(place) for source in sources for place in (source, *_resolved(source).parents)):
            remove_leftovers(destination)
        refuse_to_overwrite(folder, overwrite=overwrite, sources=sources)  # it may have been moved back
        with atomic_folder(destination) as temporary:
            yield temporary


def _resolved(path: Path) -> Path:
    """The path without links, so that two names of one folder compare equal."""
    try:
        return Path(os.path.realpath(path, strict=True))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise DatasetError(f"{path} is a link to itself; name another folder.") from error
        return Path(os.path.realpath(path))  # it is not there yet


CARD_FILE = "dataset.yaml"

MADE_TABLETOP = "p3iv data make tabletop"  # the source of a tabletop begins with it, also after a rename

MAX_FEATURES_PER_SECOND = 1000


@model(frozen=True, config=ConfigDict(strict=True))
class DatasetCard:
    """The content of `dataset.yaml`."""

    name: PlainText
    source: PlainText = "unknown"
    encoder: IdentityOrNone = None  # of the features; None if there are none
    text_encoder: IdentityOrNone = None
    features_per_second: float = Field(default=1.0, gt=0, le=MAX_FEATURES_PER_SECOND)
    simulated: bool = False  # figures on simulated features say nothing about real videos
    feature_fingerprint: PlainText | None = None

    @property
    def label(self) -> str:
        """The name to print beside every figure, with the encoder of the features."""
        encoder = f"{self.encoder} features" if self.encoder else "no features"
        is_renamed = self.source.startswith(MADE_TABLETOP) and "tabletop" not in self.name.casefold()
        return f"{self.name} ({'tabletop, ' if is_renamed else ''}{'SIMULATED ' if self.simulated else ''}{encoder})"

    def write(self, folder: Path) -> None:
        encoders = {"encoder": self.encoder, "text_encoder": self.text_encoder}
        content = asdict(self) | {key: known.to_plain() for key, known in encoders.items() if known}
        write_text(folder / CARD_FILE, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


_CARD_KEYS = tuple(field.name for field in fields(DatasetCard))


def read_card(folder: Path) -> DatasetCard:
    """Read `dataset.yaml`; a folder without one gets a card with the folder's name."""
    path = folder / CARD_FILE
    if not os.path.lexists(path):
        return DatasetCard(name=make_plain(Path(os.path.realpath(folder)).name))
    content = _read_mapping(path)
    try:
        return DatasetCard(**{key: content[key] for key in _CARD_KEYS if key in content})
    except ValidationError as error:
        raise DatasetError(f"{path}: {explain(error)}.") from error


def unknown_keys(folder: Path) -> list[str]:
    """The keys of `dataset.yaml` that nothing reads, such as a misspelt one."""
    path = folder / CARD_FILE
    return [str(key) for key in _read_mapping(path) if key not in _CARD_KEYS] if os.path.lexists(path) else []


def _read_mapping(path: Path) -> dict[Any, Any]:
    return read_mapping(path, error=DatasetError, advice="It must have at least a line `name: TEXT`.")


@contextmanager
def exclusive_dataset(folder: Path) -> Iterator[None]:
    """Allow one process at a time to change a dataset folder, because every change also rewrites dataset.yaml.

    What killed processes left in the folder is removed.

    Raises:
        BusyError: another process is changing it.
        DatasetError: there is no such folder.
    """
    if not folder.is_dir():
        raise DatasetError(f"{folder}: there is no such folder. Give a dataset folder, which has a steps.csv.")
    destination = folder.resolve()
    beside = os.access(destination.parent, os.W_OK)  # the lock of `replacing_dataset`, which needs that permission, too
    with exclusive(destination if beside else destination / CARD_FILE, doing=f"is writing into {folder}"):
        for name in (CARD_FILE, LANGUAGE_FILE, UNALIGNED_FILE, "features"):
            remove_leftovers(folder / name)
        yield


LANGUAGE_FILE = "language.npz"
UNALIGNED_FILE = "language_text.npz"  # the embeddings of the texts, after `p3iv align` has replaced language.npz


def find_videos(folder: Path) -> dict[str, Path]:
    """The video files of a folder by stem; empty if it is not a folder.

    A stem that several files have is left out (`find_twins` has it): which of kitchen.mp4 and kitchen.mkv is meant? A
    broken link is used only if it is the only file with its stem, so that the caller can report it.
    """
    return {stem: paths[0] for stem, paths in _videos_by_stem(folder).items() if len(paths) == 1}


def find_twins(folder: Path) -> dict[str, str]:
    """The stems that several video files of a folder have, with a sentence that names the files."""
    twins = {stem: paths for stem, paths in _videos_by_stem(folder).items() if len(paths) > 1}
    return {
        stem: f"{' and '.join(path.name for path in paths)} have one name; rename or remove all but one"
        for stem, paths in twins.items()
    }


def _videos_by_stem(folder: Path) -> dict[str, list[Path]]:
    if not folder.is_dir():
        return {}
    paths = [path for path in folder.iterdir() if path.suffix.lower() in VIDEO_SUFFIXES and not is_leftover(path)]
    found: dict[str, list[Path]] = {}
    for path in sorted(paths, key=lambda path: (not path.exists(), path.name)):
        same = found.setdefault(path.stem, [])
        if not same or path.exists():
            same.append(path)
    return found


def refuse_foreign_features(folder: Path) -> None:
    """Refuse to replace a folder `features` that p3iv did not write."""
    features = folder / "features"
    if not os.path.lexists(features) or FeatureStore.is_at(features):
        return
    if not features.is_dir() or any(features.iterdir()):
        raise DatasetError(
            f"{features} was not written by p3iv (it has no index.json), so it is never replaced. Pack it first: "
            f"p3iv data import folder {folder} NEW"
        )


@dataclass(frozen=True)
class Dataset:
    """An opened dataset folder."""

    folder: Path
    card: DatasetCard
    videos: tuple[Video, ...]
    vocabulary: Vocabulary
    split: Split | None
    language: np.ndarray | None  # (A, F_l), a row per action of the vocabulary
    notes: tuple[str, ...] = ()  # what was understood in its steps.csv, which is written in another way

    @cached_property
    def features(self) -> FeatureStore | None:
        """The feature store, mapped into memory, or None if the folder has none; a broken link is an error."""
        return FeatureStore.open(self.folder / "features") if os.path.lexists(self.folder / "features") else None

    @property
    def has_truth(self) -> bool:
        return os.path.lexists(self.folder / TRUTH_FILE)

    def read_truth(self, vocabulary: Vocabulary | None = None) -> Iterator[TrueWindow]:
        """The lines of `truth.jsonl`, with the ids of a vocabulary; none if there is no such file."""
        if not self.has_truth:
            return
        path, reader = self.folder / TRUTH_FILE, TruthReader(self.videos, vocabulary or self.vocabulary)
        try:
            with path.open("rb") as lines:
                for number, line in enumerate(lines, start=1):
                    yield _read_line(f"{path}:{number}", line, reader)
        except OSError as error:
            raise DatasetError(f"{path} cannot be read ({error.strerror}).") from error


def require_features(dataset: Dataset) -> FeatureStore:
    """The features of a dataset, which must be those that its dataset.yaml describes.

    Raises:
        DatasetError: it has none, or others.
    """
    store, folder = dataset.features, dataset.folder
    if store is None:
        raise DatasetError(
            f"{folder} has no features. Make them from its videos with `p3iv extract {folder}`, "
            f"import it with --features FOLDER, or simulate them with `p3iv data simulate {folder}`."
        )
    refuse_other_features(dataset.card, store, folder)
    return store


def note_late_steps(dataset: Dataset, store: FeatureStore) -> Iterator[str]:
    """Name the videos whose features end before their last step does."""
    rate = dataset.card.features_per_second
    there = [video for video in dataset.videos if video.id in store]
    if short := [video.id for video in there if _last_end_s(video) > (store.num_rows(video.id) + 1) / rate]:
        number = counted(len(short), "video")
        yield f"the features of {number} end before the last step: {listed(short)}; correct its time in steps.csv"


def _last_end_s(video: Video) -> float:
    """The latest end of a step, which is not always that of the last step."""
    return max((step.end_s or 0.0 for step in video.steps), default=0.0)


def refuse_other_features(card: DatasetCard, store: FeatureStore, folder: Path) -> None:
    """Refuse features that are not those that the card of a folder describes: its encoder may not have made them."""
    described = card.feature_fingerprint
    if described is not None and described != store.fingerprint:
        raise DatasetError(
            f"{folder / CARD_FILE} describes other features ({described[:12]}) than those in {store.folder} "
            f"({store.fingerprint[:12]}): a command was interrupted, or one of the two was replaced. Make the features "
            f"again, for instance with `p3iv extract {folder} --overwrite`."
        )


def open_dataset(folder: Path) -> Dataset:
    """Open a dataset folder; anything in it that cannot be used is an error."""
    refuse_leftover(folder)
    return open_unfinished(folder)


def refuse_leftover(folder: Path) -> None:
    """Refuse the unfinished folder of a killed import, which has a temporary name."""
    if is_leftover(folder):
        raise DatasetError(
            f"{folder} was left by an interrupted command and is not a dataset. If that command is no longer running, "
            f"delete the folder and run the command again."
        )


def open_unfinished(folder: Path) -> Dataset:
    """Open a folder that is still being written, which has a temporary name."""
    annotations = read_folder(folder)
    if annotations.problems:
        first, number = annotations.problems[0], count_problems(annotations.problems)
        raise DatasetError(
            f"{folder} has {counted(number, 'problem')}{', the first' if number > 1 else ''}: {first.where}: "
            f"{first.what}. "
            f"See all with `p3iv data check {folder}`, or make a clean folder with `p3iv data import folder`."
        )
    language = read_language(folder / "language.npz") if os.path.lexists(folder / "language.npz") else None
    vocabulary, card = annotations.vocabulary, read_card(folder)
    if language is not None:
        _require_one_row_each(language, vocabulary, folder, card)
        vocabulary = extend_vocabulary(vocabulary, language)
    return Dataset(
        folder=folder,
        card=card,
        videos=annotations.videos,
        vocabulary=vocabulary,
        split=annotations.split,
        language=None if language is None else language.embedding,
        notes=annotations.notes,
    )


def extend_vocabulary(seen: Vocabulary, language: LanguageTable) -> Vocabulary:
    """The rows of language.npz with their ids and the texts of steps.csv, then the steps without a row."""
    text_of = {action.name: action.text for action in seen.actions}
    ids = language.ids or (None,) * len(language.names)
    rows = [Action(name, text_of.get(name, name), id_) for name, id_ in zip(language.names, ids, strict=True)]
    known = set(language.names)
    return Vocabulary((*rows, *(action for action in seen.actions if action.name not in known)))


def advise_embedding(card: DatasetCard, folder: Path) -> str:
    """How to get embeddings of new steps: by the text encoder that made the others, else by importing."""
    made, features = card.text_encoder, card.encoder
    if made is None or made.fingerprint is None:
        return (
            f"Make all of them again with `p3iv data embed {folder} --overwrite`, or import the folder again with "
            f"`p3iv data import folder {folder} NEW --language FILE`."
        )
    if features is None or features.fingerprint is None:
        return f"Type: p3iv data embed {folder}."
    is_default = features is not None and (features.name, features.weights) == (DEFAULT_ENCODER, None)
    is_default &= (made.name.partition(" ")[0], made.weights) == (DEFAULT_TEXT_ENCODER, None)  # before " aligned"
    return f"Type: p3iv extract {folder}{'' if is_default else ', with the options of its first extraction'}."


def _require_one_row_each(language: LanguageTable, seen: Vocabulary, folder: Path, card: DatasetCard) -> None:
    known, again = set(language.names), advise_embedding(card, folder)
    if len(known) < len(language.names):
        raise DatasetError(f"{folder / 'language.npz'} has two rows for one step. {again}")
    if missing := [name for name in seen.names if name not in known]:
        steps = f"{counted(len(missing), 'step')}: {listed(missing)}"
        raise DatasetError(f"{folder / 'language.npz'} has no embedding for {steps}. {again}")


def _read_line(where: str, line: bytes, reader: TruthReader) -> TrueWindow:
    try:
        return reader.read(line)
    except ValueError as error:
        raise DatasetError(f"{where}: {error}") from error
