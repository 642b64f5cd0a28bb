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

from p3iv.errors import PlanError
from p3iv.planner import Planner
from p3iv.plans.conditions import Conditions
from p3iv.plans.distribution import PlanDistribution
from p3iv.plans.reasons import PlanReasons
from p3iv.queries import Query as PlannerQuery
from p3iv.serving.events import OnProgress
from p3iv.serving.examples import StepExamples
from p3iv.serving.media import Media
from p3iv.serving.observations import Observer
from p3iv.serving.problems import ServiceError
from p3iv.serving.query_moments import Observed, QueryMoments
from p3iv.serving.schema import (
    Graph,
    PlanAnswer,
    PlanRequest,
    ProbabilityRequest,
    Query,
    StepFacts,
    TextGoal,
    Timings,
    WhyWords,
)
from p3iv.serving.settings import Limits

HOW_TO_SAY = "Say it in other words: a step or a procedure that the planner knows."
SHOWN_PLANS = 9  # whose steps get pictures: as many as a page chooses from by one key

Result = TypeVar("Result")


class Planning:
    """Answers questions for plans."""

    def __init__(
        self, planner: Planner, media: Media, observer: Observer, examples: StepExamples | None, limits: Limits
    ) -> None:
        self._planner, self._examples, self._limits = planner, examples, limits
        self._moments = QueryMoments(media, observer, has_history="history" in planner.queries.evidence)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="planning")
        self._index = {name: index for index, name in enumerate(planner.names)}
        self._words: asyncio.Future[None] | None = None  # done when texts can be compared
        self.waiting = 0  # questions that wait for the thread or are in it

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def prepare_words(self) -> asyncio.Future[None]:
        """Begin to load what compares texts, if nobody has; it takes seconds, in which plans are answered."""
        if self._words is None:
            self._words = asyncio.ensure_future(asyncio.to_thread(self._planner.queries.words.prepare))
        return self._words

    async def plan(self, request: PlanRequest, on_progress: OnProgress = lambda *_: None) -> PlanAnswer:
        """The plans of a query.

        Raises:
            P3ivError: naming what cannot be used.
        """
        self._check_limits(request)
        began = time.perf_counter()
        options, seen = await self._read(request, on_progress)
        encoded = time.perf_counter()
        on_progress("planning", 0, 1)
        answer = await self._compute(self._answer, request, options, seen)
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
        return await self._compute(work)

    def _check_limits(self, request: PlanRequest) -> None:
        for name in ("samples", "number"):
            limit = {"samples": self._limits.samples, "number": self._limits.plans}[name]
            if (getattr(request, name) or 0) > limit:
                raise ServiceError(422, f"{name}={getattr(request, name)}, but this service allows at most {limit}.")

    async def _read(self, request: Query, on_progress: OnProgress) -> tuple[dict[str, Any], Observed]:
        """The options of `Planner.plan`, and the moments; what can be refused without these is refused first."""
        text, goal = (request.goal.text, None) if isinstance(request.goal, TextGoal) else (None, request.goal)
        options: dict[str, Any] = {
            "goal_text": text,
            "procedure": request.procedure,
            "horizon": request.horizon,
            "conditions": Conditions.from_dict(request.conditions.model_dump(by_alias=True, exclude_defaults=True)),
        }
        query = PlannerQuery(request.start, goal, **options)
        self._planner.queries.check(query)
        query.conditions.rules(self._planner.names)
        await self._understand(query)
        seen = await self._moments.observe(request, on_progress)
        return {**options, "history": False if seen.history is None else seen.history}, seen

    async def _understand(self, query: PlannerQuery) -> None:
        """Refuse words that mean nothing to the planner, before videos are encoded; it keeps what the others mean."""
        if query.goal_text is not None:
            await asyncio.shield(self.prepare_words())
        try:
            if query.goal_text is not None or query.procedure is not None:
                await self._compute(self._planner.queries.understand, query)
        except PlanError as error:
            raise ServiceError(422, str(error), HOW_TO_SAY) from error

    async def _compute(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Compute in the thread; a question that is cancelled before its turn is not computed."""
        if self.waiting > self._limits.waiting:
            raise ServiceError(503, "Too many plans are being computed.", "Try again in a second.", retry_after_s=1)
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, partial(work, *arguments))
        finally:
            self.waiting -= 1

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
