"""The planner of queries as an ONNX graph: what `planners.queries.network` computes, operator by operator.

One graph has the emissions of every length; what they share is computed once. Absent evidence is zero, and `has` says
which is absent, so one graph answers with every mix of evidence, and with several mixes at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from torch import Tensor

from p3iv.export.graph import Graph
from p3iv.export.networks import (
    add_effects,
    add_tokens,
    apply_encoder,
    as_linear,
    at_ends,
    decode,
    encode,
    encode_second,
    join_networks,
    join_second,
    normalise,
    score_ends,
    score_positions,
)
from p3iv.planners.onnx_queries import LENGTH_FIT, UNDER_WAY, emissions_of
from p3iv.planners.queries.evidence import MIN_WORDS
from p3iv.planners.queries.experts import LinearScores
from p3iv.planners.queries.planner import QueryPlanner
from p3iv.planners.queries.second_expert import SEEN, SecondQueryExpert
from p3iv.plans.evidence import EVIDENCE, GOAL, HISTORY, PROCEDURE, START, WORDS


def build_queries(graph: Graph, planner: QueryPlanner) -> None:
    """Add the evidence of N queries -> emissions of every length (N, T, A), `length_fit` (N, H) and `log_each` (N, A).

    Without a weight of the effects there is no `log_each`.
    """
    shape = planner.shape
    widths = {**shape.evidence_widths, "has": len(EVIDENCE)}
    given = {name: graph.input(name, "N", width) for name, width in widths.items()}
    parts = _Parts(graph, planner, given)
    second = None if planner.second is None else _Second(parts, planner.second)
    for temperature, horizon in zip(planner.temperature, planner.horizons, strict=True):
        total = graph.sum(*parts.paths(horizon))
        if second is not None:
            total = join_networks(graph, total, graph.sum(*second.paths(horizon)), planner.second_weight)
        emissions = graph.add("Div", total, temperature, name=emissions_of(horizon))
        graph.output(emissions, "N", horizon, shape.num_actions)
    graph.output(parts.length_fit(), "N", len(planner.horizons))
    graph.output(parts.under_way(), "N", shape.num_actions + 1)
    if float(planner.effects.weight):
        each = add_effects(graph, planner.effects, given["start"], given["goal"])
        graph.output(each, "N", shape.num_actions, dtype=np.float64)


class _Parts:
    """The parts of the emissions; what does not depend on the length is added to the graph at once."""

    def __init__(self, graph: Graph, planner: QueryPlanner, given: dict[str, str]) -> None:
        self.graph, self.planner, self.given = graph, planner, given
        experts, longest = planner.experts, max(planner.horizons)
        self.has = [self._has(number) for number in range(len(EVIDENCE))]  # (N, 1, 1) each
        self.start, self.goal, self.history = (self._project(given[name]) for name in ("start", "goal", "history"))
        self.pair = self._centred(experts.pair, graph.add("Concat", self.start, self.goal, axis=1))
        self.by_start = self._classify(self._centred(experts.start, self.start), experts.start.weights[:longest])
        self.by_history = self._classify(
            self._centred(experts.history, self.history), experts.history.weights[:longest]
        )
        self.usage, self.words = self._usage(), self._words()  # (N, 1, A) each
        there = graph.add("Concat", self.has[START], self.has[GOAL], axis=1)  # (N, 2, 1)
        seen = graph.add("Mul", there, encode(graph, planner.base, given["start"], given["goal"]))
        unseen = graph.add("Mul", self._not(there), planner.absent)
        self.observed = graph.add("Add", seen, unseen)  # (N, 2, D)
        self.ends = graph.add("Mul", there, score_ends(graph, planner, self.observed))  # (N, 2, A)

    def paths(self, horizon: int) -> Iterator[str]:
        """The addends of the emissions of one length: (N, T, A) each."""
        graph, planner, has = self.graph, self.planner, self.has
        first = planner.experts.first_of[horizon]
        here, places = slice(first, first + horizon), np.arange(horizon)
        pair = self._classify(self.pair, planner.experts.pair.weights[here])
        start, history = (graph.add("Gather", one, places, axis=1) for one in (self.by_start, self.by_history))
        both = graph.add("Mul", has[START], has[GOAL])
        start_alone = graph.add("Mul", has[START], self._not(has[GOAL]))
        yield graph.add("Mul", graph.add("Mul", both, planner.pair_scale[here]), pair)
        yield graph.add("Mul", graph.add("Mul", start_alone, planner.start_scale[here]), start)
        yield graph.add("Mul", graph.add("Mul", has[HISTORY], planner.history_scale[here]), history)
        named = graph.add("Mul", has[PROCEDURE], planner.named_gain[here])
        inferred = graph.add("Mul", self._not(has[PROCEDURE]), planner.inferred_gain[here])
        yield graph.add("Mul", graph.add("Add", named, inferred), self.usage)
        yield at_last(graph, self.words, horizon)
        hidden = decode(graph, planner.base, add_tokens(graph, planner.base, self.observed, horizon), None, horizon)
        yield graph.add("Mul", graph.mlp(hidden, planner.base.action_head), planner.gain[here])
        yield at_ends(graph, self.ends, horizon)

    def length_fit(self) -> str:
        """How well every length fits start and goal: (N, H)."""
        graph, path = self.graph, self.planner.experts.length
        difference = graph.add("Abs", graph.add("Sub", self.start, self.goal))
        parts = (self.start, self.goal, difference, graph.add("Mul", self.start, self.goal))
        joined = graph.add("Concat", *(normalise(graph, part) for part in parts), axis=1)
        return graph.add("MatMul", self._centred(path, joined), path.weights[0], name=LENGTH_FIT)

    def under_way(self) -> str:
        """Scores of the step under way, the last one for no step: (N, A + 1)."""
        graph, path = self.graph, self.planner.following.under_way
        there = graph.add("Gather", self.given["has"], np.array([HISTORY]), axis=1)  # (N, 1)
        middle = path.center[self.planner.experts.projection.width :]
        seen, unseen = graph.add("Mul", there, self.history), graph.add("Mul", self._not(there), middle)
        joined = graph.add("Concat", self.start, graph.add("Add", seen, unseen), axis=1)
        return graph.add("MatMul", self._centred(path, joined), path.weights[0], name=UNDER_WAY)

    def _has(self, number: int) -> str:
        """Whether one piece of evidence is there: (N, 1, 1)."""
        column = self.graph.add("Gather", self.given["has"], np.array([number]), axis=1)
        return self.graph.reshape(column, 0, 1, 1)

    def _not(self, has: str) -> str:
        return self.graph.add("Sub", np.array(1.0), has)

    def _project(self, features: str) -> str:
        """The principal components of observations: (N, F) -> (N, D)."""
        projection = self.planner.experts.projection
        return self.graph.add("MatMul", self.graph.add("Sub", features, projection.mean), projection.axes)

    def _centred(self, path: LinearScores, rows: str) -> str:
        """The inputs of linear classifiers: (N, D) -> (N, D)."""
        return normalise(self.graph, self.graph.add("Sub", rows, path.center))

    def _classify(self, inputs: str, weights: Tensor) -> str:
        """The scores of linear classifiers: (N, D) and (K, D, C) -> (N, K, C)."""
        number, _, num_classes = weights.shape
        scores = self.graph.add("MatMul", inputs, weights.transpose(0, 1).flatten(1))
        return self.graph.reshape(scores, -1, number, num_classes)

    def _usage(self) -> str:
        """Log of how probable every action is in the procedure, which is named or inferred: (N, 1, A)."""
        graph, planner, scores = self.graph, self.planner, []
        seen = ((START, self.start), (GOAL, self.goal), (HISTORY, self.history))
        paths = (path for path in planner.experts.procedure if isinstance(path, LinearScores))
        for gain, path, (number, rows) in zip(planner.procedure_gain, paths, seen, strict=True):
            found = self._classify(self._centred(path, rows), path.weights)  # (N, 1, P)
            scores.append(graph.add("Mul", graph.add("Mul", self.has[number], gain), found))
        inferred = graph.add("Softmax", graph.sum(*scores), axis=-1)
        given = graph.reshape(self.given["procedure"], 0, 1, -1)
        procedure = graph.sum(
            graph.add("Mul", self.has[PROCEDURE], given), graph.add("Mul", self._not(self.has[PROCEDURE]), inferred)
        )
        usage = graph.add("MatMul", procedure, planner.experts.usage())
        return graph.add("Log", graph.add("Clip", usage, np.array(1e-12)))

    def _words(self) -> str:
        """What words say about the last action: (N, 1, A)."""
        given = self.graph.reshape(self.given["last_step"], 0, 1, -1)
        logs = self.graph.add("Log", self.graph.add("Clip", given, np.array(MIN_WORDS)))
        return self.graph.add("Mul", self.has[WORDS], logs)


class _Second:
    """The second expert; what does not depend on the length is added to the graph at once."""

    def __init__(self, parts: _Parts, expert: SecondQueryExpert) -> None:
        self.graph, self.planner, self.expert, self.words = parts.graph, parts.planner, expert, parts.words
        graph, given = parts.graph, parts.given
        start, goal = (encode_second(graph, expert, given[name]) for name in ("start", "goal"))
        history = encode_second(graph, expert, given["history"], expert.history)
        encoded = (start, goal, history, apply_encoder(graph, expert.procedure, given["procedure"]))  # (N, D) each
        seen = []
        for number, one, absent in zip(SEEN, encoded, expert.absent, strict=True):
            there = graph.add("Gather", given["has"], np.array([number]), axis=1)  # (N, 1)
            unseen = graph.add("Mul", graph.add("Sub", np.array(1.0), there), absent)
            seen.append(graph.add("Add", graph.add("Mul", there, one), unseen))
        self.hidden = join_second(graph, expert, seen)  # (N, 1, 2D)

        def where_seen(number: int, scores: str) -> str:
            """(N, A) -> (N, 1, A), zeros without the evidence of this number."""
            return graph.add("Mul", parts.has[number], graph.reshape(scores, 0, 1, -1))

        heads = zip((START, GOAL), (start, goal), expert.ends, strict=True)
        ends = [where_seen(number, graph.linear(one, as_linear(head))) for number, one, head in heads]
        self.ends = graph.add("Concat", *ends, axis=1)  # (N, 2, A)
        heads = zip(SEEN[2:], encoded[2:], expert.everywhere, strict=True)
        self.everywhere = graph.sum(
            *(where_seen(number, graph.add("MatMul", one, as_linear(head).weight.T)) for number, one, head in heads)
        )  # (N, 1, A)

    def paths(self, horizon: int) -> Iterator[str]:
        """The addends of the emissions of one length: (N, T, A) each, or (N, 1, A) for all positions."""
        graph = self.graph
        yield score_positions(graph, self.expert, self.hidden, self.planner.positions(horizon))
        yield at_ends(graph, self.ends, horizon)
        yield self.everywhere
        yield at_last(graph, self.words, horizon)


def at_last(graph: Graph, scores: str, horizon: int) -> str:
    """Scores (N, 1, A) as those of the last position, zeros before it: (N, T, A)."""
    return graph.add("MatMul", np.eye(horizon)[:, -1:], scores)
