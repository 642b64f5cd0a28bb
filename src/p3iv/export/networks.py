"""The networks of P3IV and P3IV+ as ONNX graphs: what their `forward` computes, operator by operator.

What does not depend on the inputs is computed by torch and kept as a constant: keys and values of the memory, projected
step descriptions. X stands for the plans at once: latents of one pair in P3IV, pairs in P3IV+.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from onnx import TensorProto
from torch import Tensor, nn
from torch.nn import functional

from p3iv.export.graph import Graph, Value
from p3iv.planners.p3iv.decoder import DecoderBlock
from p3iv.planners.p3iv.network import P3IVNetwork
from p3iv.planners.plus.network import Effects, P3IVPlusNetwork
from p3iv.planners.plus.second_expert import SecondExpert
from p3iv.planners.queries.network import QueryNetwork


def build_p3iv(graph: Graph, network: P3IVNetwork) -> None:
    """Add `start` and `goal` (1, F) and `latents` (S, Z) -> `action_logits` (S, T, A); without noise S is 1."""
    sizes, shape = network.sizes, network.shape
    start, goal = (graph.input(name, 1, shape.feature_width) for name in ("start", "goal"))
    tokens = add_tokens(graph, network, encode(graph, network, start, goal), shape.horizon)  # (1, L, D)
    added = None
    if sizes.noise_width:
        latents = graph.input("latents", "S", sizes.noise_width)
        added = graph.add("MatMul", latents, network.join.weight[:, sizes.width :].T)  # (S, D)
    logits = graph.mlp(decode(graph, network, tokens, added, shape.horizon), network.action_head, name="action_logits")
    graph.output(logits, "S" if sizes.noise_width else 1, shape.horizon, shape.num_actions)


def build_plus(graph: Graph, planner: P3IVPlusNetwork) -> None:
    """Add `start` and `goal` (N, F) -> `log_emissions` (N, T, A) and, if effects have a weight, `log_each` (N, A)."""
    plus, shape = planner.config.plus, planner.shape
    start, goal = (graph.input(name, "N", shape.feature_width) for name in ("start", "goal"))
    observed = encode(graph, planner.base, start, goal)
    paths = []
    if plus.linear:
        paths.append(graph.add("Mul", _linear_path(graph, planner, start, goal), planner.scale))
    if plus.decoder:
        tokens = add_tokens(graph, planner.base, observed, shape.horizon)
        hidden = decode(graph, planner.base, tokens, None, shape.horizon)
        paths.append(graph.add("Mul", graph.mlp(hidden, planner.base.action_head), planner.gain))
    if plus.end_heads:
        paths.append(at_ends(graph, score_ends(graph, planner, observed), shape.horizon))
    total = graph.sum(*paths)
    if planner.second is not None:
        other = graph.sum(*_second_paths(graph, planner.second, start, goal))
        total = join_networks(graph, total, other, planner.second_weight)
    emissions = graph.add("Div", total, planner.temperature, name="log_emissions")
    graph.output(emissions, "N", shape.horizon, shape.num_actions)
    if float(planner.effects.weight):
        graph.output(add_effects(graph, planner.effects, start, goal), "N", shape.num_actions, dtype=np.float64)


def encode(graph: Graph, network: P3IVNetwork, start: str, goal: str) -> str:
    """Both observations, scaled, in the width of the network: (N, F) twice -> (N, 2, D)."""
    both = graph.reshape(graph.add("Concat", start, goal, axis=1), -1, 2, network.shape.feature_width)
    scaled = graph.add("Div", graph.add("Sub", both, network.feature_mean), network.feature_scale)
    return graph.mlp(scaled, network.encode_observation)


def add_tokens(graph: Graph, network: P3IVNetwork, observed: str, horizon: int) -> str:
    """The query input without noise: (N, 2, D) -> (N, T + 1, D)."""
    queries = functional.pad(network.queries[: horizon - 1], (0, 0, 1, 1))  # zeros in the places of start and goal
    queries = queries + network.positions[: horizon + 1]
    joined = graph.add("Add", at_ends(graph, observed, horizon + 1), queries)
    weight = network.join.weight[:, : network.sizes.width]
    return graph.add("Add", graph.add("MatMul", joined, weight.T), network.join.bias)


def at_ends(graph: Graph, both: str, number: int) -> str:
    """Two rows as the first and the last of so many, with zeros between them: (N, 2, D) -> (N, number, D)."""
    places = np.zeros((number, 2))
    places[0, 0] = places[-1, 1] = 1.0
    return graph.add("MatMul", places, both)


def decode(graph: Graph, network: P3IVNetwork, tokens: str, added: str | None, horizon: int) -> str:
    """The memory decoder: tokens (X or 1, T + 1, D), and what each latent adds to all of them (X, D) -> (X, T, D)."""
    blocks, after_start = network.decoder.stack, np.arange(1, horizon + 1)
    projected = graph.linear(tokens, blocks[0].self_projection)
    if added is not None:  # the projection is linear: the latent's part is computed once for all tokens
        more = graph.add("MatMul", added, blocks[0].self_projection.weight.T)
        projected = graph.add("Add", projected, graph.reshape(more, 0, 1, -1))
        tokens = graph.add("Add", tokens, graph.reshape(added, 0, 1, -1))
    for number, (block, memory) in enumerate(zip(blocks, network.decoder.keys_values(), strict=True)):
        if number:
            projected = graph.linear(tokens, block.self_projection)
        query, key, value = _split_heads(graph, projected, block.heads)
        if block is blocks[-1]:  # nothing is read at the start token
            query, tokens = (
                graph.add("Gather", query, after_start, axis=2),
                graph.add("Gather", tokens, after_start, axis=1),
            )
        read = graph.add("Transpose", _attend(graph, query, key, value, network), perm=(0, 2, 1, 3))
        attended = graph.linear(graph.reshape(read, 0, 0, -1), block.self_output)
        tokens = _read_and_feed(graph, block, graph.add("Add", tokens, attended), memory, network)
    return tokens


def _split_heads(graph: Graph, projected: str, heads: int) -> tuple[str, str, str]:
    """(X, L, 3D) -> queries (X, H, L, d), keys (X, H, d, L) and values (X, H, L, d)."""
    split = graph.reshape(projected, 0, 0, 3, heads, -1)  # (X, L, 3, H, d)
    parts = [graph.add("Gather", split, np.array(place), axis=2) for place in range(3)]
    orders = ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
    query, key, value = (graph.add("Transpose", part, perm=order) for part, order in zip(parts, orders, strict=True))
    return query, key, value


def _attend(graph: Graph, query: str, key: Value, value: Value, network: P3IVNetwork) -> str:
    """Attention: (..., L, d), (..., d, M) and (..., M, d) -> (..., L, d)."""
    scale = np.array((network.sizes.width // network.sizes.heads) ** -0.5)
    scores = graph.add("MatMul", graph.add("Mul", query, scale), key)
    return graph.add("MatMul", graph.add("Softmax", scores, axis=-1), value)


def _read_and_feed(
    graph: Graph, block: DecoderBlock, attended: str, memory: Tensor | None, network: P3IVNetwork
) -> str:
    """What follows the self-attention: its norm, the memory (M, 2D), the feed-forward; (X, L, D) -> (X, L, D)."""
    kept = graph.norm(attended, block.self_norm)
    if memory is not None:
        key, value = memory.unflatten(-1, (2, block.heads, -1)).permute(1, 2, 0, 3)  # each (H, M, d)
        query = graph.reshape(graph.linear(kept, block.cross_query), 0, 0, block.heads, -1)
        query = graph.add("Transpose", query, perm=(0, 2, 1, 3))  # (X, H, L, d)
        read = graph.add("Transpose", _attend(graph, query, key.transpose(1, 2), value, network), perm=(0, 2, 1, 3))
        output = graph.linear(graph.reshape(read, 0, 0, -1), block.cross_output)
        kept = graph.norm(graph.add("Add", kept, output), block.cross_norm)
    fed = graph.linear(graph.add("Relu", graph.linear(kept, block.expand)), block.contract)
    return graph.norm(graph.add("Add", kept, fed), block.feed_norm)


def _linear_path(graph: Graph, planner: P3IVPlusNetwork, start: str, goal: str) -> str:
    """One linear classifier per position on [start; goal], centred and of length 1: (N, F) twice -> (N, T, A)."""
    path, shape = planner.linear, planner.shape
    inputs = normalise(graph, graph.add("Sub", graph.add("Concat", start, goal, axis=1), path.mean))
    weights = path.weights.transpose(0, 1).flatten(1)  # (2F, T A)
    return graph.reshape(graph.add("MatMul", inputs, weights), -1, shape.horizon, shape.num_actions)


def normalise(graph: Graph, rows: str) -> str:
    """Rows scaled to length 1, as by `functional.normalize`: (N, D) -> (N, D)."""
    length = graph.add("ReduceL2", rows, axes=[1], keepdims=1)
    return graph.add("Div", rows, graph.add("Clip", length, np.array(1e-12)))


def score_ends(graph: Graph, planner: P3IVPlusNetwork | QueryNetwork, observed: str) -> str:
    """Scores of the first and the last action from start and goal alone: (N, 2, D) -> (N, 2, A)."""
    descriptions = planner.base.encode_target(planner.language)  # (A, D)
    states = []
    for number, head in enumerate(planner.end_heads):
        if not isinstance(head, nn.Sequential):
            raise TypeError(f"an end head is a {type(head).__name__}")
        states.append(graph.mlp(graph.add("Gather", observed, np.array([number]), axis=1), head))  # (N, 1, D)
    scores = graph.add("MatMul", graph.add("Concat", *states, axis=1), descriptions.T)
    return graph.add("Mul", scores, planner.end_gain)


def _second_paths(graph: Graph, expert: SecondExpert, start: str, goal: str) -> Iterator[str]:
    """The addends of the second network's emissions: (N, F) twice -> (N, T, A) each."""
    encoded = [encode_second(graph, expert, features) for features in (start, goal)]
    yield score_positions(graph, expert, join_second(graph, expert, encoded), slice(len(expert.gates)))
    ends = [
        graph.reshape(graph.linear(one, as_linear(head)), 0, 1, -1)
        for one, head in zip(encoded, expert.ends, strict=True)
    ]
    yield at_ends(graph, graph.add("Concat", *ends, axis=1), len(expert.gates))


