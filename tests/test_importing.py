from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from p3iv import importing
from p3iv.dataset import open_dataset
from p3iv.errors import ConfigError, DatasetError, SourceError
from p3iv.importing import ImportRequest, import_dataset, simulate_dataset

STEPS = """video,task,step,start_s,end_s,cook
a,tea,boil,0,2,ann
a,tea,pour,3,4,bob
b,tea,boil,1,2,ann
b,tea,stir,5,6,ann
c,tea,boil,0,1,bob
c,tea,pour,2,9,bob
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "steps.csv").write_text(STEPS)
    np.savez(folder / "language.npz", step=np.array(["stir", "boil", "pour", "rest"]), embedding=np.eye(4, 6))
    (folder / "split.json").write_text(json.dumps({"train": ["a", "b"], "test": ["c"]}))
    (folder / "features").mkdir()
    (folder / "videos").mkdir()
    for number, video in enumerate("abc"):
        np.save(folder / "features" / f"{video}.npy", np.full((10, 5), number, np.float32))
        (folder / "videos" / f"{video}.MP4").write_bytes(b"film " + video.encode())
    return folder


def request(source: Path) -> ImportRequest:
    return ImportRequest("folder", source, source.parent / "dataset")


def test_a_folder_brings_all_its_parts(source: Path) -> None:
    report = import_dataset(request(source))
    dataset = open_dataset(source.parent / "dataset")
    assert report.problems == ()
    assert dataset.vocabulary.names == ("boil", "pour", "stir", "rest")
    assert dataset.language is not None
    assert dataset.language.argmax(axis=1).tolist() == [1, 2, 0, 3]
    assert dataset.features is not None
    assert dataset.features.rows("b").tolist() == [[1.0] * 5] * 10
    assert dataset.split is not None
    assert dataset.split.test == ("c",)
    assert dataset.videos[0].steps[1].extra == (("cook", "bob"),)
    assert (dataset.folder / "videos" / "b.mp4").read_bytes() == b"film b"


def test_importing_a_dataset_folder_again_changes_nothing(source: Path, tmp_path: Path) -> None:
    import_dataset(request(source))
    first, second = tmp_path / "dataset", tmp_path / "again"
    report = import_dataset(ImportRequest("folder", first, second))
    assert report.problems == ()
    for name in ("steps.csv", "split.json", "language.npz", "features/rows.npy", "features/index.json", "dataset.yaml"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_problems_are_listed_and_strict_refuses_with_nothing_left(source: Path) -> None:
    (source / "features" / "b.npy").write_bytes(b"not numpy")
    (source / "videos" / "c.MP4").unlink()
    with (source / "steps.csv").open("a") as lines:
        lines.write("c,tea,stir,5,nan,bob\n")
    with pytest.raises(SourceError, match=r"(?s)3 problems, so nothing was written.*steps.csv:8"):
        import_dataset(replace(request(source), strict=True))
    assert sorted(path.name for path in source.parent.iterdir()) == ["source"]
    report = import_dataset(request(source))
    listed = "\n".join(map(str, report.problems))
    assert len(report.problems) == 3
    assert all(part in listed for part in ("steps.csv:8", "b.npy", "no file c"))


def test_an_import_that_dies_leaves_nothing_and_keeps_what_was_there(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_dataset(request(source))
    before = (source.parent / "dataset" / "steps.csv").read_bytes()

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(importing, "write_steps", die)
    with pytest.raises(KeyboardInterrupt):
        import_dataset(replace(request(source), overwrite=True))
    assert sorted(path.name for path in source.parent.iterdir()) == ["dataset", "source"]
    assert (source.parent / "dataset" / "steps.csv").read_bytes() == before


def test_a_folder_is_not_overwritten_unless_asked(source: Path) -> None:
    import_dataset(request(source))
    with pytest.raises(DatasetError, match="--overwrite"):
        import_dataset(request(source))
    import_dataset(replace(request(source), overwrite=True))


def test_options_that_do_not_fit_say_so(source: Path) -> None:
    with pytest.raises(ConfigError, match="for CrossTask"):
        import_dataset(replace(request(source), keep_tasks_apart=True))
    (source / "language.npz").unlink()
    with pytest.raises(SourceError, match="--language FILE"):
        import_dataset(replace(request(source), rename=source / "rename.json"))
    with pytest.raises(SourceError, match="not a folder"):
        import_dataset(replace(request(source), videos=source / "nowhere"))


def test_simulation_replaces_real_features_only_when_asked_and_is_marked(source: Path) -> None:
    import_dataset(request(source))
    folder = source.parent / "dataset"
    with pytest.raises(DatasetError, match="--overwrite"):
        simulate_dataset(folder)
    packed = simulate_dataset(folder, seed=3, overwrite=True)
    dataset = open_dataset(folder)
    assert dataset.card.simulated
    assert "SIMULATED" in dataset.card.label
    assert dataset.card.feature_fingerprint == packed.fingerprint
    assert simulate_dataset(folder, seed=3).fingerprint == packed.fingerprint
    assert simulate_dataset(folder, seed=4).fingerprint != packed.fingerprint


def test_an_import_without_the_simulated_features_is_not_marked_simulated(source: Path, tmp_path: Path) -> None:
    import_dataset(request(source))
    folder = tmp_path / "dataset"
    simulate_dataset(folder, overwrite=True)
    report = import_dataset(ImportRequest("folder", folder, tmp_path / "real", features=source / "features"))
    assert report.features is not None
    assert not open_dataset(tmp_path / "real").card.simulated
