"""`p3iv data import` for every kind of source, and what the next commands make of the dataset folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from commands import RunP3iv

STEPS = ("boil water", "pour water", "stir")


def make_crosstask(folder: Path) -> Path:
    (folder / "release" / "annotations").mkdir(parents=True)
    (folder / "release" / "tasks_primary.txt").write_text(f"1\nMake Tea\nhttp://x\n3\n{','.join(STEPS)}\n\n")
    for video in "abcd":
        (folder / "release" / "annotations" / f"1_{video}.csv").write_text("1,0,3\n2,4,5\n3,6,9\n")
    return folder / "release"


def make_coin(folder: Path) -> Path:
    steps = [{"id": str(number), "label": label, "segment": [number, number + 1]} for number, label in enumerate(STEPS)]
    videos = {
        name: {"class": "Tea", "subset": "testing" if name == "a" else "training", "annotation": steps}
        for name in "abcd"
    }
    (folder / "COIN.json").write_text(json.dumps({"database": videos}))
    return folder / "COIN.json"


def make_niv(folder: Path) -> Path:
    (folder / "csvs").mkdir()
    for number in range(4):
        (folder / "csvs" / f"tea_{number}.csv").write_text("BOIL WATER,1,2\nPOUR WATER,3,4\nSTIR,5,6\n")
    return folder / "csvs"


def make_own(folder: Path) -> Path:
    (folder / "mine").mkdir()
    lines = [f"{video},tea,{step},{at},{at + 1}" for video in "abcd" for at, step in enumerate(STEPS)]
    (folder / "mine" / "steps.csv").write_text("\n".join(["video,task,step,start_s,end_s", *lines]) + "\n")
    return folder / "mine"


@pytest.mark.parametrize(
    ("kind", "make"), [("crosstask", make_crosstask), ("coin", make_coin), ("niv", make_niv), ("folder", make_own)]
)
def test_every_kind_of_source_is_imported(
    p3iv: RunP3iv, tmp_path: Path, kind: str, make: Callable[[Path], Path]
) -> None:
    done = p3iv("data", "import", kind, make(tmp_path), "data")
    note = "note: no --language was given, so embeddings of 3 steps were made by minilm (language.npz)"
    assert (done.returncode, done.stderr) == (0, f"{note}\nnext: p3iv data check data\n")
    assert done.stdout.startswith("4 videos, 1 task, 3 actions, 12 steps")
    counted = json.loads(p3iv("data", "stats", "data", "--horizons", "3", "--json").stdout)
    assert (counted["videos"], counted["actions"]) == (4, 3)


def test_features_embeddings_and_a_split_are_imported_with_the_steps(p3iv: RunP3iv, tmp_path: Path) -> None:
    source = make_own(tmp_path)
    (tmp_path / "rows").mkdir()
    for video in "abcd":
        np.save(tmp_path / "rows" / f"{video}.npy", np.ones((5, 8), np.float16))
    np.savez(tmp_path / "steps.npz", step=np.array(["boil", *STEPS[1:]]), embedding=np.eye(3, 8, dtype=np.float32))
    (tmp_path / "rename.json").write_text(json.dumps({"boil": "boil water"}))
    (tmp_path / "split.json").write_text(json.dumps({"train": ["a", "b"], "val": ["c"], "test": ["d"]}))
    features = ("--features", "rows", "--encoder", "omnivore")
    texts = ("--language", "steps.npz", "--rename", "rename.json", "--text-encoder", "minilm")
    done = p3iv("data", "import", "folder", source, "data", *features, *texts, "--release-split", "split.json")
    assert done.returncode == 0, done.stderr
    counted = json.loads(p3iv("data", "stats", "data", "--split", "release", "--horizons", "3", "--json").stdout)
    assert counted["features"]["encoder"] == "omnivore"
    assert p3iv("data", "check", "data").returncode == 0


def test_a_tabletop_is_imported_and_simulated_again(p3iv: RunP3iv, tabletop: Path) -> None:
    assert p3iv("data", "import", "folder", tabletop, "copy").returncode == 0
    assert p3iv("data", "simulate", "copy", "--seed", "0", "--overwrite").returncode == 0
    shown = p3iv("data", "stats", "copy", "--split", "release")
    assert shown.stdout.startswith("tabletop (SIMULATED stand-in seed 0 ")
    assert "40 videos, 8 tasks" in shown.stdout


def test_a_folder_whose_name_cannot_be_printed(tabletop: Path, p3iv: RunP3iv, tmp_path: Path) -> None:
    folder = tmp_path / "my\x07kitchen"
    folder.mkdir()
    shutil.copy(tabletop / "steps.csv", folder)
    assert p3iv("data", "import", "folder", folder, "new").returncode == 0
    assert "my?kitchen" in (tmp_path / "new" / "dataset.yaml").read_text()
    assert p3iv("data", "check", folder).returncode == 0
    assert p3iv("data", "stats", folder).returncode == 0
