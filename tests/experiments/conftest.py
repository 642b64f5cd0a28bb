"""A finished reproduction that the tests of this folder share."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import MakeOnce
from experiments.finished import tiny_request
from p3iv.experiments.reproduce import ReproduceRequest, reproduce


@pytest.fixture(scope="session")
def done(make_once: MakeOnce, tabletop: Path) -> ReproduceRequest:
    """A reproduction with all its runs. Tests only read its folder."""

    def fill(out: Path) -> None:
        assert not reproduce(tiny_request(tabletop, out)).failures

    return tiny_request(tabletop, make_once("reproduced", fill))
