"""Which steps were done and which one is under way, against a sum over all histories of a video."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p3iv.plans import step_filter
from p3iv.plans.step_filter import FollowNumbers, StepFilter
from p3iv.types import Array

NUM_ACTIONS = 3


def some_numbers(seed: int) -> FollowNumbers:
    random = np.random.default_rng(seed)
    return FollowNumbers(
        first=random.dirichlet(np.ones(NUM_ACTIONS)),
        goes_on=random.uniform(0.2, 0.8, NUM_ACTIONS + 1),
        repeats=random.uniform(0.0, 0.5, NUM_ACTIONS),
        log_share=np.log(random.dirichlet(np.ones(NUM_ACTIONS + 1))),
        usage=random.dirichlet(np.ones(NUM_ACTIONS), 2),
        settings=np.array([0.3, 2.0, 0.7, 0.9, 0.5, 1.0]),
        log_next=random.standard_normal((NUM_ACTIONS, NUM_ACTIONS)),
    )


def slow_probabilities(
    numbers: FollowNumbers, scores: list[Array | None], procedure: Array | None
) -> tuple[Array, float, Array]:
    """Under way, no step, and done, by adding up the weights of all histories, one by one."""
    usage = np.ones(NUM_ACTIONS) if procedure is None else (procedure @ numbers.usage) ** step_filter.USAGE_EXPONENT
    first = numbers.first * usage / (numbers.first * usage).sum()
    following = np.exp(numbers.log_next) * usage
    following /= following.sum(axis=1, keepdims=True)
    states = [("before", -1)] + [(kind, a) for kind in ("under way", "paused") for a in range(NUM_ACTIONS)]

    def move(old: tuple[str, int], new: tuple[str, int]) -> float:
        (kind, a), (other, b) = old, new
        pause, share = float(numbers.goes_on[-1]), numbers.pause_share
        if kind == "before":
            return pause if other == "before" else (1 - pause) * float(first[b]) * (other == "under way")
        if kind == "paused":
            if other == "paused":
                return pause * (a == b)
            return (1 - pause) * float(following[a, b]) * (other == "under way")
        stays = float(numbers.goes_on[a])
        if other == "paused":
            return (1 - stays) * share * (a == b)
        return stays * (a == b) + (1 - stays) * (1 - share) * float(following[a, b]) if other == "under way" else 0.0

    def weight(state: tuple[str, int], seen: Array | None) -> float:
        if seen is None:
            return 1.0
        scaled = numbers.settings[1] * seen
        logs = scaled - np.log(np.exp(scaled).sum()) - step_filter.SHARE_EXPONENT * numbers.log_share
        return float(np.exp(numbers.settings[2] * logs[state[1] if state[0] == "under way" else -1]))

    under_way, done, no_step, total = np.zeros(NUM_ACTIONS), np.zeros(NUM_ACTIONS), 0.0, 0.0
    for history in product(states, repeat=len(scores)):
        kind, action = history[0]
        share = {"before": 0.5, "under way": 0.5 * float(first[action]), "paused": 0.0}[kind]
        share *= weight(history[0], scores[0])
        for old, new, seen in zip(history, history[1:], scores[1:], strict=False):
            share *= move(old, new) * weight(new, seen)
        # A step that follows itself at once cannot be told from one that goes on: count both ways, each with its share.
        for ended, part in ways(history, numbers, following, share):
            total += part
            under_way[history[-1][1]] += part * (history[-1][0] == "under way")
            no_step += part * (history[-1][0] != "under way")
            for action in ended:
                done[action] += part
    return under_way / total, no_step / total, done / total


def ways(history, numbers: FollowNumbers, following: Array, share: float):  # type: ignore[no-untyped-def]
    """The steps that have ended in a history, in every way in which it can have come about, with its share."""
    found: list[tuple[set[int], float]] = [(set(), share)]
    for (kind, a), (other, b) in pairwise(history):
        if kind != "under way":
            continue
        if (other, b) != ("under way", a):
            found = [(ended | {a}, part) for ended, part in found]
            continue
        stays = float(numbers.goes_on[a])
        again = (1 - stays) * (1 - numbers.pause_share) * float(following[a, a])
        shares = stays / (stays + again), again / (stays + again)
        found = [each for ended, part in found for each in ((ended, part * shares[0]), (ended | {a}, part * shares[1]))]
    return found


def slow_now(numbers: FollowNumbers, scores: list[Array | None], procedure: Array | None) -> Array:
    """Half the classifier, half the model whose last second has another weight."""
    under_way, no_step, _ = slow_probabilities(numbers, [*scores[:-1], None], procedure)
    model, last = np.append(under_way, no_step), scores[-1]
    if last is None:
        return model
    classes = np.exp(numbers.settings[1] * last) / np.exp(numbers.settings[1] * last).sum()
    share = np.exp(numbers.log_share) ** step_filter.SHARE_EXPONENT
    model = model * (classes / share) ** numbers.settings[3]
    mixed: Array = (model / model.sum() + classes) / 2
    return mixed


@given(seed=st.integers(0, 10_000), seconds=st.integers(1, 4), has_procedure=st.booleans())
def test_probabilities_are_sums_over_all_histories(seed: int, seconds: int, has_procedure: bool) -> None:
    random, numbers = np.random.default_rng(seed + 1), some_numbers(seed)
    scores = [random.standard_normal(NUM_ACTIONS + 1) if random.random() < 0.8 else None for _ in range(seconds)]
    procedure = random.dirichlet(np.ones(2)) if has_procedure else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_filter, "MIN_TRACKED", 0.0)
        found = StepFilter(numbers, procedure)
        for each in scores:
            found.add(each)
    under_way, no_step, done = slow_probabilities(numbers, scores, procedure)
    np.testing.assert_allclose(found.under_way, under_way, atol=1e-12)
    np.testing.assert_allclose(found.no_step, no_step, atol=1e-12)
    np.testing.assert_allclose(found.done, done, atol=1e-12)
    np.testing.assert_allclose(found.first_left.sum(), 1.0)
    np.testing.assert_allclose(found.now, slow_now(numbers, scores, procedure), atol=1e-12)


def test_steps_that_were_never_probable_are_left_out_at_little_cost() -> None:
    random, numbers = np.random.default_rng(3), some_numbers(3)
    scores = [random.standard_normal(NUM_ACTIONS + 1) for _ in range(40)]
    exact, fast = StepFilter(numbers), StepFilter(numbers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_filter, "MIN_TRACKED", 0.0)
        for each in scores:
            exact.add(each)
    for each in scores:
        fast.add(each)
    np.testing.assert_allclose(fast.done, exact.done, atol=2e-3)


def test_a_copy_stays_as_it_was() -> None:
    random, found = np.random.default_rng(4), StepFilter(some_numbers(4))
    found.add(random.standard_normal(NUM_ACTIONS + 1))
    kept = found.copy()
    before = kept.done.copy(), kept.under_way.copy(), kept.plan_weights()
    for _ in range(5):
        found.add(random.standard_normal(NUM_ACTIONS + 1))
    for old, new in zip(before, (kept.done, kept.under_way, kept.plan_weights()), strict=True):
        np.testing.assert_array_equal(old, new)


def test_finished_steps_are_in_order_and_probable() -> None:
    numbers = some_numbers(5)
    found, seen = StepFilter(numbers), []
    for action in (0, 0, 0, 1, 1, 1, 2, 2, 2):
        found.add(np.eye(NUM_ACTIONS + 1)[action] * 12)
        seen.append([step.action for step in found.finished])
    last = found.finished
    assert [step.action for step in last] == [0, 1]
    assert seen[-1] == [0, 1] and seen[0] == []
    assert all(step.probability > 0.5 and 0 <= step.start <= step.end for step in last)
    assert last[0].end <= last[1].end


def test_plan_weights_prefer_the_step_under_way_and_steps_that_are_not_done() -> None:
    found = StepFilter(some_numbers(6))
    for action in (0, 0, 0, 1, 1, 1):
        found.add(np.eye(NUM_ACTIONS + 1)[action] * 12)
    first, later = found.plan_weights()
    assert first.argmax() == 1
    assert later[0] < later[2] <= 0.0
