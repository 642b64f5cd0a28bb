"""All sampled plans of one window merged into a graph: layers are positions, nodes are steps, edges are transitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations

MIN_STEP_SHARE = 0.01  # a step that fewer samples have at a position is not drawn
MIN_EDGE_SHARE = 0.005  # nor is a transition between two steps that fewer samples have
MAX_NODES = 5  # of a layer, the steps of the recommended plan and of the reference among them
_SWEEPS = 4
_MIN_WEIGHT = 0.05  # of an edge in the layout, as a share of the samples

Plan = tuple[str, ...]
Key = tuple[int, str | None]  # a layer (0 is the start, T + 1 the goal) and a step


@dataclass(frozen=True)
class Node:
    """A step at a position, or the start or the goal."""

    layer: int
    step: str | None  # None: the start or the goal
    count: int  # samples that have it there, whether they are drawn or not
    row: int  # 0 on the path of the recommended plan
    is_recommended: bool
    is_reference: bool


@dataclass(frozen=True)
class Edge:
    """A transition between two steps."""

    source: Node
    target: Node
    count: int  # drawn samples
    is_recommended: bool
    is_reference: bool


@dataclass(frozen=True)
class PlanGraph:
    """The merged plans; the counts of the edges between two layers sum to num_samples - num_pruned."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    num_samples: int  # K
    num_pruned: int  # samples with a step or a transition that is not drawn
    num_pruned_plans: int  # distinct ones

    @property
    def horizon(self) -> int:
        return max(node.layer for node in self.nodes) - 1

    @property
    def num_rows(self) -> int:
        return 1 + max(node.row for node in self.nodes)


def merge_plans(
    plan: Plan, samples: Sequence[tuple[Plan, int]], reference: Plan = (), *, max_nodes: int = MAX_NODES
) -> PlanGraph:
    """Merge sampled plans, each with its count; the recommended plan and the reference are always in the graph."""
    recommended, wanted = _path(plan), _path(reference)
    num_samples = sum(count for _, count in samples)
    drawn = _prune(samples, num_samples, (recommended, wanted), max_nodes)
    edge_counts = Counter(dict.fromkeys((*pairwise(recommended), *pairwise(wanted)), 0))
    edge_counts.update(_count_pairs(drawn))
    node_counts = _count_steps(samples)
    nodes = {
        key: Node(*key, node_counts[key], row=0, is_recommended=key in recommended, is_reference=key in wanted)
        for key in dict.fromkeys(key for pair in edge_counts for key in pair)
    }
    rows = _order_rows(nodes, edge_counts, num_samples)
    nodes = {key: replace(node, row=rows[key]) for key, node in nodes.items()}
    on_recommended, on_reference = set(pairwise(recommended)), set(pairwise(wanted))
    return PlanGraph(
        nodes=tuple(sorted(nodes.values(), key=lambda node: (node.layer, node.row))),
        edges=tuple(
            Edge(nodes[pair[0]], nodes[pair[1]], count, pair in on_recommended, pair in on_reference)
            for pair, count in sorted(edge_counts.items(), key=lambda item: _edge_order(nodes, item[0]))
        ),
        num_samples=num_samples,
        num_pruned=num_samples - sum(count for _, count in drawn),
        num_pruned_plans=len(samples) - len(drawn),
    )


def _path(plan: Plan) -> list[Key]:
    """The path from start to goal; empty for an empty plan."""
    return [(0, None), *enumerate(plan, start=1), (len(plan) + 1, None)] if plan else []


def _count_steps(samples: Iterable[tuple[Plan, int]]) -> Counter[Key]:
    """How many samples have a step at a position."""
    counts: Counter[Key] = Counter()
    for plan, count in samples:
        counts.update(dict.fromkeys(_path(plan), count))
    return counts


def _count_pairs(samples: Iterable[tuple[Plan, int]]) -> Counter[tuple[Key, Key]]:
    """How many samples continue from one step at a position to another step."""
    counts: Counter[tuple[Key, Key]] = Counter()
    for plan, count in samples:
        counts.update(dict.fromkeys(pairwise(_path(plan)), count))
    return counts


def _prune(
    samples: Iterable[tuple[Plan, int]], num_samples: int, always: tuple[list[Key], list[Key]], max_nodes: int
) -> list[tuple[Plan, int]]:
    """Remove samples with a rare step or a rare transition until none is left.

    Steps and transitions of the paths in `always` never count as rare.
    """
    drawn = list(samples)
    while True:
        steps, pairs = _count_steps(drawn), _count_pairs(drawn)
        kept_steps = _frequent_steps(steps, {*always[0], *always[1]}, MIN_STEP_SHARE * num_samples, max_nodes)
        kept_pairs = {pair for pair, count in pairs.items() if count >= MIN_EDGE_SHARE * num_samples}
        kept_pairs.update(pairwise(always[0]), pairwise(always[1]))
        left = [
            (plan, count)
            for plan, count in drawn
            if kept_steps.issuperset(_path(plan)) and kept_pairs.issuperset(pairwise(_path(plan)))
        ]
        if len(left) == len(drawn):
            return left
        drawn = left


def _frequent_steps(counts: Mapping[Key, int], always: set[Key], min_count: float, max_nodes: int) -> set[Key]:
    """The steps that are always drawn, then the most frequent ones of each layer."""
    chosen = set(always)
    in_layer = Counter(layer for layer, _ in always)
    for key, count in sorted(counts.items(), key=lambda item: (-item[1], item[0][0], item[0][1] or "")):
        if key not in chosen and count >= min_count and in_layer[key[0]] < max_nodes:
            chosen.add(key)
            in_layer[key[0]] += 1
    return chosen


def _order_rows(nodes: Mapping[Key, Node], edges: Mapping[tuple[Key, Key], int], num_samples: int) -> dict[Key, int]:
    """Rows of the nodes in their layers: the recommended plan along row 0, the others where the edges bend least.

    Layer by layer, forwards and backwards, the order is taken that minimises the sum over edges of
    weight x (difference of rows)^2. Every edge weighs at least a twentieth of the samples, so that the reference stays
    straight even where it is rare.
    """
    layers: dict[int, list[Key]] = {}
    for key in sorted(nodes, key=lambda key: (key[0], not nodes[key].is_recommended, -nodes[key].count, key[1] or "")):
        layers.setdefault(key[0], []).append(key)
    rows = {key: row for keys in layers.values() for row, key in enumerate(keys)}
    neighbours: dict[Key, list[tuple[Key, float]]] = {key: [] for key in nodes}
    for (source, target), count in edges.items():
        weight = max(count, _MIN_WEIGHT * num_samples, 1.0)
        neighbours[source].append((target, weight))
        neighbours[target].append((source, weight))
    for sweep in range(_SWEEPS):
        for layer in sorted(layers, reverse=sweep % 2 == 1):
            first, *others = layers[layer]  # the step of the recommended plan
            orders = ((first, *order) for order in permutations(others))
            best = min(orders, key=lambda order: _bending(order, neighbours, rows))
            rows.update((key, row) for row, key in enumerate(best))
    return rows


def _bending(order: Sequence[Key], neighbours: Mapping[Key, list[tuple[Key, float]]], rows: Mapping[Key, int]) -> float:
    return sum(weight * (row - rows[other]) ** 2 for row, key in enumerate(order) for other, weight in neighbours[key])


def _edge_order(nodes: Mapping[Key, Node], edge: tuple[Key, Key]) -> tuple[int, int, int]:
    source, target = (nodes[key] for key in edge)
    return source.layer, source.row, target.row
