"""Tables, pages and figures name their data, runs, seeds, code and machine."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from experiments.finished import SAMPLES, executed, with_runs
from p3iv.data.folder import read_card
from p3iv.experiments.identity import code_version, open_sources
from p3iv.experiments.reproduce import ReproduceRequest, reproduce
from p3iv.experiments.runs import TRAINED
from p3iv.experiments.writers import escape_latex


def test_pages_name_data_runs_and_code(done: ReproduceRequest) -> None:
    for suffix in ("html", "md", "tex"):
        text = (done.out / "tables" / f"losses.{suffix}").read_text()
        for wanted in ("tabletop (state features)", code_version(), "16.90", "74.29"):
            assert wanted in text, (suffix, wanted)
    assert r"\emph{SR $\uparrow$}" in (done.out / "tables" / "losses.tex").read_text()  # of datasets not given
    page = (done.out / "index.html").read_text()
    assert "TABLETOP" in page
    for run in (done.out / "runs").iterdir():
        assert run.name in page
        facts = json.loads((run / TRAINED).read_text())
        assert facts["epochs"] == 1
        assert facts["code_version"] == code_version()
    rows = list(csv.DictReader((done.out / "runs.csv").read_text().splitlines()))
    assert {row["run"] for row in rows} == {run.name for run in (done.out / "runs").iterdir()}
    assert all(float(row["training_cpu_s"]) > 0 for row in rows)


def test_every_figure_names_the_runs_seeds_data_commit_and_machine_of_its_training(
    done: ReproduceRequest, tmp_path: Path
) -> None:
    request = with_runs(replace(done, names=("viterbi", "diversity")), tmp_path / "out")
    request = executed(request, command="p3iv as typed")
    [key] = {row["runs"] for row in csv.DictReader((done.out / "tables" / "viterbi.csv").read_text().splitlines())}
    run = request.out / "runs" / key
    for file, name, value in ((TRAINED, "commit", "0123456789ab"), ("environment.json", "platform", "Abacus")):
        content = json.loads((run / file).read_text())
        (run / file).write_text(json.dumps(content | {name: value}))
    result = reproduce(request)
    assert result.provenance.commits == ("0123456789ab",)
    [machine] = result.provenance.machines
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


def test_a_renamed_tabletop_is_still_called_one(tabletop: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tabletop, copy)
    replace(read_card(copy), name="kitchen").write(copy)
    [source] = open_sources((copy,))
    assert source.label == "kitchen (tabletop, state features)"
    replace(read_card(copy), simulated=True, source="unknown").write(copy)
    assert open_sources((copy,))[0].label == "kitchen (SIMULATED state features)"


def test_latex_tables_end_with_their_notes(done: ReproduceRequest) -> None:
    text = (done.out / "tables" / "viterbi.tex").read_text()
    for wanted in ("cannot be a set IoU", r"$\dagger$ The paper's mAcc is a macro precision"):
        assert text.count(wanted) == 1


def test_latex_is_escaped() -> None:
    hostile = "^^5cinput /etc/passwd ~ \\x L_a_b\n\x1b <y>"
    assert escape_latex(hostile) == (
        r"\textasciicircum{}\textasciicircum{}5cinput /etc/passwd \textasciitilde{} \textbackslash{}x L\_a\_b   $<$y$>$"
    )
    assert escape_latex("L_a + L_adv, 50 % of a_b & c ± 1") == r"$L_{a}$ + $L_{adv}$, 50 \% of a\_b \& c $\pm$ 1"
