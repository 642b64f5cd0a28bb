"""Exported planners of queries: with every mix of evidence the same lengths, plans, samples and reasons as torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from conftest import MakeOnce
from p3iv import Planner
from p3iv.data.folder import Dataset
from p3iv.errors import CheckpointError, ConfigError
from p3iv.export import planner as export
from p3iv.export.comparison import largest_difference
from p3iv.export.graph import sealed
from p3iv.planners.checkpoint import TrainedPlanner, load_ensemble, load_planner, save_best
from p3iv.planners.header import BEST
from p3iv.planners.onnx_planner import load_exported
from p3iv.planners.queries.planner import QueryPlanner
from p3iv.plans.conditions import Conditions
from p3iv.plans.draws import SampleSettings
from p3iv.plans.evidence import EVIDENCE, Evidence
from p3iv.training.loop import TrainRequest, train
from p3iv.types import Array
from planners.exported import constant, header_with, load, random_planner
from planners.query_facts import Facts, facts_of, save_queries
from runs import quick

MIXES = [mix for mix in product((False, True), repeat=len(EVIDENCE)) if any(mix)]


@pytest.fixture(scope="session")
def exported(make_once: MakeOnce, query_run: Path) -> Path:
    """The run, exported."""
    folder = make_once("exported_queries", lambda folder: export.export_planner(query_run, folder / "x.onnx"))
    return folder / "x.onnx"


@pytest.fixture(scope="session")
def trained(query_run: Path) -> TrainedPlanner:
    """The run with torch."""
    return load_planner(query_run / BEST)


def random_pieces(trained: TrainedPlanner, seed: int) -> dict[str, Array]:
    """All pieces of evidence of one query, of the training features' mean and spread."""
    random, base, shape = np.random.default_rng(seed), getattr(trained.planner, "base", None), trained.header.shape
    assert base is not None
    mean, scale = base.feature_mean.numpy(), base.feature_scale.numpy()
    pieces = {name: mean + scale * random.standard_normal(mean.shape) for name in ("start", "goal", "history")}
    pieces["last_step"] = random.dirichlet(np.full(shape.num_actions, 0.05))
    pieces["procedure"] = random.dirichlet(np.full(shape.num_procedures, 0.2))
    return {name: piece[None].astype(np.float32) for name, piece in pieces.items()}


def random_queries(trained: TrainedPlanner, repeats: int = 1) -> list[Evidence]:
    """Queries with every mix of evidence."""
    found = []
    for seed, mix in enumerate(MIXES * repeats):
        pieces = random_pieces(trained, seed).items()
        found.append(Evidence(**{name: piece for (name, piece), there in zip(pieces, mix, strict=True) if there}))
    return found


def check_facts(found: Facts, wanted: Facts) -> None:
    """Compare what two planners say about a query; their scores differ by rounding."""
    assert found.keys() == wanted.keys()
    assert found["log_lengths"] == pytest.approx(wanted["log_lengths"], abs=1e-4)
    for one, other in zip(found["emissions"], wanted["emissions"], strict=True):
        assert np.abs(np.subtract(one, other) / np.maximum(1.0, np.abs(other))).max() <= 1e-5
    for key, best in wanted["best"].items():
        assert found["best"][key]["logs"] == pytest.approx(best["logs"], abs=1e-4)
        if best["logs"][0] - best["logs"][1] > 1e-4:
            assert found["best"][key]["plans"][0] == best["plans"][0]
    for one, other in zip(found.get("addends", ()), wanted.get("addends", ()), strict=True):
        assert list(one) == list(other)
        for name, addend in one.items():
            np.testing.assert_allclose(addend, other[name], atol=1e-4)
    check_reasons(found.get("reasons", []), wanted.get("reasons", []))


def check_reasons(found: list[Facts], wanted: list[Facts]) -> None:
    """Compare the reasons of plans; plans that are equally probable may have changed places."""
    theirs = {tuple(step["step"] for step in reasons["steps"]): reasons for reasons in wanted}
    for reasons in found:
        if (plan := tuple(step["step"] for step in reasons["steps"])) in theirs:
            other = theirs[plan]
            for one, two in zip(reasons["steps"], other["steps"], strict=True):
                assert one["addends"] == pytest.approx(two["addends"], abs=1e-3)
            for name in ("length", "conditions", "normaliser", "log_probability"):
                assert reasons[name] == pytest.approx(other[name], abs=2e-3)


def test_without_torch_every_mix_of_evidence_has_the_answer_of_torch(
    exported: Path, trained: TrainedPlanner, tmp_path: Path
) -> None:
    queries = random_queries(trained)
    save_queries(tmp_path / "queries.npz", queries)
    words = [str(exported), str(tmp_path / "queries.npz"), str(tmp_path / "facts.json")]
    places = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    subprocess.run([sys.executable, "-m", "planners.query_facts", *words], check=True, env=environment)
    found = json.loads((tmp_path / "facts.json").read_text())
    wanted = [facts_of(trained, query) for query in queries]
    for one, other in zip(found, wanted, strict=True):
        check_facts(one, other)
    samples, their_samples = ([plan for facts in part for plan in facts["samples"]] for part in (found, wanted))
    assert np.mean([one != other for one, other in zip(samples, their_samples, strict=True)]) <= 1e-3
    assert {len(plan) for plan in samples} == {1, 2, 3, 4}


