from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from p3iv.config import ModelConfig
from p3iv.planners.header import PlannerShape
from p3iv.planners.layers import cosine_positions
from p3iv.planners.p3iv.decoder import Dropout, attend_to_memory, attend_within
from p3iv.planners.p3iv.losses import Critic
from p3iv.planners.p3iv.network import P3IVNetwork

SMALL = ModelConfig(width=16, heads=4, memory_slots=5, noise_width=3, feed_forward=24, encoder_hidden=12, head_hidden=8)


def network(horizon: int = 3, config: ModelConfig = SMALL) -> P3IVNetwork:
    torch.manual_seed(0)
    return P3IVNetwork(PlannerShape(horizon=horizon, num_actions=7, feature_width=6, target_width=9), config).eval()


def inputs(batch: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(batch)
    shapes = ((batch, 6), (batch, 6), (batch, 3))
    start, goal, noise = (torch.randn(*shape, generator=generator) for shape in shapes)
    return start, goal, noise


def literal_forward(net: P3IVNetwork, start: Tensor, goal: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """Section 3.2 and 3.3 written out for one window, token by token, head by head."""
    observed = [net.encode_observation((x - net.feature_mean) / net.feature_scale) for x in (start, goal)]
    queries = [observed[0], *net.queries, observed[1]]
    tokens = [net.join(torch.cat((q + p, z))) for q, p in zip(queries, net.positions, strict=True)]
    for block in net.decoder.blocks:
        tokens = _literal_block(block, tokens, net.decoder.memory)
    hidden = torch.stack(tokens[1:])
    return net.action_head(hidden), net.state_head(hidden)


def _literal_block(block: nn.Module, tokens: list[Tensor], memory: Tensor | None) -> list[Tensor]:
    attended = _literal_attention(
        [block.self_projection(t).chunk(3) for t in tokens],  # type: ignore[operator]
        None,
        block.heads,  # type: ignore[arg-type]
    )
    tokens = [block.self_norm(t + block.self_output(a)) for t, a in zip(tokens, attended, strict=True)]  # type: ignore[operator]
    if memory is not None:
        slots = [block.cross_memory(slot).chunk(2) for slot in memory]  # type: ignore[operator]
        triples = [(block.cross_query(t), None, None) for t in tokens]  # type: ignore[operator]
        read = _literal_attention(triples, slots, block.heads)  # type: ignore[arg-type]
        tokens = [block.cross_norm(t + block.cross_output(r)) for t, r in zip(tokens, read, strict=True)]  # type: ignore[operator]
    return [block.feed_norm(t + block.contract(torch.relu(block.expand(t)))) for t in tokens]  # type: ignore[operator]


def _literal_attention(triples: list, slots: list | None, heads: int) -> list[Tensor]:  # type: ignore[type-arg]
    keys_values = [(k, v) for _, k, v in triples] if slots is None else slots
    results = []
    for query, _, _ in triples:
        parts = []
        for head in range(heads):
            size = len(query) // heads
            part = slice(head * size, (head + 1) * size)
            scores = torch.stack([query[part] @ key[part] / size**0.5 for key, _ in keys_values]).exp()
            weights = scores / scores.sum()
            parts.append(sum(w * value[part] for w, (_, value) in zip(weights, keys_values, strict=True)))
        results.append(torch.cat(parts))
    return results


@pytest.mark.parametrize("slots", [0, 5])
@pytest.mark.parametrize("horizon", [1, 2, 4])
def test_the_network_equals_its_transcription(horizon: int, slots: int) -> None:
    config = ModelConfig(**{**vars(SMALL), "memory_slots": slots})
    net = network(horizon, config).double()
    start, goal, noise = (x.double() for x in inputs(4))
    out = net(start, goal, noise)
    for window in range(4):
        actions, states = literal_forward(net, start[window], goal[window], noise[window])
        assert torch.allclose(out.action_logits[window], actions)
        assert torch.allclose(out.state_embeddings[window], states)


def test_outputs_have_the_shapes_they_are_said_to_have() -> None:
    out = network(4)(*inputs(5))
    assert out.action_logits.shape == (5, 4, 7)
    assert out.state_embeddings.shape == (5, 4, 16)


@given(st.integers(1, 9), st.integers(0, 1000))
def test_a_batch_equals_its_windows_one_by_one_and_permuting_it_permutes_the_result(batch: int, seed: int) -> None:
    net, (start, goal, noise) = network(), inputs(batch)
    whole = net(start, goal, noise).action_logits
    single = torch.cat([net(start[i : i + 1], goal[i : i + 1], noise[i : i + 1]).action_logits for i in range(batch)])
    assert torch.allclose(whole, single, atol=1e-5)
    order = torch.randperm(batch, generator=torch.Generator().manual_seed(seed))
    assert torch.allclose(net(start[order], goal[order], noise[order]).action_logits, whole[order], atol=1e-5)


def test_latents_side_by_side_equal_latents_one_by_one() -> None:
    net, (start, goal, _) = network(), inputs(4)
    latents = torch.randn(1, 6, 3)
    tokens = net.tokens(start, goal)
    together = net.decode(tokens, latents)  # (B, S, T, D)
    for number in range(6):
        alone = net.decode(tokens, latents[:, number : number + 1].expand(4, -1, -1))
        assert torch.allclose(together[:, number], alone[:, 0], atol=1e-5)


def test_no_noise_is_noise_of_zero() -> None:
    net, (start, goal, noise) = network(), inputs(3)
    assert torch.allclose(
        net(start, goal).action_logits, net(start, goal, torch.zeros_like(noise)).action_logits, atol=1e-6
    )


def test_noise_changes_the_plan_and_the_deterministic_planner_has_none() -> None:
    start, goal, noise = inputs(3)
    net = network()
    assert not torch.allclose(net(start, goal, noise).action_logits, net(start, goal).action_logits, atol=1e-3)
    silent = network(config=ModelConfig(**{**vars(SMALL), "noise_width": 0}))
    assert silent.join.in_features == SMALL.width


def test_the_memory_does_not_depend_on_the_horizon_and_zero_slots_remove_the_cross_attention() -> None:
    memories = [network(horizon).decoder.memory for horizon in (1, 3, 6)]
    assert {tuple(m.shape) for m in memories if m is not None} == {(5, 16)}
    bare = network(config=ModelConfig(**{**vars(SMALL), "memory_slots": 0}))
    assert bare.decoder.memory is None
    assert not [name for name, _ in bare.named_parameters() if "cross" in name]


def test_every_parameter_learns() -> None:
    net = network().train()
    out = net(*inputs(4))
    words = net.encode_target(torch.randn(7, 9))
    (out.action_logits.sum() + (out.state_embeddings @ words.T).square().sum()).backward()
    assert not [name for name, parameter in net.named_parameters() if parameter.grad is None]


def test_the_scale_is_the_training_statistics_and_a_constant_dimension_stays() -> None:
    net = network()
    features = torch.randn(100, 6) * torch.tensor([1.0, 5.0, 0.1, 1.0, 1.0, 0.0]) + 3
    net.fit_scale(features)
    scaled = net.standardise(features)
    assert torch.allclose(scaled.mean(dim=0), torch.zeros(6), atol=1e-4)
    assert torch.allclose(scaled.std(dim=0)[:5], torch.ones(5), atol=1e-4)
    assert torch.isfinite(scaled).all()


def test_positions_are_fixed_and_distinct() -> None:
    positions = cosine_positions(7, 16)
    assert positions[0, 0::2].abs().max() == 0
    assert len({tuple(row.tolist()) for row in positions}) == 7
    assert "positions" not in network().state_dict()


def test_the_paper_s_sizes() -> None:
    net = P3IVNetwork(PlannerShape(3, 105, 512, 512), ModelConfig())
    assert net.decoder.memory is not None
    assert net.decoder.memory.shape == (128, 128)
    assert [layer.out_features for layer in Critic(3, 128).layers if isinstance(layer, nn.Linear)] == [256, 64, 32, 1]


@pytest.mark.parametrize("probability", [0.002, 0.1, 0.25, 0.6])
def test_dropout_drops_the_share_it_says_and_keeps_the_mean(probability: float) -> None:
    torch.manual_seed(0)
    ones = torch.ones(10_000)
    passes = torch.stack([Dropout(probability).add(torch.zeros_like(ones), ones) for _ in range(400)])
    assert (passes == 0).float().mean().item() == pytest.approx(probability, abs=0.0015)
    assert passes.mean().item() == pytest.approx(1.0, abs=0.002)
    for dropped in passes[:5]:
        kept = dropped[dropped != 0]
        assert torch.allclose(kept, kept[0].expand_as(kept))


def test_one_draw_serves_a_whole_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    original = Dropout.draw

    def counting(self: Dropout, number: int, like: Tensor) -> Tensor:
        drawn.append(number)
        return original(self, number, like)

    monkeypatch.setattr(Dropout, "draw", counting)
    for slots in (0, 5):
        net = network(config=ModelConfig(**{**vars(SMALL), "memory_slots": slots})).train()
        net.decode(net.tokens(*inputs(4)[:2]), torch.randn(4, 3, 3))
    assert len(drawn) == 2


def test_dropout_acts_in_training_only() -> None:
    net, (start, goal, noise) = network(), inputs(4)
    assert torch.equal(net(start, goal, noise).action_logits, net(start, goal, noise).action_logits)
    net.train()
    assert not torch.equal(net(start, goal, noise).action_logits, net(start, goal, noise).action_logits)


def test_attention_equals_torch_s_own() -> None:
    torch.manual_seed(0)
    projected, keys_values, query = torch.randn(2, 3, 4, 48), torch.randn(5, 32), torch.randn(2, 3, 4, 16)
    q, k, v = projected.unflatten(-1, (3, 4, 4)).permute(3, 0, 1, 4, 2, 5)
    expected = nn.functional.scaled_dot_product_attention(q, k, v).transpose(2, 3).flatten(3)
    assert torch.allclose(attend_within(projected, 4, 0), expected, atol=1e-5)
    keys, values = keys_values.unflatten(-1, (2, 4, 4)).permute(1, 2, 0, 3)
    for b, s, n in ((0, 0, 0), (1, 2, 3)):
        asked = query[b, s, n].view(4, 1, 4)
        read = nn.functional.scaled_dot_product_attention(asked, keys, values).flatten()
        assert torch.allclose(attend_to_memory(query, keys_values, 4)[b, s, n], read, atol=1e-5)
