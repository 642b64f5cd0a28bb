"""P3IV+ from training to plans: its own chain decodes, draws and says how probable a plan is; and nothing leaks."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from p3iv.config import override, parse_settings, preset_config
from p3iv.data.folder import Dataset
from p3iv.data.tensors import PlanningData
from p3iv.errors import CheckpointError, ConfigError, PlanError
from p3iv.evaluation.evaluate import EvaluationRequest, evaluate
from p3iv.metrics.distributions import exact_divergences
from p3iv.metrics.references import references_of
from p3iv.planner import Planner
from p3iv.planners.checkpoint import TrainedPlanner, load_planner
from p3iv.planners.header import BEST, PlannerShape
from p3iv.planners.plus.planner import TEMPERATURES, P3IVPlus
from p3iv.plans.chain import Chain
from p3iv.plans.draws import MODES, SampleSettings
from p3iv.training.loop import TrainRequest, train
from p3iv.types import PlanScores, Progress
from planners.plus.conftest import batch, quick


@pytest.fixture(scope="module")
def run(plus_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy that may be evaluated again."""
    return Path(shutil.copytree(plus_run, tmp_path_factory.mktemp("runs") / "run"))


@pytest.fixture(scope="module")
def trained(run: Path) -> TrainedPlanner:
    return load_planner(run / BEST)


def plus(trained: TrainedPlanner) -> P3IVPlus:
    assert isinstance(trained.planner, P3IVPlus)
    return trained.planner


@pytest.fixture(scope="module")
def chain(trained: TrainedPlanner, data: PlanningData) -> Chain:
    with torch.no_grad():
        own: Chain = plus(trained).chain(data.test.start, data.test.goal)
    return own


