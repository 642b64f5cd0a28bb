"""The planner of queries: its formula, its answers with every mix of evidence, its reasons, its training."""

from __future__ import annotations

from copy import deepcopy
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import Sequential, functional

from p3iv.data.folder import Dataset
from p3iv.data.tensors import PlanningData, WindowTensors
from p3iv.planners.checkpoint import load_planner
from p3iv.planners.header import BEST, LAST
from p3iv.planners.plus.likelihood import chain_scores
from p3iv.planners.queries.evidence import QueryTensors, query_of_windows
from p3iv.planners.queries.experts import LinearScores
from p3iv.planners.queries.planner import QueryPlanner
from p3iv.plans.evidence import EVIDENCE, Evidence
from p3iv.training.loop import TrainRequest, train
from p3iv.types import Progress
from planners.queries.conftest import quick

MIXES = [mix for number in range(6) for mix in combinations(EVIDENCE, number)]


def evidence_of(windows: WindowTensors, row: int, planner: QueryPlanner, mix: tuple[str, ...]) -> Evidence:
    """The evidence of one window."""
    assert windows.history is not None
    assert windows.task_ids is not None
    ids = windows.action_ids[row]
    whole = {
        "start": windows.start[row],
        "goal": windows.goal[row],
        "history": windows.history[row],
        "words": functional.one_hot(ids[ids >= 0][-1], planner.shape.num_actions).float(),
        "procedure": functional.one_hot(windows.task_ids[row], planner.shape.num_procedures).float(),
    }
    parts = {name.replace("words", "last_step"): whole[name][None].numpy() for name in mix}
    return Evidence(**parts)


def emissions_in_words(planner: QueryPlanner, query: QueryTensors, horizon: int) -> Tensor:
    """The formula at the top of planners/queries/network.py, for one query, term by term."""
    has = dict(zip(EVIDENCE, query.has[0].bool().tolist(), strict=True))
    first = sum(length for length in planner.horizons if length < horizon)
    experts, base = planner.experts, planner.base
    unit = functional.normalize

    def project(features: Tensor) -> Tensor:
        return (features - experts.projection.mean) @ experts.projection.axes

    start, goal, history = (project(part) for part in (query.start, query.goal, query.history))
    scores = torch.zeros(horizon, planner.shape.num_actions)
    inferred = torch.zeros(planner.shape.num_procedures)
    for number, (name, part) in enumerate((("start", start), ("goal", goal), ("history", history))):
        path = experts.procedure[number]
        assert isinstance(path, LinearScores)
        if has[name]:
            inferred += planner.procedure_gain[number, 0, 0] * (unit(part - path.center, dim=1) @ path.weights[0])[0]
    procedure = query.procedure[0] if has["procedure"] else inferred.softmax(dim=0)
    usage = experts.counts + 0.1
    usage = (procedure @ (usage / usage.sum(dim=1, keepdim=True))).log()
    observed = base.encode_observation(
        (torch.stack((query.start[0], query.goal[0])) - base.feature_mean) / base.feature_scale
    )
    for end, name in enumerate(("start", "goal")):
        if not has[name]:
            observed = observed.clone()
            observed[end] = planner.absent[end]
    hidden = base.decode(base.tokens_of(observed[None], horizon), None)[0, 0]
    texts = base.encode_target(planner.language)
    for t in range(horizon):
        place = first + t
        if has["start"] and has["goal"]:
            both = unit(torch.cat((start, goal), dim=1) - experts.pair.center, dim=1)[0]
            scores[t] += planner.pair_scale[place] * (both @ experts.pair.weights[place])
        elif has["start"]:
            alone = unit(start - experts.start.center, dim=1)[0]
            scores[t] += planner.start_scale[place] * (alone @ experts.start.weights[t])
        if has["history"]:
            before = unit(history - experts.history.center, dim=1)[0]
            scores[t] += planner.history_scale[place] * (before @ experts.history.weights[t])
        gain = planner.named_gain if has["procedure"] else planner.inferred_gain
        scores[t] += gain[place] * usage
        scores[t] += planner.gain[place] * base.action_head(hidden[t])
    if has["words"]:
        scores[-1] += query.last_step[0].clamp_min(1e-6).log()
    if has["start"]:
        scores[0] += planner.end_gain[0] * (texts @ planner.end_heads[0](observed[0]))
    if has["goal"]:
        scores[-1] += planner.end_gain[1] * (texts @ planner.end_heads[1](observed[1]))
    return scores


