"""Features of a moment are computed once, also when several requests ask at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from p3iv import Planner
from p3iv.errors import P3ivError
from p3iv.moments import EncoderChoice
from p3iv.serving.library import clip_id
from p3iv.serving.observations import RowCache
from p3iv.serving.planning import Planning
from p3iv.serving.problems import ServiceError
from p3iv.serving.schema import PlanAnswer, PlanRequest
from p3iv.serving.service import Service
from p3iv.serving.settings import Limits, ServiceSettings

EGGS = clip_id("tabletop-demo", "eggs.mp4")


def with_service(check: Callable[[Service, list[str]], Any], planner: str = "tabletop-demo") -> None:
    """Run a coroutine on a started service; it gets the names of the jobs that the workers did, too."""

    async def scenario() -> None:
        service = Service(ServiceSettings(planner, limits=Limits(jobs=1)))
        jobs: list[str] = []
        await service.start()
        run = service.pool.run

        async def counted(work: Callable[..., Any], *arguments: object) -> Any:
            jobs.append(work.__name__)
            return await run(work, *arguments)

        service.pool.run = counted  # type: ignore[method-assign]
        try:
            await check(service, jobs)
        finally:
            await service.stop()

    asyncio.run(scenario())


def question(start: float, goal: float, **options: Any) -> PlanRequest:
    moments = {"start": {"video": EGGS, "t": start}, "goal": {"video": EGGS, "t": goal}}
    return PlanRequest.model_validate({**moments, **options})


def test_a_second_is_encoded_once() -> None:
    async def check(service: Service, jobs: list[str]) -> None:
        answers = await asyncio.gather(*(service.planning.plan(question(12, 26)) for _ in range(5)))
        assert len({answer.plan_probability for answer in answers}) == 1
        assert jobs.count("encode_seconds") == 2  # of start and goal
        await service.planning.plan(question(12.9, 26.3))  # the same seconds
        assert jobs.count("encode_seconds") == 2
        await service.planning.plan(question(13, 26))  # one more
        assert jobs.count("encode_seconds") == 3
        assert len(service.observer.cache) == 7

        plans = Planner.from_pretrained("tabletop-demo").plan("tabletop-demo/eggs.mp4@12", "tabletop-demo/eggs.mp4@26")
        assert answers[0].plan_probability == plans.plan_probability
        assert [(each.steps, each.probability) for each in answers[0].plans] == list(plans)

    with_service(check)


def test_what_came_before_is_encoded_once_and_in_parts(queries_run: Path, clip: Path) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield clip.read_bytes()

    async def check(service: Service, jobs: list[str]) -> None:
        video, _ = await service.media.add_video(chunks(), "eggs.mp4")
        told: list[tuple[str, int, int]] = []

        async def ask(second: float, **options: Any) -> PlanAnswer:
            start = {"start": {"video": video.id, "t": second}}
            return await service.planning.plan(
                PlanRequest.model_validate(start | options), lambda *progress: told.append(progress)
            )

        answer = await ask(26)
        assert jobs.count("encode_seconds") == 1 + 3  # the start; 25 seconds before it, 12 in a job
        assert [done for stage, done, _ in told if stage == "encoding"] in ([0, 1, 13, 25, 26], [0, 12, 13, 25, 26])
        assert {total for stage, _, total in told if stage == "encoding"} == {26}
        assert len(service.observer.cache) == 28
        planner = Planner.from_pretrained(queries_run)
        assert answer.plan_probability == planner.plan((clip, 26)).plan_probability

        await ask(26.5)
        assert jobs.count("encode_seconds") == 4
        await ask(27)  # one more second; that before it is known
        assert jobs.count("encode_seconds") == 5
        await ask(5, history=False)
        assert jobs.count("encode_seconds") == 5

    with_service(check, str(queries_run))


def test_a_request_that_goes_away_does_not_disturb_the_others() -> None:
    async def check(service: Service, jobs: list[str]) -> None:
        first = asyncio.create_task(service.planning.plan(question(5, 20)))
        second = asyncio.create_task(service.planning.plan(question(5, 20)))
        while "encode_seconds" not in jobs:
            await asyncio.sleep(0)
        first.cancel()
        assert (await second).plan
        with pytest.raises(asyncio.CancelledError):
            await first

    with_service(check)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"horizon": 4}, "horizon=4, but the plans of this planner have 3 steps"),
        ({"samples": 10_001}, "samples=10001, but this service allows at most 10000"),
        ({"number": 1_001}, "number=1001, but this service allows at most 1000"),
    ],
)
def test_what_the_planner_or_the_service_does_not_give_is_refused(asked: dict[str, int], message: str) -> None:
    planner = Planner.from_pretrained("tabletop-demo")
    nothing: Any = None
    planning = Planning(planner, nothing, nothing, None, Limits())
    try:
        with pytest.raises(P3ivError, match=message):
            asyncio.run(planning.plan(question(1, 2, **asked)))
    finally:
        planning.requests.close()


def test_the_cache_forgets_what_was_not_used_longest() -> None:
    cache = RowCache(max_rows=3)
    keys = [("video", "encoder", second) for second in range(4)]
    for key in keys[:3]:
        cache.put(key, np.zeros(2))
    assert cache.get(keys[0]) is not None  # now the second is the oldest
    cache.put(keys[3], np.zeros(2))
    assert [cache.get(key) is not None for key in keys] == [True, False, True, True]
    assert len(cache) == 3


def test_without_an_encoder_videos_are_shown_and_features_are_planned_from() -> None:
    async def scenario() -> None:
        broken = EncoderChoice("s3d", "/secret/missing.pth")
        service = Service(ServiceSettings("tabletop-demo", encoder=broken, allowed_names=("kitchen",)))
        await service.start()
        try:
            info = service.info()
            assert info.encoder is None
            assert info.encoder_problem is not None
            assert "secret" not in info.encoder_problem  # others can reach this service
            assert (await service.media.frame(EGGS, 3, 64)).startswith(b"\xff\xd8")
            with pytest.raises(ServiceError, match="no encoder"):
                await service.planning.plan(question(12, 26))
            features = {"features": [0.1] * 1280}
            answer = await service.planning.plan(PlanRequest.model_validate({"start": features, "goal": features}))
            assert len(answer.plan) == 3
        finally:
            await service.stop()

    asyncio.run(scenario())
