"""Stand-in features never take the place of real ones unasked, and a failure changes nothing."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml

from p3iv.data.folder import open_dataset
from p3iv.data.importing import ImportRequest, import_dataset
from p3iv.data.simulate import simulate_dataset
from p3iv.errors import ConfigError, DatasetError, FeatureError


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def folder(source: Path, tmp_path: Path) -> Path:
    import_dataset(ImportRequest("folder", source, tmp_path / "dataset"))
    return tmp_path / "dataset"


def test_simulation_replaces_real_features_only_when_asked_and_is_marked(folder: Path) -> None:
    with pytest.raises(DatasetError, match="--overwrite"):
        simulate_dataset(folder)
    packed = simulate_dataset(folder, seed=3, overwrite=True)
    dataset = open_dataset(folder)
    assert dataset.card.simulated
    assert "SIMULATED" in dataset.card.label
    assert dataset.card.feature_fingerprint == packed.fingerprint
    assert simulate_dataset(folder, seed=3).fingerprint == packed.fingerprint
    assert simulate_dataset(folder, seed=4).fingerprint != packed.fingerprint
    assert sorted(path.name for path in folder.iterdir()) == [
        "dataset.yaml",
        "features",
        "language.npz",
        "split.json",
        "steps.csv",
        "videos",
    ]


def test_files_that_p3iv_did_not_pack_are_never_replaced(source: Path) -> None:
    before = contents(source)
    for overwrite in (False, True):
        with pytest.raises(DatasetError, match="p3iv data import folder"):
            simulate_dataset(source, overwrite=overwrite)
    assert contents(source) == before


def test_features_without_a_card_or_an_encoder_are_real(folder: Path) -> None:
    card = yaml.safe_load((folder / "dataset.yaml").read_text())
    (folder / "dataset.yaml").write_text(yaml.safe_dump(card | {"encoder": None}))
    with pytest.raises(DatasetError, match="unnamed features"):
        simulate_dataset(folder)
    (folder / "dataset.yaml").unlink()
    with pytest.raises(DatasetError, match="unnamed features"):
        simulate_dataset(folder)


@pytest.mark.parametrize("noise", [math.inf, math.nan, -1.0, 1e9, 1e300])
def test_a_simulation_that_fails_changes_nothing(folder: Path, noise: float) -> None:
    before = contents(folder)
    with pytest.raises((ConfigError, FeatureError)):
        simulate_dataset(folder, noise=noise, overwrite=True)
    assert contents(folder) == before


def test_linked_features_elsewhere_are_left_alone(folder: Path, tmp_path: Path) -> None:
    (folder / "features").rename(tmp_path / "elsewhere")
    (folder / "features").symlink_to(tmp_path / "elsewhere")
    before = contents(tmp_path / "elsewhere")
    simulate_dataset(folder, overwrite=True)
    assert contents(tmp_path / "elsewhere") == before
    assert not (folder / "features").is_symlink()
