"""Where a dataset folder may be written: never over what it is made of, and never over what is no dataset."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from p3iv.errors import DatasetError


def refuse_to_overwrite(folder: Path, *, overwrite: bool, sources: Iterable[Path] = ()) -> None:
    """Only a dataset folder is replaced, only when asked, and never one that holds a source of what replaces it."""
    destination = _resolved(folder)
    if destination.exists() and not destination.is_dir():
        raise DatasetError(f"{folder} is a file; name a folder.")
    if Path.cwd().is_relative_to(destination):
        raise DatasetError(f"{folder} is the folder you are in, or above it. Name a folder inside it, such as dataset.")
    for source in sources:
        if _resolved(source).is_relative_to(destination):
            raise DatasetError(
                f"{source} is in {folder}, which would be replaced, --overwrite or not. Name another folder."
            )
    if not destination.is_dir() or not any(destination.iterdir()):
        return
    if not (destination / "steps.csv").is_file():
        raise DatasetError(
            f"{folder} is not empty and has no steps.csv, so it is no dataset folder and is never replaced, "
            f"--overwrite or not. Name another folder, or empty this one yourself."
        )
    if not overwrite:
        raise DatasetError(f"{folder} exists and is not empty. Name another folder, or pass --overwrite to replace it.")


def _resolved(path: Path) -> Path:
    """The path without links, so that two names of one place are seen to be one."""
    try:
        return path.resolve()
    except RuntimeError as error:  # Python below 3.13, on a link that leads to itself
        raise DatasetError(f"{path} is a link that leads to itself; name another folder.") from error
