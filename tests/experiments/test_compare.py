"""`p3iv compare`: one table of planners, made from options and filled by the engine of `reproduce`."""

from __future__ import annotations

import csv
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from commands import RunP3iv
from conftest import MakeOnce
from experiments.finished import executed
from p3iv.errors import ConfigError
from p3iv.evaluation.evaluate import EvaluationRequest, evaluate
from p3iv.experiments.compare import CompareRequest, compare
from p3iv.experiments.engine import FillResult
from p3iv.plans.draws import SampleSettings
from p3iv.types import Progress


def small_request(data: Path, out: Path) -> CompareRequest:
    return CompareRequest(
        folder=data,
        out=out,
        planners=("random", "graph", "ddn"),
        horizons=(3,),
        seeds=(0, 1),
        preset="tiny",
        settings={"optim.epochs": 2, "data.split": "release", "model.width": 32},
        samples=20,
    )


@pytest.fixture(scope="module")
def compared(make_once: MakeOnce, tabletop: Path) -> CompareRequest:
    """A finished comparison. Tests only read its folder."""

    def fill(out: Path) -> None:
        assert not compare(small_request(tabletop, out)).failures

    return small_request(tabletop, make_once("compared", fill))


def rows_of(request: CompareRequest) -> list[dict[str, str]]:
    return list(csv.DictReader((request.out / "comparison.csv").read_text().splitlines()))


def run_folders(request: CompareRequest, planner: str) -> list[Path]:
    """The runs of a planner, by seed."""
    rows = csv.DictReader((request.out / "runs.csv").read_text().splitlines())
    chosen = sorted((row for row in rows if row["planner"] == planner), key=lambda row: int(row["seed"]))
    return [request.out / "runs" / row["run"] for row in chosen]


def test_a_row_is_the_mean_over_seeds_of_what_evaluating_the_runs_gives(
    compared: CompareRequest, tmp_path: Path
) -> None:
    rows = rows_of(compared)
    assert [(row["planner"], row["seeds"]) for row in rows] == [("random", "0 1"), ("graph", "0 1"), ("ddn", "0 1")]
    found = []
    for run in run_folders(compared, "ddn"):
        copy = Path(shutil.copytree(run, tmp_path / run.name))
        found.append(evaluate(EvaluationRequest(copy, settings=SampleSettings(20))))
    for name in ("success_rate", "mean_accuracy"):
        mean = sum(each.decoders["own"][name].value for each in found) / 2
        assert float(rows[2][name]) == pytest.approx(mean, abs=1e-6)
    mean = sum(each.distribution["kl"].value for each in found) / 2
    assert float(rows[2]["kl"]) == pytest.approx(mean, abs=1e-6)
    assert float(rows[1]["success_rate_low"]) <= float(rows[1]["success_rate"]) <= float(rows[1]["success_rate_high"])
    assert int(rows[2]["parameters"]) > 10_000


def test_pages_show_the_best_of_every_column_and_rows_that_cannot_be_told_from_it(compared: CompareRequest) -> None:
    rows = rows_of(compared)
    for name in ("index.html", "tables/comparison.html", "tables/comparison.md", "tables/comparison.tex"):
        text = (compared.out / name).read_text()
        for wanted in (
            "graph",
            "tabletop (state features)",
            "at noise 0, while its scored plan is decoded",
            "mAcc: mean accuracy",
        ):
            assert wanted in " ".join(text.split()), (name, wanted)
    page = (compared.out / "tables" / "comparison.html").read_text()
    assert "<strong>TABLETOP</strong>" in page
    assert "as published" not in page
    best = max(float(row["success_rate"]) for row in rows)
    assert f'class="value best">{100 * best:.1f}</span>' in page
    lowest = min(float(row["nll"]) for row in rows)
    assert f'class="value best">{lowest:.2f}</span>' in page
    assert "T=3: graph is best in SR, mAcc" in page
    assert "†" not in page


def test_the_same_request_makes_nothing_and_other_settings_make_other_runs(
    compared: CompareRequest, tmp_path: Path
) -> None:
    started: list[Progress] = []
    before = (compared.out / "comparison.csv").read_bytes()
    compare(executed(compared, on_progress=started.append))
    assert (compared.out / "comparison.csv").read_bytes() == before
    request = replace(compared, out=tmp_path / "out", planners=("random",), seeds=(0,))
    request = executed(request, on_progress=started.append)
    compare(request)
    compare(replace(request, settings={**request.settings, "optim.epochs": 1}))
    assert [at.about for at in started if not at.done] == [
        f"{needed} runs are needed, {missing} of them have to be made" for needed, missing in ((6, 0), (1, 1), (1, 1))
    ]
    assert len(list((request.out / "runs").iterdir())) == 2