@pytest.mark.parametrize("mix", MIXES, ids="+".join)
@torch.no_grad()
def test_emissions_equal_the_formula(planner: QueryPlanner, lengths_data: PlanningData, mix: tuple[str, ...]) -> None:
    windows, _ = lengths_data.val.of_length(3)
    query = query_of_windows(windows.take(torch.tensor([5])), planner.shape, planner.log_transitions, mix)
    for horizon in planner.horizons:
        found = planner(query, horizon).emissions[0]
        torch.testing.assert_close(found, emissions_in_words(planner, query, horizon), atol=1e-3, rtol=1e-4)


def second_in_words(planner: QueryPlanner, query: QueryTensors, horizon: int) -> Tensor:
    """The formula at the top of planners/queries/second_expert.py, for one query, term by term."""
    has, expert = dict(zip(EVIDENCE, query.has[0].bool().tolist(), strict=True)), planner.second
    assert expert is not None
    first = sum(length for length in planner.horizons if length < horizon)

    def encode(encoder: Sequential, row: Tensor) -> Tensor:
        _, layer, norm = encoder
        found: Tensor = norm(layer(row))
        return found

    def scaled(features: Tensor) -> Tensor:
        centred = features[0] - expert.mean
        return centred / centred.square().mean().sqrt()

    encoded = {
        "start": encode(expert.moment, scaled(query.start)),
        "goal": encode(expert.moment, scaled(query.goal)),
        "history": encode(expert.history, scaled(query.history)),
        "procedure": encode(expert.procedure, query.procedure[0]),
    }
    seen = [one if has[name] else expert.absent[number] for number, (name, one) in enumerate(encoded.items())]
    hidden = (expert.join[0](torch.cat(seen))).relu()
    scores = torch.stack(
        [expert.score(expert.gates[first + t] * hidden) + expert.biases[first + t] for t in range(horizon)]
    )
    for head, name in zip(expert.everywhere, ("history", "procedure"), strict=True):
        if has[name]:
            scores += head(encoded[name])
    if has["start"]:
        scores[0] += expert.ends[0](encoded["start"])
    if has["goal"]:
        scores[-1] += expert.ends[1](encoded["goal"])
    if has["words"]:
        scores[-1] += query.last_step[0].clamp_min(1e-6).log()
    return scores


@pytest.mark.parametrize("mix", MIXES, ids="+".join)
@torch.no_grad()
def test_the_chain_has_a_weighted_mean_of_both_networks(
    planner: QueryPlanner, lengths_data: PlanningData, mix: tuple[str, ...]
) -> None:
    windows, _ = lengths_data.val.of_length(3)
    query = query_of_windows(windows.take(torch.tensor([5])), planner.shape, planner.log_transitions, mix)
    for horizon in planner.horizons:
        first, second = (part(planner, query, horizon) for part in (emissions_in_words, second_in_words))
        both = (1 - planner.second_weight) * first + planner.second_weight * second
        torch.testing.assert_close(planner.emissions(query, horizon)[0], both, atol=1e-3, rtol=1e-4)


def test_a_planner_without_the_second_network(dataset: Dataset, tmp_path: Path) -> None:
    train(TrainRequest(dataset, tmp_path / "run", quick(plus__second=False)))
    planner = load_planner(tmp_path / "run" / BEST).planner
    assert isinstance(planner, QueryPlanner)
    assert planner.second is None
    assert planner.beta == planner.first_beta


def test_the_weight_of_the_second_network_is_the_most_probable_one(
    planner: QueryPlanner, lengths_data: PlanningData
) -> None:
    """The windows of every length fit the sample that the weight is chosen on."""
    changed = deepcopy(planner)

    def log_likelihood(weight: float) -> float:
        changed.second_weight.fill_(weight)
        total = 0.0
        for horizon in changed.horizons[1:]:
            windows, _ = lengths_data.val.of_length(horizon)
            assert len(windows) <= 128
            query = query_of_windows(windows, changed.shape, changed.log_transitions)
            emissions, transitions = changed.emissions(query, horizon), changed.beta * changed.log_transitions
            zeros = torch.zeros(len(windows), dtype=torch.int64)
            log_z, score = chain_scores(emissions, transitions[None], torch.ones(()), windows.action_ids, zeros)
            total += float((score - log_z).sum())
        return total

    with torch.no_grad():
        likelihoods = {weight: log_likelihood(weight) for weight in (0.0, 0.2, 0.35, 0.5, 0.65)}
    assert float(planner.second_weight) == pytest.approx(max(likelihoods, key=likelihoods.__getitem__))


