"""SCHEMA: what its decoders see, its losses, and procedures whose number comes with the data."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from p3iv.data.tensors import PlanningData
from p3iv.planners.base import Batch
from p3iv.planners.header import PlannerShape
from p3iv.planners.layers import cosine_positions
from p3iv.planners.successors.schema import Schema, described_states
from p3iv.planners.successors.states import procedure_ranks
from runs import quick


@pytest.fixture
def planner(data: PlanningData) -> Schema:
    config = quick("schema")
    torch.manual_seed(0)
    planner = Schema(PlannerShape.of(data, config), config)
    planner.fit(data)
    return planner.eval()


@torch.no_grad()
def test_a_batch_gives_what_each_of_its_pairs_gives(planner: Schema, batch: Batch) -> None:
    together = planner(batch.start, batch.goal)
    assert together.shape == (len(batch.start), 3, planner.shape.num_actions)
    alone = [planner(start[None], goal[None]) for start, goal in zip(batch.start, batch.goal, strict=True)]
    assert torch.allclose(together, torch.cat(alone), atol=1e-4)


@torch.no_grad()
def test_the_state_decoder_sees_both_ends_and_zeros_between_them(planner: Schema, batch: Batch) -> None:
    seen = []
    planner.state_decoder.blocks[0].register_forward_pre_hook(lambda _, given: seen.append(given))
    ends, said = planner.encode(batch.start, batch.goal), planner.states.describe(planner.language)
    scores = planner.procedures(ends)
    states = planner.imagine(ends, said, scores)
    ((tokens, memory),) = seen
    entered = torch.zeros(len(ends), 4, ends.shape[2])
    entered[:, 0], entered[:, 3] = planner.enter(ends[:, 0]), planner.enter(ends[:, 1])
    shift = scores @ planner.inputs.weight.T + planner.inputs.bias
    assert torch.allclose(tokens, entered + cosine_positions(4, ends.shape[2]) + shift[:, None], atol=1e-5)
    assert torch.equal(memory, said.flatten(0, 1)) and len(memory) == 2 * planner.shape.num_actions
    assert torch.equal(states[:, 0], ends[:, 0]) and torch.equal(states[:, -1], ends[:, 1])


@torch.no_grad()
def test_the_action_decoder_sees_states_and_a_zero_after_each_but_the_last(planner: Schema) -> None:
    seen = []
    planner.action_decoder.blocks[0].register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    states, procedure = torch.randn(2, 4, planner.config.model.width), torch.tensor([1, 0])
    planner.read_actions(states, planner.states.describe(planner.language), procedure)
    shift = planner.inputs.embedding[procedure][:, None]
    tokens = seen[0] - cosine_positions(7, states.shape[2]) - shift
    assert torch.allclose(tokens[:, ::2], states, atol=1e-5)
    assert torch.allclose(tokens[:, 1::2], torch.zeros(2, 3, states.shape[2]), atol=1e-5)


def test_a_state_is_described_by_the_action_before_and_the_action_after_it() -> None:
    descriptions, plans = torch.randn(5, 2, 4), torch.tensor([[0, 3, 1], [4, 4, 2]])
    found = described_states(descriptions, plans)
    for plan, states in zip(plans.tolist(), found, strict=True):
        for position in range(2):
            said = descriptions[plan[position], 1], descriptions[plan[position + 1], 0]
            assert torch.allclose(states[position], torch.stack(said).mean(dim=0))


def test_losses_are_those_of_the_actions_of_the_true_procedure(
    planner: Schema, data: PlanningData, batch: Batch
) -> None:
    procedure = procedure_ranks(data.train)[batch.rows]
    losses = planner.losses(batch, procedure)
    ends, said = planner.encode(batch.start, batch.goal), planner.states.describe(planner.language)
    states = planner.imagine(ends, said, planner.procedures(ends))
    logits = planner.read_actions(states, said, procedure)
    assert torch.allclose(losses["action"], functional.cross_entropy(logits.transpose(1, 2), batch.action_ids))
    distance = (states[:, 1:-1] - described_states(said, batch.action_ids)).square().mean()
    assert torch.allclose(losses["described"], 0.1 * distance)
    guess = planner.procedures(ends).log_softmax(dim=1)[torch.arange(len(ends)), procedure]
    assert torch.allclose(losses["procedure"], -guess.mean())


def test_only_its_own_loss_trains_the_guess_of_the_procedure(planner: Schema, data: PlanningData, batch: Batch) -> None:
    losses = planner.losses(batch, procedure_ranks(data.train)[batch.rows])
    (losses["action"] + losses["described"] + losses["alignment"]).backward(retain_graph=True)
    assert planner.procedures.weight.grad is None
    losses["procedure"].backward()
    assert planner.procedures.weight.grad is not None


def test_a_single_action_has_no_state_in_between(data: PlanningData, batch: Batch) -> None:
    config = quick("schema", data__horizon=1)
    planner = Schema(PlannerShape(1, len(data.names), batch.start.shape[1], planner_language_width(data)), config)
    planner.resize_procedures(3)
    single = Batch(batch.start, batch.goal, batch.action_ids[:, :1])
    losses = planner.losses(single, torch.zeros(len(batch.start), dtype=torch.int64))
    assert set(losses) == {"action", "alignment", "procedure"}
    assert all(bool(loss.isfinite()) for loss in losses.values())


def planner_language_width(data: PlanningData) -> int:
    assert data.language is not None
    return data.language.shape[1]


def test_a_new_planner_takes_the_number_of_procedures_of_a_loaded_one(planner: Schema, batch: Batch) -> None:
    other = Schema(planner.shape, planner.config).eval()
    other.load_state_dict(planner.state_dict())
    other.check_loaded()
    assert len(other.inputs.embedding) == len(planner.inputs.embedding) > 1
    with torch.no_grad():
        assert torch.equal(other(batch.start, batch.goal), planner(batch.start, batch.goal))
    other.inputs.resize(2)
    with pytest.raises(ValueError, match="tables of procedures"):
        other.check_loaded()
