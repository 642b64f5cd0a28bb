"""The loss against brute force, the average of the weights, the rate, and what a window is trained with."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from p3iv.config import PlusConfig
from p3iv.data.tensors import PlanningData
from p3iv.errors import ConfigError
from p3iv.planners.base import Batch
from p3iv.planners.header import PlannerShape
from p3iv.planners.p3iv.losses import language_loss
from p3iv.planners.plus.learner import HeldOutScores, PlusLearner, SecondLearner, fit_fold_transitions
from p3iv.planners.plus.network import LinearPath, fit_linear_path
from p3iv.planners.plus.planner import P3IVPlus
from p3iv.plans.transitions import FLOOR, backoff_transitions, log_transitions
from planners.plus.conftest import batch, quick


def learner(data: PlanningData, **changes: Any) -> PlusLearner:
    torch.manual_seed(0)
    config = quick(**changes)
    planner = P3IVPlus(PlannerShape.of(data, config), config)
    planner.fit(data)
    return PlusLearner(planner, HeldOutScores.of(planner, data), sync=lambda _: None)


def test_emissions_are_the_three_paths_weighted_with_the_ends_at_the_ends_alone(data: PlanningData) -> None:
    planner = learner(data).planner.eval()
    assert (planner.gain.unique().tolist(), planner.scale.unique().tolist()) == ([0.5], [18.0])
    start, goal = data.val.start[:5], data.val.goal[:5]
    with torch.no_grad():
        found = planner(start, goal)
        seen = planner.base.encode(start, goal)
        hidden = planner.base.decode(planner.base.tokens_of(seen), None)[:, 0]
        expected = 0.5 * planner.base.action_head(hidden) + 18 * planner.linear(start, goal)
        texts = planner.base.encode_target(planner.language)
        for place, (head, moment) in {0: (planner.end_heads[0], 0), -1: (planner.end_heads[1], 1)}.items():
            expected[:, place] += 0.5 * head(seen[:, moment]) @ texts.T
    torch.testing.assert_close(found.emissions, expected)


def terms_in_words(
    emissions: Tensor, end_scores: Tensor, rows: Tensor, given: Batch, held_out: HeldOutScores
) -> dict[str, float]:
    """The terms of windows under the chain of one network, one window at a time, over all plans of three actions."""
    terms = dict.fromkeys(("chain", "spread", "ends"), 0.0)
    for place, row in enumerate(rows.tolist()):
        e, ids = emissions[place].double(), given.action_ids[place]
        first, second, third = ids.tolist()
        step = held_out.transitions[held_out.fold[row]].double()  # beta is 1 before the first step
        every = e[0][:, None, None] + step[:, :, None] + e[1][None, :, None] + step[None] + e[2]
        log_z = every.logsumexp(dim=(0, 1, 2)).item()
        terms["chain"] += (log_z - every[first, second, third].item()) / len(rows)
        terms["spread"] += 0.6 * (log_z / 3 - e.mean().item()) / len(rows)
        for scores, right in zip(end_scores[place].double(), (first, third), strict=True):
            logs = scores.log_softmax(dim=0)
            terms["ends"] -= 2 * (0.7 * logs[right] + 0.3 * logs.mean()).item() / len(rows)
    return terms


def test_the_loss_is_written_out_term_by_term(data: PlanningData) -> None:
    subject = learner(data)
    plus, rows = subject.config.plus, torch.tensor([3, 50, 150])
    assert (plus.spread, plus.ends, plus.label_smoothing, subject.config.loss.language) == (0.6, 2.0, 0.3, 0.5)
    subject.trained.eval()  # no dropout
    given, held_out = batch(data, rows), subject.held_out
    assert held_out.linear is not None
    found = {name: term.item() for name, term in subject.losses(given).items()}
    with torch.no_grad():
        out = subject.trained(given.start, given.goal, held_out.linear[rows].to(given.start))
        assert out.end_scores is not None
    expected = terms_in_words(out.emissions, out.end_scores, rows, given, held_out)
    expected["language"] = (
        0.5
        * language_loss(out.states, out.descriptions, given.action_ids, subject.config.loss.language_temperature).item()
    )
    assert found == pytest.approx(expected, rel=1e-4)


def test_the_planner_is_the_moving_average_of_the_trained_copy(data: PlanningData) -> None:
    subject = learner(data, plus__ema_decay=0.75)
    rows = torch.arange(16)
    before = [parameter.detach().clone() for parameter in subject.planner.parameters()]
    subject.train_step(batch(data, rows))
    for old, mean, new in zip(before, subject.planner.parameters(), subject.trained.parameters(), strict=True):
        torch.testing.assert_close(mean, 0.75 * old + 0.25 * new)


def test_the_rate_rises_over_the_warm_up_and_falls_to_nothing(data: PlanningData) -> None:
    subject = learner(data, plus__warm_up=4, optim__epochs=1, optim__batch_size=16, plus__linear=False)
    rates = []
    for rows in torch.arange(len(data.train)).split(16):
        subject.train_step(batch(data, rows))
        rates.append(subject.optimizer.param_groups[0]["lr"] / 7e-4)
    assert rates[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    left = subject.num_steps - 4
    assert len(rates) == subject.num_steps
    assert rates[4:] == pytest.approx([0.5 * (1 + math.cos(math.pi * k / left)) for k in range(left)])


def test_the_rate_falls_over_all_the_epochs_that_few_windows_make(data: PlanningData) -> None:
    steps = -(-len(data.train) // 64)
    assert learner(data, optim__epochs=None, plus__linear=False).num_steps == steps * -(-240 // steps)


def test_a_window_is_trained_with_scores_that_never_saw_its_video(data: PlanningData) -> None:
    """Other labels in one video leave its own linear scores alone, and change those of others."""
    video = data.train.windows[0].video
    own = torch.tensor([w.video == video for w in data.train.windows])
    ids = torch.where(own[:, None], (data.train.action_ids + 1) % len(data.names), data.train.action_ids)
    other = replace(data, train=replace(data.train, action_ids=ids))
    first, second = (
        fit_linear_path(LinearPath(PlannerShape.of(data, quick())), part, PlusConfig()) for part in (data, other)
    )
    torch.testing.assert_close(first[own], second[own], atol=1e-5, rtol=0)
    assert not torch.allclose(first[~own], second[~own], atol=1e-5)


OFF = {
    "linear": False,
    "neighbours": False,
    "nearby": 0,
    "held_out": False,
    "decoder": False,
    "end_heads": False,
    "chain": False,
    "backoff": 0.0,
    "folds": 1,
    "learned_beta": False,
    "spread": 0.0,
    "ends": 0.0,
    "label_smoothing": 0.0,
    "ema_decay": 0.0,
}


@pytest.mark.parametrize("piece", OFF)
def test_every_piece_is_a_switch_that_changes_what_is_learned(piece: str, data: PlanningData) -> None:
    rows = torch.arange(32)
    states = []
    for changes in ({}, {f"plus__{piece}": OFF[piece]}):
        subject = learner(data, plus__warm_up=0, **changes)
        terms = [subject.train_step(batch(data, rows)) for _ in range(2)]
        assert all(value.isfinite() for value in terms[-1].values())
        states.append(subject.planner.eval()(data.val.start[:8], data.val.goal[:8]).emissions)
        if piece == "learned_beta":
            states[-1] = subject.planner.log_beta.detach()
    assert not torch.equal(*states)


def test_without_step_texts_it_says_what_to_switch_off(data: PlanningData) -> None:
    mute = replace(data, language=None)
    with pytest.raises(ConfigError, match=r"plus\.end_heads and loss\.language need language\.npz"):
        learner(mute)
    learner(mute, plus__end_heads=False, loss__language=0.0).train_step(batch(data, torch.arange(8)))


def test_a_fold_is_counted_without_its_own_videos(data: PlanningData) -> None:
    folds, fold = fit_fold_transitions(data, 5.0, 4)
    assert folds.shape == (4, len(data.names), len(data.names))
    for number in range(4):
        videos = {w.video for w, own in zip(data.train.windows, fold.tolist(), strict=True) if own == number}
        left = [
            ids
            for video, ids in zip(data.train_sequence_videos, data.train_sequences, strict=True)
            if video not in videos
        ]
        assert len(left) < len(data.train_sequences)
        expected = np.log(np.maximum(backoff_transitions(left, len(data.names), 5.0), FLOOR))
        np.testing.assert_allclose(folds[number], expected)


def test_one_fold_leaves_nothing_out(data: PlanningData) -> None:
    folds, _ = fit_fold_transitions(data, 5.0, 1)
    assert np.array_equal(folds[0], log_transitions(data.train_sequences, data.val_sequences, len(data.names), 5.0))


def test_the_second_network_is_trained_with_the_same_terms(data: PlanningData) -> None:
    planner, rows = learner(data).planner, torch.tensor([3, 50, 150])
    assert planner.second is not None
    bare = replace(data, train=replace(data.train, nearby=None))  # every window at its own second
    subject = SecondLearner(planner.second, bare, planner.config)
    subject.trained.eval()  # no dropout
    subject.trained.log_beta.data.zero_()  # the sums in words are for exponent 1
    given = batch(data, rows)
    found = {name: term.item() for name, term in subject.losses(given).items()}
    with torch.no_grad():
        out = subject.trained.score_pairs(given.start, given.goal)
    held_out = HeldOutScores(None, subject.transitions, subject.fold)
    expected = terms_in_words(out.emissions, out.end_scores, rows, given, held_out)
    assert found == pytest.approx(expected, rel=1e-4)


def test_the_second_network_does_not_change_how_the_first_is_trained(data: PlanningData) -> None:
    states = []
    for second in (True, False):
        subject = learner(data, plus__second=second)
        torch.manual_seed(1)
        for rows in torch.arange(128).split(64):
            subject.train_step(batch(data, rows))
        states.append(subject.planner.base.state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[1])
