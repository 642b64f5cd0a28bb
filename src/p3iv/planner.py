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

from p3iv.answering import Answering
from p3iv.catalogue import BACKENDS, DEFAULT_NUM_SAMPLES, MAX_PLANS
from p3iv.errors import ConfigError, PlanError, near_misses, warn_caller
from p3iv.following import Follower, check_follows, follow_video
from p3iv.hub import find_planner
from p3iv.moments import EncoderChoice, Moment, MomentReader, OnNote
from p3iv.onnx_model import SUFFIX
from p3iv.planners.backends import file_of, load_backend
from p3iv.planners.header import Backend, Header
from p3iv.planners.onnx_planner import encoder_beside
from p3iv.plans.answered import ReadQuery
from p3iv.plans.conditions import Conditions
from p3iv.plans.distribution import PlanDistribution, Steps
from p3iv.plans.following import FollowedMoment
from p3iv.queries import Query, QueryReader
from p3iv.types import Array, counted, listed
from p3iv.validation import shown

NUM_PLANS = 100  # that `plan` returns: nearly all of the probability, unless the plans are long


class Planner:
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

    def __init__(self, backend: Backend, reader: MomentReader | None = None, *, source: Path | None = None) -> None:
        """Use a loaded backend, of the file or folder `source`; `from_pretrained` is the usual way to a planner."""
        self._backend, self._source = backend, source
        self._answering = Answering(backend)
        self._reader = reader or MomentReader(backend.header)
        self._queries = QueryReader(backend.header, self._reader)

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path,
        *,
        revision: str | None = None,
        device: str = "auto",
        backend: str | None = None,
        ensemble: Sequence[str | Path] = (),
        data: str | Path | None = None,
        encoder: EncoderChoice | None = None,
        on_note: OnNote = warn_caller,
    ) -> Planner:
        """Load a planner.

        Args:
            path: a run folder of `p3iv train`, a checkpoint, an exported `.onnx` file, a planner that comes with p3iv
                (`"tabletop-demo"`), or the name of one on the Hugging Face hub (`"owner/name"`). What is on this
                machine is found first, without the network.
            revision: of a planner on the hub: a branch, a tag or a commit.
            device: auto, cpu, cuda or mps.
            backend: torch, or onnx, which needs neither torch nor a GPU; by default as the file is.
            ensemble: more planners, whose probabilities are averaged with those of the first.
            data: the dataset folder, if it has moved since training.
            encoder: the encoder of new videos and pictures, where the planner's own cannot be found.
            on_note: is called with what the user should know, such as that an encoder cannot be checked.

        Raises:
            P3ivError: saying what was not found and what to type.

        Example:
            >>> Planner.from_pretrained("tabletop-demo", device="cpu")
            <Planner tabletop-demo: p3iv-plus, 3 steps of 90 actions, torch on cpu>
        """
        if isinstance(ensemble, str | Path):
            ensemble = (ensemble,)
        if backend is not None and backend not in BACKENDS:
            raise ConfigError(f"backend={shown(backend)}, but it must be {' or '.join(BACKENDS)}.")
        places = [find_planner(one, revision, on_note=on_note) for one in (path, *ensemble)]
        files = [file_of(place, backend) for place in places]
        loaded = load_backend(files, device, backend)
        run = places[0] if places[0].is_dir() else None
        choice = choose_encoder(files[0], encoder)
        reader = MomentReader(loaded.header, choice, on_note, run=run, data=None if data is None else Path(data))
        planner = cls(loaded, reader, source=None if ensemble else places[0])
        planner._queries = QueryReader(loaded.header, reader, on_note)
        return planner

    @property
    def header(self) -> Header:
        """What the planner was trained on, and for what: settings, actions, encoder, fingerprints."""
        return self._backend.header

    @property
    def horizon(self) -> int:
        """The number of steps of a plan; of a planner for several lengths, the largest."""
        return self.header.shape.horizon

    @property
    def horizons(self) -> tuple[int, ...]:
        """All numbers of steps that plans can have.

        Example:
            >>> Planner.from_pretrained("tabletop-demo").horizons
            (3,)
        """
        return self._queries.horizons

    @property
    def procedures(self) -> tuple[str, ...]:
        """The procedures that a goal can name; none for a planner of one length.

        Example:
            >>> Planner.from_pretrained("tabletop-demo").procedures
            ()
        """
        return self.header.procedures

    @property
    def names(self) -> tuple[str, ...]:
        """The actions that plans are made of."""
        return self.header.names

    @property
    def moments(self) -> MomentReader:
        """Reads moments as the planner needs them; knows the dataset and the encoder."""
        return self._reader

    @property
    def queries(self) -> QueryReader:
        """Reads queries as the planner needs them; knows which evidence it understands."""
        return self._queries

    @property
    def backend(self) -> str:
        """What computes the plans: torch or onnx."""
        return self._backend.name

    @property
    def device(self) -> str:
        """Where the plans are computed, such as cpu."""
        return self._backend.device

    def __repr__(self) -> str:
        """Name, method, size and place of the planner, on one line."""
        name = self._source.name if self._source else "of several files"
        size = f"{counted(self.horizon, 'step')} of {counted(len(self.names), 'action')}"
        return f"<Planner {name}: {self.header.config.planner}, {size}, {self.backend} on {self.device}>"

    def to(self, device: str) -> Planner:
        """Move the planner to a device (auto, cpu, cuda or mps); returns itself.

        Example:
            >>> Planner.from_pretrained("tabletop-demo").to("cpu").device
            'cpu'
        """
        self._backend = self._backend.to(device)
        self._answering = Answering(self._backend)
        return self

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

    @property
    def can_follow(self) -> bool:
        """Whether the planner can follow videos.

        Example:
            >>> Planner.from_pretrained("tabletop-demo").can_follow
            False
        """
        return self._backend.follow_numbers is not None

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
            >>> planner = Planner.from_pretrained("runs/kitchen")  # doctest: +SKIP
            >>> for moment in planner.follow("kitchen.mp4", goal_text="a Greek salad"):  # doctest: +SKIP
            ...     print(moment)
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
            >>> planner = Planner.from_pretrained("runs/kitchen")  # doctest: +SKIP
            >>> follower = planner.follower(procedure="Greek salad")  # doctest: +SKIP
            >>> moments = [follower.add(row) for row in rows]  # doctest: +SKIP
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

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write what is needed to use the planner into a folder: the planner, its scores, settings and model card.

        Raises:
            P3ivError: the folder cannot be written, or this planner has no files of its own (an ensemble).

        Example:
            >>> folder = Planner.from_pretrained("tabletop-demo").save_pretrained("shared/kitchen")
            >>> Planner.from_pretrained(folder).horizon
            3
        """
        from p3iv.evaluation.pretrained import save_pretrained

        return save_pretrained(self._own_files(), Path(folder))

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Push the planner with its scores and model card to the Hugging Face hub; returns its address.

        Args:
            repo_id: `"owner/name"`.
            options: private, revision, licence, commit_message, token and create_pr of `p3iv.hub.push_to_hub`.

        Raises:
            HubError: saying why it cannot be pushed, and what to type.

        Example:
            >>> planner = Planner.from_pretrained("tabletop-demo")
            >>> planner.push_to_hub("owner/kitchen", private=True)  # doctest: +SKIP
        """
        from p3iv.hub import push_to_hub

        return push_to_hub(self._own_files(), repo_id, **options)

    def _own_files(self) -> Path:
        if self._source is None:
            raise PlanError("This planner has no files of its own. Of an ensemble, save the members one by one.")
        if self.backend == "onnx":
            raise PlanError(f"{self._source} is an exported planner: copy the file, or share the run that it is of.")
        return self._source


def _check_number(number: int) -> None:
    if not isinstance(number, int) or not 1 <= number <= MAX_PLANS:
        raise PlanError(f"number={shown(number)}, but it must be a whole number from 1 to {MAX_PLANS}.")


def choose_encoder(planner: Path, choice: EncoderChoice | None) -> EncoderChoice | None:
    """What the user says about the encoder; of an exported planner, by default the file beside it."""
    beside = encoder_beside(planner)
    if planner.suffix.lower() != SUFFIX or not beside.is_file() or (choice and (choice.name or choice.weights)):
        return choice
    return EncoderChoice(weights=str(beside))
