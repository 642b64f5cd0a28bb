"""The dataset folder: its card, which folders may be replaced, and its video files."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from p3iv.data.check import check_dataset
from p3iv.data.folder import (
    DatasetCard,
    find_twins,
    find_videos,
    open_dataset,
    read_card,
    refuse_to_overwrite,
    unknown_keys,
)
from p3iv.data.importing import ImportRequest, import_dataset
from p3iv.data.simulate import simulate_dataset
from p3iv.errors import DatasetError


@pytest.mark.parametrize("value", ["true", ".inf", ".nan", "0", "-1", "1001", "1e999", "1" + "0" * 400, "'2'", "null"])
def test_features_per_second_is_a_number_that_makes_sense(tmp_path: Path, value: str) -> None:
    (tmp_path / "dataset.yaml").write_text(f"name: mine\nfeatures_per_second: {value}\n")
    with pytest.raises(DatasetError, match=r"`features_per_second` is .*; expected "):
        read_card(tmp_path)


@pytest.mark.parametrize("content", ["", "- a", "name: 3", "simulated: true", "name: [", "name: mine\nsimulated: 1\n"])
def test_an_invalid_card_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "dataset.yaml").write_text(content)
    with pytest.raises(DatasetError, match=r"dataset\.yaml"):
        read_card(tmp_path)


@pytest.mark.parametrize("key", ["name", "source", "encoder", "text_encoder", "feature_fingerprint"])
@pytest.mark.parametrize("text", [r"x\e[31m", r"x\ny", r"x\u202ey", r"x\x9b31m", "x" * 501])
def test_a_card_has_no_control_characters_and_no_endless_texts(tmp_path: Path, key: str, text: str) -> None:
    lines = {"name": "mine", key: text}
    (tmp_path / "dataset.yaml").write_text("".join(f'{name}: "{value}"\n' for name, value in lines.items()))
    with pytest.raises(DatasetError, match=f"`{key}`: .*expected (a text without control characters|at most 500)"):
        read_card(tmp_path)


def test_a_misspelt_key_is_found(tmp_path: Path) -> None:
    (tmp_path / "dataset.yaml").write_text("name: mine\nsimulate: true\n2: 3\n")
    assert unknown_keys(tmp_path) == ["simulate", "2"]
    assert not read_card(tmp_path).simulated


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
def test_simulated_features_stay_marked_under_any_path(
    simulated: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(simulated)
    (tmp_path / "to_features").symlink_to(simulated / "features")
    monkeypatch.chdir(tmp_path)
    for kind_of_source in (simulated, Path("source")):
        destination = tmp_path / f"from_{kind_of_source.name}"
        card = card_after(ImportRequest("folder", kind_of_source, destination, features=Path(name)))
        assert card.simulated
        assert str(card.encoder) == "stand-in seed 0 noise 4.5"
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


STEPS = "video,task,step,start_s,end_s\na,tea,boil,0,1\n"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "steps.csv").write_text(STEPS)
    return tmp_path / "mine"


def test_a_folder_that_is_not_a_dataset_is_never_replaced(mine: Path, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    with pytest.raises(DatasetError, match=r"no steps\.csv"):
        import_dataset(ImportRequest("folder", mine, tmp_path / "photos", overwrite=True))
    assert (tmp_path / "photos" / "cat.jpg").exists()


Ask = Callable[[ImportRequest, Path], ImportRequest]


@pytest.mark.parametrize(
    "ask",
    [
        lambda request, old: replace(request, source=old),
        lambda request, old: replace(request, source=old.parent / "mine" / ".." / "old"),
        lambda request, old: replace(request, source=old.parent / "link"),
        lambda request, old: replace(request, destination=old.parent / "link", source=old),
        lambda request, old: replace(request, features=old / "features"),
        lambda request, old: replace(request, language=old / "language.npz"),
        lambda request, old: replace(request, split=old / "split.json"),
        lambda request, old: replace(request, rename=old / "rename.json"),
        lambda request, old: replace(request, videos=old / "videos"),
    ],
)
def test_a_folder_is_not_replaced_by_what_is_in_it(mine: Path, tmp_path: Path, ask: Ask) -> None:
    old = tmp_path / "old"
    (old / "features").mkdir(parents=True)
    (old / "steps.csv").write_text(STEPS)
    np.save(old / "features" / "a.npy", np.ones((2, 2), np.float32))
    (tmp_path / "link").symlink_to(old)
    with pytest.raises(DatasetError, match="which would be replaced"):
        import_dataset(ask(ImportRequest("folder", mine, old, overwrite=True), old))
    assert (old / "features" / "a.npy").exists()
    assert not list(tmp_path.glob(".*"))


def test_a_linked_destination_keeps_leading_where_it_leads(mine: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "data")
    for overwrite in (False, True):
        import_dataset(ImportRequest("folder", mine, tmp_path / "link", overwrite=overwrite))
        assert (tmp_path / "link").is_symlink()
        assert open_dataset(tmp_path / "disk" / "data").videos
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["data"]


def test_the_current_folder_is_refused(mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here" / "below")
    for folder in (Path(), Path(".."), tmp_path / "here"):
        with pytest.raises(DatasetError, match="the current folder"):
            import_dataset(ImportRequest("folder", mine, folder, overwrite=True))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "mine"]


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(DatasetError, match="is a link to itself"):
        refuse_to_overwrite(tmp_path / "loop", overwrite=True)


def test_the_unfinished_folder_of_a_killed_command_is_not_a_dataset(mine: Path, tmp_path: Path) -> None:
    left = mine.rename(tmp_path / ".mine.ab_4xyz8.part")
    with pytest.raises(DatasetError, match=r"left by an interrupted command.*delete the folder"):
        open_dataset(left)
    (finding,) = check_dataset(left)
    assert finding.severity == "error"
    assert open_dataset(left.rename(tmp_path / "mine.part")).videos


def test_two_files_of_one_name_are_not_used_and_a_broken_link_only_if_it_is_alone(tmp_path: Path) -> None:
    for name in ("tea.mp4", "tea.MKV", "tea.txt", "soup.avi", ".egg.mp4.abcd1234.part"):
        (tmp_path / name).touch()
    (tmp_path / "soup.3gp").touch()
    (tmp_path / "soup.MOV").symlink_to("nowhere")
    (tmp_path / "egg.ts").symlink_to("nowhere")
    found = {stem: path.name for stem, path in find_videos(tmp_path).items()}
    assert found == {"soup": "soup.avi", "egg": "egg.ts"}
    assert find_twins(tmp_path) == {"tea": "tea.MKV and tea.mp4 have one name; rename or remove all but one"}
    assert find_videos(tmp_path / "missing") == {}


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        ("{name: x, fingerprints: y}", "`encoder`: 'fingerprints' is not known, expected name, weights, fingerprint"),
        ("{weights: x}", "`encoder.name` is missing"),
        ("{name: x, fingerprint: abc}", "`encoder.fingerprint`: 'abc', expected 64 hexadecimal digits"),
        ("[x]", "`encoder`: a list, expected a name, or name, weights and fingerprint"),
    ],
)
def test_an_encoder_that_is_none_gets_a_sentence(tmp_path: Path, encoder: str, message: str) -> None:
    (tmp_path / "dataset.yaml").write_text(f"name: mine\nencoder: {encoder}\n")
    with pytest.raises(DatasetError, match=re.escape(message)):
        read_card(tmp_path)


def test_features_that_a_card_does_not_describe_are_not_imported(tabletop: Path, tmp_path: Path) -> None:
    source = Path(shutil.copytree(tabletop, tmp_path / "source"))
    card = read_card(source)
    replace(card, feature_fingerprint="0" * 64).write(source)
    with pytest.raises(DatasetError, match=r"dataset\.yaml describes other features \(000000000000\) than those"):
        import_dataset(ImportRequest("folder", source, tmp_path / "new"))
    card.write(source)
    import_dataset(ImportRequest("folder", source, tmp_path / "new"))
    assert read_card(tmp_path / "new").encoder == card.encoder