def test_few_windows_make_more_epochs(dataset: Dataset, data: PlanningData, tmp_path: Path) -> None:
    config = quick(optim__epochs=None, optim__max_cpu_s=1e-9)  # after the first epoch no other is begun
    epochs = -(-240 // -(-len(data.train) // 64))
    seen: list[Progress] = []
    train(TrainRequest(dataset, tmp_path / "run", config, on_progress=seen.append))
    assert {at.total for at in seen[:-1]} == {epochs}
    assert (seen[-1].done, seen[-1].total) == (1, 1)
    assert epochs > 12


def test_evaluation_scores_the_best_paths_and_probabilities_of_its_own_chain(
    run: Path, chain: Chain, data: PlanningData
) -> None:
    found = evaluate(EvaluationRequest(run, settings=SampleSettings(50)))
    best = chain.best_paths()[0]
    assert found.decoder == "own"
    success = (best == data.test.action_ids.numpy()).all(axis=1).mean()
    assert found.decoders["own"]["success_rate"].value == pytest.approx(success)
    references = references_of(data.test.action_ids)
    exact = exact_divergences(chain.log_probability, references, len(data.names))
    assert found.distribution["exact_nll"].value == pytest.approx(exact.nll.mean().item(), abs=1e-4)
    assert found.distribution["exact_kl"].value == pytest.approx(exact.kl.mean().item(), abs=1e-4)
    lines = [json.loads(line) for line in (run / "predictions.jsonl").read_text().splitlines()]
    probabilities = np.exp(chain.log_probability(best, np.arange(len(best))))
    assert [line["plan_probability"] for line in lines] == pytest.approx(probabilities.tolist(), abs=1e-4)


def test_samples_are_draws_from_that_chain_in_every_mode(
    trained: TrainedPlanner, chain: Chain, data: PlanningData
) -> None:
    draws = trained.sampler(SampleSettings(4000)).draw(data.test.start[:3].numpy(), data.test.goal[:3].numpy())
    modes = [draws.plans(mode, trained.transitions.row) for mode in MODES]
    assert all(np.array_equal(plans, modes[0]) for plans in modes)
    np.testing.assert_allclose(draws.marginals, chain.marginals()[:3], atol=1e-4, rtol=0)
    np.testing.assert_allclose(draws.frequencies, draws.marginals, atol=0.04, rtol=0)  # five standard deviations


def test_the_user_s_door_gives_the_probability_of_the_plan_to_follow(
    run: Path, chain: Chain, data: PlanningData
) -> None:
    plans = Planner.from_pretrained(run).plan(data.test.start[4], data.test.goal[4], num_samples=2000)
    best, logs = chain.best_plans(1)
    assert plans.plan == tuple(data.names[action] for action in best[4, 0].tolist())
    assert plans.plan_probability == pytest.approx(np.exp(logs[4, 0]), abs=1e-4)
    assert dict(plans.samples).get(plans.plan, 0) / 2000 == pytest.approx(plans.plan_probability, abs=0.06)


def test_the_best_plans_have_the_probabilities_of_the_chain_best_first(
    run: Path, chain: Chain, data: PlanningData
) -> None:
    found = list(Planner.from_pretrained(run).plan(data.test.start[4], data.test.goal[4]).top(7))
    shares = [share for _, share in found]
    assert len(found) == 7
    assert shares == sorted(shares, reverse=True)
    plans = np.array([[data.names.index(step) for step in steps] for steps, _ in found])
    expected = np.exp(chain.log_probability(plans, np.full(7, 4)))
    assert shares == pytest.approx(expected.tolist(), rel=1e-3)


def test_any_plan_in_words_has_a_probability(run: Path, chain: Chain, data: PlanningData) -> None:
    planner, pair = Planner.from_pretrained(run), (data.test.start[4], data.test.goal[4])
    ids = np.array([[5, 70, 12]])  # no plan that would be drawn
    words = [data.names[action] for action in ids[0].tolist()]
    expected = float(np.exp(chain.log_probability(ids, np.array([4])))[0])
    assert 0 < expected < 1e-4
    assert planner.probability(*pair, words) == pytest.approx(expected, rel=1e-3)
    with pytest.raises(PlanError, match=r"A plan of 2 steps, but this planner's plans have 3"):
        planner.probability(*pair, words[:2])
    with pytest.raises(PlanError, match=r"'set out a mag' is not one of the 90 actions .* Similar: 'set out a mug'"):
        planner.probability(*pair, ["set out a mag", *words[1:]])


def test_an_ensemble_of_equal_runs_is_that_run_in_files_of_its_own(
    run: Path, data: PlanningData, tmp_path: Path
) -> None:
    settings, equal = SampleSettings(20), [shutil.copytree(run, tmp_path / str(number)) for number in range(2)]
    alone, both = (
        evaluate(EvaluationRequest(run, settings=settings, ensemble=tuple(others))) for others in ((), equal[:1])
    )
    assert (run / "evaluation_ensemble2.json").exists()
    assert both.decoders["own"] == alone.decoders["own"]
    assert both.distribution["exact_nll"].value == pytest.approx(alone.distribution["exact_nll"].value, abs=1e-6)
    assert any("an ensemble" in note for note in both.notes)
    start, goal = data.test.start[0], data.test.goal[0]
    one, two = (Planner.from_pretrained(run, ensemble=others).plan(start, goal) for others in ((), equal))
    assert one.plan == two.plan
    assert one.plan_probability == pytest.approx(two.plan_probability)


def test_an_ensemble_over_two_horizons_is_refused(run: Path, dataset: Dataset, tmp_path: Path) -> None:
    train(TrainRequest(dataset, tmp_path / "other", quick(data__horizon=4, optim__epochs=1)))
    with pytest.raises(CheckpointError, match=r"horizon=4, not 3.*cannot form an ensemble"):
        evaluate(EvaluationRequest(run, ensemble=(tmp_path / "other",)))


def test_an_ensemble_over_two_splits_is_refused(run: Path, dataset: Dataset, tmp_path: Path) -> None:
    config = quick(data__split="video", data__split_seed=1, optim__epochs=1)
    train(TrainRequest(dataset, tmp_path / "other", config))
    with pytest.raises(CheckpointError, match=r"another split than .*cannot form an ensemble"):
        evaluate(EvaluationRequest(run, ensemble=(tmp_path / "other",)))


def test_an_epoch_is_chosen_by_its_plans_in_percent_less_two_a_nat(trained: TrainedPlanner, data: PlanningData) -> None:
    planner, references = plus(trained), references_of(data.val.action_ids)
    with torch.no_grad():
        chain = planner.chain(data.val.start, data.val.goal)
    nll = exact_divergences(chain.log_probability, references, len(data.names)).nll.mean().item()
    [score] = planner.selection_score(data, PlanScores(0.5, 0.25, 0.125, len(data.val)))
    assert score == pytest.approx(50 + 25 + 12.5 - 2 * nll)


def test_without_calibration_the_temperature_stays_at_one(data: PlanningData) -> None:
    planner = P3IVPlus(PlannerShape.of(data, quick()), quick(plus__calibrated=False))
    planner.fit(data)
    planner.calibrate(data)
    assert planner.temperature.item() == 1.0
    planner = P3IVPlus(PlannerShape.of(data, quick()), quick(plus__second=False))
    planner.fit(data)
    planner.calibrate(data)
    assert planner.temperature.item() != 1.0


def test_the_temperature_is_the_best_on_validation_and_part_of_the_checkpoint(
    trained: TrainedPlanner, data: PlanningData
) -> None:
    temperature = plus(trained).temperature.item()
    nearest = min(TEMPERATURES, key=lambda value: abs(value - temperature))
    assert temperature == pytest.approx(nearest)
    with torch.no_grad():
        chain = plus(trained).chain(data.val.start, data.val.goal)
    warm, cold = (Chain(chain.log_emissions * factor, chain.log_transitions) for factor in (1 / 1.15, 1.15))
    plans, windows = data.val.action_ids.numpy(), np.arange(len(data.val))
    least = -chain.log_probability(plans, windows).mean()
    assert least < -warm.log_probability(plans, windows).mean() + 0.02  # the choice is by smoothed NLL over references
    assert least < -cold.log_probability(plans, windows).mean() + 0.02


def test_a_planner_trained_on_permuted_plans_is_at_chance(data: PlanningData) -> None:
    """Plans handed to other windows at random leave nothing to learn from what is seen."""
    order = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(0))
    ids = data.train.action_ids[order]
    epochs = 4
    config = quick(optim__epochs=epochs)
    permuted = replace(data, train=replace(data.train, action_ids=ids))
    accuracies = []
    for side in (permuted, data):
        torch.manual_seed(0)
        planner = P3IVPlus(PlannerShape.of(side, config), config)
        planner.fit(side)
        learner = planner.make_learner(side, lambda _: None)
        for _ in range(epochs):
            for rows in torch.randperm(len(ids)).split(64):
                learner.train_step(batch(side, rows))
        plans = planner.eval().plan(data.val.start, data.val.goal)
        accuracies.append(float((plans == data.val.action_ids).double().mean()))
    most_frequent = data.train.action_ids.flatten().bincount().max() / data.train.action_ids.numel()
    assert accuracies[0] < most_frequent + 0.03
    assert accuracies[1] > 3 * accuracies[0]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("plus.folds=0", "plus.folds=0, but it must be a whole number from 1"),
        ("plus.nearby=11", "plus.nearby=11, but it must be a whole number from 0 to 10"),
        ("plus.chain=1", "plus.chain=1, but it must be true or false"),
        ("plus.ema_decay=1", "from 0 to below 1"),
        ("plus.max_grad_norm=0", "plus.max_grad_norm=0, but it must be a number above 0"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        override(preset_config("p3iv-plus"), parse_settings([setting]))


def test_supervision_by_pictures_is_refused(data: PlanningData) -> None:
    config = quick(loss__supervision="visual")
    with pytest.raises(ConfigError, match=r"loss\.supervision=visual, but planner=p3iv-plus learns from step texts"):
        P3IVPlus(PlannerShape.of(data, config), config)


def test_something_must_score_the_actions() -> None:
    with pytest.raises(ConfigError, match="one of them must score the actions"):
        quick(plus__linear=False, plus__decoder=False)
