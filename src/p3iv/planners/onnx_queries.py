"""An exported planner of queries: its graph gives scores for any evidence, numpy makes chains, lengths and reasons.

What follows from the scores is the same code that `planners.queries.planner` uses: `plans.lengths` for p(T),
`plans.evidence` for the reasons. docs/reference/onnx.md describes the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from p3iv.onnx_model import Port
from p3iv.planners.header import Header
from p3iv.plans.chain import Chain, RescoredChain
from p3iv.plans.draws import Draws, SampleSettings, chain_uniforms, draws_of
from p3iv.plans.evidence import EVIDENCE, Addends, Answer, Evidence, shapley_addends
from p3iv.plans.lengths import KINDS, NUM_CLUES, LengthWeights, length_clues
from p3iv.plans.step_filter import NUM_SETTINGS
from p3iv.types import Array

LENGTH_FIT: Final = "length_fit"
LENGTH_CONSTANTS: Final = ("length_bias", "length_slope")
UNDER_WAY: Final = "under_way"
FOLLOW_CONSTANTS: Final = (
    "follow_first",
    "follow_goes_on",
    "follow_repeats",
    "follow_log_share",
    "follow_usage",
    "follow_settings",
)  # in the order of `FollowNumbers`

Ports = dict[str, Port]


def emissions_of(horizon: int) -> str:
    """The name of the output with the log emissions of plans of one length."""
    return f"log_emissions_{horizon}"


def query_ports(header: Header, dtype: str) -> tuple[Ports, Ports, Ports]:
    """The inputs of the graph of a planner of queries, its scores, and the constants of its lengths."""
    horizons, shape = header.config.data.horizons, header.shape
    widths = {**shape.evidence_widths, "has": len(EVIDENCE)}
    inputs = {name: Port(dtype, (None, width)) for name, width in widths.items()}
    scores = {emissions_of(horizon): Port(dtype, (None, horizon, shape.num_actions)) for horizon in horizons}
    scores[LENGTH_FIT] = Port(dtype, (None, len(horizons)))
    actions = shape.num_actions
    scores[UNDER_WAY] = Port(dtype, (None, actions + 1))
    lengths: list[tuple[int, ...]] = [(len(KINDS), len(horizons)), (len(KINDS), NUM_CLUES)]
    follow = [(actions,), (actions + 1,), (actions,), (actions + 1,), (shape.num_procedures, actions), (NUM_SETTINGS,)]
    names = (*LENGTH_CONSTANTS, *FOLLOW_CONSTANTS)
    return inputs, scores, {name: Port(dtype, size) for name, size in zip(names, lengths + follow, strict=True)}


class RunGraph(Protocol):
    """Computes some outputs of the graph of a planner."""

    def __call__(self, *outputs: str, **inputs: Array) -> list[Array]: ...


@dataclass(frozen=True, eq=False)
class QueryScorer:
    """Asks the graph of a planner of queries."""

    run: RunGraph
    header: Header
    log_transitions: Array  # (A, A)
    log_both: Array | None  # (A, A), if its effects have a weight
    lengths: LengthWeights

    def answer(self, evidence: Evidence) -> Answer:
        """The plans of one query, of every length."""
        horizons, given = self.header.config.data.horizons, evidence.filled(self.header.shape.evidence_widths)
        names = [emissions_of(horizon) for horizon in horizons]
        if evidence.is_seen:
            names += [LENGTH_FIT] + ["log_each"] * (self.log_both is not None)
        found = self._scores(names, given)
        chains = tuple(self._chain(found, horizon) for horizon in horizons)
        clues = length_clues(chains, found.get(LENGTH_FIT))
        log_lengths = self.lengths.log_probabilities(clues, evidence.has)[0]
        return Answer(chains, log_lengths, lambda horizon: self._addends(given, horizon))

    def chain(self, evidence: Evidence, horizon: int) -> Chain:
        """The chains of queries of one length; every query is computed by itself, so its neighbours change nothing."""
        names = [emissions_of(horizon)] + ["log_each"] * (evidence.is_seen and self.log_both is not None)
        given = evidence.filled(self.header.shape.evidence_widths)
        rows = [{name: part[row : row + 1] for name, part in given.items()} for row in range(len(evidence))]
        parts = [self._scores(names, row) for row in rows]
        return self._chain({name: np.concatenate([part[name] for part in parts]) for name in names}, horizon)

    def score_under_way(self, evidence: Evidence) -> Array:
        """Scores of the step under way at moments, the last one for no step: (N, A + 1)."""
        return self._scores([UNDER_WAY], evidence.filled(self.header.shape.evidence_widths))[UNDER_WAY]

    def _addends(self, given: Mapping[str, Array], horizon: int) -> Addends:
        """What every piece of evidence adds to the log emissions of a query: (T, A) each."""
        output = emissions_of(horizon)

        def score(subsets: Array) -> Array:
            rows = {name: np.tile(part, (len(subsets), 1)) for name, part in given.items()}
            return self._scores([output], {**rows, "has": subsets})[output]

        return shapley_addends(given["has"][0], score)

    def _scores(self, names: list[str], given: Mapping[str, Array]) -> dict[str, Array]:
        return {name: part.astype(np.float64) for name, part in zip(names, self.run(*names, **given), strict=True)}

    def _chain(self, found: Mapping[str, Array], horizon: int) -> Chain:
        chain = Chain(found[emissions_of(horizon)], self.log_transitions)
        if self.log_both is None or "log_each" not in found:
            return chain
        return RescoredChain.over(chain, found["log_each"], self.log_both)


class QueryChainSampler:
    """Draws plans of one length from pictures, exactly, as `planners.queries.planner` does."""

    def __init__(self, scorer: QueryScorer, settings: SampleSettings) -> None:
        self._scorer, self._horizon = scorer, settings.horizon or scorer.header.shape.horizon
        self._uniforms = chain_uniforms(settings, self._horizon, rescored=True)

    def draw(self, start: Array, goal: Array) -> Draws:
        """Draw for pairs of observations (N, F)."""
        return draws_of(self._scorer.chain(Evidence(start=start, goal=goal), self._horizon), self._uniforms)
