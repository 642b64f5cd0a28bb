"""Reproduction: runs are shared, kept and resumed, cells say what they are or why they are not, pages tell it all."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from conftest import RunP3iv
from p3iv.data.folder import read_card
from p3iv.data.tensors import load_planning_data
from p3iv.errors import ConfigError, DatasetError, SplitError
from p3iv.evaluation.evaluate import EvaluationRequest, evaluate
from p3iv.experiments import versions
from p3iv.experiments.budgets import budget_of
from p3iv.experiments.built import build, filled_of
from p3iv.experiments.declared import Ask, Table, declared
from p3iv.experiments.gathering import Gatherer
from p3iv.experiments.listing import list_together
from p3iv.experiments.measure import Outcome, score_plans, score_prefixes
from p3iv.experiments.provenance import Provenance
from p3iv.experiments.reproduce import ReproduceRequest, reproduce
from p3iv.experiments.runs import TRAINED, Planned, Sampling, Terms, plan
from p3iv.experiments.sources import Source, open_sources
from p3iv.experiments.writing import escape_latex, write_index, write_table
from p3iv.planners.checkpoint import BEST, load_planner
from p3iv.plans.draws import SampleSettings
from p3iv.tabletop.make import make_tabletop
from p3iv.training.run_folder import dataset_of

TINY = {"optim.epochs": 1, "model.width": 32, "model.feed_forward": 32, "model.encoder_hidden": 32, "loss.latents": 2}
SAMPLES = 20


@pytest.fixture(scope="module")
def request_(tabletop: Path, tmp_path_factory: pytest.TempPathFactory) -> ReproduceRequest:
    return ReproduceRequest(
        names=("losses", "viterbi", "unique-plans", "figure-1"),
        data=(tabletop,),
        out=tmp_path_factory.mktemp("reproduced") / "out",
        horizons=(3,),
        settings=TINY,
        samples=SAMPLES,
    )


@pytest.fixture(scope="module")
def done(request_: ReproduceRequest) -> ReproduceRequest:
    found = reproduce(request_)
    assert not found.failures
    return request_


def cells(request: ReproduceRequest, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((request.out / "tables" / f"{name}.csv").read_text().splitlines()))


def test_runs_are_shared_and_a_second_call_makes_nothing(done: ReproduceRequest) -> None:
    assert len(list((done.out / "runs").iterdir())) == 3  # of 9 rows in two tables
    before = {path: path.read_bytes() for path in (done.out / "tables").iterdir()}
    planned: list[tuple[int, int]] = []
    again = reproduce(replace(done, on_plan=lambda *numbers: planned.append(numbers)))
    assert planned == [(3, 0)]
    assert {path: path.read_bytes() for path in before} == before
    assert [(built.num_filled, built.num_cells) for built in again.tables] == [(15, 15), (12, 12), (2, 2)]


def test_a_cell_is_what_evaluating_its_run_says_beside_what_is_printed(done: ReproduceRequest) -> None:
    rows = {row["row"]: row for row in cells(done, "viterbi") if row["column"] == "mIoU"}
    run = done.out / "runs" / rows["Ours"]["runs"]
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
        assert float(row["as_released"]) == pytest.approx(100 * found.published[decoder]["bitwise_iou"].value, abs=1e-4)
    assert [row["published"] for row in rows.values()] == ["<0.01", "70.24", "73.89", ""]
    assert rows["Ours"]["data"] == "tabletop (state features)"
    assert rows["Ours"]["published_on"] == "CrossTask"


def test_pages_carry_data_runs_and_code(done: ReproduceRequest) -> None:
    for suffix in ("html", "md", "tex"):
        text = (done.out / "tables" / f"losses.{suffix}").read_text()
        for wanted in ("tabletop (state features)", versions.code_version(), "16.90", "74.29"):
            assert wanted in text, (suffix, wanted)
    assert r"\emph{SR $\uparrow$}" in (done.out / "tables" / "losses.tex").read_text()  # of datasets not given
    page = (done.out / "index.html").read_text()
    assert "TABLETOP" in page
    for run in (done.out / "runs").iterdir():
        assert run.name in page
        facts = json.loads((run / TRAINED).read_text())
        assert facts["epochs"] == 1
        assert facts["code_version"] == versions.code_version()
    rows = list(csv.DictReader((done.out / "runs.csv").read_text().splitlines()))
    assert {row["run"] for row in rows} == {run.name for run in (done.out / "runs").iterdir()}
    assert all(float(row["cpu_s"]) > 0 for row in rows)


def test_every_figure_names_runs_seeds_data_commit_and_machine_of_its_training(
    done: ReproduceRequest, tmp_path: Path
) -> None:
    request = replace(done, names=("viterbi", "diversity"), out=tmp_path / "out", command="p3iv as typed")
    reproduce(request)
    [run] = (request.out / "runs").iterdir()
    for file, name, value in ((TRAINED, "commit", "0123456789ab"), ("environment.json", "platform", "Abacus")):
        content = json.loads((run / file).read_text())
        (run / file).write_text(json.dumps(content | {name: value}))
    found = reproduce(request)
    assert found.provenance.commits == ("0123456789ab",)
    [machine] = found.provenance.machines
    assert machine.startswith("Abacus, processors: ")
    assert f"torch {metadata.version('torch')}" in machine
    slug = "diversity-tabletop-state-features"
    pages = [f"tables/viterbi.{suffix}" for suffix in ("md", "tex", "html")]
    for page in (*pages, "index.html", f"figures/{slug}.html", f"figures/{slug}-1.svg"):
        text = (request.out / page).read_text()
        for wanted in (f"runs/{run.name}", "seed 0", "tabletop (state features)", "0123456789ab", machine):
            assert wanted in text, (page, wanted)
    caption = f">tabletop (state features); seed 0; commit 0123456789ab; runs/{run.name}</text>"
    assert caption in (request.out / "figures" / f"{slug}-1.svg").read_text()
    [row] = csv.DictReader((request.out / "runs.csv").read_text().splitlines())
    assert (row["run"], row["seed"], row["commit"], row["machine"]) == (run.name, "0", "0123456789ab", machine)
    assert row["terms"] == "optim.epochs=1 optim.max_cpu_s=20.0"
    origins = json.loads((request.out / "provenance.json").read_text())
    assert {name: origin["samples"] for name, origin in origins.items()} == {"viterbi": SAMPLES, slug: 1500}
    same = {"command": "p3iv as typed", "budget": "small", "seeds": [0], "machines": [machine]}
    assert all(origin[name] == same[name] for origin in origins.values() for name in same)


def test_what_earlier_calls_made_stays_in_the_index(done: ReproduceRequest, tmp_path: Path) -> None:
    request = replace(done, names=("viterbi",), out=tmp_path / "out")
    reproduce(request)
    before = (request.out / "runs.csv").read_text()
    reproduce(replace(request, names=("losses", "figure-1"), seeds=(1,)))
    page = (request.out / "index.html").read_text()
    places = [page.index(f">{entry.title}<") for entry in (declared()[n] for n in ("losses", "viterbi", "figure-1"))]
    assert places == sorted(places)
    assert 'id="viterbi"' in page
    after = (request.out / "runs.csv").read_text()
    assert after.startswith(before)
    assert len(after.splitlines()) == len(before.splitlines()) + 3


def test_a_renamed_tabletop_is_still_called_one(tabletop: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tabletop, copy)
    replace(read_card(copy), name="kitchen").write(copy)
    [source] = open_sources((copy,))
    assert source.label == "kitchen (tabletop, state features)"
    replace(read_card(copy), simulated=True, source="unknown").write(copy)
    assert open_sources((copy,))[0].label == "kitchen (SIMULATED state features)"


def test_notes_stand_under_latex_tables_and_explain_the_dagger(done: ReproduceRequest) -> None:
    text = (done.out / "tables" / "viterbi.tex").read_text()
    for wanted in ("cannot be a set IoU", r"$\dagger$ The paper's mAcc is a macro precision"):
        assert text.count(wanted) == 1


def test_cells_of_other_horizons_are_left_alone(done: ReproduceRequest) -> None:
    ours = [row for row in cells(done, "unique-plans") if row["data"] and row["row"] == "unique plans per pair"]
    rows = {row["column"]: row for row in ours}
    assert float(rows["T=3"]["ours"]) >= 1
    assert (rows["T=4"]["ours"], rows["T=4"]["why"], rows["T=4"]["published"]) == ("", "not asked for", "6.76")


class Stop(BaseException):
    """Neither an error nor the end: what Ctrl-C does."""


def test_an_interrupted_call_writes_what_it_has_and_the_next_ends_the_same(
    done: ReproduceRequest, tmp_path: Path
) -> None:
    def stop(_: object) -> None:
        raise Stop

    request = replace(done, out=tmp_path / "out")
    with pytest.raises(Stop):
        reproduce(replace(request, on_run=stop))
    first = cells(request, "losses")
    assert {row["ours"] == "" for row in first if row["data"]} == {True, False}
    assert {row["why"] for row in first if row["data"] and not row["ours"]} == {"not run yet"}
    reproduce(request)
    for name in ("losses", "viterbi"):
        assert cells(request, name) == cells(done, name)


def test_a_failing_run_is_shown_in_its_cells_and_made_later(done: ReproduceRequest, tmp_path: Path) -> None:
    request = replace(done, names=("viterbi",), out=tmp_path / "out")
    [key] = {row["runs"] for row in cells(done, "viterbi")}
    place = request.out / "runs" / key
    place.parent.mkdir(parents=True)
    place.touch()
    found = reproduce(request)
    assert [outcome.about.split(":")[0] for outcome in found.failures.values()] == ["TrainingError"]
    assert {row["ours"] for row in cells(request, "viterbi")} == {""}
    assert all("is a file" in row["why"] for row in cells(request, "viterbi"))
    page = (request.out / "index.html").read_text()
    assert "failed" in page
    assert "is a file" in page
    place.unlink()
    assert not reproduce(request).failures
    assert cells(request, "viterbi") == cells(done, "viterbi")


def test_what_data_cannot_fill_says_why_and_is_not_tried_again(tmp_path: Path, done: ReproduceRequest) -> None:
    few = tmp_path / "few"
    make_tabletop(few, num_videos=3, render=False)
    header, first, *others = (few / "steps.csv").read_text().splitlines(keepends=True)
    own = [line for line in others if line.split(",")[0] == first.split(",")[0]]
    (few / "steps.csv").write_text("".join([header, first, *own]))
    (few / "split.json").unlink(missing_ok=True)
    request = replace(done, names=("memory",), data=(few,), out=tmp_path / "out")
    found = reproduce(request)
    assert not found.failures
    assert found.is_empty
    assert all("impossible" in row["why"] for row in cells(request, "memory"))
    planned: list[int] = []
    reproduce(replace(request, on_plan=lambda _, missing: planned.append(missing)))
    assert planned == [0]


def test_a_trained_run_that_cannot_be_shown_has_failed_and_is_tried_again(
    done: ReproduceRequest, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(done.data[0], data)
    truth = (data / "truth.jsonl").read_text()
    (data / "truth.jsonl").write_text("{}\n" + truth)
    request = replace(done, names=("gallery-t3",), data=(data,), out=tmp_path / "out", horizons=())
    assert ["truth.jsonl:1" in outcome.about for outcome in reproduce(request).failures.values()] == [True]
    (data / "truth.jsonl").write_text(truth)
    assert not reproduce(request).failures


def test_a_smaller_k_is_a_prefix_of_the_largest(done: ReproduceRequest) -> None:
    run = done.out / "runs" / cells(done, "viterbi")[0]["runs"]
    trained = load_planner(run / BEST)
    data = load_planning_data(dataset_of(run), trained.header.config.data)
    prefixes = score_prefixes(trained, data, Sampling(60, prefixes=(10, 60)))
    for number in (10, 60):
        alone = score_plans(trained, data, Sampling(number))
        assert np.array_equal(prefixes[f"kl.{number}"], alone["kl.samples"])
        assert prefixes[f"nll.{number}.deviation"] >= 0
    several = score_prefixes(trained, data, Sampling(60, prefixes=(10, 60), independent_draws=3))
    assert np.array_equal(several["kl.10"], prefixes["kl.10"])


def fake_run(out: Path, planned: Planned, **values: list[float]) -> None:
    """What a finished run leaves of a window per video, the same for all its seeds but for 0.1 per seed."""
    for run in planned.runs:
        folder = run.folder(out)
        folder.mkdir(parents=True)
        (folder / TRAINED).write_text("{}")
        arrays = {name.replace("__", "."): np.array(each) + 0.1 * run.config.seed for name, each in values.items()}
        np.savez(folder / planned.sampling.file, videos=np.array(["a", "b", "c"]), **arrays)  # type: ignore[arg-type]


@pytest.fixture
def memory(tabletop: Path, tmp_path: Path) -> tuple[Table, Source, Callable[[Ask, Source], Planned], Gatherer]:
    table = declared()["memory"]
    assert isinstance(table, Table)
    [source] = open_sources((tabletop,))
    terms = Terms(budget_of("small"), (0, 2), {})
    return table, source, lambda ask, of: plan(ask, of, terms), Gatherer(tmp_path, {}, {})


def test_seeds_are_averaged_and_rows_compared_window_by_window(
    memory: tuple[Table, Source, Callable[[Ask, Source], Planned], Gatherer],
) -> None:
    table, source, plan_of, gatherer = memory
    metrics = ("success_rate", "mean_accuracy", "mean_iou", "macro_precision", "bitwise_iou")
    # As published, 0 < 64 < 256 < 128; here 64 is below 0, and 256 and 128 cannot be told apart.
    for row, values in zip(
        table.rows, ([0.2, 0.3, 0.4], [0.1, 0.2, 0.3], [0.5, 0.6, 0.9], [0.6, 0.7, 0.6]), strict=True
    ):
        ask = table.ask(row, table.columns[0])
        assert ask is not None
        fake_run(gatherer.out, plan_of(ask, source), **{f"{name}__viterbi_paper": values for name in metrics})
    [block] = build(table, (source,), plan_of, gatherer).blocks
    found = block.cells[0][0].found
    assert found is not None
    assert found.value == pytest.approx(0.3 + 0.1)  # seeds 0 and 2 add 0 and 0.2
    assert found.spread == pytest.approx(0.2 / np.sqrt(2))
    assert found.seeds == (0, 2)
    column, order = block.orders[0]
    assert column.label == "SR"
    assert (order.same, order.reversed, order.undecided) == (4, 1, 1)


def test_one_seed_that_failed_leaves_the_others_and_a_reason(
    memory: tuple[Table, Source, Callable[[Ask, Source], Planned], Gatherer],
) -> None:
    table, source, plan_of, gatherer = memory
    ask = table.ask(table.rows[0], table.columns[0])
    assert ask is not None
    planned = plan_of(ask, source)
    fake_run(gatherer.out, replace(planned, runs=planned.runs[:1]), **{"success_rate__viterbi_paper": [0.0, 0.0, 1.0]})
    failed = Outcome(planned.runs[1].key, "failed", "ValueError: no")
    found = replace(gatherer, outcomes={failed.key: failed}).find(replace(ask), planned, "")
    assert (found.seeds, found.why) == ((0,), "seed 2: failed: ValueError: no")


def test_a_cell_without_one_of_its_seeds_says_so_everywhere(
    memory: tuple[Table, Source, Callable[[Ask, Source], Planned], Gatherer],
) -> None:
    table, source, plan_of, gatherer = memory
    ask = table.ask(table.rows[0], table.columns[0])
    assert ask is not None
    planned = plan_of(ask, source)
    metrics = ("success_rate", "mean_accuracy", "mean_iou", "macro_precision", "bitwise_iou")
    half = replace(planned, runs=planned.runs[:1])
    fake_run(gatherer.out, half, **{f"{name}__viterbi_paper": [0.0, 0.0, 1.0] for name in metrics})
    failed = Outcome(planned.runs[1].key, "failed", "ValueError: no")
    gatherer = replace(gatherer, outcomes={failed.key: failed})
    built = build(table, (source,), plan_of, gatherer)
    assert filled_of([built]) == "3 of 12, 3 of them not with every seed"
    provenance = Provenance.of("p3iv", (source,), "small", (0, 2), SAMPLES)
    write_index(gatherer.out, [write_table(gatherer.out, built, provenance, gatherer)])
    for name in ("tables/memory.md", "tables/memory.tex", "tables/memory.html", "index.html"):
        text = (gatherer.out / name).read_text()
        assert text.count("1 of 2 seeds") == 3, name
        assert "seed 2: failed: ValueError: no (3 cells)" in text, name
    assert "3 of them not with every seed" in (gatherer.out / "index.html").read_text()


def test_a_run_is_named_by_configuration_data_and_code(
    tabletop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = next(declared()["memory"].asks)
    copy = tmp_path / "copy"
    shutil.copytree(tabletop, copy)
    terms = Terms(budget_of("small"), (0,), {})
    [here], [there] = open_sources((tabletop,)), open_sources((copy,))

    def key(source: Source, terms: Terms = terms) -> str:
        return plan(ask, source, terms).runs[0].key

    assert key(here) == key(there)
    assert key(here) != key(here, replace(terms, settings={"optim.epochs": 3}))
    assert key(here) != key(here, replace(terms, seeds=(1,)))
    with (copy / "steps.csv").open("a") as file:
        file.write("\n")
    [changed] = open_sources((copy,))
    assert key(here) != key(changed)
    before = key(here)
    monkeypatch.setattr("p3iv.experiments.runs.code_version", lambda: "another")
    assert key(here) != before


def test_a_run_is_named_by_what_a_split_file_says_not_by_where_it_lies(tabletop: Path, tmp_path: Path) -> None:
    ask, [source] = next(declared()["memory"].asks), open_sources((tabletop,))

    def key(path: Path) -> str:
        return plan(ask, source, Terms(budget_of("small"), (0,), {"data.split": str(path)})).runs[0].key

    one, other = tmp_path / "one.json", tmp_path / "other.json"
    shutil.copyfile(tabletop / "split.json", one)
    shutil.copyfile(tabletop / "split.json", other)
    assert key(one) == key(other)
    other.write_text(other.read_text() + "\n")
    assert key(one) != key(other)
    with pytest.raises(SplitError, match="nor a file that can be read"):
        key(tmp_path / "none.json")


def test_unique_plans_are_counted_in_the_windows_that_were_asked_for(done: ReproduceRequest, tmp_path: Path) -> None:
    request = replace(done, names=("unique-plans",), out=tmp_path / "out")
    reproduce(request)
    inclusive = cells(request, "unique-plans")
    reproduce(replace(request, settings={"data.window": "after-start"}))
    assert cells(request, "unique-plans") != inclusive
    reproduce(request)
    assert cells(request, "unique-plans") == inclusive


def test_a_commit_is_that_of_the_package_never_of_a_repository_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        done = subprocess.run(["git", *who, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    package = tmp_path / "venv" / "p3iv"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (tmp_path / ".gitignore").write_text("venv\n")
    git("init")
    git("add", ".gitignore")
    git("commit", "-m", "theirs")
    monkeypatch.setattr(versions, "PACKAGE", package)
    assert versions.commit.__wrapped__() is None
    git("add", "--force", "venv")
    git("commit", "-m", "ours")
    assert versions.commit.__wrapped__() == git("rev-parse", "--short=12", "HEAD")


def test_the_code_version_knows_what_can_change_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("metrics/plans.py", "cli/app.py", "report/page.py", "experiments/measure.py", "experiments/pages.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("a = 1\n")
    monkeypatch.setattr(versions, "PACKAGE", tmp_path)
    version = versions.code_version.__wrapped__
    before = version()
    for name in ("cli/app.py", "report/page.py", "experiments/pages.py"):
        (tmp_path / name).write_text("a = 2\n")
    assert version() == before
    for name in ("metrics/plans.py", "experiments/measure.py"):
        (tmp_path / name).write_text("a = 2\n")
        assert version() != before
        before = version()


def test_what_is_asked_for_is_checked_first(done: ReproduceRequest, tmp_path: Path) -> None:
    for change, message in (
        ({"names": ()}, "Name a table or figure"),
        ({"budget": "large"}, "--budget large, but it is one of small, paper"),
        ({"seeds": (1, 1)}, "none twice"),
        ({"horizons": (3, 7)}, "--horizons 7, but no cell of losses, .* has it: there is T=3, T=4, T=5, T=6"),
        ({"names": ("losses",), "horizons": (4,)}, "--horizons 4, but no cell of losses has it: there is T=3"),
        ({"engine": "spark"}, "--engine spark"),
        ({"address": "auto"}, "pass --engine ray"),
        ({"engine": "ray", "address": "auto", "jobs": 2}, "--jobs 2, but the cluster at auto"),
        ({"settings": {"planner": "ddn"}}, "--set planner"),
        ({"settings": {"preset": "tiny"}}, "--set preset would rename"),
        ({"device": "abacus"}, "--device abacus"),
        ({"out": done.data[0] / "steps.csv"}, "is a file; name a folder"),
        ({"out": done.data[0]}, "is the dataset folder .*, or lies in it or around it"),
        ({"out": done.data[0] / "out"}, "is the dataset folder .*, or lies in it or around it"),
        ({"out": done.data[0].parent}, "is the dataset folder .*, or lies in it or around it"),
    ):
        with pytest.raises(ConfigError, match=message):
            replace(done, **change)
    for folders, message in (
        ((), "No data is given. Pass --data DIR"),
        ((tmp_path,), r"lacks steps\.csv, features, language\.npz"),
        (done.data * 2, "Two datasets are called"),
    ):
        with pytest.raises(DatasetError, match=message):
            reproduce(replace(done, data=folders))


def test_latex_is_escaped() -> None:
    assert escape_latex("L_a + L_adv, 50 % of a_b & c ± 1") == r"$L_{a}$ + $L_{adv}$, 50 \% of a\_b \& c $\pm$ 1"


def test_the_command_lists_and_says_what_is_wrong(p3iv: RunP3iv) -> None:
    listed = p3iv("reproduce", "--list")
    assert listed.returncode == 0
    for name in (*declared(), "Table 15", "Figure 8", "a drawing"):
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


def test_the_command_shows_notes_seeds_and_code_and_fails_with_a_run(
    p3iv: RunP3iv, tabletop: Path, tmp_path: Path
) -> None:
    command = ["reproduce", "viterbi", "--data", tabletop, "--out", "out", "--seeds", "0,1", "--samples", f"{SAMPLES}"]
    command += [word for name in TINY for word in ("--set", f"{name}={TINY[name]}")]
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
    assert "run 1 of 1, 0 of 1 tables and figures complete" in failed.stderr
    assert "failed: tabletop: p3iv T=3" in failed.stderr
    for wanted in ("1 of 2 seeds", "missing: seed 0: failed", "12 of 12, 12 of them not with every seed"):
        assert wanted in failed.stdout


@pytest.mark.slow
def test_the_smallest_version_of_everything(p3iv: RunP3iv, tabletop: Path, tmp_path: Path) -> None:
    command = ["reproduce", "all", "--data", tabletop, "--out", "out", "--jobs", "2", "--samples", "20"]
    for name, value in TINY.items():
        command += ["--set", f"{name}={value}"]
    done = p3iv(*command)
    assert done.returncode == 0, done.stderr
    runs, entries = list_together().runs_per_seed, len(declared())
    assert f"run {runs} of {runs}, {entries} of {entries} tables and figures complete" in done.stderr
    for name, entry in declared().items():
        if isinstance(entry, Table):
            with (tmp_path / "out" / "tables" / f"{name}.csv").open() as file:
                rows = [row for row in csv.DictReader(file) if row["data"] and row["metric"]]
            assert rows
            assert all(row["ours"] for row in rows), name
    for name in ("diversity", "gallery-t3", "gallery-t6"):
        assert (tmp_path / "out" / "figures" / f"{name}-tabletop-state-features.html").exists()
        assert (tmp_path / "out" / "figures" / f"{name}-tabletop-state-features-1.svg").read_text().startswith("<svg")
    again = p3iv(*command)
    assert again.returncode == 0
    assert "to be made" not in again.stderr
    assert again.stdout == done.stdout


@pytest.mark.slow
def test_a_cluster_makes_the_same_cells(done: ReproduceRequest, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    request = replace(done, names=("viterbi",), out=tmp_path / "out", engine="ray", jobs=1)
    assert not reproduce(request).failures
    assert cells(request, "viterbi") == cells(done, "viterbi")


def test_the_code_version_ignores_comments_docstrings_and_files() -> None:
    one = ['from a import b\n\n\nclass C:\n    """Text."""\n\n    def f(self):\n        return b  # why\n', "X = 1\n"]
    moved = ['X = 1\n\n\nclass C:\n    def f(self):\n        """Other text."""\n        return b\n']
    assert versions.hash_code(one) == versions.hash_code(moved)
    assert versions.hash_code(one) != versions.hash_code([one[0], "X = 2\n"])
