"""The unified protocol: what its table declares, and all of it from released files to a filled table."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from commands import RunP3iv
from experiments.finished import SAMPLES, TINY
from p3iv.experiments.declarations import Table, declarations, published_number
from p3iv.experiments.reproduce import ReproduceRequest
from p3iv.features.language import write_language

ACTIONS = ("pour water", "boil", "add tea", "stir", "serve", "wash")
# As printed in tables 1, 2 and 7 of CEFITO: SR, mAcc and mIoU at T=3, then at T=4.
PRINTED = {
    ("PDPP", "crosstask"): (36.73, 61.96, 83.20, 21.47, 55.66, 80.68),
    ("KEPP", "coin"): (13.85, 28.40, 62.54, 15.20, 33.39, 67.79),
    ("SCHEMA", "niv"): (26.30, 42.77, 73.04, 24.39, 41.14, 73.13),
    ("ViterbiPlanNet", "crosstask"): (38.45, 63.07, 83.89, 24.64, 57.00, 81.18),
    ("ViterbiPlanNet", "coin"): (33.99, 50.87, 83.88, 23.92, 45.63, 82.56),
    ("ViterbiPlanNet", "niv"): (32.37, 46.96, 73.85, 27.54, 45.55, 74.71),
    ("PlanLLM", "coin"): (33.44, 51.05, 84.66, 23.19, 45.70, 83.44),
    ("CEFITO", "niv"): (22.46, 40.37, 70.26, 19.67, 37.25, 70.75),
}


def unified() -> Table:
    found = declarations()["unified"]
    assert isinstance(found, Table)
    return found


def test_published_figures_are_as_printed_and_nothing_is_invented() -> None:
    rows = {row.label: row for row in unified().rows}
    for (label, dataset), figures in PRINTED.items():
        assert tuple(map(published_number, rows[label].published[dataset][:6])) == figures
    assert not rows["MTID"].published
    assert all(set(cells[6:]) == {""} for row in rows.values() for cells in row.published.values())


def test_rows_that_are_published_alone_need_no_run() -> None:
    table = unified()
    for row in (row for row in table.rows if row.spec.get("metrics") == []):
        assert all(table.cell_spec(row, column) is None for column in table.columns)
    specs = list(table.cell_specs)
    assert specs
    assert all(dict(spec.settings)["data.split"] == "release" for spec in specs)


def test_five_seeds_unless_the_budget_or_the_command_says_otherwise(tmp_path: Path) -> None:
    request = ReproduceRequest(names=("unified",), data=(), out=tmp_path / "out", budget="paper")
    assert request.fill_request().options.seeds == (0, 1, 2, 3, 4)
    assert replace(request, seeds=(7,)).fill_request().options.seeds == (7,)
    assert replace(request, budget="small").fill_request().options.seeds == (0,)
    assert replace(request, names=("unified", "losses")).fill_request().options.seeds == (0, 1, 2)
    split = replace(request, settings={"data.split": "video"})  # a default of the table, not what it varies
    assert split.fill_request().options.settings["data.split"] == "video"


def write_release(folder: Path) -> Path:
    """Lists, taxonomy, features and embeddings as ViterbiPlanNet releases them; returns the training list."""
    rng = np.random.default_rng(0)
    (folder / "processed_data").mkdir(parents=True)
    sides: dict[str, list[dict[str, Any]]] = {"train": [], "test": []}
    for number in range(14):
        video, side = f"v{number:02}", "test" if number % 4 == 0 else "train"
        first = number % 3
        rows = [[4 * place, 4 * place + 3, (first + place) % len(ACTIONS)] for place in range(5)]
        for begin in range(len(rows) - 2):
            window = rows[begin : begin + 3]
            texts = [ACTIONS[row[2]] for row in window]
            about = {"vid": video, "feature": f"./x/1_{video}.npy", "legal_range": window, "task_id": 0}
            sides[side].append({"id": {**about, "task_name": "Tea", "actions": texts}, "instruction_len": len(rows)})
        frames: Any = {"frames_features": rng.standard_normal((24, 8), np.float32), "steps_ids": np.arange(5)}
        np.save(folder / "processed_data" / f"1_{video}.npy", frames)
    for side, entries in sides.items():
        (folder / f"{side}_list_3_133.json").write_text(json.dumps(entries), encoding="utf-8")
    taxonomy = {"0_1_Tea": {str(number): text for number, text in enumerate(ACTIONS)}}
    (folder / "crosstask_taxonomy_133.json").write_text(json.dumps(taxonomy), encoding="utf-8")
    write_language(folder / "language.npz", ACTIONS, rng.standard_normal((len(ACTIONS), 8), np.float32))
    return folder / "train_list_3_133.json"


def test_from_released_files_to_a_filled_table(p3iv: RunP3iv, tmp_path: Path) -> None:
    source = write_release(tmp_path / "CrossTask")
    parts = ("--features", source.parent / "processed_data", "--language", source.parent / "language.npz")
    imported = p3iv("data", "import", "lists", source, "data", *parts, "--encoder", "s3d", "--strict")
    assert imported.returncode == 0, imported.stderr
    tiny = [word for name, value in TINY.items() for word in ("--set", f"{name}={value}")]
    command = ["reproduce", "unified", "--data", "data", "--out", "out", "--budget", "small", "--horizons", "3"]
    made = p3iv(*command, "--samples", f"{SAMPLES}", *tiny)
    assert made.returncode == 0, made.stderr
    for wanted in ("CVPR 2026: The unified protocol", "(38.45 ±", "published: COIN", "cells filled: "):
        assert wanted in made.stdout
    lines = list(csv.DictReader((tmp_path / "out" / "tables" / "unified.csv").read_text().splitlines()))
    ours = {(line["row"], line["metric"]): line for line in lines if line["data"] and line["ours"]}
    assert {"retrieval", "graph", "P3IV", "P3IV+"} <= {row for row, _ in ours}
    assert {metric for _, metric in ours} == {"success_rate", "mean_accuracy", "bitwise_iou"}
    for (_, metric), line in ours.items():
        assert 0 <= float(line["ours"]) <= 100
        assert line["low"] and line["high"]
        assert metric != "bitwise_iou" or float(line["ours"]) >= float(ours[line["row"], "success_rate"]["ours"])
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "width of the bootstrapped" in page
    assert "macro precision" not in page  # the note of the tables of the P3IV paper


def test_a_dataset_without_released_sides_says_so(p3iv: RunP3iv, tmp_path: Path) -> None:
    source = write_release(tmp_path / "CrossTask")
    parts = ("--features", source.parent / "processed_data", "--language", source.parent / "language.npz")
    assert p3iv("data", "import", "lists", source, "data", *parts).returncode == 0
    (tmp_path / "data" / "split.json").unlink()
    made = p3iv("reproduce", "unified", "--data", "data", "--out", "out", "--horizons", "3")
    assert made.returncode == 1
    assert "no split.json" in made.stdout + made.stderr
