"""Plans and probabilities for requests: moments are encoded in worker processes, plans are computed in one thread."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from p3iv.planner import Planner
from p3iv.plans.distribution import PlanDistribution
from p3iv.plans.reasons import PlanReasons
from p3iv.serving.events import OnProgress
from p3iv.serving.examples import StepExamples
from p3iv.serving.media import Media
from p3iv.serving.observations import Observer
from p3iv.serving.requests import Observed, QueryMoments, RequestReader
from p3iv.serving.schema import (
    Graph,
    PlanAnswer,
    PlanRequest,
    ProbabilityRequest,
    Query,
    StepFacts,
    Timings,
    WhyWords,
)
from p3iv.serving.settings import Limits

SHOWN_PLANS = 9  # whose steps get pictures: as many as a page chooses from by one key


class Planning:
    """Answers questions for plans."""

    def __init__(
        self, planner: Planner, media: Media, observer: Observer, examples: StepExamples | None, limits: Limits
    ) -> None:
        self._planner, self._examples = planner, examples
        self.requests = RequestReader(planner.queries, planner.names, limits)
        self.moments = QueryMoments(media, observer, has_history="history" in planner.queries.evidence)
        self._index = {name: index for index, name in enumerate(planner.names)}

    async def plan(self, request: PlanRequest, on_progress: OnProgress = lambda *_: None) -> PlanAnswer:
        """The plans of a query.

        Raises:
            P3ivError: naming what cannot be used.
        """
        self.requests.check_limits(samples=request.samples, number=request.number)
        began = time.perf_counter()
        options, seen = await self._read(request, on_progress)
        encoded = time.perf_counter()
        on_progress("planning", 0, 1)
        answer = await self.requests.compute(self._answer, request, options, seen)
        ended = time.perf_counter()
        return answer.model_copy(
            update={
                "timings": Timings(**_milliseconds(encode=encoded - began, plan=ended - encoded, total=ended - began))
            }
        )

    async def probability(self, request: ProbabilityRequest) -> float:
        """The probability of a plan in words."""
        options, seen = await self._read(request, lambda *_: None)
        work = partial(self._planner.probability, seen.start, seen.goal, request.plan, **options)
        return await self.requests.compute(work)

    async def _read(self, request: Query, on_progress: OnProgress) -> tuple[dict[str, Any], Observed]:
        """The options of `Planner.plan`, and the moments; what can be refused without these is refused first."""
        options = await self.requests.read_options(request)
        seen = await self.moments.observe(request, on_progress)
        return {**options, "history": False if seen.history is None else seen.history}, seen

    def _answer(self, request: PlanRequest, options: dict[str, Any], seen: Observed) -> PlanAnswer:
        """Runs in the thread."""
        plans = self._planner.plan(
            seen.start,
            seen.goal,
            number=request.number,
            num_samples=request.samples,
            seed=request.seed,
            mode=request.mode,
            why=request.why,
            **options,
        )
        graph = Graph(svg=plans.to_svg(vertical=request.graph == "vertical")) if request.graph else None
        more: dict[str, Any] = {"why_words": tuple(map(_in_words, plans.reasons))} if plans.reasons else {}
        return PlanAnswer(
            **plans.to_dict(),
            **more,
            graph=graph,
            steps=self._steps(plans, seen),
            timings=Timings(encode_ms=0, plan_ms=0, total_ms=0),
        )

    def _steps(self, plans: PlanDistribution, seen: Observed) -> dict[str, StepFacts]:
        names = dict.fromkeys(step for steps, _ in plans.top(SHOWN_PLANS) for step in steps)
        return {
            name: StepFacts(
                index=self._index[name],
                picture=self._examples.nearest(name, seen.start, seen.goal) if self._examples else None,
            )
            for name in names
        }


def _in_words(reasons: PlanReasons) -> WhyWords:
    return WhyWords(headline=reasons.headline(), change=reasons.change.to_text() if reasons.change else None)


def _milliseconds(**seconds: float) -> dict[str, float]:
    return {f"{name}_ms": round(1000 * value, 2) for name, value in seconds.items()}