@pytest.mark.slow
def test_a_thousand_queries_have_the_answers_of_torch(exported: Path, trained: TrainedPlanner) -> None:
    backend = load_exported([exported])
    for query in random_queries(trained, repeats=1000 // len(MIXES)):
        check_facts(facts_of(backend, query), facts_of(trained, query))


VARIANTS: list[dict[str, Any]] = [
    {"data.min_horizon": 1, "data.horizon": 2},
    {"data.min_horizon": 3, "data.horizon": 5},
    {"optim.precision": "float64", "model.noise_width": 0},
    {"model.memory_slots": 0, "model.layers": 1, "model.heads": 1},
]


@pytest.mark.parametrize("settings", VARIANTS, ids=lambda settings: " ".join(map(str, settings.values())))
def test_planners_of_all_settings_are_exported(query_run: Path, tmp_path: Path, settings: dict[str, Any]) -> None:
    trained = random_planner(query_run, settings)
    found = load(tmp_path, sealed(export.build_model(trained)))
    assert largest_difference(trained, found) <= 1e-5
    evidence = Evidence(**random_pieces(trained, 0))
    one, other = found.answer(evidence), trained.answer(evidence)
    assert one.horizons == other.horizons == trained.header.config.data.horizons
    assert one.log_lengths == pytest.approx(other.log_lengths, abs=1e-3)


def changed_run(run: Path, folder: Path, change: Callable[[QueryPlanner], object]) -> TrainedPlanner:
    """The planner of a run with some other numbers, saved as a run in a folder."""
    changed = load_planner(run / BEST)
    assert isinstance(changed.planner, QueryPlanner)
    change(changed.planner)
    save_best(folder, changed)
    return changed


def test_without_a_weight_of_the_effects_nothing_is_rescored(query_run: Path, tmp_path: Path) -> None:
    assert "log_each" in load(tmp_path, sealed(export.build_model(load_planner(query_run / BEST)))).model.outputs
    changed = changed_run(query_run, tmp_path / "run", lambda planner: planner.effects.weight.zero_())
    found = load(tmp_path, sealed(export.build_model(changed)))
    assert {"log_each", "log_both"}.isdisjoint(found.model.outputs)
    query = Evidence(**random_pieces(changed, 1))
    check_facts(facts_of(found, query), facts_of(changed, query))


def test_an_ensemble_is_averaged_as_with_torch(query_run: Path, exported: Path, tmp_path: Path) -> None:
    changed_run(query_run, tmp_path / "run", lambda planner: planner.pair_scale.data.mul_(0.5))
    export.export_planner(tmp_path / "run", tmp_path / "y.onnx")
    ours = load_exported([exported, tmp_path / "y.onnx"])
    theirs = load_ensemble([query_run / BEST, tmp_path / "run" / BEST])
    query = Evidence(**random_pieces(theirs, 2))
    facts = facts_of(ours, query)
    check_facts(facts, facts_of(theirs, query))
    assert np.abs(facts["log_lengths"] - load_exported([exported]).answer(query).log_lengths).max() > 1e-3


@pytest.mark.parametrize("horizon", [2, None])
def test_the_sampler_draws_the_plans_of_torch(exported: Path, trained: TrainedPlanner, horizon: int | None) -> None:
    pieces = [random_pieces(trained, seed) for seed in range(3)]
    pairs = [np.concatenate([one[name] for one in pieces]) for name in ("start", "goal")]
    settings = SampleSettings(100, horizon=horizon)
    ours, theirs = (one.sampler(settings).draw(*pairs) for one in (load_exported([exported]), trained))
    assert ours.argmax.shape == (3, 100, horizon or 4)
    assert ours.marginals == pytest.approx(theirs.marginals, abs=1e-5)
    assert (ours.argmax != theirs.argmax).mean() <= 0.01
    with pytest.raises(ConfigError, match="use the run itself"):
        load_exported([exported]).sampler(SampleSettings(10, dropout=0.1))


def test_a_planner_of_a_file_answers_what_the_run_answers(exported: Path, query_run: Path) -> None:
    ours, theirs = Planner.from_pretrained(exported), Planner.from_pretrained(query_run)
    assert (ours.horizons, ours.procedures) == (theirs.horizons, theirs.procedures)
    pieces = random_pieces(load_planner(query_run / BEST), 3)
    start, goal = pieces["start"][0], pieces["goal"][0]
    step, other = ours.names[7], ours.names[8]
    asked: list[dict[str, Any]] = [
        {"goal": goal},
        {"goal": goal, "horizon": 3, "conditions": Conditions(without=(step,), before=((other, ours.names[9]),))},
        {"goal_text": step, "procedure": ours.procedures[0]},
        {},
    ]
    for options in asked:
        one, two = (planner.plan(start, why=True, number=5, **options) for planner in (ours, theirs))
        assert one.plan == two.plan
        assert one.probabilities == pytest.approx(two.probabilities, abs=1e-4)
        assert [length for length, _ in one.lengths] == [length for length, _ in two.lengths]
        assert [share for _, share in one.lengths] == pytest.approx([share for _, share in two.lengths], abs=1e-4)
        assert one.understood == two.understood
        check_reasons(*([reasons.to_dict() for reasons in found.reasons] for found in (one, two)))


def test_a_file_says_which_lengths_procedures_and_evidence_it_knows(exported: Path, trained: TrainedPlanner) -> None:
    about = {
        entry.key: json.loads(entry.value) for entry in onnx.load(exported).metadata_props if entry.value[0] in "[{"
    }
    assert about["horizons"] == [1, 2, 3, 4]
    assert about["procedures"] == list(trained.header.procedures)
    assert about["evidence"] == list(EVIDENCE)


@pytest.mark.parametrize("part", ["temperature", "experts.length.weights", "effects.effects", "lengths.bias"])
def test_a_file_with_another_output_is_not_kept(
    query_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    build = export.build_model

    def build_changed(trained: TrainedPlanner) -> onnx.ModelProto:
        tensor = attrgetter(part)(trained.planner)
        tensor.mul_(1.001)
        model = build(trained)
        tensor.div_(1.001)
        return model

    monkeypatch.setattr(export, "build_model", build_changed)
    with pytest.raises(CheckpointError, match="was not written: its scores differ from those of torch by"):
        export.export_planner(query_run, tmp_path / "x.onnx")
    assert not list(tmp_path.iterdir())


def config_with(model: onnx.ModelProto, planner: str = "p3iv-plus", **changes: Any) -> None:
    config = json.loads(next(entry.value for entry in model.metadata_props if entry.key == "p3iv"))["config"]
    header_with(model, config={**config, "planner": planner, "data": {**config["data"], **changes}})


def without_last_output(model: onnx.ModelProto) -> None:
    del model.graph.output[-1]


def with_infinite_bias(model: onnx.ModelProto) -> None:
    tensor = constant(model, "length_bias")
    tensor.CopyFrom(numpy_helper.from_array(np.full((3, 4), np.inf, np.float32), "length_bias"))


def with_many_lengths(model: onnx.ModelProto) -> None:
    config_with(model, horizon=1000)
    with_shape(model, horizon=1000)


def with_shape(model: onnx.ModelProto, **changes: int) -> None:
    shape = json.loads(next(entry.value for entry in model.metadata_props if entry.key == "p3iv"))["shape"]
    header_with(model, shape={**shape, **changes})


def with_more_procedures(model: onnx.ModelProto) -> None:
    header_with(model, procedures=[str(number) for number in range(50)])
    with_shape(model, num_procedures=50)


HOSTILE: dict[str, Callable[[onnx.ModelProto], None]] = {
    "its output follow_settings is missing": without_last_output,
    "its length_bias are not finite": with_infinite_bias,
    "its input start|its input history is float32": lambda model: config_with(model, min_horizon=None),
    "its output length_fit is float32": lambda model: config_with(model, min_horizon=2),
    "its input procedure is float32 .any, 8., expected float32 .any, 50.": with_more_procedures,
    "much larger planner": with_many_lengths,
    "planner 'p3iv' for several lengths, which cannot be exported": lambda model: config_with(model, "p3iv"),
    "planner 'graph' for several lengths, which cannot be exported": lambda model: config_with(model, "graph"),
}


@pytest.mark.parametrize("reason", HOSTILE)
def test_files_with_a_right_checksum_are_not_trusted_either(exported: Path, tmp_path: Path, reason: str) -> None:
    model = onnx.load(exported)
    HOSTILE[reason](model)
    with pytest.raises(CheckpointError, match=reason) as error:
        load(tmp_path, sealed(model))
    assert "\n" not in str(error.value)


def test_scores_that_are_not_finite_are_an_error(exported: Path, trained: TrainedPlanner) -> None:
    pieces = random_pieces(trained, 0)
    with pytest.raises(CheckpointError, match="not finite"):
        load_exported([exported]).answer(Evidence(start=np.full_like(pieces["start"], 3e38), goal=pieces["goal"]))


def test_decoders_of_all_lengths_share_their_weights(exported: Path, query_run: Path) -> None:
    assert exported.stat().st_size < 1.1 * (query_run / BEST).stat().st_size


def test_graph_is_not_exported(dataset: Dataset, tmp_path: Path) -> None:
    train(TrainRequest(dataset, tmp_path / "run", quick("graph", data__min_horizon=1)))
    with pytest.raises(ConfigError, match=r"planner=graph cannot be exported, only p3iv and p3iv-plus\."):
        export.export_planner(tmp_path / "run", tmp_path / "x.onnx")