def test_an_interrupted_comparison_writes_the_planners_that_are_finished(
    compared: CompareRequest, tmp_path: Path
) -> None:
    def interrupt(at: Progress) -> None:
        if at.done:
            raise KeyboardInterrupt

    request = replace(compared, out=tmp_path / "out", planners=("random", "graph"), seeds=(0,))
    with pytest.raises(KeyboardInterrupt):
        compare(executed(request, on_progress=interrupt))
    assert [row["planner"] for row in rows_of(request)] == ["random"]


def statuses(result: FillResult) -> tuple[list[str], list[str]]:
    return list(result.failures), list(result.impossible)


def test_a_failed_run_is_listed_and_the_others_go_on(compared: CompareRequest, tmp_path: Path) -> None:
    request = replace(compared, out=tmp_path / "out", planners=("graph", "random"), seeds=(0,))
    place = tmp_path / "out" / "runs" / run_folders(compared, "graph")[0].name
    place.parent.mkdir(parents=True)
    place.touch()
    assert statuses(compare(request)) == (["tabletop: graph T=3 width=32 seed 0"], [])
    assert [row["planner"] for row in rows_of(request)] == ["random"]
    assert "is a file" in (request.out / "tables" / "comparison.html").read_text()
    place.unlink()
    assert statuses(compare(request)) == ([], [])
    assert [row["planner"] for row in rows_of(request)] == ["graph", "random"]


def test_a_horizon_without_windows_is_listed_and_the_others_go_on(compared: CompareRequest, tmp_path: Path) -> None:
    request = replace(compared, out=tmp_path / "out", planners=("random",), horizons=(30, 3), seeds=(0,))
    result = compare(request)
    assert statuses(result) == ([], ["tabletop: random T=30 width=32 seed 0"])
    assert "no usable train, val, test window of horizon 30" in next(iter(result.impossible.values())).about
    assert [row["horizon"] for row in rows_of(request)] == ["3"]
    assert "no usable train, val, test window of horizon 30" in (request.out / "tables" / "comparison.md").read_text()
    assert compare(replace(request, horizons=(30,))).is_empty


def test_planners_horizons_and_seeds_are_checked_first(compared: CompareRequest) -> None:
    for change, message in (
        ({"planners": ("pdpp",)}, "planner='pdpp'"),
        ({"seeds": ()}, "--seeds"),
        ({"horizons": (3, 3)}, "without duplicates"),
        ({"samples": 0}, "--samples 0, but it must be at least 1"),
        ({"out": compared.folder}, "is, contains or lies in the dataset folder"),
    ):
        with pytest.raises(ConfigError, match=message):
            replace(compared, **change)


def test_the_command_prints_a_table_and_fails_with_an_impossible_horizon(
    p3iv: RunP3iv, tabletop: Path, tmp_path: Path
) -> None:
    (tmp_path / "own.json").write_text((tabletop / "split.json").read_text())
    command = ["compare", tabletop, "--out", "out", "--preset", "tiny", "--samples", "10", "--split", "own.json"]
    command += ["--planners", "random,graph", "--seeds", "0"]
    failed = p3iv(*command, "--horizons", "3,30")
    assert failed.returncode == 1
    assert "impossible: tabletop: graph T=30" in failed.stderr
    assert "run 4 of 4" in failed.stderr
    done = p3iv(*command, "--horizons", "3")
    assert done.returncode == 0, done.stderr
    assert "-> out/index.html, out/comparison.csv" in done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines()[:4]] == ["T=3", "planner", "random", "graph"]
    assert "SR: success rate (windows whose plan is the reference, step for step); mAcc: " in done.stdout
    assert "have the same SR" not in done.stdout
    assert "have to be made" not in done.stderr
    [run, _] = [path for path in (tmp_path / "out" / "runs").iterdir() if (path / "trained.json").exists()]
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["data"]["split"] == str(tmp_path / "own.json")
    assert "separated by commas" in p3iv("compare", tabletop, "--out", "out", "--seeds", "one").stderr


@pytest.mark.parametrize(
    ("setting", "option"), [("seed=7", "--seeds 7"), ("data.horizon=9", "--horizons 9"), ("planner=x", "--planners x")]
)
def test_an_option_of_the_comparison_is_not_a_setting(setting: str, option: str, p3iv: RunP3iv) -> None:
    refused = p3iv("compare", "nowhere", "--out", "out", "--set", setting)
    assert refused.returncode == 1
    assert refused.stderr == f"error: --set {setting}, but in a comparison it is {option}.\n"
