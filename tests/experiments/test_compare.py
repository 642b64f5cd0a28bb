"""A comparison: one table of many runs, that goes on where it stopped and survives one that fails."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import RunP3iv
from p3iv.cli.app import main
from p3iv.config import BaselineConfig, override, preset_config
from p3iv.errors import ConfigError
from p3iv.evaluation.evaluate import EvaluationRequest, evaluate
from p3iv.experiments.compare import DONE, Cell, CompareRequest, compare
from p3iv.planners.registry import PLANNERS
from p3iv.plans.draws import SampleSettings

SMALL = {"optim.epochs": 2, "data.split": "release", "model.width": 32}


@pytest.fixture(scope="module")
def request_(tabletop: Path, tmp_path_factory: pytest.TempPathFactory) -> CompareRequest:
    return CompareRequest(
        folder=tabletop,
        out=tmp_path_factory.mktemp("compared") / "out",
        bases={name: override(preset_config("tiny"), SMALL) for name in PLANNERS},
        planners=("random", "graph", "ddn"),
        horizons=(3,),
        seeds=(0, 1),
        settings=SampleSettings(20),
    )


def told(request: CompareRequest) -> tuple[Any, dict[str, list[str]]]:
    said: dict[str, list[str]] = {}
    found = compare(replace(request, on_cell=lambda cell, what: said.setdefault(str(cell), []).append(what)))
    return found, said


class Stop(BaseException):
    """Neither an error nor the end: what Ctrl-C does."""


def test_a_comparison_goes_on_where_it_stopped_and_skips_what_is_done(request_: CompareRequest) -> None:
    def stop(cell: Cell, what: str) -> None:
        if cell == Cell(3, "ddn", 0) and what != "training":
            raise Stop

    with pytest.raises(Stop):
        compare(replace(request_, on_cell=stop))
    found, said = told(request_)
    assert said["T=3 graph seed 0"] == said["T=3 ddn seed 0"] == ["done before"]
    assert said["T=3 ddn seed 1"][0] == "training"
    again, said = told(request_)
    assert set(map(tuple, said.values())) == {("done before",)}
    assert again == found
    assert [(row.planner, row.seeds) for row in found.rows] == [("random", (0, 1)), ("graph", (0, 1)), ("ddn", (0, 1))]

    run = Cell(3, "ddn", 1).folder(request_.out)
    first, second = (
        evaluate(EvaluationRequest(folder, settings=SampleSettings(20)))
        for folder in (Cell(3, "ddn", 0).folder(request_.out), run)
    )
    for name in ("success_rate", "mean_accuracy"):
        mean = (first.decoders["own"][name].value + second.decoders["own"][name].value) / 2
        assert found.rows[2].scores[name].value == pytest.approx(mean)
    mean = (first.distribution["kl"].value + second.distribution["kl"].value) / 2
    assert found.rows[2].scores["kl"].value == pytest.approx(mean)

    rows = list(csv.DictReader((request_.out / "comparison.csv").read_text().splitlines()))
    assert [row["planner"] for row in rows] == ["random", "graph", "ddn"]
    assert float(rows[1]["success_rate_low"]) <= float(rows[1]["success_rate"]) <= float(rows[1]["success_rate_high"])
    assert int(rows[2]["parameters"]) > 10_000
    for name in ("comparison.md", "comparison.html"):
        text = (request_.out / name).read_text()
        assert "graph" in text
        assert "T = 3, tabletop (state features)" in text
    page = (request_.out / "comparison.html").read_text()
    assert "<strong>TABLETOP</strong>" in page
    best = max(float(row["success_rate"]) for row in rows)
    assert f'<td><span class="value first">{100 * best:.1f}</span>' in page
    lowest = min(float(row["nll"]) for row in rows)
    assert f'<td><span class="value first">{lowest:.2f}</span>' in page


def test_a_run_made_with_other_settings_is_not_mixed_in(request_: CompareRequest) -> None:
    compare(request_)
    with pytest.raises(ConfigError, match=r"optim\.epochs 2, not 5.*another --out"):
        compare(replace(request_, bases={n: override(base, {"optim.epochs": 5}) for n, base in request_.bases.items()}))
    with pytest.raises(ConfigError, match=r"samples\.num_samples 20, not 30"):
        compare(replace(request_, settings=SampleSettings(30)))


def test_a_changed_default_matters_to_the_planners_that_read_it(request_: CompareRequest, tmp_path: Path) -> None:
    request = replace(request_, out=tmp_path / "out", planners=("random", "ddn"), seeds=(0,))
    compare(request)

    def rewrite(planner: str, baseline: dict[str, Any]) -> None:
        path = Cell(3, planner, 0).folder(request.out) / DONE
        kept = json.loads(path.read_text())
        kept["config"].pop("plus", None)
        kept["config"]["baseline"] = baseline
        path.write_text(json.dumps(kept))

    now = asdict(BaselineConfig())
    rewrite("random", {})
    rewrite("ddn", now | {"inner_steps": 9})
    assert set(map(tuple, told(request)[1].values())) == {("done before",)}
    rewrite("ddn", now | {"goal_weight": 1.0})
    with pytest.raises(ConfigError, match=r"ddn/seed0 was made with baseline\.goal_weight 1\.0, not None"):
        compare(request)
    del now["goal_weight"]
    rewrite("ddn", now)
    with pytest.raises(ConfigError, match=r"ddn/seed0 was made before there was baseline\.goal_weight"):
        compare(request)


def test_a_run_that_fails_is_listed_and_the_others_go_on(request_: CompareRequest, tmp_path: Path) -> None:
    request = replace(request_, out=tmp_path / "out", planners=("graph", "ddn", "random"), seeds=(0,))
    place = Cell(3, "ddn", 0).folder(request.out)
    place.parent.mkdir(parents=True)
    place.touch()
    found, said = told(request)
    assert [row.planner for row in found.rows] == ["graph", "random"]
    assert list(found.failures) == ["T=3 ddn seed 0"]
    assert said["T=3 ddn seed 0"][1].startswith("failed: TrainingError")
    assert "is a file" in (request.out / "comparison.html").read_text()
    place.unlink()
    found, _ = told(request)
    assert not found.failures
    assert len(found.rows) == 3


def test_a_horizon_without_windows_is_listed_and_the_others_go_on(request_: CompareRequest, tmp_path: Path) -> None:
    request = replace(request_, out=tmp_path / "out", planners=("random",), horizons=(30, 3), seeds=(0,))
    found, said = told(request)
    assert [row.horizon for row in found.rows] == [3]
    assert "at noise 0, while the plan that is scored is decoded" in (request.out / "comparison.md").read_text()
    assert list(said) == ["T=3 random seed 0"]
    assert list(found.failures) == ["T=30"]
    assert "no usable train window of horizon 30" in found.failures["T=30"]
    assert "- failed: T=30: DatasetError" in (request.out / "comparison.md").read_text()
    none, _ = told(replace(request, horizons=(30,)))
    assert (none.rows, list(none.failures)) == ((), ["T=30"])


def test_what_the_data_lack_is_noted_once_and_evaluation_is_seen(
    request_: CompareRequest, tabletop: Path, tmp_path: Path
) -> None:
    split = json.loads((tabletop / "split.json").read_text())
    split["test"].append("zebra")
    (tmp_path / "split.json").write_text(json.dumps(split))
    bases = {n: override(b, {"data.split": str(tmp_path / "split.json")}) for n, b in request_.bases.items()}
    notes: list[str] = []
    windows: list[tuple[int, int]] = []
    request = replace(request_, out=tmp_path / "out", bases=bases, planners=("random", "graph"), seeds=(0,))
    request = replace(request, horizons=(3, 4))
    compare(replace(request, on_note=notes.append, on_windows=lambda *seen: windows.append(seen)))
    assert [note[:14] for note in notes] == ["T=3: 1 videos ", "T=4: 1 videos "]
    assert all("zebra" in note for note in notes)
    assert sum(done == total for done, total in windows) == len(request.cells)


def test_planners_horizons_and_seeds_are_checked_first(request_: CompareRequest) -> None:
    for change, message in (
        ({"planners": ("pdpp",)}, "planner='pdpp'"),
        ({"seeds": ()}, "--seeds"),
        ({"horizons": (3, 3)}, "none twice"),
    ):
        with pytest.raises(ConfigError, match=message):
            replace(request_, **change)


@pytest.mark.slow
def test_the_command_prints_a_table_and_says_when_something_failed(
    p3iv: RunP3iv, tabletop: Path, tmp_path: Path
) -> None:
    command = ["compare", tabletop, "--out", "out", "--preset", "tiny", "--split", "release", "--samples", "10"]
    command += ["--planners", "random,graph", "--horizons", "3", "--seeds", "0"]
    place = tmp_path / "out" / "T3" / "graph" / "seed0"
    place.parent.mkdir(parents=True)
    place.touch()
    failed = p3iv(*command)
    assert failed.returncode == 1
    assert "failed: T=3 graph seed 0" in failed.stderr
    place.unlink()
    done = p3iv(*command)
    assert done.returncode == 0, done.stderr
    assert "graph" in done.stdout
    assert "1 of 2, T=3 random seed 0: done before" in done.stderr
    assert "numbers between commas" in p3iv("compare", tabletop, "--out", "out", "--seeds", "one").stderr


def run_here(monkeypatch: pytest.MonkeyPatch, *args: str) -> None:
    """Run `p3iv ARGS...` in this process; it must end with exit code 1."""
    monkeypatch.setattr(sys, "argv", ["p3iv", *args])
    with pytest.raises(SystemExit, match="1"):
        main()


def test_a_split_file_is_kept_by_its_whole_path_and_an_impossible_horizon_ends_with_1(
    tabletop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.json").write_text((tabletop / "split.json").read_text())
    few = ["--planners", "random", "--seeds", "0", "--samples", "10"]
    run_here(monkeypatch, "compare", str(tabletop), "--out", "out", *few, "--horizons", "3,30", "--split", "own.json")
    assert "failed: T=30: DatasetError" in capsys.readouterr().err
    kept = yaml.safe_load((Cell(3, "random", 0).folder(Path("out")) / "config.yaml").read_text())
    assert kept["data"]["split"] == str(tmp_path / "own.json")


@pytest.mark.parametrize(
    ("setting", "option"), [("seed=7", "--seeds 7"), ("data.horizon=9", "--horizons 9"), ("planner=x", "--planners x")]
)
def test_what_a_comparison_varies_is_not_a_setting(
    setting: str, option: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_here(monkeypatch, "compare", "nowhere", "--out", "out", "--set", setting)
    assert capsys.readouterr().err == f"error: --set {setting}, but in a comparison it is {option}.\n"
