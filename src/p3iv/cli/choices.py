"""What several commands let a user choose from."""

from __future__ import annotations

from enum import StrEnum


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
