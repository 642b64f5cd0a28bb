"""Evaluation: its numbers equal those of `p3iv score`, of the known truth and of a plain loop."""

from __future__ import annotations

import gc
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from allocations import LargestTensor, peak_bytes
from commands import RunP3iv
from p3iv.config import override, preset_config
from p3iv.data.folder import open_dataset
from p3iv.data.simulate import simulate_dataset
from p3iv.data.tensors import load_planning_data
from p3iv.errors import CheckpointError, ConfigError, DatasetError
from p3iv.evaluation.actions import read_actions
from p3iv.evaluation.evaluate import EvaluationRequest, evaluate
from p3iv.evaluation.predictions import NamedLine, read_lines, read_predictions
from p3iv.evaluation.result import Evaluation
from p3iv.evaluation.scores import score
from p3iv.evaluation.tally import Tally
from p3iv.metrics.intervals import Clusters, Interval, mean_intervals
from p3iv.metrics.plans import score_plans
from p3iv.planners.baselines.retrieval import nearest_plans
from p3iv.planners.checkpoint import load_planner
from p3iv.planners.header import BEST
from p3iv.plans.chain import Chain
from p3iv.plans.draws import SampleSettings
from p3iv.tabletop.make import make_tabletop

SETTINGS = SampleSettings(num_samples=60)


@pytest.fixture(scope="module")
def run(p3iv_run: Path) -> Path:
    return p3iv_run


@pytest.fixture
def run_copy(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "copy"))


@pytest.fixture(scope="module")
def found(run: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run / "evaluation.json").read_text())
    return content


def values(scores: dict[str, Any]) -> dict[str, float]:
    return {name: leaf["value"] for name, leaf in scores.items()}


def test_score_reads_the_predictions_back_to_the_same_numbers(run: Path, found: dict[str, Any]) -> None:
    actions = read_actions(str(run / "actions.json"))
    again = score(read_predictions(run / "predictions.jsonl", actions), actions.number).to_dict()
    assert again["plans"] == found["decoders"]["viterbi"]
    distribution = {name: leaf for name, leaf in found["distribution"].items() if not name.startswith("exact")}
    assert again["distribution"] == distribution
    assert again["released"] == found["released"]["viterbi"] | found["released"]["samples"]
    assert (again["num_windows"], again["num_videos"]) == (found["num_windows"], found["num_videos"])


def test_the_scores_of_windows_give_the_same_means_and_intervals(run: Path, found: dict[str, Any]) -> None:
    lines = [line for _, line in read_lines(run / "predictions.jsonl", NamedLine)]
    columns = {
        name: torch.tensor([math.nan if (value := line.scores[name]) is None else value for line in lines]).double()
        for name in lines[0].scores
    }
    again = {
        name: Interval(*(math.nan if leaf[end] is None else leaf[end] for end in ("value", "low", "high")))
        for name, leaf in (found["decoders"][found["decoder"]] | found["distribution"]).items()
    }
    made = mean_intervals(columns, Clusters.of([line.video for line in lines]))
    assert set(made) == set(again)
    for name, interval in made.items():
        assert vars(interval) == pytest.approx(vars(again[name]), nan_ok=True), name


def test_every_score_is_inside_its_interval(found: dict[str, Any]) -> None:
    def leaves(node: Any) -> Any:
        if isinstance(node, dict) and set(node) == {"value", "low", "high"}:
            yield node
        elif isinstance(node, dict):
            yield from (leaf for inner in node.values() for leaf in leaves(inner))
        elif isinstance(node, list):
            yield from (leaf for inner in node for leaf in leaves(inner))

    all_leaves = [leaf for leaf in leaves(found) if leaf["low"] is not None]
    assert len(all_leaves) > 60
    for leaf in all_leaves:
        assert leaf["low"] - 1e-9 <= leaf["value"] <= leaf["high"] + 1e-9
    assert {"viterbi", "viterbi_paper", "mode", "argmax"} <= set(found["decoders"])
    assert {"kl", "nll", "mode_precision", "mode_recall", "cosine_distance"} <= set(found["distribution"])