@pytest.mark.parametrize("name", EVIDENCE)
@torch.no_grad()
def test_absent_evidence_is_not_read(planner: QueryPlanner, lengths_data: PlanningData, name: str) -> None:
    windows, _ = lengths_data.val.of_length(2)
    others = [other for other in EVIDENCE if other != name]
    query = query_of_windows(windows, planner.shape, planner.log_transitions, others)
    field = "last_step" if name == "words" else name
    changed = QueryTensors(**{**vars(query), field: getattr(query, field) + 7.0})
    assert torch.equal(planner.emissions(query, 2), planner.emissions(changed, 2))


@pytest.mark.parametrize("mix", MIXES, ids="+".join)
def test_answers_with_every_mix(planner: QueryPlanner, lengths_data: PlanningData, mix: tuple[str, ...]) -> None:
    if not mix:
        return  # a query has a start or something else
    answer = planner.answer(evidence_of(lengths_data.val, 3, planner, mix))
    assert answer.horizons == planner.horizons
    np.testing.assert_allclose(np.exp(answer.log_lengths).sum(), 1.0)
    assert answer.addends is not None
    for number, horizon in enumerate(answer.horizons):
        addends = answer.addends(horizon)
        assert set(addends) == {"prior", *mix}
        np.testing.assert_allclose(sum(addends.values()), answer.chains[number].log_emissions[0], atol=1e-4, rtol=1e-5)


@torch.no_grad()
def test_a_query_does_not_depend_on_its_neighbours(planner: QueryPlanner, lengths_data: PlanningData) -> None:
    windows, _ = lengths_data.val.of_length(3)
    query = query_of_windows(windows, planner.shape, planner.log_transitions, EVIDENCE)
    together = planner.chain(query, 3).log_emissions
    alone = planner.chain(query, 3, size=1).log_emissions
    np.testing.assert_allclose(together, alone, atol=1e-4)


def test_lengths_of_tabletop_plans_are_found(planner: QueryPlanner, lengths_data: PlanningData) -> None:
    test = lengths_data.test
    rows = range(0, len(test), 5)
    answers = [planner.answer(evidence_of(test, row, planner, ("start", "goal"))) for row in rows]
    found = [planner.horizons[int(answer.log_lengths.argmax())] for answer in answers]
    right = np.mean([length == int(test.lengths[row]) for length, row in zip(found, rows, strict=True)])
    most_frequent = float(test.lengths.bincount().max()) / len(test)
    assert right > most_frequent + 0.2


def test_a_resumed_run_equals_an_uninterrupted_one(dataset: Dataset, tmp_path: Path) -> None:
    def interrupt(at: Progress) -> None:
        if 1 < at.done < 2:
            raise KeyboardInterrupt

    config = quick(model__width=16, model__heads=2)
    whole = train(TrainRequest(dataset, tmp_path / "whole", config)).run
    with pytest.raises(KeyboardInterrupt):
        train(TrainRequest(dataset, tmp_path / "part", config, on_progress=interrupt))
    part = train(TrainRequest(dataset, tmp_path / "part", config, resume=True)).run
    assert (whole / LAST).read_bytes() == (part / LAST).read_bytes()
    assert (whole / BEST).read_bytes() == (part / BEST).read_bytes()


def test_a_checkpoint_gives_the_same_answers(
    query_run: Path, planner: QueryPlanner, lengths_data: PlanningData
) -> None:
    again = load_planner(query_run / BEST)
    assert again.header.procedures == lengths_data.procedures
    evidence = evidence_of(lengths_data.val, 0, planner, EVIDENCE)
    first, second = planner.answer(evidence), again.answer(evidence)
    assert np.array_equal(first.log_lengths, second.log_lengths)
    for one, other in zip(first.chains, second.chains, strict=True):
        assert np.array_equal(one.log_emissions, other.log_emissions)
