"""What several commands let a user choose from."""

from __future__ import annotations

from enum import StrEnum


class WindowKind(StrEnum):
    inclusive = "inclusive"
    after_start = "after-start"


class Protocol(StrEnum):
    one = "1"
    two = "2"
