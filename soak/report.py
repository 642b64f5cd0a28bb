"""What a part of the soak counts and finds."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Failure:
    """Something that must not happen, with what it takes to repeat it."""

    name: str  # of the command, input type, bomb or run
    problem: str
    replay: dict[str, Any]


@dataclass
class Part:
    """One part of the soak: its seed, when it ends, its counts and failures."""

    seed: int
    seconds: float = math.inf
    size: float = math.inf  # kills per command, or inputs per type
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._began = time.monotonic()

    @property
    def is_over(self) -> bool:
        return self.left_s <= 0

    @property
    def left_s(self) -> float:
        return self.seconds - (time.monotonic() - self._began)

    def count(self, name: str, **numbers: int) -> None:
        self.counts.setdefault(name, Counter()).update(numbers)

    def fail(self, failure: Failure) -> None:
        self.count(failure.name, failures=1)
        self.failures.append(failure)

    def to_dict(self) -> dict[str, Any]:
        total: Counter[str] = Counter()
        for numbers in self.counts.values():
            total.update(numbers)
        return {
            "seconds": round(time.monotonic() - self._began, 1),
            "total": dict(total),
            "counts": {name: dict(numbers) for name, numbers in self.counts.items()},
            "failures": [asdict(failure) for failure in self.failures],
        }
