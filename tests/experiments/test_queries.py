"""The tables of the planner for every length: its cells, its baselines, and its differences to them."""

from __future__ import annotations

import csv
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from conftest import MakeOnce
from experiments.finished import TINY, cells, executed, with_runs
from p3iv.catalogue import METRICS, MIXES, PICTURES
from p3iv.data.tensors import load_planning_data
from p3iv.errors import ConfigError
from p3iv.evaluation.evaluate import EvaluationRequest, evaluate, evaluation_files
from p3iv.evaluation.result import Evaluation
from p3iv.experiments.cells import FinishedRuns
from p3iv.experiments.declarations import Table, declarations
from p3iv.experiments.filled import fill
from p3iv.experiments.identity import open_sources
from p3iv.experiments.reproduce import ReproduceRequest, reproduce
from p3iv.experiments.runs import TRAINED, RunOptions, runs_for_cell
from p3iv.metrics.intervals import Clusters, Interval, difference_intervals, paired_intervals, t_quantile
from p3iv.planners.checkpoint import load_planner
from p3iv.planners.header import BEST
from p3iv.plans.decoding import plan_chain
from p3iv.plans.draws import SampleSettings
from p3iv.tabletop.make import make_tabletop
from p3iv.training.run_folder import dataset_of
from p3iv.types import Progress

NAMES = ("queries", "queries-open", "queries-evidence")
LENGTHS = (1, 2, 3, 4, 5, 6)
SETTINGS = SampleSettings(5)
TWO_SEEDS = RunOptions(seeds=(0, 1))
MIX_OF = {label: mix for mix, label in MIXES.items()} | {"one planner": PICTURES}


def small_request(data: Path, out: Path) -> ReproduceRequest:
    return ReproduceRequest(names=NAMES, data=(data,), out=out, settings=TINY, samples=SETTINGS.num_samples)


@pytest.fixture(scope="module")
def asked(make_once: MakeOnce) -> ReproduceRequest:
    """Both tables with all their runs. Tests only read the folder."""
    data = make_once("small_tabletop", lambda folder: make_tabletop(folder, num_videos=24, render=False))

    def make(out: Path) -> None:
        assert not reproduce(small_request(data, out)).failures

    return small_request(data, make_once("asked", make))


