"""Weighted plans of one window merged into a graph: layers are positions, nodes are steps, edges are transitions.

The weight of a plan is the number of samples that are this plan, or its probability.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations

MIN_STEP_SHARE = 0.01  # a step with a smaller share of the weight at a position is not drawn
MIN_EDGE_SHARE = 0.005  # nor is a transition between two steps with a smaller share
MAX_NODES = 5  # of a layer, the steps of the recommended plan and of the reference among them
_SWEEPS = 4
_MIN_WEIGHT = 0.05  # of an edge in the layout, as a share of all weight

Plan = tuple[str, ...]
Key = tuple[int, str | None]  # a layer (0 is the start, T + 1 the goal) and a step


@dataclass(frozen=True)
class Node:
    """A step at a position, or the start or the goal."""

    layer: int
    step: str | None  # None: the start or the goal
    weight: float  # of the plans that have it there, whether they are drawn or not
    row: int  # 0 on the path of the recommended plan
    is_recommended: bool
    is_reference: bool


@dataclass(frozen=True)
class Edge:
    """A transition between two steps."""

    source: Node
    target: Node
    weight: float  # of the drawn plans
    is_recommended: bool
    is_reference: bool


@dataclass(frozen=True)
class PlanGraph:
    """The merged plans; the weights of the edges between two layers sum to total - pruned."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    total: float  # weight of all plans: the number of samples, or 1 for probabilities
    pruned: float  # weight of plans that are not drawn: with a rare step or transition, or not listed
    num_pruned_plans: int  # of those listed

    @property
    def horizon(self) -> int:
        return max(node.layer for node in self.nodes) - 1

    @property
    def num_rows(self) -> int:
        return 1 + max(node.row for node in self.nodes)


def merge_plans(
    plan: Plan,
    weighted: Sequence[tuple[Plan, float]],
    reference: Plan = (),
    *,
    total: float | None = None,
    max_nodes: int = MAX_NODES,
) -> PlanGraph:
    """Merge plans, each with its weight; the recommended plan and the reference are always in the graph.

    `total` is the weight of all plans, if not all are listed.
    """
    recommended, wanted = _path(plan), _path(reference)
    total = sum(weight for _, weight in weighted) if total is None else total
    drawn = _prune(weighted, total, (recommended, wanted), max_nodes)
    edge_weights = dict.fromkeys((*pairwise(recommended), *pairwise(wanted)), 0.0) | _weigh_pairs(drawn)
    node_weights = _weigh_steps(weighted)
    nodes = {
        key: Node(*key, node_weights[key], row=0, is_recommended=key in recommended, is_reference=key in wanted)
        for key in dict.fromkeys(key for pair in edge_weights for key in pair)
    }
    rows = _order_rows(nodes, edge_weights, total)
    nodes = {key: replace(node, row=rows[key]) for key, node in nodes.items()}
    on_recommended, on_reference = set(pairwise(recommended)), set(pairwise(wanted))
    return PlanGraph(
        nodes=tuple(sorted(nodes.values(), key=lambda node: (node.layer, node.row))),
        edges=tuple(
            Edge(nodes[pair[0]], nodes[pair[1]], weight, pair in on_recommended, pair in on_reference)
            for pair, weight in sorted(edge_weights.items(), key=lambda item: _edge_order(nodes, item[0]))
        ),
        total=total,
        pruned=total - sum(weight for _, weight in drawn),
        num_pruned_plans=len(weighted) - len(drawn),
    )


def _path(plan: Plan) -> list[Key]:
    """The path from start to goal; empty for an empty plan."""
    return [(0, None), *enumerate(plan, start=1), (len(plan) + 1, None)] if plan else []


def _weigh_steps(weighted: Iterable[tuple[Plan, float]]) -> defaultdict[Key, float]:
    """The weight of the plans that have a step at a position."""
    weights: defaultdict[Key, float] = defaultdict(float)
    for plan, weight in weighted:
        for key in _path(plan):
            weights[key] += weight
    return weights


def _weigh_pairs(weighted: Iterable[tuple[Plan, float]]) -> dict[tuple[Key, Key], float]:
    """The weight of the plans that continue from one step at a position to another step."""
    weights: defaultdict[tuple[Key, Key], float] = defaultdict(float)
    for plan, weight in weighted:
        for pair in pairwise(_path(plan)):
            weights[pair] += weight
    return weights


def _prune(
    weighted: Iterable[tuple[Plan, float]], total: float, always: tuple[list[Key], list[Key]], max_nodes: int
) -> list[tuple[Plan, float]]:
    """Remove plans with a rare step or a rare transition until none is left.

    Steps and transitions of the paths in `always` never count as rare.
    """
    drawn = list(weighted)
    while True:
        steps, pairs = _weigh_steps(drawn), _weigh_pairs(drawn)
        kept_steps = _frequent_steps(steps, {*always[0], *always[1]}, MIN_STEP_SHARE * total, max_nodes)
        kept_pairs = {pair for pair, weight in pairs.items() if weight >= MIN_EDGE_SHARE * total}
        kept_pairs.update(pairwise(always[0]), pairwise(always[1]))
        left = [
            (plan, weight)
            for plan, weight in drawn
            if kept_steps.issuperset(_path(plan)) and kept_pairs.issuperset(pairwise(_path(plan)))
        ]
        if len(left) == len(drawn):
            return left
        drawn = left


def _frequent_steps(weights: Mapping[Key, float], always: set[Key], min_weight: float, max_nodes: int) -> set[Key]:
    """The steps that are always drawn, then the most frequent ones of each layer."""
    chosen = set(always)
    in_layer = Counter(layer for layer, _ in always)
    for key, weight in sorted(weights.items(), key=lambda item: (-item[1], item[0][0], item[0][1] or "")):
        if key not in chosen and weight >= min_weight and in_layer[key[0]] < max_nodes:
            chosen.add(key)
            in_layer[key[0]] += 1
    return chosen


def _order_rows(nodes: Mapping[Key, Node], edges: Mapping[tuple[Key, Key], float], total: float) -> dict[Key, int]:
    """Rows of the nodes in their layers: the recommended plan along row 0, the others where the edges bend least.

    Layer by layer, forwards and backwards, the order is taken that minimises the sum over edges of
    weight x (difference of rows)^2. Every edge weighs at least a twentieth of all plans, so that the reference stays
    straight even where it is rare.
    """
    layers: dict[int, list[Key]] = {}
    for key in sorted(nodes, key=lambda key: (key[0], not nodes[key].is_recommended, -nodes[key].weight, key[1] or "")):
        layers.setdefault(key[0], []).append(key)
    rows = {key: row for keys in layers.values() for row, key in enumerate(keys)}
    neighbours: dict[Key, list[tuple[Key, float]]] = {key: [] for key in nodes}
    for (source, target), plans in edges.items():
        weight = max(plans, _MIN_WEIGHT * (total or 1.0))
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