def test_the_scores_of_decoders_are_those_of_their_plans(run: Path, found: dict[str, Any], tabletop: Path) -> None:
    trained = load_planner(run / BEST)
    windows = load_planning_data(open_dataset(tabletop), trained.header.config.data).test
    tally = Tally(windows.action_ids, len(trained.header.names))
    for part in torch.arange(len(windows)).split(17):  # another chunking than evaluate's
        draws = trained.planner.sampler(SETTINGS).draw(windows.start[part].numpy(), windows.goal[part].numpy())
        tally.add(draws, trained.transitions)
    for name, plans in tally.plans().items():
        scores = score_plans(plans, windows.action_ids)
        expected = {metric: getattr(scores, metric) for metric in ("success_rate", "mean_accuracy", "mean_iou")}
        assert values(found["decoders"][name]) == pytest.approx(expected)
    for mode in ("argmax", "categorical", "chain"):
        means = {name: value.mean().item() for name, value in tally.values(mode).items()}
        assert values(found["modes"][mode]) == pytest.approx(means)


def test_an_evaluation_holds_no_more_tensors_with_more_windows(run: Path, tabletop: Path) -> None:
    trained = load_planner(run / BEST)
    windows = load_planning_data(open_dataset(tabletop), trained.header.config.data).test
    tally, sampler = Tally(windows.action_ids, len(trained.header.names)), trained.planner.sampler(SETTINGS)
    alive, largest = [], []

    def add(part: Tensor) -> None:
        tally.add(sampler.draw(windows.start[part].numpy(), windows.goal[part].numpy()), trained.transitions)

    *parts, _ = torch.arange(len(windows)).split(8)
    first_bytes = peak_bytes(lambda: add(parts[0]))
    for part in parts[1:-1]:
        with LargestTensor() as made:
            add(part)
        gc.collect()
        alive.append(sum(type(each) is Tensor for each in gc.get_objects()))
        largest.append(made.elements)
    assert len(alive) > 5
    assert len(set(alive[1:])) == 1  # small ones that stay would lie between large ones, and keep all of them
    assert max(largest) == largest[0]
    assert peak_bytes(lambda: add(parts[-1])) < 1.1 * first_bytes


def test_the_ceiling_is_the_most_probable_plan_of_the_known_truth(found: dict[str, Any], tabletop: Path) -> None:
    dataset = open_dataset(tabletop)
    data = load_planning_data(dataset, override(preset_config("tiny"), {"data.split": "release"}).data)
    best = {(t.video, t.first_step, t.horizon): max(t.plans, key=lambda p: p[1])[0] for t in dataset.read_truth()}
    ceiling = torch.tensor([best[w.video, w.first_step, 3] for w in data.test.windows])
    expected = score_plans(ceiling, data.test.action_ids).success_rate
    assert found["truth"]["ceiling"]["success_rate"]["value"] == pytest.approx(expected)
    for mode in ("argmax", "categorical", "chain"):
        kl, nll = (found["truth"]["modes"][mode][name]["value"] for name in ("kl", "nll"))
        assert 0 <= kl <= nll


def test_tables_by_task_and_position_add_up(found: dict[str, Any]) -> None:
    assert sum(row["num_windows"] for row in found["tasks"]) == found["num_windows"]
    total = sum(row["num_windows"] * row["scores"]["mean_accuracy"]["value"] for row in found["tasks"])
    mean = found["decoders"]["viterbi"]["mean_accuracy"]["value"]
    assert total / found["num_windows"] == pytest.approx(mean)
    assert sum(row["accuracy"]["value"] for row in found["positions"]) / 3 == pytest.approx(mean)


def test_evaluating_again_gives_the_same_files(run: Path, found: dict[str, Any], run_copy: Path) -> None:
    evaluate(EvaluationRequest(run_copy, settings=SETTINGS))
    assert json.loads((run_copy / "evaluation.json").read_text()) == found
    assert (run_copy / "predictions.jsonl").read_bytes() == (run / "predictions.jsonl").read_bytes()


def test_evaluating_a_folder_that_is_not_there_does_not_make_it(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="There is no run"):
        evaluate(EvaluationRequest(tmp_path / "nothing"))
    assert not any(tmp_path.iterdir())


def test_another_side_has_files_of_its_own(found: dict[str, Any], run_copy: Path) -> None:
    evaluate(EvaluationRequest(run_copy, side="val", settings=SampleSettings(20)))
    assert json.loads((run_copy / "evaluation_val.json").read_text())["side"] == "val"
    assert json.loads((run_copy / "evaluation.json").read_text()) == found


def test_a_dataset_that_moved_is_asked_for(run_copy: Path, tabletop: Path, tmp_path: Path) -> None:
    environment = json.loads((run_copy / "environment.json").read_text())
    (run_copy / "environment.json").write_text(json.dumps(environment | {"dataset": str(tmp_path / "gone")}))
    with pytest.raises(DatasetError, match="Pass --data DIR"):
        evaluate(EvaluationRequest(run_copy, settings=SETTINGS))
    again = evaluate(EvaluationRequest(run_copy, data=tabletop, settings=SampleSettings(10)))
    assert not any("not what the planner was trained on" in note for note in again.notes)


