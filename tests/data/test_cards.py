"""Simulated features stay known as simulated, however they are named."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from p3iv.data.folder import DatasetCard, open_dataset
from p3iv.data.importing import ImportRequest, import_dataset
from p3iv.data.simulate import simulate_dataset
from p3iv.errors import DatasetError


@pytest.fixture
def simulated(source: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "simulated"
    import_dataset(ImportRequest("folder", source, folder))
    simulate_dataset(folder, overwrite=True)
    card = yaml.safe_load((folder / "dataset.yaml").read_text())
    (folder / "dataset.yaml").write_text(yaml.safe_dump(card | {"features_per_second": 2}))
    return folder


def card_after(request: ImportRequest) -> DatasetCard:
    import_dataset(request)
    return open_dataset(request.destination).card


@pytest.mark.parametrize(
    "name", ["simulated/features", "simulated/../simulated/features", "link/features", "to_features"]
)
def test_whatever_the_path_the_mark_stays(
    simulated: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(simulated)
    (tmp_path / "to_features").symlink_to(simulated / "features")
    monkeypatch.chdir(tmp_path)
    for kind_of_source in (simulated, Path("source")):
        destination = tmp_path / f"from_{kind_of_source.name}"
        card = card_after(ImportRequest("folder", kind_of_source, destination, features=Path(name)))
        assert card.simulated
        assert card.encoder == "stand-in seed 0 noise 4.5"
        assert card.features_per_second == 2


def test_an_option_names_the_encoder_but_never_makes_simulated_features_real(simulated: Path, tmp_path: Path) -> None:
    card = card_after(ImportRequest("folder", simulated, tmp_path / "new", encoder="clip", simulated=False))
    assert card.label == "source (SIMULATED clip features)"


def test_an_import_without_the_simulated_features_is_not_marked_simulated(source: Path, simulated: Path) -> None:
    card = card_after(ImportRequest("folder", simulated, source.parent / "real", features=source / "features"))
    assert card.label == "source (imported features)"


def test_a_card_that_is_a_broken_link_is_not_taken_for_none(simulated: Path, tmp_path: Path) -> None:
    (simulated / "dataset.yaml").unlink()
    (simulated / "dataset.yaml").symlink_to("nowhere")
    with pytest.raises(DatasetError, match=r"dataset\.yaml"):
        import_dataset(ImportRequest("folder", simulated, tmp_path / "new"))
