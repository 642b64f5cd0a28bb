"""The planner of queries behind the interface of all planners: how it is trained, calibrated, sampled and asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from p3iv.config import Config
from p3iv.data.tensors import PlanningData, WindowTensors
from p3iv.metrics.plans import score_plans
from p3iv.planners.base import BasePlanner, Sync
from p3iv.planners.header import PlannerShape, SelectionScore
from p3iv.planners.plus.network import NUM_PAIRS, as_array
from p3iv.planners.plus.planner import (
    NLL_WEIGHT,
    SECOND_WEIGHTS,
    best_temperature,
    best_weight,
    mean_nll,
    second_likelihoods,
    weight_gains,
)
from p3iv.planners.queries.evidence import QueryTensors, query_of, query_of_windows
from p3iv.planners.queries.learner import QueryLearner
from p3iv.planners.queries.lengths import LengthModel
from p3iv.planners.queries.network import QueryNetwork
from p3iv.planners.queries.second_expert import SecondQueryExpert
from p3iv.plans.chain import Chain
from p3iv.plans.draws import Draws, SampleSettings, chain_uniforms, draws_of, refuse_noise
from p3iv.plans.evidence import EVIDENCE, GOAL, HISTORY, START, Addends, Answer, Answers, Evidence, shapley_addends
from p3iv.plans.lengths import length_clues
from p3iv.plans.step_filter import FollowNumbers
from p3iv.types import Array, PlanScores, mean_scores

_MAX_WINDOWS = 128  # of one length, that weights are chosen on
_MAX_QUERIES = 128  # answered at a time


@dataclass(frozen=True)
class _ValWindows:
    """Validation windows of one length with their chains."""

    windows: WindowTensors
    chain: Chain


class QueryPlanner(QueryNetwork, BasePlanner):
    """P3IV+ for every length from `data.min_horizon` to `data.horizon`, with any evidence."""

    preset = "p3iv-plus-lengths"
    sees = EVIDENCE
    own_settings = ("plus.",)
    chosen_buffers = (
        "second_weight",
        "temperature",
        "effects.weight",
        "lengths.bias",
        "lengths.slope",
        "following.settings",
    )
    unused_settings = (
        "optim.decay",
        "optim.critic",
        "loss.action",
        "loss.adversarial",
        "loss.diversity",
        "loss.latents",
        "plus.linear",
        "plus.neighbours",
        "plus.held_out",
        "plus.decoder",
        "plus.end_heads",
        "plus.chain",
    )

    temperature: Tensor  # (H,) of the emissions, by length

    def __init__(self, shape: PlannerShape, config: Config) -> None:
        super().__init__(shape, config)
        number = len(self.horizons)
        self.register_buffer("temperature", torch.ones(number))
        self.lengths = LengthModel(number)
        self._val: dict[int, _ValWindows] = {}

    @classmethod
    def describe(cls, config: Config) -> str:
        lengths = f"{config.data.min_horizon} to {config.data.horizon}"
        second = ", and by a second network" if config.plus.second else ""
        return (
            f"one chain for every length from {lengths}, fed by regressions on start, goal, history and procedure, by "
            f"words and by the paper's decoder{second}; trained through the chain with evidence left out at random"
        )

    @classmethod
    def nearby_s(cls, config: Config) -> int:
        return config.plus.nearby

    @classmethod
    def reads_history(cls) -> bool:
        return True

    def make_learner(self, data: PlanningData, sync: Sync) -> QueryLearner:
        held_out, self.held_out = self.held_out, None
        if held_out is None:
            raise AssertionError("the planner was not fitted")
        return QueryLearner(self, data, held_out, sync=sync)

    def sampler(self, settings: SampleSettings) -> QuerySampler:
        return QuerySampler(self, settings)

    def action_logits(self, start: Tensor, goal: Tensor) -> Tensor:
        return self.emissions(self._pictures(start, goal), self.shape.horizon)

    def plan(self, start: Tensor, goal: Tensor) -> Tensor:
        chain = self.chain(self._pictures(start, goal), self.shape.horizon)
        return torch.from_numpy(chain.best_paths()[0]).to(start.device)

    @torch.no_grad()
    def answer(self, evidence: Evidence) -> Answer:
        """The plans of one query, of every length."""
        query = query_of(evidence, self.shape, self.log_transitions)
        chains = tuple(self.chain(query, horizon) for horizon in self.horizons)
        log_lengths = self.lengths.weights.log_probabilities(self._clues(query, chains), evidence.has)[0]
        return Answer(chains, log_lengths, lambda horizon: self.addends(query, horizon))

    def answers(self, evidence: Evidence) -> Iterator[Answers]:
        """The plans of many queries, of every length; the neighbours of a query change its numbers by rounding only."""
        for part in evidence.split(_MAX_QUERIES):
            with torch.no_grad():
                query = query_of(part, self.shape, self.log_transitions)
                chains = tuple(self.chain(query, horizon) for horizon in self.horizons)
                log_lengths = self.lengths.weights.log_probabilities(self._clues(query, chains), part.has)
            yield Answers(chains, log_lengths)

    @property
    def follow_numbers(self) -> FollowNumbers:
        """The numbers with which a video is followed."""
        return self.following.numbers(self.experts.usage(), self.beta * self.log_transitions)

    @torch.no_grad()
    def score_under_way(self, evidence: Evidence) -> Array:
        """Scores of the step under way at moments, the last one for no step: (N, A + 1)."""
        return as_array(self.score_step_under_way(query_of(evidence, self.shape, self.log_transitions)))

    @torch.no_grad()
    def addends(self, query: QueryTensors, horizon: int) -> Addends:
        """What every piece of evidence adds to the log emissions of a query: (T, A) each."""

        def score(subsets: Array) -> Array:
            return as_array(self.log_emissions(query.with_has(torch.from_numpy(subsets).to(query.has)), horizon))

        return shapley_addends(as_array(query.has[0]), score)

    def chain(self, query: QueryTensors, horizon: int, *, size: int = NUM_PAIRS) -> Chain:
        """The chains of queries of one length; `size` of them at a time go through the network."""
        emissions = np.concatenate([as_array(self.log_emissions(part, horizon)) for part in query.split(size)])
        chain = Chain(emissions, as_array(self.beta * self.log_transitions))
        is_seen = bool(query.has[:, [START, GOAL]].all())
        return self.effects.rescore(chain, [(query.start, query.goal)]) if is_seen else chain

    def log_emissions(self, query: QueryTensors, horizon: int) -> Tensor:
        """The scores of one length, divided by its temperature: (B, T, A)."""
        return self.emissions(query, horizon) / self.temperature[self.horizons.index(horizon)]

    @torch.no_grad()
    def calibrate(self, data: PlanningData) -> None:
        """Choose on validation windows: the weight of the second network, temperatures, the weight of the effects."""
        self.eval()
        self.temperature.fill_(1.0)
        self.effects.weight.zero_()
        self._val = {}
        if self.second is not None:
            self._weigh_second(self.second, data.val)
        for number, horizon in enumerate(self.horizons):
            windows, _ = data.val.of_length(horizon)
            if len(windows):
                chain = self.chain(self._query_of(windows), horizon)
                if self.config.plus.calibrated:
                    temperature = best_temperature(chain, windows.action_ids, len(data.names))
                    self.temperature[number] = temperature
                    chain = chain.with_emissions(chain.log_emissions / temperature)
                self._val[horizon] = _ValWindows(windows, chain)
        if self.config.plus.effects:
            self._weigh_effects()

    @torch.no_grad()
    def finish(self, data: PlanningData) -> None:
        """Fit p(T) to validation windows, and choose how videos are followed."""
        self.eval()
        self.lengths.fit(self, data.val)
        if data.follow is not None:
            self.following.calibrate(self._chains_from, self.horizons)

    def _chains_from(self, start: Tensor, history: Tensor, has_history: Tensor, horizon: int) -> Chain:
        """The chains of one length without a goal, some of them with a history."""
        query = query_of(Evidence(start=start.numpy(), history=history.numpy()), self.shape, self.log_transitions)
        has = query.has.clone()
        has[:, HISTORY] *= has_history.to(has)
        return self.chain(replace(query, has=has), horizon)

    def _weigh_second(self, second: SecondQueryExpert, val: WindowTensors) -> None:
        """Choose the weight of the second network under which plans of several steps are most probable."""
        logs = np.zeros(len(SECOND_WEIGHTS))
        for horizon in self.horizons:
            windows, _ = val.of_length(horizon)
            if horizon > 1 and len(windows):
                part = windows.take(_some_rows(len(windows)))
                query = self._query_of(part)
                other = second.score_query(query, self.positions(horizon)).emissions
                logs += second_likelihoods(self, (self(query, horizon).emissions, other), part.action_ids)
        self.second_weight.fill_(SECOND_WEIGHTS[int(logs.argmax())])

    def _weigh_effects(self) -> None:
        """Choose one weight of the effects for all lengths, on windows in which the effects of several steps add up."""
        gains, number_of, groups = [], dict[str, int](), []
        for horizon, val in self._val.items():
            if horizon > 1:
                rows = _some_rows(len(val.windows))
                part = val.windows.take(rows)
                chain = Chain(val.chain.log_emissions[rows.numpy()], val.chain.log_transitions)
                gains.append(weight_gains(chain, self.effects.terms(part.start, part.goal), part.action_ids))
                groups += [number_of.setdefault(window.video, len(number_of)) for window in part.windows]
        if gains:
            self.effects.weight.fill_(best_weight(torch.cat(gains, dim=1), torch.tensor(groups)))
        self._val = {
            horizon: _ValWindows(val.windows, self.effects.rescore(val.chain, [(val.windows.start, val.windows.goal)]))
            for horizon, val in self._val.items()
        }

    def score_validation(self, data: PlanningData, transitions: object) -> PlanScores:
        """The scores of the recommended plans of the validation windows, each of its own length, from pictures."""
        return mean_scores(
            score_plans(torch.from_numpy(val.chain.best_paths()[0]), val.windows.action_ids)
            for val in self._val.values()
        )

    def selection_score(self, data: PlanningData, val: PlanScores) -> SelectionScore:
        """As for P3IV+: the three scores in percent, minus `NLL_WEIGHT` per nat; the mean over all lengths."""
        percent = 100 * (val.success_rate + val.mean_accuracy + val.mean_iou)
        nlls = [
            (mean_nll(one.chain, one.windows.action_ids, len(data.names)), len(one.windows))
            for one in self._val.values()
        ]
        return (percent - NLL_WEIGHT * sum(nll * number for nll, number in nlls) / val.num_windows,)

    def length_clues(self, query: QueryTensors) -> Array:
        """What speaks for every length: log Z, a regression, and the effects, (B, 3, H)."""
        return self._clues(query, tuple(self.chain(query, horizon) for horizon in self.horizons))

    def _clues(self, query: QueryTensors, chains: tuple[Chain, ...]) -> Array:
        is_seen = bool(query.has[:, [START, GOAL]].all())
        length_fit = as_array(self.experts.score_lengths(query.start, query.goal)) if is_seen else None
        return length_clues(chains, length_fit)

    def _query_of(self, windows: WindowTensors, *wanted: str) -> QueryTensors:
        return query_of_windows(windows, self.shape, self.log_transitions, wanted or ("start", "goal"))

    def _pictures(self, start: Tensor, goal: Tensor) -> QueryTensors:
        return query_of(Evidence(start=start.cpu().numpy(), goal=goal.cpu().numpy()), self.shape, start)


class QuerySampler:
    """Draws plans of one length from pictures, exactly, as the sampler of P3IV+ does."""

    def __init__(self, planner: QueryPlanner, settings: SampleSettings) -> None:
        refuse_noise(settings, planner.config.planner)
        self.planner, self.horizon = planner.eval(), settings.horizon or planner.shape.horizon
        self._uniforms = chain_uniforms(settings, self.horizon, rescored=True)

    @torch.no_grad()
    def draw(self, start: Array, goal: Array) -> Draws:
        """Draw for pairs of observations (N, F), each computed by itself so that its neighbours change nothing."""
        query = query_of(Evidence(start=start, goal=goal), self.planner.shape, self.planner.log_transitions)
        return draws_of(self.planner.chain(query, self.horizon, size=1), self._uniforms)


def _some_rows(number: int) -> Tensor:
    """At most `_MAX_WINDOWS` of so many windows, the same ones every time."""
    return torch.randperm(number, generator=torch.Generator().manual_seed(0))[:_MAX_WINDOWS]
