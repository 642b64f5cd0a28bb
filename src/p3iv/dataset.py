"""The dataset folder that every later stage reads: card, videos, vocabulary, split, language, features and truth."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from p3iv.annotations import read_folder
from p3iv.atomic import write_text
from p3iv.errors import DatasetError, P3ivError
from p3iv.features import FeatureStore, LanguageTable, read_language
from p3iv.types import Action, Split, Video, Vocabulary, listed


@dataclass(frozen=True)
class DatasetCard:
    """What `dataset.yaml` says: where a dataset came from and who made its numbers."""

    name: str
    source: str = "unknown"
    encoder: str | None = None  # of the features; None where there are none
    text_encoder: str | None = None
    features_per_second: float = 1.0
    simulated: bool = False  # stand-in features: figures on them speak about code, not about the world
    feature_fingerprint: str | None = None

    @property
    def label(self) -> str:
        """The name to print beside any figure."""
        encoder = f"{self.encoder} features" if self.encoder else "no features"
        return f"{self.name} ({'SIMULATED ' if self.simulated else ''}{encoder})"

    def write(self, folder: Path) -> None:
        write_text(folder / "dataset.yaml", yaml.safe_dump(asdict(self), sort_keys=False, allow_unicode=True))


@dataclass(frozen=True)
class TrueWindow:
    """The true plan distribution of one window, where the process that made the videos is known."""

    video: str
    first_step: int
    horizon: int
    plans: tuple[tuple[tuple[int, ...], float], ...]  # action ids, probability


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
        """The packed features, mapped into memory, or None where the folder has none."""
        return FeatureStore.open(self.folder / "features") if (self.folder / "features").exists() else None

    @property
    def has_truth(self) -> bool:
        return (self.folder / "truth.jsonl").exists()

    def read_truth(self) -> Iterator[TrueWindow]:
        """The lines of `truth.jsonl`; none where there is no such file."""
        if not self.has_truth:
            return
        with (self.folder / "truth.jsonl").open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    yield self._true_window(json.loads(line))
                except (ValueError, KeyError, TypeError, RecursionError) as error:
                    raise DatasetError(f"{self.folder / 'truth.jsonl'}:{number}: {_reason(error)}") from error

    def _true_window(self, line: dict[str, Any]) -> TrueWindow:
        plans = tuple(
            (tuple(self.vocabulary.id_of[name] for name in names), float(probability))
            for names, probability in line["plans"]
        )
        window = TrueWindow(str(line["video"]), int(line["first_step"]), int(line["horizon"]), plans)
        video = self._video_of[window.video]
        if not 0 <= window.first_step <= len(video.steps) - window.horizon:
            raise ValueError(f"steps {window.first_step} to {window.first_step + window.horizon - 1} are not all there")
        if any(len(plan) != window.horizon or not probability >= 0 for plan, probability in plans):
            raise ValueError(f"a plan that has not {window.horizon} steps, or a probability below 0")
        if not math.isclose(total := sum(probability for _, probability in plans), 1.0, abs_tol=1e-6):
            raise ValueError(f"the probabilities sum to {total:.6f}, not to 1")
        return window

    @cached_property
    def _video_of(self) -> dict[str, Video]:
        return {video.id: video for video in self.videos}


def open_dataset(folder: Path) -> Dataset:
    """Open a dataset folder; anything in it that cannot be used is an error that says how to see all of it."""
    annotations = read_folder(folder)
    if annotations.problems:
        raise DatasetError(
            f"{folder} has {len(annotations.problems)} rows that cannot be used, the first: {annotations.problems[0]}. "
            f"See all with `p3iv data check {folder}`, or make a clean folder with `p3iv data import folder`."
        )
    language = read_language(folder / "language.npz") if (folder / "language.npz").exists() else None
    vocabulary = annotations.vocabulary
    if language is not None:
        vocabulary = _vocabulary_of(language, vocabulary, folder)
    return Dataset(
        folder=folder,
        card=read_card(folder),
        videos=annotations.videos,
        vocabulary=vocabulary,
        split=annotations.split,
        language=None if language is None else language.embedding,
    )


def read_card(folder: Path) -> DatasetCard:
    """Read `dataset.yaml`; a folder without one is named after itself."""
    path = folder / "dataset.yaml"
    if not path.exists():
        return DatasetCard(name=folder.resolve().name)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except (yaml.YAMLError, OSError, ValueError, RecursionError) as error:
        raise DatasetError(f"{path} is not YAML: {_reason(error)}") from error
    if not isinstance(content, dict) or not isinstance(content.get("name"), str):
        raise DatasetError(f"{path} must be a mapping with at least `name: TEXT`.")
    return _card_from(path, content)


def _card_from(path: Path, content: dict[Any, Any]) -> DatasetCard:
    allowed: dict[str, tuple[type, ...]] = {
        "name": (str,),
        "source": (str,),
        "encoder": (str, type(None)),
        "text_encoder": (str, type(None)),
        "features_per_second": (int, float),
        "simulated": (bool,),
        "feature_fingerprint": (str, type(None)),
    }
    known = {field.name: content[field.name] for field in fields(DatasetCard) if field.name in content}
    for key, value in known.items():
        if not isinstance(value, allowed[key]):
            expected = " or ".join("null" if kind is type(None) else kind.__name__ for kind in allowed[key])
            raise DatasetError(f"{path}: {key} is {value!r}, but must be {expected}.")
    if not float(known.get("features_per_second", 1.0)) > 0:
        raise DatasetError(f"{path}: features_per_second is {known['features_per_second']}, but must be above 0.")
    return DatasetCard(**known)


def _vocabulary_of(language: LanguageTable, seen: Vocabulary, folder: Path) -> Vocabulary:
    """The rows of language.npz, with the texts that steps.csv gives."""
    missing = [name for name in seen.names if name not in set(language.names)]
    if missing:
        raise DatasetError(
            f"{folder / 'language.npz'} has no embedding for {len(missing)} steps: {listed(missing)}. "
            f"Import the folder again with `p3iv data import folder {folder} NEW --language FILE`."
        )
    text_of = {action.name: action.text for action in seen.actions}
    return Vocabulary(tuple(Action(name, text_of.get(name, name)) for name in language.names))


def _reason(error: Exception) -> str:
    """One line of a library's own words; ours pass unchanged."""
    if isinstance(error, P3ivError):
        return str(error)
    if isinstance(error, KeyError):
        return f"{error.args[0]!r} is missing or unknown"
    return " ".join(str(error).split()) or type(error).__name__
