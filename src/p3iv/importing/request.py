"""What an import is asked for, and what it answers."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from p3iv.features import PackedFeatures
from p3iv.types import Problem

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class ImportRequest:
    """What to import and from where; the optional parts of a `folder` source are taken from it unless named here."""

    kind: str  # crosstask | coin | niv | folder
    source: Path
    destination: Path
    features: Path | None = None
    language: Path | None = None
    rename: Path | None = None
    split: Path | None = None
    videos: Path | None = None
    encoder: str | None = None  # who made the features, for the record
    text_encoder: str | None = None
    dtype: str | None = None
    simulated: bool = False  # the features are stand-ins, made elsewhere
    keep_tasks_apart: bool = False  # CrossTask only: 133 task-steps rather than 105 texts
    strict: bool = False
    overwrite: bool = False

    @property
    def sources(self) -> list[Path]:
        """Everything that is read."""
        paths = (self.source, self.features, self.language, self.rename, self.split, self.videos)
        return [path for path in paths if path is not None]

    def with_parts_of_folder(self) -> ImportRequest:
        """A `folder` source brings its own language, features and videos where no other are named."""
        if self.kind != "folder":
            return self
        own = {"language": "language.npz", "features": "features", "videos": "videos"}
        found = {
            option: self.source / name
            for option, name in own.items()
            if getattr(self, option) is None and os.path.lexists(self.source / name)
        }
        return replace(self, **found)  # type: ignore[arg-type]


@dataclass(frozen=True)
class ImportReport:
    """What an import did, down to the last row it could not use."""

    folder: Path
    num_videos: int
    num_steps: int
    num_actions: int
    num_tasks: int
    features: PackedFeatures | None
    problems: tuple[Problem, ...] = field(default=())
    notes: tuple[str, ...] = ()  # worth knowing; nothing that was asked for is missing for them
