"""Queries in Python: any length, words, procedures, history, conditions and reasons, all exact."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from p3iv import Conditions, PlanDistribution, Planner
from p3iv.data.folder import Dataset
from p3iv.errors import PlanError


@pytest.fixture(scope="module")
def planner(query_run: Path) -> Planner:
    return Planner.from_pretrained(query_run, device="cpu")


@pytest.fixture(scope="module")
def moments(dataset: Dataset) -> tuple[str, str]:
    """Where a video has done two steps, and where it has done five."""
    video = next(video for video in dataset.videos if len(video.steps) > 5)
    return f"{video.id}@{video.steps[1].start_s}", f"{video.id}@{video.steps[4].end_s}"


def test_slices_and_lengths_make_the_whole(planner: Planner, moments: tuple[str, str]) -> None:
    whole = planner.plan(*moments, number=300)
    assert planner.horizons == (1, 2, 3, 4)
    assert [number for number, _ in whole.lengths] == [1, 2, 3, 4]
    assert math.fsum(share for _, share in whole.lengths) == pytest.approx(1)
    slices = {number: planner.plan(*moments, horizon=number, number=300) for number in planner.horizons}
    share_of = dict(whole.lengths)
    for steps, probability in whole:
        own = dict(slices[len(steps)])
        if steps in own:
            assert probability == pytest.approx(share_of[len(steps)] * own[steps])
    assert not slices[2].lengths
    assert {len(steps) for steps in slices[2].plans} == {2}


def test_probability_agrees_with_the_list(planner: Planner, moments: tuple[str, str]) -> None:
    plans = planner.plan(*moments, procedure=planner.procedures[0])
    for steps, probability in list(plans)[:10]:
        again = planner.probability(*moments, steps, procedure=planner.procedures[0])
        assert again == pytest.approx(probability)


def test_samples_follow_the_probabilities(planner: Planner, moments: tuple[str, str]) -> None:
    plans = planner.plan(*moments, num_samples=4000, seed=1)
    share_of = {steps: count / 4000 for steps, count in plans.samples}
    for steps, probability in plans.top(5):
        spread = math.sqrt(probability * (1 - probability) / 4000)
        assert abs(share_of.get(steps, 0.0) - probability) < 5 * spread
    assert planner.sample(*moments, 50, seed=1)[:20] == planner.sample(*moments, 20, seed=1)


def test_history_counts_unless_it_is_switched_off(planner: Planner, moments: tuple[str, str]) -> None:
    assert planner.plan(*moments) != planner.plan(*moments, history=False)
    video, _, second = moments[0].rpartition("@")
    assert planner.plan((video, float(second)), moments[1]) == planner.plan(*moments)


def test_nothing_comes_before_the_first_second(planner: Planner, moments: tuple[str, str]) -> None:
    video = moments[0].rpartition("@")[0]
    assert planner.plan(f"{video}@0", moments[1]) == planner.plan(f"{video}@0", moments[1], history=False)


def test_a_goal_in_words_comes_last(planner: Planner, moments: tuple[str, str]) -> None:
    step = planner.plan(*moments, horizon=3).plan[-1]
    plans = planner.plan(moments[0], goal_text=step.upper(), horizon=3)
    assert plans.plan[-1] == step
    assert plans.understood == (f'understood "{step.upper()}" as the step "{step}"',)


def test_a_procedure_makes_its_steps_more_probable(
    planner: Planner, moments: tuple[str, str], dataset: Dataset
) -> None:
    for name in planner.procedures[:4]:
        own = {step.action for video in dataset.videos if video.task == name for step in video.steps}
        named, free = (planner.plan(moments[0], procedure=each, horizon=1, number=90) for each in (name, None))
        assert sum(share for (step,), share in named if step in own) > sum(
            share for (step,), share in free if step in own
        )
    with pytest.raises(PlanError, match="id you mean"):
        planner.plan(moments[0], procedure=planner.procedures[0][:-2])


def test_without_a_goal_it_says_what_comes_next(planner: Planner, moments: tuple[str, str]) -> None:
    assert planner.plan(moments[0], horizon=1).plan


def test_conditions_hold_and_keep_the_proportions(planner: Planner, moments: tuple[str, str]) -> None:
    free = planner.plan(*moments, horizon=3, number=2000)
    left_out = free.plan[1]
    bound = planner.plan(*moments, horizon=3, conditions=Conditions(without=(left_out,)))
    kept = [(steps, share) for steps, share in free if left_out not in steps]
    assert bound.plans[:5] == tuple(steps for steps, _ in kept[:5])
    ratios = [share / dict(free)[steps] for steps, share in bound.top(5)]
    assert ratios == pytest.approx([ratios[0]] * 5)
    with pytest.raises(PlanError, match="cannot hold together"):
        planner.plan(*moments, conditions=Conditions(without=(left_out,), first=left_out))


def test_conditions_work_for_planners_of_one_length(plus_run: Path, moments: tuple[str, str]) -> None:
    planner = Planner.from_pretrained(plus_run, device="cpu")
    free = planner.plan(*moments)
    bound = planner.plan(*moments, conditions=Conditions(without=(free.plan[0],)))
    assert free.plan[0] not in bound.plan
    unknown: list[dict[str, Any]] = [{"goal_text": "anything"}, {"procedure": "anything"}]
    for options in unknown:
        with pytest.raises(PlanError, match="knows pictures of start and goal only"):
            planner.plan(*moments, **options)
    with pytest.raises(PlanError, match="There is no goal"):
        planner.plan(moments[0])
    with pytest.raises(PlanError, match="cannot say why"):
        planner.plan(*moments, why=True)


def test_reasons_travel_as_json(planner: Planner, moments: tuple[str, str]) -> None:
    plans = planner.plan(*moments, why=True, number=8)
    assert [reasons.plan for reasons in plans.reasons] == list(plans.plans)
    assert PlanDistribution.from_json(plans.to_json()) == plans
    assert "speak" in plans.to_text()


def test_reasons_name_training_moments(planner: Planner, moments: tuple[str, str], dataset: Dataset) -> None:
    plans = planner.plan(*moments, why=True, number=3)
    steps_of = {video.id: video.steps for video in dataset.videos}
    train = set(dataset.split.train) if dataset.split else set(steps_of)
    for step in plans.reasons[0].steps:
        (example,) = step.examples
        assert example.video in train
        shown = [each for each in steps_of[example.video] if (each.start_s or 0) <= example.second <= (each.end_s or 0)]
        assert step.step in {each.action for each in shown}


@given(st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_reasons_sum_to_the_log_probability(planner: Planner, moments: tuple[str, str], data: st.DataObject) -> None:
    """With any evidence, length and condition."""
    names = st.sampled_from(planner.names)
    options: dict[str, Any] = {
        "goal": data.draw(st.sampled_from([None, moments[1]])),
        "goal_text": data.draw(st.none() | names),
        "procedure": data.draw(st.none() | st.sampled_from(planner.procedures)),
        "history": data.draw(st.booleans()),
        "horizon": data.draw(st.sampled_from([None, 2, 4])),
        "conditions": Conditions(without=tuple(data.draw(st.lists(names, max_size=2, unique=True)))),
    }
    try:
        plans = planner.plan(moments[0], **options, number=5, why=True)
    except PlanError:  # the words may name a step that is left out
        return
    for reasons, probability in zip(plans.reasons, plans.probabilities, strict=True):
        addends = [value for step in reasons.steps for value in step.addends.values()]
        total = math.fsum([*addends, reasons.length, reasons.conditions, reasons.normaliser])
        assert total == pytest.approx(reasons.log_probability, abs=1e-6)
        assert np.exp(reasons.log_probability) == pytest.approx(probability, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"horizon": 5}, "horizon=5, but the plans of this planner have 1 to 4 steps"),
        ({"goal_text": "zzz qqq xxx"}, "did you mean"),
        ({"conditions": Conditions(without=("no such step",))}, "no such step"),
    ],
)
def test_mistakes_get_one_sentence(
    planner: Planner, moments: tuple[str, str], options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(PlanError, match=sentence):
        planner.plan(moments[0], **options)


def test_an_ensemble_answers_queries(
    query_run: Path, dataset: Dataset, tmp_path: Path, moments: tuple[str, str]
) -> None:
    from p3iv.training.loop import TrainRequest, train
    from runs import quick

    other = quick("p3iv-plus", data__min_horizon=1, data__horizon=4, seed=1)
    run = train(TrainRequest(dataset, tmp_path / "other", other)).run
    both = Planner.from_pretrained(query_run, ensemble=[run], device="cpu").plan(*moments)
    assert math.fsum(share for _, share in both.lengths) == pytest.approx(1)
