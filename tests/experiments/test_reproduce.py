"""`p3iv reproduce`: what it refuses, what it lists and what it prints."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from commands import RunP3iv
from experiments.finished import SAMPLES, TINY, executed
from p3iv.errors import ConfigError, DatasetError
from p3iv.experiments.declarations import Table, declarations
from p3iv.experiments.reproduce import ReproduceRequest, reproduce
from p3iv.tabletop.make import make_tabletop


def test_a_request_is_checked_first(done: ReproduceRequest, tmp_path: Path) -> None:
    for change, message in (
        ({"names": ()}, "Name a table or figure"),
        ({"budget": "large"}, "--budget large, but it must be one of small, paper"),
        ({"seeds": (1, 1)}, "without duplicates"),
        ({"horizons": (3, 7)}, "--horizons 7, but no cell of losses, .* has it: there is T=3, T=4, T=5, T=6"),
        ({"names": ("losses",), "horizons": (4,)}, "--horizons 4, but no cell of losses has it: there is T=3"),
        ({"settings": {"planner": "ddn"}}, "--set planner"),
        ({"settings": {"preset": "tiny"}}, "--set preset would rename"),
        ({"out": done.data[0] / "steps.csv"}, "is a file; name a folder"),
        ({"out": done.data[0]}, "is, contains or lies in the dataset folder"),
        ({"out": done.data[0] / "out"}, "is, contains or lies in the dataset folder"),
        ({"out": done.data[0].parent}, "is, contains or lies in the dataset folder"),
    ):
        with pytest.raises(ConfigError, match=message):
            replace(done, **change)
    for options, message in (
        ({"engine": "spark"}, "--engine spark"),
        ({"address": "auto"}, "pass --engine ray"),
        ({"engine": "ray", "address": "auto", "jobs": 2}, "--jobs 2, but the cluster at auto"),
        ({"device": "abacus"}, "--device abacus"),
    ):
        with pytest.raises(ConfigError, match=message):
            executed(done, **options)
    for folders, message in (
        ((), "No data is given. Pass --data DIR"),
        ((tmp_path,), r"lacks steps\.csv, features, language\.npz"),
        (done.data * 2, "Two datasets are called"),
    ):
        with pytest.raises(DatasetError, match=message):
            reproduce(replace(done, data=folders))


def test_the_command_lists_tables_and_explains_mistakes(p3iv: RunP3iv) -> None:
    listed = p3iv("reproduce", "--list")
    assert listed.returncode == 0
    for name in (*declarations(), "Table 15", "Figure 8", "a drawing"):
        assert name in listed.stdout
    entries = {entry["name"]: entry for entry in json.loads(p3iv("reproduce", "--list", "--json").stdout)}
    assert entries["losses"]["published_on"] == ["CrossTask", "COIN", "NIV"]
    alone = sum(entry["runs_per_seed"] for name, entry in entries.items() if name != "all")
    assert entries["losses"]["runs_per_seed"] == 3
    assert entries["plus"]["runs_per_seed"] < entries["all"]["runs_per_seed"] < alone  # tables share runs
    assert "Pass --out OUT" in p3iv("reproduce", "losses").stderr
    wrong = p3iv("reproduce", "table9", "--out", "out", "--data", "nowhere")
    assert wrong.returncode == 1
    assert "There is no table or figure 'table9'. There are: all, losses" in wrong.stderr
    assert "nowhere lacks steps.csv" in p3iv("reproduce", "losses", "--out", "out", "--data", "nowhere").stderr


def test_the_command_prints_notes_seeds_and_code_and_fails_with_a_run(
    p3iv: RunP3iv, done: ReproduceRequest, tmp_path: Path
) -> None:
    shutil.copytree(done.out / "runs", tmp_path / "out" / "runs")
    command = ["reproduce", "viterbi", "--data", done.data[0], "--out", "out", "--seeds", "0,1"]
    command += ["--samples", f"{SAMPLES}", *(word for name in TINY for word in ("--set", f"{name}={TINY[name]}"))]
    whole = p3iv(*command)
    assert whole.returncode == 0
    for wanted in ("cells filled: 12 of 12 ->", "cannot be a set IoU", "seeds 0, 1", "commit ", "machine: "):
        assert wanted in whole.stdout
    assert "1 of 2 seeds" not in whole.stdout
    first = next(csv.DictReader((tmp_path / "out" / "runs.csv").read_text().splitlines()))
    broken = tmp_path / "out" / "runs" / first["run"]
    shutil.rmtree(broken)
    broken.touch()
    failed = p3iv(*command)
    assert failed.returncode == 1
    assert "run 1 of 1, about 0 s left" in failed.stderr
    assert "failed: tabletop: p3iv T=3" in failed.stderr
    for wanted in ("1 of 2 seeds", "missing: seed 0: failed", "12 of 12, 12 of them without some seeds"):
        assert wanted in failed.stdout


@pytest.mark.slow
def test_the_smallest_version_of_everything(p3iv: RunP3iv, tmp_path: Path) -> None:
    make_tabletop(tmp_path / "data", num_videos=20, render=False)
    command = ["reproduce", "all", "--data", "data", "--out", "out", "--samples", "10", "--horizons", "3,6"]
    for name, value in TINY.items():
        command += ["--set", f"{name}={value}"]
    done = p3iv(*command)
    assert done.returncode == 0, done.stderr
    entries = len(declarations())
    assert f"{entries} of {entries} tables and figures complete, about 0 s left" in done.stderr
    for name, entry in declarations().items():
        if isinstance(entry, Table):
            with (tmp_path / "out" / "tables" / f"{name}.csv").open() as file:
                rows = [row for row in csv.DictReader(file) if row["data"] and row["metric"]]
            assert rows
            assert all(row["ours"] or row["why"] == "not asked for" for row in rows), name
            assert any(row["ours"] for row in rows), name
    for name in ("diversity", "gallery-t3", "gallery-t6"):
        assert (tmp_path / "out" / "figures" / f"{name}-tabletop-state-features.html").exists()
        assert (tmp_path / "out" / "figures" / f"{name}-tabletop-state-features-1.svg").read_text().startswith("<svg")
    again = p3iv(*command)
    assert again.returncode == 0
    assert "have to be made" not in again.stderr
    assert again.stdout == done.stdout