def encode_second(graph: Graph, expert: SecondExpert, features: str, encoder: nn.Sequential | None = None) -> str:
    """Observations in the width of the second network, by the encoder of moments or another one: (N, F) -> (N, D)."""
    rows = normalise(graph, graph.add("Sub", features, expert.mean))
    rows = graph.add("Mul", rows, np.array(len(expert.mean) ** 0.5))
    return apply_encoder(graph, encoder or expert.moment, rows)


def apply_encoder(graph: Graph, encoder: nn.Sequential, rows: str) -> str:
    """A linear layer and its norm; dropout is for training: (N, F) -> (N, D)."""
    _, layer, norm = encoder
    if not isinstance(norm, nn.LayerNorm):
        raise TypeError(f"an encoder ends with a {type(norm).__name__}")
    return graph.norm(graph.linear(rows, as_linear(layer)), norm)


def join_second(graph: Graph, expert: SecondExpert, seen: Sequence[str]) -> str:
    """The hidden layer of the second network: (N, D) each -> (N, 1, 2D)."""
    joined = graph.linear(graph.add("Concat", *seen, axis=1), as_linear(expert.join[0]))
    return graph.reshape(graph.add("Relu", joined), 0, 1, -1)


def score_positions(graph: Graph, expert: SecondExpert, hidden: str, positions: slice) -> str:
    """What the hidden layer of the second network says about positions: (N, 1, 2D) -> (N, T, A)."""
    gated = graph.add("Mul", hidden, expert.gates[positions])
    return graph.add("Add", graph.linear(gated, expert.score), expert.biases[positions])


def join_networks(graph: Graph, first: str, second: str, weight: Tensor) -> str:
    """The weighted mean of the scores of both networks: (N, T, A) twice -> (N, T, A)."""
    return graph.sum(graph.add("Mul", first, 1 - weight), graph.add("Mul", second, weight))


def as_linear(layer: nn.Module) -> nn.Linear:
    """A layer of a `Sequential` or a `ModuleList`, which is known to be linear."""
    if not isinstance(layer, nn.Linear):
        raise TypeError(f"a layer is a {type(layer).__name__}")
    return layer


def add_effects(graph: Graph, effects: Effects, start: str, goal: str) -> str:
    """What single actions add to the fit of a plan, weighted: (N, F) twice -> (N, A), in double precision."""
    change = graph.add("Cast", graph.add("Sub", goal, start), to=TensorProto.DOUBLE)
    change = graph.add("Mul", change, graph.constant(effects.units, np.float64))
    change = graph.add("Sub", change, graph.constant(effects.offset, np.float64))
    weights = 2 * float(effects.weight) * effects.effects.double().T
    return graph.add("MatMul", change, graph.constant(weights, np.float64), name="log_each")
