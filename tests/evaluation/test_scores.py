"""Scores of one set of predictions under every definition, from tensors and from a file."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from evaluation.lines import write_predictions
from p3iv.data.padding import PAD
from p3iv.errors import PlanError
from p3iv.evaluation.actions import ActionList
from p3iv.evaluation.predictions import Predictions, read_predictions
from p3iv.evaluation.scores import score
from p3iv.metrics.counts import count_plans
from p3iv.metrics.distributions import distribution_values
from p3iv.metrics.intervals import Clusters, mean_intervals
from p3iv.metrics.plans import length_values, plan_values
from p3iv.metrics.references import references_of
from p3iv.metrics.released import batch_ious, bitwise_ious, macro_precision, marginal_values, score_released

NUM_ACTIONS = 9


@pytest.fixture
def predictions() -> Predictions:
    """80 windows of 20 videos; the planner is right more often than not."""
    generator = torch.Generator().manual_seed(0)
    references = torch.randint(0, NUM_ACTIONS, (80, 3), generator=generator).sort(dim=1).values

    def guess(*size: int) -> torch.Tensor:
        right = torch.rand(*size, 3, generator=generator) < 0.7
        return torch.where(right, references, torch.randint(0, NUM_ACTIONS, (*size, 3), generator=generator))

    return Predictions(
        windows=tuple(f"w{number}" for number in range(80)),
        videos=tuple(f"v{number // 4}" for number in range(80)),
        plans=guess(80),
        references=references,
        samples=count_plans(guess(50, 80).transpose(0, 1)),
    )


def test_every_score_is_the_mean_of_its_metric_within_its_interval(predictions: Predictions) -> None:
    scores = score(predictions, NUM_ACTIONS, batch_size=2)
    plans, references, samples = predictions.plans, predictions.references, predictions.samples
    assert samples is not None
    right = references_of(references)
    expected = {
        "plans": {name: values.double() for name, values in plan_values(plans, references).items()},
        "distribution": vars(distribution_values(samples, right, NUM_ACTIONS)),
        "released": {
            "macro_precision": torch.tensor([macro_precision(plans, references)]).double(),
            "bitwise_iou": bitwise_ious(plans, references),
            "batch_iou": batch_ious(plans, references, 2),
            **marginal_values(samples, right, NUM_ACTIONS),
        },
    }
    for group, metrics in expected.items():
        found = getattr(scores, group)
        assert list(found) == list(metrics)
        for name, values in metrics.items():
            assert found[name].value == pytest.approx(values.mean().item(), rel=1e-6), name
            assert found[name].low < found[name].value < found[name].high, name
    assert (scores.num_windows, scores.num_videos, scores.notes) == (80, 20, ())


def test_a_file_of_the_predictions_scores_the_same_to_the_last_bit(predictions: Predictions, tmp_path: Path) -> None:
    write_predictions(tmp_path / "p.jsonl", predictions)
    read = read_predictions(tmp_path / "p.jsonl", ActionList(NUM_ACTIONS))
    assert score(read, NUM_ACTIONS).to_dict() == score(predictions, NUM_ACTIONS).to_dict()


def test_scores_equal_those_of_their_parts(predictions: Predictions) -> None:
    scores = score(predictions, NUM_ACTIONS, batch_size=8)
    clusters = Clusters.of(predictions.videos or ())
    plans, references, samples = predictions.plans, predictions.references, predictions.samples
    assert samples is not None
    assert mean_intervals(plan_values(plans, references), clusters) == scores.plans
    released = score_released(plans, references, clusters, batch_size=8)
    assert released.items() <= scores.released.items()
    values = distribution_values(samples, references_of(references), NUM_ACTIONS)
    assert mean_intervals(vars(values), clusters) == scores.distribution


def test_windows_of_unknown_videos_count_as_videos_with_a_note(predictions: Predictions) -> None:
    unknown = score(replace(predictions, videos=None), NUM_ACTIONS)
    alone = score(replace(predictions, videos=predictions.windows), NUM_ACTIONS)
    assert unknown.plans == alone.plans
    assert (unknown.num_videos, alone.num_videos) == (None, 80)
    assert "every window counts as a video of its own" in unknown.notes[0]


def test_without_samples_there_is_no_distribution(predictions: Predictions) -> None:
    scores = score(replace(predictions, samples=None), NUM_ACTIONS)
    assert scores.distribution is None
    assert list(scores.released) == ["macro_precision", "bitwise_iou", "batch_iou"]


def test_json_has_null_where_a_score_is_not_defined(predictions: Predictions) -> None:
    one_video = replace(
        predictions,
        videos=("v",) * 80,
        samples=count_plans(predictions.plans[:, None]),  # one sample: no pair to compare
    )
    scores = score(one_video, NUM_ACTIONS)
    content = json.loads(json.dumps(scores.to_dict(), allow_nan=False))
    assert content["distribution"]["cosine_distance"] == {"value": None, "low": None, "high": None}
    assert content["plans"]["success_rate"]["low"] is None
    assert content["plans"]["success_rate"]["value"] == scores.plans["success_rate"].value
    assert content["released"]["batch_iou"]["low"] > 0  # three batches
    assert math.isnan(scores.plans["mean_iou"].high)
    assert scores.notes == (
        "no intervals: they need at least two videos",
        "cosine_distance leaves out 80 windows with one sample",
    )


def shortened(plans: torch.Tensor, seed: int) -> torch.Tensor:
    """The first 1 to 3 actions of every plan."""
    lengths = torch.randint(1, 4, (len(plans), 1), generator=torch.Generator().manual_seed(seed))
    return plans.masked_fill(torch.arange(plans.shape[1]) >= lengths, PAD)


@pytest.fixture
def unequal(predictions: Predictions) -> Predictions:
    """The same windows with plans, references and samples of 1 to 3 actions."""
    assert predictions.samples is not None
    rows = [shortened(predictions.samples.rows(number)[0][:9], number) for number in range(80)]
    return replace(
        predictions,
        plans=shortened(predictions.plans, 100),
        references=shortened(predictions.references, 101),
        samples=count_plans(torch.stack(rows)),
    )


def test_plans_of_several_lengths_have_the_metrics_that_are_defined_for_them(unequal: Predictions) -> None:
    scores = score(unequal, NUM_ACTIONS)
    clusters = Clusters.of(unequal.videos or ())
    assert scores.plans == mean_intervals(length_values(unequal.plans, unequal.references), clusters)
    assert list(scores.plans) == ["success_rate", "mean_iou", "edit_score", "length_accuracy"]
    assert scores.distribution is not None
    assert list(scores.distribution) == ["kl", "nll", "mode_precision", "mode_recall", "distinct_plans"]
    assert all(each.low < each.value < each.high for each in (*scores.plans.values(), *scores.distribution.values()))
    assert scores.released == {}
    assert scores.notes == (
        "plans, references and samples have 1 to 3 actions; left out, because they are defined for one length: "
        "mean_accuracy, cosine_distance, macro_precision, bitwise_iou, batch_iou, marginal_kl, marginal_nll",
    )


def test_only_metrics_that_the_file_could_have_are_named_as_left_out(unequal: Predictions) -> None:
    (note,) = score(replace(unequal, samples=None), NUM_ACTIONS).notes
    assert note.startswith("plans and references have 1 to 3 actions")
    assert "cosine_distance" not in note


def test_a_file_of_several_lengths_scores_the_same_to_the_last_bit(unequal: Predictions, tmp_path: Path) -> None:
    read = read_predictions(write_predictions(tmp_path / "p.jsonl", unequal), ActionList(NUM_ACTIONS))
    assert score(read, NUM_ACTIONS).to_dict() == score(unequal, NUM_ACTIONS).to_dict()


def test_an_empty_plan_is_refused(unequal: Predictions) -> None:
    plans = unequal.plans.clone()
    plans[5] = PAD
    with pytest.raises(PlanError, match="A plan is empty; expected at least one action"):
        score(replace(unequal, plans=plans), NUM_ACTIONS)


@pytest.mark.parametrize("part", ["plans", "references"])
def test_an_action_outside_the_vocabulary_is_refused(predictions: Predictions, part: str) -> None:
    wrong = getattr(predictions, part).clone()
    wrong[3, 1] = NUM_ACTIONS
    with pytest.raises(PlanError, match=f"A {part[:-1]} has action 9, but ids are 0 to 8"):
        score(replace(predictions, **{part: wrong}), NUM_ACTIONS)
    wrong[3, 1] = -1
    with pytest.raises(PlanError, match="has action -1"):
        score(replace(predictions, **{part: wrong}), NUM_ACTIONS)
