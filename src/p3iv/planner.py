"""Plan from Python: load a planner and ask for the plausible plans between two moments.

planner = Planner.from_pretrained("runs/first")
plans = planner.plan("kitchen.mp4@12.5", "kitchen.mp4@71")
for steps, probability in plans:
    print(f"{probability:.0%}", " -> ".join(steps))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from p3iv.catalogue import DEFAULT_NUM_SAMPLES, MAX_PLANS
from p3iv.errors import PlanError, near_misses
from p3iv.following import Follower, check_follows, follow_video
from p3iv.loaded_planner import LoadedPlanner
from p3iv.moments import Moment
from p3iv.plans.answered import ReadQuery
from p3iv.plans.conditions import Conditions
from p3iv.plans.distribution import PlanDistribution, Steps
from p3iv.plans.following import FollowedMoment
from p3iv.queries import Query
from p3iv.types import Array, counted, listed
from p3iv.validation import shown

NUM_PLANS = 100  # that `plan` returns: nearly all of the probability, unless the plans are long


class Planner(LoadedPlanner):
    """Plans between two moments; with the same seed a pair gets the same plans, alone or among others.

    A moment is one of

    - a text or path: `"kitchen.mp4@12.5"`, `"kitchen.mp4@1:30"`, `"plate.jpg"`, `"features.npy"`, or `"video@12.5"` of
      the dataset that the planner was trained on;
    - a video and a time: `("kitchen.mp4", 12.5)`;
    - a picture: an array (height, width, 3) of uint8, or a PIL image;
    - the features that the planner was trained on: an array (F,).

    Example:
        >>> planner = Planner.from_pretrained("tabletop-demo")
        >>> planner.horizon
        3
    """

    def plan(
        self,
        start: Moment,
        goal: Moment | None = None,
        *,
        goal_text: str | None = None,
        procedure: str | None = None,
        history: bool | Array = True,
        horizon: int | None = None,
        conditions: Conditions | None = None,
        number: int = NUM_PLANS,
        num_samples: int | None = None,
        seed: int = 0,
        mode: str | None = None,
        why: bool = False,
    ) -> PlanDistribution:
        """The most probable plans from a start to a goal.

        Their probabilities are exact under the chain that chooses the plan. That of P3IV+ needs no samples; that of
        P3IV averages the predictions for `num_samples` latents, 1500 by default. A planner that chooses its plan
        without a chain, as most baselines do, has only as many samples, and the probabilities are shares of them: see
        `PlanDistribution.source`.

        A planner that was trained with `--horizon 1-6` also takes a goal in words, the name of a procedure, or no goal
        at all; reads the video before the start; and gives plans of every length.

        Args:
            start: where you are.
            goal: where you want to be.
            goal_text: the goal in words: a step that comes last, or a procedure.
            procedure: the name of the procedure, one of `procedures`.
            history: whether the video before the start counts, where the start is a moment of a video; or features
                (F,) of what came before: their mean.
            horizon: the number of steps; None: any of `horizons`.
            conditions: what the plan must satisfy.
            number: at most so many plans, from 1 to `p3iv.catalogue.MAX_PLANS`.
            num_samples: also return so many sampled plans.
            seed: of latents and samples.
            mode: how to sample, one of `p3iv.catalogue.SAMPLING_MODES`; by default from the distribution that the
                probabilities are of. Only with `num_samples`.
            why: also say what speaks for every plan: see `PlanDistribution.reasons`.

        Raises:
            P3ivError: naming the moment or the option that cannot be used.

        Example:
            >>> planner = Planner.from_pretrained("tabletop-demo")
            >>> plans = planner.plan("tabletop-demo/repot.mp4@2", "tabletop-demo/repot.mp4@13")
            >>> len(plans.plan)
            3
        """
        _check_number(number)
        if mode is not None and num_samples is None:
            raise PlanError(f"mode={shown(mode)} says how plans are sampled: pass num_samples, too.")
        query = Query(start, goal, goal_text, procedure, history, horizon, conditions or Conditions())
        read = self._queries.read(query)
        plans = self.answer(read, number, num_samples, seed=seed, mode=mode, why=why)
        return self._queries.add_examples(plans, read) if why else plans

    def answer(
        self, read: ReadQuery, number: int = NUM_PLANS, num_samples: int | None = None, **options: Any
    ) -> PlanDistribution:
        """The most probable plans of a query that was read before; `plan` does both.

        Example:
            >>> import numpy as np
            >>> from p3iv.plans.answered import ReadQuery
            >>> from p3iv.plans.evidence import Evidence
            >>> planner = Planner.from_pretrained("tabletop-demo")
            >>> seen = np.zeros((1, planner.header.shape.feature_width), dtype=np.float32)
            >>> len(planner.answer(ReadQuery(Evidence(start=seen, goal=seen))).plan)
            3
        """
        return self._answering.plan(read, number, num_samples, **options)

    def follow(
        self, video: str | Path | BinaryIO, goal: Moment | None = None, **options: Any
    ) -> Iterator[FollowedMoment]:
        """Go through a video second by second: what was probably done, what is under way, and what is left.

        What is left is planned again every second, from features that are computed once; what was done before counts.
        A planner can do so if it was trained with `--horizon 1-6` on videos with times of their steps. Memory does not
        grow with the length of the video.

        Args:
            video: a file, the name of a video of the dataset, or bytes that arrive, such as `sys.stdin.buffer`: a
                container that can be read from its beginning, or JPEG pictures, one per second.
            goal: where the video is going: a moment.
            options: goal_text, procedure, horizon and conditions of `plan`; without a goal, three steps are planned.
                number: at most so many plans, 5 by default.

        Raises:
            P3ivError: naming the video or the option that cannot be used.

        Example:
            >>> planner = Planner.from_pretrained("runs/any")
            >>> moments = list(planner.follow("tabletop-0001", procedure=planner.procedures[0]))
            >>> moments[12].second, len(moments[12].left.plan)
            (12, 3)
        """
        return follow_video(self.follower(goal, **options), self._reader, video)

    def follower(
        self,
        goal: Moment | None = None,
        *,
        goal_text: str | None = None,
        procedure: str | None = None,
        horizon: int | None = None,
        conditions: Conditions | None = None,
        number: int = 5,
    ) -> Follower:
        """What `follow` gives the seconds of a video to, for those who have their features: `Follower.add`.

        Raises:
            P3ivError: this planner cannot follow videos, or an option cannot be used.

        Example:
            >>> import numpy as np
            >>> planner = Planner.from_pretrained("runs/any")
            >>> follower = planner.follower()
            >>> rows = np.zeros((5, planner.header.shape.feature_width))
            >>> [moment.second for row in rows if (moment := follower.add(row))]
            [0, 1, 2, 3]
        """
        check_follows(self._backend)
        _check_number(number)
        query = Query(None, goal, goal_text, procedure, False, horizon, conditions or Conditions())
        return Follower(self._backend, self._answering, self._queries.read_goal(query), number)

    def plan_many(self, starts: Iterable[Moment], goals: Iterable[Moment], **options: Any) -> list[PlanDistribution]:
        """The plans of many pairs: as many starts as goals, or two arrays (N, F), and the options of `plan`.

        Raises:
            PlanError: there are more of the one than of the other.

        Example:
            >>> planner = Planner.from_pretrained("tabletop-demo")
            >>> clip = "tabletop-demo/repot.mp4"
            >>> [len(plans.plan) for plans in planner.plan_many([f"{clip}@2", f"{clip}@4"], [f"{clip}@13"] * 2)]
            [3, 3]
        """
        if isinstance(starts, str | Path) or isinstance(goals, str | Path):
            raise PlanError("plan_many takes lists of moments; for one pair, call plan.")
        first, second = list(starts), list(goals)
        if len(first) != len(second):
            raise PlanError(f"{len(first)} starts and {len(second)} goals, but every plan needs one of each.")
        return list(self.plan_each(zip(first, second, strict=True), **options))

    def plan_each(self, pairs: Iterable[tuple[Moment, Moment]], **options: Any) -> Iterator[PlanDistribution]:
        """The plans of pairs (start, goal), one after the other as they are asked for, with the options of `plan`.

        Example:
            >>> planner = Planner.from_pretrained("tabletop-demo")
            >>> pairs = [("tabletop-demo/repot.mp4@2", "tabletop-demo/repot.mp4@13")]
            >>> for plans in planner.plan_each(pairs):
            ...     print(len(plans.plan))
            3
        """
        for pair in pairs:
            if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
                raise PlanError(f"{shown(pair)} is not a pair (start, goal) of moments.")
            yield self.plan(pair[0], pair[1], **options)

    def best_plans(
        self, start: Moment, goal: Moment, number: int = 5, *, seed: int = 0
    ) -> tuple[tuple[Steps, float], ...]:
        """The recommended plan and the next most probable ones, each with its probability.

        Example:
            >>> planner = Planner.from_pretrained("tabletop-demo")
            >>> best = planner.best_plans("tabletop-demo/repot.mp4@2", "tabletop-demo/repot.mp4@13", 2)
            >>> best[0][1] >= best[1][1]
            True
        """
        return tuple(self.plan(start, goal, number=number, seed=seed))

    def sample(
        self,
        start: Moment,
        goal: Moment | None = None,
        num_samples: int = DEFAULT_NUM_SAMPLES,
        *,
        seed: int = 0,
        mode: str | None = None,
        **options: Any,
    ) -> list[Steps]:
        """Sampled plans, in the order in which they were drawn; fewer are the beginning of more.

        Not so for samples of P3IV's chain, its default mode: that chain averages as many latents as there are samples.

        Args:
            start: where you are.
            goal: where you want to be.
            num_samples: how many.
            seed: of latents and samples.
            mode: how to sample, as in `plan`.
            options: goal_text, procedure, history, horizon and conditions of `plan`.

        Example:
            >>> planner = Planner.from_pretrained("tabletop-demo")
            >>> len(planner.sample("tabletop-demo/repot.mp4@2", "tabletop-demo/repot.mp4@13", 10))
            10
        """
        read = self._queries.read(Query(start, goal, **options))
        return self._answering.sample(read, num_samples, seed=seed, mode=mode)

    def probability(self, start: Moment, goal: Moment | None, plan: Sequence[str], **options: Any) -> float:
        """The probability of any plan in words, as `plan` gives it with the same options.

        Raises:
            PlanError: the plan has another length, or a step that the planner does not know.

        Example:
            >>> planner = Planner.from_pretrained("tabletop-demo")
            >>> pair = "tabletop-demo/repot.mp4@2", "tabletop-demo/repot.mp4@13"
            >>> plans = planner.plan(*pair)
            >>> abs(planner.probability(*pair, plans.plan) - plans.plan_probability) < 1e-9
            True
        """
        if isinstance(plan, str):
            raise PlanError("A plan is a list of steps, not one text.")
        if len(plan) not in self.horizons:
            lengths = " or ".join(map(str, self.horizons))
            raise PlanError(f"A plan of {counted(len(plan), 'step')}, but this planner's plans have {lengths}.")
        if unknown := [step for step in plan if step not in self.names]:
            near = near_misses(unknown[0], self.names)
            hint = f" Similar: {listed([repr(name) for name in near])}." if near else ""
            raise PlanError(f"{shown(unknown[0])} is not one of the {len(self.names)} actions of this planner.{hint}")
        read = self._queries.read(Query(start, goal, **options))
        return self._answering.probability(read, [self.names.index(step) for step in plan])


def _check_number(number: int) -> None:
    if not isinstance(number, int) or not 1 <= number <= MAX_PLANS:
        raise PlanError(f"number={shown(number)}, but it must be a whole number from 1 to {MAX_PLANS}.")
