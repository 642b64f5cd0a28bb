"""What several commands let a user choose from."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from p3iv.errors import ConfigError


class WindowKind(StrEnum):
    inclusive = "inclusive"
    after_start = "after-start"


class Protocol(StrEnum):
    one = "1"
    two = "2"


class SideName(StrEnum):
    train = "train"
    val = "val"
    test = "test"


class ModeName(StrEnum):
    argmax = "argmax"
    categorical = "categorical"
    chain = "chain"


def listed(text: str) -> list[str]:
    """The words between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def listed_numbers(option: str, text: str) -> tuple[int, ...]:
    """Numbers between commas."""
    parts = listed(text)
    if not parts or not all(part.isdecimal() for part in parts):
        raise ConfigError(f"{option} {text}, but it is numbers between commas, such as 3,4.")
    return tuple(map(int, parts))


def split_choice(text: str) -> str:
    """A kind of split, or the path of a split file from the root: later commands may run elsewhere."""
    from p3iv.config import SPLIT_KINDS  # YAML takes a while

    return text if text in SPLIT_KINDS else str(Path(text).resolve())
