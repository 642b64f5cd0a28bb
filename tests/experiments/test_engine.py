"""The engine: runs are shared, kept and resumed, and a cell without a value says why."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.finished import SAMPLES, cells, executed, with_runs
from p3iv.data.tensors import load_planning_data
from p3iv.errors import ConfigError
from p3iv.evaluation.evaluate import EvaluationRequest, evaluate
from p3iv.experiments.declarations import declarations
from p3iv.experiments.job import score_prefixes, score_windows
from p3iv.experiments.reproduce import ReproduceRequest, reproduce
from p3iv.experiments.runs import SamplingVariant
from p3iv.planners.checkpoint import load_planner
from p3iv.planners.header import BEST
from p3iv.plans.draws import SampleSettings
from p3iv.tabletop.make import make_tabletop
from p3iv.training.run_folder import dataset_of
from p3iv.types import Progress


def test_runs_are_shared_and_a_second_call_makes_nothing(done: ReproduceRequest, tmp_path: Path) -> None:
    assert len(list((done.out / "runs").iterdir())) == 3  # for 9 rows in two tables
    started: list[Progress] = []
    request = with_runs(executed(done, on_progress=started.append), tmp_path / "out")
    left = next((request.out / "runs").iterdir()) / ".scores_k20.npz.abcdefgh.part"  # by a killed call
    left.touch()
    result = reproduce(request)
    assert [(at.done, at.total, at.about[:17]) for at in started] == [(0, 0, "3 runs are needed")]
    assert not left.exists()
    for path in (done.out / "tables").iterdir():
        assert (request.out / "tables" / path.name).read_bytes() == path.read_bytes()
    assert [(filled.num_filled, filled.num_cells) for filled in result.tables] == [(15, 15), (12, 12), (2, 2)]


@pytest.mark.parametrize("pattern", ["runs/*/trained.json", "runs/*/*.npz", "parts/other.json", "data/*.json"])
def test_a_damaged_file_is_named(done: ReproduceRequest, tmp_path: Path, pattern: str) -> None:
    request = replace(done, out=Path(shutil.copytree(done.out, tmp_path / "out")))
    for path in list(request.out.glob(pattern)) or [request.out / pattern]:
        path.write_bytes(b"PK\x03\x04 {")
    with pytest.raises(ConfigError, match=r"(trained|npz|json).* Delete it and run the command again"):
        reproduce(request)


def test_a_cell_equals_the_evaluation_of_its_run(done: ReproduceRequest, tmp_path: Path) -> None:
    rows = {row["row"]: row for row in cells(done, "viterbi") if row["column"] == "mIoU"}
    run = Path(shutil.copytree(done.out / "runs" / rows["Ours"]["runs"], tmp_path / "run"))
    found = evaluate(EvaluationRequest(run, settings=SampleSettings(SAMPLES)))
    decoders = {
        "B Uniform": "viterbi_paper_uniform_emissions",
        "A Uniform": "viterbi_paper_uniform_transitions",
        "Ours": "viterbi_paper",
        "our default decoding": "viterbi",
    }
    for label, decoder in decoders.items():
        score, row = found.decoders[decoder]["mean_iou"], rows[label]
        for name, value in (("ours", score.value), ("low", score.low), ("high", score.high)):
            assert float(row[name]) == pytest.approx(100 * value, abs=1e-4)
        assert float(row["as_released"]) == pytest.approx(100 * found.released[decoder]["bitwise_iou"].value, abs=1e-4)
    assert [row["published"] for row in rows.values()] == ["<0.01", "70.24", "73.89", ""]
    assert rows["Ours"]["data"] == "tabletop (state features)"
    assert rows["Ours"]["published_on"] == "CrossTask"


def test_tables_of_earlier_calls_stay_in_the_index(done: ReproduceRequest, tmp_path: Path) -> None:
    request = with_runs(replace(done, names=("viterbi",)), tmp_path / "out")
    reproduce(request)
    before = (request.out / "runs.csv").read_text()
    reproduce(replace(request, names=("losses", "figure-1")))
    page = (request.out / "index.html").read_text()
    entries = [declarations()[name] for name in ("losses", "viterbi", "figure-1")]
    places = [page.index(f">{entry.title}<") for entry in entries]
    assert places == sorted(places)
    assert 'id="viterbi"' in page
    after = (request.out / "runs.csv").read_text()
    assert after.startswith(before)
    assert len(after.splitlines()) == len(before.splitlines()) + 2


def test_cells_of_other_horizons_are_not_filled(done: ReproduceRequest) -> None:
    ours = [row for row in cells(done, "unique-plans") if row["data"] and row["row"] == "unique plans per pair"]
    rows = {row["column"]: row for row in ours}
    assert float(rows["T=3"]["ours"]) >= 1
    assert (rows["T=4"]["ours"], rows["T=4"]["why"], rows["T=4"]["published"]) == ("", "not asked for", "6.76")


class Interrupt(BaseException):
    """What Ctrl-C raises: not an error."""


def test_an_interrupted_call_writes_what_it_has_and_the_next_one_completes_it(
    done: ReproduceRequest, tmp_path: Path
) -> None:
    def interrupt(at: Progress) -> None:
        if at.done:
            raise Interrupt

    request = with_runs(replace(done, names=("losses", "viterbi")), tmp_path / "out")
    for key in {row["runs"] for row in cells(done, "losses") if row["row"].startswith("L_a") and row["data"]}:
        shutil.rmtree(request.out / "runs" / key)
    with pytest.raises(Interrupt):
        reproduce(executed(request, on_progress=interrupt))
    first = cells(request, "losses")
    assert {row["ours"] == "" for row in first if row["data"]} == {True, False}
    assert {row["why"] for row in first if row["data"] and not row["ours"]} == {"not run yet"}
    reproduce(request)
    for name in ("losses", "viterbi"):
        assert cells(request, name) == cells(done, name)


def test_a_failed_run_is_shown_in_its_cells_and_repeated_by_the_next_call(
    done: ReproduceRequest, tmp_path: Path
) -> None:
    request = replace(done, names=("viterbi",), out=tmp_path / "out")
    [key] = {row["runs"] for row in cells(done, "viterbi")}
    place = request.out / "runs" / key
    place.parent.mkdir(parents=True)
    place.touch()
    failures = reproduce(request).failures
    assert [outcome.about.split(":")[0] for outcome in failures.values()] == ["TrainingError"]
    assert {row["ours"] for row in cells(request, "viterbi")} == {""}
    assert all("is a file" in row["why"] for row in cells(request, "viterbi"))
    page = (request.out / "index.html").read_text()
    assert "failed" in page
    assert "is a file" in page
    assert (request.out / "failures" / f"{key}.txt").exists()
    place.unlink()
    assert not reproduce(request).failures
    assert not (request.out / "failures").exists()
    assert cells(request, "viterbi") == cells(done, "viterbi")


def test_an_impossible_run_says_why_and_is_not_tried_again(tmp_path: Path, done: ReproduceRequest) -> None:
    few = tmp_path / "few"
    make_tabletop(few, num_videos=3, render=False)
    header, first, *others = (few / "steps.csv").read_text().splitlines(keepends=True)
    own = [line for line in others if line.split(",")[0] == first.split(",")[0]]
    (few / "steps.csv").write_text("".join([header, first, *own]))
    (few / "split.json").unlink(missing_ok=True)
    request = replace(done, names=("memory",), data=(few,), out=tmp_path / "out")
    result = reproduce(request)
    assert not result.failures
    assert result.is_empty
    assert len(result.impossible) == 4
    assert all("impossible" in row["why"] for row in cells(request, "memory"))
    started: list[Progress] = []
    reproduce(executed(request, on_progress=started.append))
    assert [at.total for at in started] == [0]


def test_a_trained_run_that_cannot_be_evaluated_has_failed_and_is_tried_again(
    done: ReproduceRequest, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(done.data[0], data)
    (data / "truth.jsonl").write_text("{}\n")
    started: list[Progress] = []
    request = with_runs(replace(done, names=("gallery-t3",), data=(data,)), tmp_path / "out")
    request = executed(request, on_progress=started.append)
    for path in (request.out / "runs").glob("*/predictions.jsonl"):
        path.unlink()
    for _ in range(2):
        assert ["truth.jsonl:1" in outcome.about for outcome in reproduce(request).failures.values()] == [True]
    assert [(at.done, at.total) for at in started] == [(0, 1), (1, 1)] * 2


def test_a_smaller_k_is_a_prefix_of_the_largest(done: ReproduceRequest) -> None:
    run = done.out / "runs" / cells(done, "viterbi")[0]["runs"]
    trained = load_planner(run / BEST)
    data = load_planning_data(dataset_of(run), trained.header.config.data)
    prefixes = score_prefixes(trained, data, SamplingVariant(24, prefixes=(8, 24)))
    for number in (8, 24):
        alone = score_windows(trained, data, SamplingVariant(number))
        assert np.array_equal(prefixes[f"kl.{number}"], alone["kl.samples"])
        assert prefixes[f"nll.{number}.deviation"] >= 0
    several = score_prefixes(trained, data, SamplingVariant(24, prefixes=(8, 24), independent_draws=3))
    assert np.array_equal(several["kl.8"], prefixes["kl.8"])


def test_unique_plans_are_counted_in_the_windows_that_were_asked_for(done: ReproduceRequest, tmp_path: Path) -> None:
    request = replace(done, names=("unique-plans",), out=tmp_path / "out")
    reproduce(replace(request, settings={"data.window": "after-start"}))
    assert cells(request, "unique-plans") != cells(done, "unique-plans")
    reproduce(request)
    assert cells(request, "unique-plans") == cells(done, "unique-plans")


def test_notes_on_the_data_are_given_once(done: ReproduceRequest, tmp_path: Path) -> None:
    split = json.loads((done.data[0] / "split.json").read_text())
    split["test"].append("zebra")
    (tmp_path / "split.json").write_text(json.dumps(split))
    notes: list[str] = []
    settings = {**done.settings, "data.split": str(tmp_path / "split.json")}
    request = replace(done, names=("viterbi",), out=tmp_path / "out", seeds=(0, 1), settings=settings)
    reproduce(executed(request, on_note=notes.append))
    assert len([note for note in notes if "zebra" in note]) == 1
    assert len(set(notes)) == len(notes)
    assert all(note.startswith("T=3: ") for note in notes)


@pytest.mark.slow
def test_a_cluster_makes_the_same_cells(done: ReproduceRequest, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    request = executed(replace(done, names=("viterbi",), out=tmp_path / "out"), engine="ray")
    assert not reproduce(request).failures
    assert cells(request, "viterbi") == cells(done, "viterbi")