@pytest.fixture(scope="module")
def copies(asked: ReproduceRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Copies of the runs by the lengths that they plan, for tests to evaluate."""
    folders = {}
    for row in read_csv(asked.out / "runs.csv"):
        folder = tmp_path_factory.mktemp("copies") / row["run"]
        folders[row["horizon"]] = Path(shutil.copytree(asked.out / "runs" / row["run"], folder))
    return folders


@pytest.fixture(scope="module")
def evaluated(copies: dict[str, Path]) -> Evaluation:
    """The evaluation of the planner for every length, with its predictions in `copies`."""
    return evaluate(EvaluationRequest(copies["1-6"], settings=SETTINGS))


def read_csv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def check(row: dict[str, str], found: Interval) -> None:
    """A line of a table has this value and this interval."""
    scale = METRICS[row["metric"]].scale
    for name, value in (("ours", found.value), ("low", found.low), ("high", found.high)):
        assert float(row[name]) == pytest.approx(scale * value, abs=1e-4)


def test_cells_are_what_evaluating_the_run_gives(
    asked: ReproduceRequest, copies: dict[str, Path], evaluated: Evaluation
) -> None:
    assert evaluated.lengths is not None
    by_mix = {scores.evidence: scores for scores in evaluated.lengths.evidence}
    checked = 0
    for row in cells(asked, "queries-open"):
        if row["metric"] == "training_cpu_s" or "difference" in row["row"] or "each" in row["row"]:
            continue
        is_frequent = row["row"] == "always the most frequent length"
        scores = by_mix[PICTURES if is_frequent else MIX_OF[row["row"]]]
        check(row, (scores.frequent_length if is_frequent else scores.unknown)[row["metric"]])
        checked += 1
    for row in cells(asked, "queries"):
        if row["row"] in MIX_OF:
            slices = {part.horizon: part.scores for part in by_mix[MIX_OF[row["row"]]].slices}
            check(row, slices[int(row["column_group"][2:])][row["metric"]])
            checked += 1
    assert checked == 8 * 4 + 6 * 8
    for row in cells(asked, "queries"):
        if row["row"].startswith("P3IV+") and row["column_group"] == "T=4":
            check(row, evaluate(EvaluationRequest(copies["4"], settings=SETTINGS)).plan_scores[row["metric"]])


def test_a_cell_is_what_an_evaluation_of_that_length_and_evidence_prints(
    asked: ReproduceRequest, copies: dict[str, Path]
) -> None:
    mix = ("start", "goal", "history")
    found = evaluate(EvaluationRequest(copies["1-6"], settings=SETTINGS, horizon=3, evidence=mix)).plan_scores
    rows = [row for row in cells(asked, "queries") if row["row"] == MIXES[mix] and row["column_group"] == "T=3"]
    assert [row["metric"] for row in rows] == ["success_rate", "mean_accuracy", "mean_iou"]
    for row in rows:
        check(row, found[row["metric"]])


def scores_of(path: Path, metric: str) -> dict[str, tuple[str, float]]:
    """The video and the score of every window of a prediction file."""
    lines = map(json.loads, path.read_text().splitlines())
    return {line["window"]: (line["video"], line["scores"][metric]) for line in lines}


def slow_interval(differences: list[tuple[str, float]]) -> tuple[float, float, float]:
    """Mean and 95 % interval of differences by window, leaving out one video at a time."""
    values = np.array([value for _, value in differences])
    videos = np.array([video for video, _ in differences])
    mean, names = float(values.mean()), sorted(set(videos))
    without = [float(values[videos != name].mean()) for name in names]
    variance = (len(names) - 1) / len(names) * sum((each - mean) ** 2 for each in without)
    sizes = [int((videos == name).sum()) for name in names]
    half = t_quantile(sum(sizes) ** 2 / sum(size**2 for size in sizes) - 1) * math.sqrt(variance)
    return mean, mean - half, mean + half


def test_differences_are_those_of_the_prediction_files_window_by_window(
    asked: ReproduceRequest, copies: dict[str, Path]
) -> None:
    evaluate(EvaluationRequest(copies["1-6"], settings=SETTINGS, horizon=3))
    evaluate(EvaluationRequest(copies["3"], settings=SETTINGS))
    one = evaluation_files(copies["1-6"], "test", SETTINGS, horizon=3).predictions
    fixed = evaluation_files(copies["3"], "test", SETTINGS).predictions
    rows = [row for row in cells(asked, "queries") if row["row"] == "difference" and row["column_group"] == "T=3"]
    assert len(rows) == 3
    for row in rows:
        ours, theirs = (scores_of(path, row["metric"]) for path in (one, fixed))
        assert ours.keys() == theirs.keys()
        found = slow_interval([(video, value - theirs[window][1]) for window, (video, value) in ours.items()])
        assert [float(row[name]) for name in ("ours", "low", "high")] == pytest.approx(
            [100 * max(min(end, 1.0), -1.0) for end in found], abs=1e-3
        )
        assert len(row["runs"].split()) == 2


@pytest.mark.usefixtures("evaluated")
def test_the_nll_of_planners_for_each_length_is_a_transcription_of_its_definition(
    asked: ReproduceRequest, copies: dict[str, Path]
) -> None:
    """For a window of T steps: -log(0.99 p_train(T) p(reference | T) + 0.01 / 6 / A^T)."""
    planners = {horizon: load_planner(copies[str(horizon)] / BEST) for horizon in LENGTHS}
    data = {
        horizon: load_planning_data(dataset_of(copies[str(horizon)]), trained.header.config.data)
        for horizon, trained in planners.items()
    }
    num_train = sum(len(each.train) for each in data.values())
    nll = {}
    for horizon, trained in planners.items():
        test, size = data[horizon].test, len(data[horizon].vocabulary)
        for row, window in enumerate(test.windows):
            start, goal = (part[row : row + 1].numpy() for part in (test.start, test.goal))
            chain = plan_chain(trained.sampler(SETTINGS).draw(start, goal), trained.transitions)
            p = math.exp(chain.log_probability(np.array([window.action_ids]), np.array([0]))[0])
            joint = len(data[horizon].train) / num_train * p
            name = f"{window.video}:{window.first_step}:{horizon}"
            nll[name] = -math.log(0.99 * joint + 0.01 / len(LENGTHS) / size**horizon)
    rows = {row["row"]: row for row in cells(asked, "queries-open") if row["metric"] == "open_nll"}
    assert float(rows["P3IV+ for each length"]["ours"]) == pytest.approx(np.mean(list(nll.values())), abs=1e-3)
    ours = scores_of(evaluation_files(copies["1-6"], "test", SETTINGS).predictions, "open_nll")
    difference = slow_interval([(video, value - nll[window]) for window, (video, value) in ours.items()])
    line = rows["difference to P3IV+ for each length"]
    assert [float(line[name]) for name in ("ours", "low", "high")] == pytest.approx(difference, abs=1e-3)


def test_training_costs_of_six_planners_are_added_up(asked: ReproduceRequest) -> None:
    costs = {row["row"]: float(row["ours"]) for row in cells(asked, "queries-open") if row["column"] == "CPU s"}
    runs = {row["horizon"]: float(row["training_cpu_s"]) for row in read_csv(asked.out / "runs.csv")}
    assert costs["one planner"] == pytest.approx(runs["1-6"], abs=0.01)
    assert costs["P3IV+ for each length"] == pytest.approx(sum(runs[str(each)] for each in LENGTHS), abs=0.05)


def test_scores_have_a_line_per_run_evidence_length_and_metric(asked: ReproduceRequest) -> None:
    rows = read_csv(asked.out / "scores.csv")
    named = {(row["run"], row["evidence"], row["length"], row["metric"]): row for row in rows}
    assert len(named) == len(rows)
    assert {row["length"] for row in rows if row["horizon"] == "1-6"} == {*map(str, LENGTHS), "unknown", "frequent"}
    windows = {int(row["windows"]) for row in rows if row["length"] == "3"}
    assert len(windows) == 1
    for name in NAMES[:2]:
        for row in cells(asked, name):
            if row["metric"] == "training_cpu_s" or "difference" in row["row"] or "each" in row["row"]:
                continue
            mix = "-".join(MIX_OF.get(row["row"], PICTURES))
            unknown = "frequent" if "frequent" in row["row"] else "unknown"
            line = named[row["runs"], mix, row["column_group"][2:] or unknown, row["metric"]]
            assert line["value"] == row["ours"] == row["by_seed"]


class Interrupt(BaseException):
    """What Ctrl-C raises: not an error."""


def test_an_interrupted_call_goes_on_and_writes_the_same_files(asked: ReproduceRequest, tmp_path: Path) -> None:
    def interrupt(at: Progress) -> None:
        if at.done:
            raise Interrupt

    request = with_runs(asked, tmp_path / "out")
    for path in (request.out / "runs").glob("*/scores_*.npz"):
        path.unlink()
    with pytest.raises(Interrupt):
        reproduce(executed(request, on_progress=interrupt))
    lacking = {row["row"] for row in cells(request, "queries-open") if not row["ours"]}
    assert {"one planner", "P3IV+ for each length", "difference to P3IV+ for each length"} <= lacking
    assert len(read_csv(request.out / "scores.csv")) < len(read_csv(asked.out / "scores.csv"))
    started: list[Progress] = []
    reproduce(executed(request, on_progress=started.append))
    assert started[0].total == 6
    for name in ("scores.csv", *(f"tables/{name}.{kind}" for name in NAMES for kind in ("csv", "md", "tex", "html"))):
        assert (request.out / name).read_bytes() == (asked.out / name).read_bytes(), name


def test_one_missing_length_leaves_the_joined_planners_without_a_value(asked: ReproduceRequest, tmp_path: Path) -> None:
    request = with_runs(replace(asked, names=("queries-open",)), tmp_path / "out")
    [key] = [row["run"] for row in read_csv(asked.out / "runs.csv") if row["horizon"] == "2"]
    shutil.rmtree(request.out / "runs" / key)
    (request.out / "runs" / key).touch()  # so that it fails
    assert len(reproduce(request).failures) == 1
    rows = {row["row"]: row for row in cells(request, "queries-open") if row["metric"] == "open_nll"}
    for name in ("P3IV+ for each length", "difference to P3IV+ for each length"):
        assert rows[name]["ours"] == ""
        assert "is a file" in rows[name]["why"]
    assert rows["one planner"]["ours"]


def queries_table() -> Table:
    table = declarations()["queries"]
    assert isinstance(table, Table)
    return table


def write_scores(out: Path, data: Path, values: dict[str, np.ndarray], orders: dict[str, np.ndarray]) -> FinishedRuns:
    """Finished runs with these success rates (S, N) at T=3 of `one` planner and of the `fixed` one, in these orders."""
    [source] = open_sources((data,))
    table = queries_table()
    for kind, row, array in (("fixed", 0, "success_rate.recommended"), ("one", 1, "success_rate.start-goal.known")):
        spec = table.cell_spec(table.rows[row], table.columns[0])
        assert spec is not None
        needed = runs_for_cell(spec, source, TWO_SEEDS)
        for run, scores in zip(needed.runs, values[kind], strict=True):
            folder, order = run.folder(out), orders[kind]
            folder.mkdir(parents=True)
            (folder / TRAINED).write_text("{}")
            windows = {"videos": order // 2, "first_steps": order % 2, "lengths": np.full(len(order), 3)}
            plans = {f"{name}.recommended": scores[order] for name in ("macro_precision", "bitwise_iou")}
            np.savez(folder / needed.sampling.file, **{array: scores[order], **windows, **plans})
    return FinishedRuns(out, {}, {})


def test_windows_are_paired_in_any_order_and_over_seeds(asked: ReproduceRequest, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    values = {kind: generator.random((2, 24)) for kind in ("one", "fixed")}
    orders = {"one": generator.permutation(24), "fixed": np.arange(24)}
    finished = write_scores(tmp_path, asked.data[0], values, orders)
    table, sources = queries_table(), open_sources(asked.data)
    table = replace(table, columns=table.columns[:1], rows=table.rows[:3])
    [block] = fill(table, sources, lambda spec, source: runs_for_cell(spec, source, TWO_SEEDS), finished).blocks
    value = block.cells[2][0].value
    assert value is not None
    ours, theirs = (torch.from_numpy(values[kind]) for kind in ("one", "fixed"))
    clusters = Clusters.of((np.arange(24) // 2).tolist())
    found = difference_intervals({"success_rate": ours}, {"success_rate": theirs}, clusters)["success_rate"]
    assert (value.value, value.low, value.high) == pytest.approx((found.value, found.low, found.high))
    assert value.by_seed == pytest.approx((ours - theirs).mean(dim=1).tolist())
    assert block.cells[2][0].text.startswith(("+", "-"))
    assert block.rankings == ()


def test_a_difference_is_that_of_the_seeds_that_both_rows_have(asked: ReproduceRequest, tmp_path: Path) -> None:
    values = {"one": np.full((2, 24), 0.75), "fixed": np.repeat([[0.5], [0.25]], 24, axis=1)}
    finished = write_scores(tmp_path, asked.data[0], values, dict.fromkeys(values, np.arange(24)))
    table, [source] = queries_table(), open_sources(asked.data)
    spec = table.cell_spec(table.rows[2], table.columns[0])
    assert spec is not None
    needed = runs_for_cell(spec, source, TWO_SEEDS)
    value = finished.cell_value(spec, needed, source.fingerprint)
    assert (value.value, value.seeds, value.is_partial) == (0.375, (0, 1), False)
    assert needed.minus is not None
    shutil.rmtree(needed.minus.runs[0].folder(tmp_path))
    value = finished.cell_value(spec, needed, source.fingerprint)
    assert (value.value, value.by_seed, value.seeds, value.is_partial) == (0.5, (0.5,), (1,), True)
    assert value.problem == "not run yet"


def test_other_windows_are_not_paired(asked: ReproduceRequest, tmp_path: Path) -> None:
    values = {kind: np.zeros((2, 24)) for kind in ("one", "fixed")}
    orders = {"one": np.arange(24), "fixed": np.arange(23)}
    finished = write_scores(tmp_path, asked.data[0], values, orders)
    [source] = open_sources(asked.data)
    table = queries_table()
    spec = table.cell_spec(table.rows[2], table.columns[0])
    assert spec is not None
    value = finished.cell_value(spec, runs_for_cell(spec, source, TWO_SEEDS), source.fingerprint)
    assert value.is_empty
    assert value.problem == "the two have no scores of the same windows"


def test_evidence_is_compared_seed_by_seed(asked: ReproduceRequest) -> None:
    row = cells(asked, "queries-evidence")[8 * 2]  # the third row of eight columns
    assert (row["row"], row["column_group"]) == (MIXES[("start", "goal", "procedure")], "T=3")
    arrays = np.load(asked.out / "runs" / row["runs"] / "scores_queries.npz")
    here = arrays["lengths"] == 3
    told, base = (torch.from_numpy(arrays[f"success_rate.start-goal{more}.known"][here]) for more in ("-procedure", ""))
    clusters = Clusters.of(arrays["videos"][here].tolist())
    check(row, paired_intervals({"success_rate": told - base}, clusters)["success_rate"])


def test_the_most_frequent_length_is_compared_seed_by_seed(asked: ReproduceRequest) -> None:
    [row] = [
        row
        for row in cells(asked, "queries-open")
        if row["row"] == "difference to the most frequent length" and row["metric"] == "length_accuracy"
    ]
    arrays = np.load(asked.out / "runs" / row["runs"] / "scores_queries.npz")
    ours, theirs = (torch.from_numpy(arrays[f"length_accuracy.start-goal.{how}"]) for how in ("unknown", "frequent"))
    check(
        row,
        paired_intervals({"length_accuracy": ours - theirs}, Clusters.of(arrays["videos"].tolist()))["length_accuracy"],
    )


def test_a_score_file_without_an_array_is_named(asked: ReproduceRequest, tmp_path: Path) -> None:
    request = with_runs(asked, tmp_path / "out")
    [path] = (request.out / "runs").glob("*/scores_queries.npz")
    np.savez(path, **{name: values for name, values in np.load(path).items() if "history" not in name})
    with pytest.raises(ConfigError, match=r"scores_queries\.npz has no success_rate\.start-goal-history\.known.*again"):
        reproduce(request)
