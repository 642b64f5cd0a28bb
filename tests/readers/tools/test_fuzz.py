"""Damaged annotation files are read, or refused with one of the project's own errors; what is read can be written."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from p3iv.readers.tools.registry import FORMATS
from soak.annotation_examples import EXAMPLES
from soak.fuzz import Input
from soak.inputs import input_types

SEED, NUM_FILES = 5, 60


@pytest.mark.parametrize("form", FORMATS)
def test_damaged_files_are_read_or_refused(tmp_path: Path, form: str) -> None:
    for path, (text, _) in EXAMPLES.items():
        (tmp_path / "tools" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tools" / path).write_bytes(text.encode())
    (kind,) = (kind for kind in input_types() if kind.name == f"annotations {form}")
    outcomes = Counter(Input.draw(kind, tmp_path, SEED, number).read(tmp_path) for number in range(NUM_FILES))
    assert outcomes["read"] > 0
    assert outcomes["refused"] > 0
