"""Plans and probabilities for requests: moments are encoded in worker processes, plans are computed in one thread.

Pairs are planned one by one: computing 16 of P3IV+ together takes 94 % of the time (3.37 against 3.58 ms each), and
would change the last digits of a probability with the number of clients.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import numpy as np

from p3iv.planner import Planner
from p3iv.plans.distribution import PlanDistribution
from p3iv.serving.events import OnProgress
from p3iv.serving.examples import StepExamples
from p3iv.serving.media import Media
from p3iv.serving.observations import Observer
from p3iv.serving.problems import ServiceError
from p3iv.serving.schema import (
    FeatureMoment,
    Graph,
    Moment,
    PictureMoment,
    PlanAnswer,
    PlanRequest,
    ProbabilityRequest,
    Query,
    StepFacts,
    Timings,
)
from p3iv.serving.settings import Limits
from p3iv.types import Array

SHOWN_PLANS = 9  # whose steps get pictures: as many as a page chooses from by one key

Result = TypeVar("Result")


class Planning:
    """Answers questions for plans."""

    def __init__(
        self, planner: Planner, media: Media, observer: Observer, examples: StepExamples | None, limits: Limits
    ) -> None:
        self._planner, self._media, self._observer = planner, media, observer
        self._examples, self._limits = examples, limits
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="planning")
        self._index = {name: index for index, name in enumerate(planner.names)}
        self.waiting = 0  # questions that wait for the thread or are in it

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    async def plan(self, request: PlanRequest, on_progress: OnProgress = lambda *_: None) -> PlanAnswer:
        """The plans between two moments.

        Raises:
            P3ivError: naming what cannot be used.
        """
        self._check(request)
        began = time.perf_counter()
        start, goal = await self._observe(request, on_progress)
        encoded = time.perf_counter()
        on_progress("planning", 0, 1)
        answer = await self._compute(self._answer, request, start, goal)
        ended = time.perf_counter()
        return answer.model_copy(
            update={
                "timings": Timings(**_milliseconds(encode=encoded - began, plan=ended - encoded, total=ended - began))
            }
        )

    async def probability(self, request: ProbabilityRequest) -> float:
        """The probability of a plan in words."""
        start, goal = await self._observe(request, lambda *_: None)
        return await self._compute(self._planner.probability, start, goal, request.plan)

    def _check(self, request: PlanRequest) -> None:
        if request.horizon not in (None, self._planner.horizon):
            raise ServiceError(
                422,
                f"horizon={request.horizon}, but the plans of this planner have {self._planner.horizon} steps.",
                "Leave horizon out.",
            )
        for name in ("samples", "number"):
            limit = {"samples": self._limits.samples, "number": self._limits.plans}[name]
            if (getattr(request, name) or 0) > limit:
                raise ServiceError(422, f"{name}={getattr(request, name)}, but this service allows at most {limit}.")

    async def _compute(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Compute in the thread; a question that is cancelled before its turn is not computed."""
        if self.waiting > self._limits.waiting:
            raise ServiceError(503, "Too many plans are being computed.", "Try again in a second.", retry_after_s=1)
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, partial(work, *arguments))
        finally:
            self.waiting -= 1

    async def _observe(self, query: Query, on_progress: OnProgress) -> tuple[Array, Array]:
        """Both moments, at the same time."""
        moments = [asyncio.ensure_future(self._observe_one(moment)) for moment in (query.start, query.goal)]
        on_progress("encoding", 0, len(moments))
        for moment in moments:
            moment.add_done_callback(lambda _: on_progress("encoding", sum(each.done() for each in moments), 2))
        try:
            start, goal = await asyncio.gather(*moments)
        finally:
            for moment in moments:
                moment.cancel()
        return start, goal

    async def _observe_one(self, moment: Moment) -> Array:
        if isinstance(moment, FeatureMoment):
            return np.array(moment.features, dtype=np.float32)
        if isinstance(moment, PictureMoment):
            return await self._observer.observe_picture(self._media.library.find_picture(moment.picture))
        video = self._media.library.find_video(moment.video)
        if (stored := self._observer.observe_stored(video, moment.t)) is not None:
            return stored
        return await self._observer.observe_video(video, await self._media.facts(video), moment.t)

    def _answer(self, request: PlanRequest, start: Array, goal: Array) -> PlanAnswer:
        """Runs in the thread."""
        plans = self._planner.plan(
            start, goal, number=request.number, num_samples=request.samples, seed=request.seed, mode=request.mode
        )
        graph = Graph(svg=plans.to_svg(vertical=request.graph == "vertical")) if request.graph else None
        steps = self._steps(plans, start, goal)
        return PlanAnswer(
            **plans.to_dict(), graph=graph, steps=steps, timings=Timings(encode_ms=0, plan_ms=0, total_ms=0)
        )

    def _steps(self, plans: PlanDistribution, start: Array, goal: Array) -> dict[str, StepFacts]:
        names = dict.fromkeys(step for steps, _ in plans.top(SHOWN_PLANS) for step in steps)
        return {
            name: StepFacts(
                index=self._index[name],
                picture=self._examples.nearest(name, start, goal) if self._examples else None,
            )
            for name in names
        }


def _milliseconds(**seconds: float) -> dict[str, float]:
    return {f"{name}_ms": round(1000 * value, 2) for name, value in seconds.items()}
