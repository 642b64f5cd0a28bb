"""One small, correct release of each kind, for tests that read it or damage it first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

TASKS = """23521
Make Jello Shots
http://www.wikihow.com/Make-Jello-Shots
3
pour water,pour juice,stir mixture

44047
Make Lemonade
http://www.wikihow.com/Make-Lemonade
2
cut lemon,pour water
"""

COIN = {
    "-0bbAfOuh-M": {
        "class": "MakePaperDice",
        "subset": "training",
        "annotation": [
            {"id": "352", "label": "measure and mark", "segment": [13.5, 78.0]},
            {"id": "98", "label": "fold", "segment": [81, 112.5]},
        ],
    },
    "b": {
        "class": "MakePaperPlane",
        "subset": "testing",
        "annotation": [{"id": 100, "label": "fold", "segment": [0, 5]}],
    },
}

STEPS = """video,task,step,start_s,end_s,text,has_errors
v1,tea,boil,1.5,4.25,boil the water,0
v1,tea,pour,4.0,6,pour it over,1
v2,tea,pour,,,pour it over,
v2,tea,boil,,,boil the water,
"""


@pytest.fixture
def crosstask_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "crosstask_release"
    (folder / "annotations").mkdir(parents=True)
    (folder / "tasks_primary.txt").write_text(TASKS, encoding="utf-8")
    (folder / "annotations" / "23521_a_b-c.csv").write_text("3,7.5,9\n1,0.25,3\n", encoding="utf-8")
    (folder / "annotations" / "44047_-xyz.csv").write_text("2,1,2\n1,3,4\n", encoding="utf-8")
    return folder


@pytest.fixture
def coin_file(tmp_path: Path) -> Path:
    path = tmp_path / "COIN.json"
    path.write_text(json.dumps({"database": COIN}), encoding="utf-8")
    return path


@pytest.fixture
def niv_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "niv" / "csvs"
    folder.mkdir(parents=True)
    (folder / "repot_0001.csv").write_text("PUT SOIL,46.7,49.25\nCOVER HOLE,5.8,8.5\n", encoding="utf-8")
    (folder / "jump_car_0002.csv").write_text("OPEN HOOD,1,2\nGET CAR,0,1\n", encoding="utf-8")
    return folder.parent


@pytest.fixture
def dataset_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "kitchen"
    folder.mkdir()
    (folder / "steps.csv").write_text(STEPS, encoding="utf-8")
    (folder / "dataset.yaml").write_text("name: my kitchen\n", encoding="utf-8")
    (folder / "split.json").write_text('{"train": ["v1"], "test": ["v2"]}', encoding="utf-8")
    return folder
