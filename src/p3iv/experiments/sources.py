"""The datasets of a reproduction: which column of the paper each stands beside, and what tells it from others."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from p3iv.data.folder import CARD_FILE, read_card
from p3iv.errors import DatasetError
from p3iv.experiments.declared import PAPER_DATASETS
from p3iv.features.store import FeatureStore
from p3iv.files import atomic_folder
from p3iv.readers.steps_csv import STEPS_FILE
from p3iv.types import listed

_PARTS = (STEPS_FILE, "split.json", "language.npz", CARD_FILE)  # with the features, all that runs read


@dataclass(frozen=True)
class Source:
    """One dataset folder."""

    folder: Path
    name: str
    label: str  # to print beside any figure: SIMULATED where it is
    fingerprint: str  # of all that runs read of it

    @property
    def slug(self) -> str:
        """Its label as part of a file name, so that nobody takes simulated features for others."""
        return re.sub(r"[^a-z0-9]+", "-", self.label.casefold()).strip("-")

    @property
    def paper_name(self) -> str | None:
        """The dataset of the paper that this is, by its name, whatever its features are."""
        return next((name for name in PAPER_DATASETS if name == self.name.casefold()), None)


def open_sources(folders: tuple[Path, ...]) -> tuple[Source, ...]:
    """Look at dataset folders without reading them: every call does, also one that has nothing left to do."""
    if not folders:
        raise DatasetError(
            "No data is given. Pass --data DIR, once per dataset folder; make one with "
            "`p3iv data make tabletop DIR --skip-rendering` or `p3iv data import`."
        )
    sources = tuple(_open(folder) for folder in folders)
    labels = [source.label for source in sources]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise DatasetError(f"Two datasets are called {twice[0]}: give one of them another name in its dataset.yaml.")
    return sources


def link_dataset(folder: Path, copy: Path) -> None:
    """A dataset folder whose features are those of another and whose small files are its own, free to be changed."""
    with atomic_folder(copy) as beside:
        for name in _PARTS:
            if (folder / name).exists():
                shutil.copyfile(folder / name, beside / name)
        (beside / "features").symlink_to((folder / "features").resolve())


def _open(folder: Path) -> Source:
    missing = [name for name in (STEPS_FILE, "features", "language.npz") if not os.path.lexists(folder / name)]
    if missing:
        raise DatasetError(
            f"{folder} lacks {listed(missing)}, so it cannot be planned on. Make one with `p3iv data make tabletop "
            f"{folder} --skip-rendering`, import one with `p3iv data import`, or add features with `p3iv extract`."
        )
    digest = hashlib.sha256(FeatureStore.open(folder / "features").fingerprint.encode())
    for name in _PARTS:
        digest.update(f"\0{name}\0".encode())
        digest.update((folder / name).read_bytes() if (folder / name).exists() else b"")
    card = read_card(folder)
    return Source(folder, card.name, card.label, digest.hexdigest())
