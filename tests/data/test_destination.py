"""What is overwritten is a dataset, asked for, and no part of what is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from p3iv.data.check import check_dataset
from p3iv.data.folder import open_dataset, refuse_to_overwrite
from p3iv.data.importing import ImportRequest, import_dataset
from p3iv.errors import DatasetError

STEPS = "video,task,step,start_s,end_s\na,tea,boil,0,1\n"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "steps.csv").write_text(STEPS)
    return tmp_path / "mine"


def test_a_folder_that_is_no_dataset_is_never_replaced(mine: Path, tmp_path: Path) -> None:
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


def test_the_folder_one_is_in_is_refused(mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_what_a_killed_run_left_is_no_dataset(mine: Path, tmp_path: Path) -> None:
    left = mine.rename(tmp_path / ".mine.ab_4xyz8.part")
    with pytest.raises(DatasetError, match=r"left by an interrupted command.*delete the folder"):
        open_dataset(left)
    (finding,) = check_dataset(left)
    assert finding.severity == "error"
    assert open_dataset(left.rename(tmp_path / "mine.part")).videos
