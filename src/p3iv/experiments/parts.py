"""What the index shows, part by part: each is kept, so that tables and figures of earlier calls stay in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from p3iv.experiments.declared import declared
from p3iv.files import write_text


@dataclass(frozen=True)
class Part:
    """One table, or one figure on one dataset."""

    entry: str  # the name of its declaration
    anchor: str  # its place in the index
    row: str  # of the list at the top, as markup
    section: str
    provenance: Mapping[str, Any]


def keep_parts(out: Path, parts: Iterable[Part]) -> list[Part]:
    """Write OUT/parts/ANCHOR.json of each; returns all that lie there, in the order of the paper, then ours."""
    for part in parts:
        write_text(out / "parts" / f"{part.anchor}.json", json.dumps(asdict(part), indent=2) + "\n")
    order = list(declared())
    kept = [Part(**json.loads(path.read_text(encoding="utf-8"))) for path in sorted((out / "parts").glob("*.json"))]
    return sorted((part for part in kept if part.entry in order), key=lambda part: order.index(part.entry))