def test_evaluating_on_other_data_of_the_same_encoder_is_a_transfer_test(run_copy: Path, tmp_path: Path) -> None:
    make_tabletop(tmp_path / "other", num_videos=40, seed=5, render=False)
    notes: list[str] = []
    settings = SampleSettings(5)
    evaluate(EvaluationRequest(run_copy, tmp_path / "other", side="val", settings=settings, on_note=notes.append))
    assert any("a transfer test" in note and "not what the planner was trained on" in note for note in notes)
    assert f"“nearest train window” copies from the training side of {tmp_path / 'other'}" in notes
    assert not any("no training video has" in note or "replaced" in note for note in notes)
    evaluate(EvaluationRequest(run_copy, tmp_path / "other", settings=settings, on_note=notes.append))
    assert notes[-1].startswith(f"{run_copy / 'evaluation.json'} had the scores on tabletop")
    assert any(
        "it cannot be checked that state features here and state features of the planner" in note for note in notes
    )


def test_the_order_of_the_actions_does_not_matter(
    run_copy: Path, found: dict[str, Any], tabletop: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(tabletop, other)
    table = dict(np.load(other / "language.npz"))
    np.savez(other / "language.npz", **{name: column[::-1] for name, column in table.items()})
    before = (run_copy / "predictions.jsonl").read_text()
    again = evaluate(EvaluationRequest(run_copy, data=other, settings=SETTINGS))
    assert again.decoders == Evaluation.model_validate(found).decoders
    assert (run_copy / "predictions.jsonl").read_text() == before


def test_data_with_actions_that_the_planner_does_not_know_is_refused(run: Path, tabletop: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(tabletop, other)
    (other / "language.npz").unlink()
    (other / "truth.jsonl").unlink()
    steps = (other / "steps.csv").read_text()
    name = steps.splitlines()[1].split(",")[2]
    (other / "steps.csv").write_text(steps.replace(name, "juggle"))
    with pytest.raises(DatasetError, match=r"1 step of \d+ cannot be in its plans: juggle\. Pass"):
        evaluate(EvaluationRequest(run, data=other, settings=SETTINGS))


def test_features_of_another_encoder_are_refused(run: Path, tabletop: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(tabletop, other)
    simulate_dataset(other, seed=0, overwrite=True)
    with pytest.raises(DatasetError, match=r"the encoder is stand-in seed 0 noise 4\.5, not state\. Plans"):
        evaluate(EvaluationRequest(run, data=other, settings=SETTINGS))
    shutil.rmtree(other / "features")
    shutil.copytree(tabletop / "features", other / "features")
    with pytest.raises(DatasetError, match=r"dataset\.yaml describes other features .* a command was interrupted"):
        evaluate(EvaluationRequest(run, data=other, settings=SETTINGS))


def test_a_users_mistakes_get_one_sentence(tmp_path: Path, run: Path, p3iv: RunP3iv) -> None:
    with pytest.raises(CheckpointError, match="Train first"):
        evaluate(EvaluationRequest(tmp_path / "none"))
    with pytest.raises(ConfigError, match="must be one of argmax, categorical, chain"):
        EvaluationRequest(run, mode="best")
    done = p3iv("evaluate", run, "--samples", "0")
    assert done.returncode == 2
    assert "--samples" in done.stderr


def test_the_command_prints_tables_or_json(run_copy: Path, p3iv: RunP3iv) -> None:
    done = p3iv("evaluate", run_copy, "--samples", "20", "--side", "val")
    assert done.returncode == 0, done.stderr
    assert "Viterbi of the paper" in done.stdout
    done = p3iv("evaluate", run_copy, "--samples", "20", "--side", "val", "--json", "--input-noise", "1.0")
    content = json.loads(done.stdout)
    assert content["samples"] == {"number": 20, "mode": "argmax", "seed": 0, "input_noise": 1.0, "dropout": 0.0}


def test_divergences_from_the_truth_equal_a_plain_loop(run: Path, found: dict[str, Any], tabletop: Path) -> None:
    """Exact draws from the chain of averaged marginals and `row` transitions, and both KLs, window by window."""
    trained, dataset = load_planner(run / BEST), open_dataset(tabletop)
    windows = load_planning_data(dataset, trained.header.config.data).test
    truth = {(t.video, t.first_step): t.plans for t in dataset.read_truth() if t.horizon == 3}
    draws = trained.planner.sampler(SETTINGS).draw(windows.start.numpy(), windows.goal.numpy())
    num_plans = len(trained.header.names) ** 3
    sampled_kl: list[float] = []
    exact_kl: list[float] = []
    for number, window in enumerate(windows.windows):
        chain = Chain.of(draws.marginals[number : number + 1], trained.transitions.row)
        drawn = [tuple(plan) for plan in chain.draw(draws.chain_uniforms)[0].tolist()]
        for kind, kls in (("sampled", sampled_kl), ("exact", exact_kl)):
            kl = 0.0
            for plan, p in truth[window.video, window.first_step]:
                exact = math.exp(chain.log_probability(np.array([plan]), np.array([0]))[0])
                q = drawn.count(plan) / len(drawn) if kind == "sampled" else exact
                kl += p * math.log(p / (0.99 * q + 0.01 / num_plans)) if p else 0.0
            kls.append(kl)
    assert found["truth"]["modes"]["chain"]["kl"]["value"] == pytest.approx(sum(sampled_kl) / len(sampled_kl))
    assert found["truth"]["distribution"]["exact_kl"]["value"] == pytest.approx(sum(exact_kl) / len(exact_kl))
    assert found["truth"]["distribution"]["kl"] == found["truth"]["modes"]["argmax"]["kl"]


def test_differences_are_the_recommended_plan_minus_each_baseline(found: dict[str, Any], tabletop: Path) -> None:
    data = load_planning_data(open_dataset(tabletop), override(preset_config("tiny"), {"data.split": "release"}).data)
    retrieved = score_plans(nearest_plans(data, data.test), data.test.action_ids)
    for metric in ("success_rate", "mean_accuracy", "mean_iou"):
        assert found["baselines"]["retrieval"][metric]["value"] == pytest.approx(getattr(retrieved, metric))
        ours = found["decoders"]["viterbi"][metric]["value"]
        for name, scores in found["baselines"].items():
            expected = ours - scores[metric]["value"]
            assert found["differences"][name][metric]["value"] == pytest.approx(expected, abs=1e-12)
    assert "mean_iou" not in found["equal"]["retrieval"]


def test_retrieval_of_training_windows_leaves_out_their_own_video(tabletop: Path) -> None:
    data = load_planning_data(open_dataset(tabletop), override(preset_config("tiny"), {"data.split": "release"}).data)
    assert torch.equal(nearest_plans(data, data.train), data.train.action_ids)
    videos = [window.video for window in data.train.windows]
    pairs = torch.stack((data.train.start, data.train.goal), dim=1).double()
    joined = torch.nn.functional.normalize(
        ((pairs - pairs.mean(dim=(0, 1))) / pairs.flatten(0, 1).std(dim=0)).flatten(1), dim=1
    )
    expected = []
    for number, row in enumerate(joined @ joined.T):
        others = [i for i, video in enumerate(videos) if video != videos[number]]
        expected.append(data.train.action_ids[max(others, key=lambda i: row[i].item())])
    assert torch.equal(nearest_plans(data, data.train, skip_own_video=True), torch.stack(expected))


def test_alternatives_to_latents_have_files_of_their_own(found: dict[str, Any], run_copy: Path) -> None:
    evaluate(EvaluationRequest(run_copy, settings=SampleSettings(10, dropout=0.5)))
    assert json.loads((run_copy / "evaluation.json").read_text()) == found
    other = json.loads((run_copy / "evaluation_dropout0.5.json").read_text())
    assert other["samples"]["dropout"] == 0.5


def test_one_test_video_has_scores_but_no_intervals(tabletop: Path, tmp_path: Path, p3iv: RunP3iv) -> None:
    dataset = open_dataset(tabletop)
    assert dataset.split is not None
    split = {"train": dataset.split.train, "val": dataset.split.val, "test": dataset.split.test[:1]}
    (tmp_path / "one.json").write_text(json.dumps(split))
    settings = ("--preset", "tiny", "--set", "optim.epochs=1")
    assert p3iv("train", tabletop, "--out", "run", "--split", "one.json", *settings).returncode == 0
    done = p3iv("evaluate", "run", "--samples", "1")
    assert done.returncode == 0, done.stderr
    assert "nan" not in done.stdout
    assert " 1 video," in done.stdout
    assert (
        json.loads((tmp_path / "run" / "evaluation.json").read_text())["decoders"]["viterbi"]["mean_iou"]["low"] is None
    )
