"""What a check of a dataset folder finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from p3iv.errors import P3ivError


@dataclass(frozen=True)
class Finding:
    """Something that `p3iv data check` saw; errors make it fail, warnings do not."""

    severity: str  # error | warning
    message: str


def guarded(findings: Iterator[Finding]) -> Iterator[Finding]:
    """What a check finds; where it cannot go on, that is its last finding, and the other checks still run."""
    try:
        yield from findings
    except (P3ivError, OSError) as error:
        yield Finding("error", str(error))
