"""Plan from Python: load a trained planner and ask for the plausible plans between two moments.

planner = Planner.from_pretrained("runs/first")
distribution = planner.plan("kitchen.mp4@12.5", "kitchen.mp4@71")
for steps, probability in distribution.top(3):
    print(f"{probability:.0%}", " -> ".join(steps))
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from p3iv.catalogue import DEFAULT_NUM_SAMPLES, MAX_PLANS
from p3iv.errors import PlanError
from p3iv.hub import find_planner
from p3iv.moments import EncoderChoice, MomentReader, OnNote, is_of_dataset
from p3iv.planners.header import planner_file
from p3iv.plans.counts import count_plans
from p3iv.plans.decoding import has_chain, plan_chain, plan_probability, rank_plans
from p3iv.plans.distribution import SOURCES, PlanDistribution, Steps
from p3iv.plans.draws import Draws, SampleSettings
from p3iv.types import Array, counted, listed
from p3iv.validation import shown

if TYPE_CHECKING:
    from p3iv.planners.checkpoint import TrainedPlanner

NUM_PLANS = 100  # that `plan` returns: nearly all of the probability, unless the plans are long


class Planner:
    """Plans between two moments; with the same seed a pair gets the same plans, alone or among others.

    A moment is an array of the features that the planner was trained on, (F,), or a text or path such as
    "kitchen.mp4@12.5"; `p3iv.catalogue.MOMENT_FORMS` lists the forms.
    """

    def __init__(
        self,
        trained: TrainedPlanner,
        reader: MomentReader | None = None,
        *,
        run: Path | None = None,
        data: Path | None = None,
    ) -> None:
        self.trained = trained
        self._run, self._data = run, data
        self._sampler = lru_cache(maxsize=4)(trained.sampler)
        self._reader = reader or MomentReader(trained.header)

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path,
        *,
        device: str = "auto",
        ensemble: Sequence[str | Path] = (),
        data: str | Path | None = None,
        encoder: EncoderChoice | None = None,
        on_note: OnNote = warnings.warn,
    ) -> Planner:
        """Load a planner.

        Args:
            path: a run folder of `p3iv train`, or a checkpoint file.
            device: auto, cpu, cuda or mps.
            ensemble: more runs, whose probabilities are averaged with those of the first.
            data: the dataset folder, if it has moved since training.
            encoder: the encoder of new videos and pictures, where the checkpoint's own cannot be found.
            on_note: is called with what the user should know, such as that an encoder cannot be checked.
        """
        from p3iv.planners.checkpoint import load_ensemble
        from p3iv.planners.layers import choose_device

        paths = [find_planner(one, on_note=on_note) for one in (path, *ensemble)]
        files = [planner_file(one) for one in paths]
        trained = load_ensemble(files, device=str(choose_device(device)))
        run = None if paths[0].is_file() else paths[0]
        reader = MomentReader(trained.header, encoder or EncoderChoice(), on_note)
        return cls(trained, reader, run=run, data=None if data is None else Path(data))

    @property
    def horizon(self) -> int:
        return self.trained.header.shape.horizon

    @property
    def names(self) -> tuple[str, ...]:
        """The actions that plans are made of."""
        return self.trained.header.names

    def plan(
        self,
        start: Any,
        goal: Any,
        *,
        number: int = NUM_PLANS,
        num_samples: int | None = None,
        seed: int = 0,
        mode: str | None = None,
    ) -> PlanDistribution:
        """The most probable plans between two moments.

        Their probabilities are exact under the chain that chooses the plan. That of P3IV+ needs no samples; that of
        P3IV averages the predictions for `num_samples` latents, 1500 by default. A planner that chooses its plan
        without a chain, as most baselines do, has only as many samples, and the probabilities are shares of them: see
        `PlanDistribution.source`.

        Args:
            start: a moment.
            goal: another moment.
            number: at most so many plans, from 1 to `p3iv.catalogue.MAX_PLANS`.
            num_samples: also return so many sampled plans.
            seed: of latents and samples.
            mode: how to sample, one of `p3iv.catalogue.SAMPLING_MODES`; by default from the distribution that the
                probabilities are of. Only with `num_samples`.
        """
        if not 1 <= number <= MAX_PLANS:
            raise PlanError(f"number={number}, but it must be from 1 to {MAX_PLANS}.")
        if mode is not None and num_samples is None:
            raise PlanError(f"mode={shown(mode)} says how plans are sampled: pass num_samples, too.")
        settings = SampleSettings(DEFAULT_NUM_SAMPLES if num_samples is None else num_samples, seed)
        draws = self._draw(start, goal, settings)
        plans, probabilities = rank_plans(draws, self.trained.transitions, number)
        samples: tuple[tuple[Steps, int], ...] = ()
        if num_samples is not None:
            own_mode = "chain" if has_chain(draws) else "categorical"
            found = count_plans(draws.plans(mode or own_mode, self.trained.transitions.row)).rows(0)
            samples = tuple(zip(self._words(found[0]), found[1].tolist(), strict=True))
        source = SOURCES[0] if has_chain(draws) else SOURCES[1]
        return PlanDistribution(self._words(plans), tuple(probabilities.tolist()), source, samples)

    def plan_many(self, start: Any, goal: Any, **options: Any) -> list[PlanDistribution]:
        """The plans of many pairs: two lists of moments, or two arrays (N, F), and the options of `plan`."""
        starts, goals = list(start), list(goal)
        if len(starts) != len(goals):
            raise PlanError(f"{len(starts)} starts and {len(goals)} goals, but every plan needs one of each.")
        return [self.plan(one, other, **options) for one, other in zip(starts, goals, strict=True)]

    def probability(self, start: Any, goal: Any, plan: Sequence[str]) -> float:
        """The probability of any plan in words, as `plan` gives it without further options."""
        if len(plan) != self.horizon:
            raise PlanError(f"A plan of {counted(len(plan), 'step')}, but this planner's plans have {self.horizon}.")
        if unknown := [step for step in plan if step not in self.names]:
            near = get_close_matches(str(unknown[0]), self.names, n=3)
            hint = f" Similar: {listed([repr(name) for name in near])}." if near else ""
            raise PlanError(f"{shown(unknown[0])} is not one of the {len(self.names)} actions of this planner.{hint}")
        draws = self._draw(start, goal, SampleSettings())
        import torch  # takes a second to import

        action_ids = torch.tensor([[self.names.index(step) for step in plan]])
        chain = plan_chain(draws, self.trained.transitions)
        return min(1.0, float(plan_probability(draws, action_ids, chain)))

    def _draw(self, start: Any, goal: Any, settings: SampleSettings) -> Draws:
        import torch  # takes a second to import

        ends = (self._observe("start", start), self._observe("goal", goal))
        return self._sampler(settings).draw(*(torch.from_numpy(end)[None] for end in ends))

    def _words(self, plans: Any) -> tuple[Steps, ...]:
        """Plans (n, T) in words."""
        return tuple(tuple(self.names[action] for action in plan) for plan in plans.tolist())

    def _observe(self, which: str, moment: Any) -> Array:
        """A moment as an observation (F,), checked."""
        if isinstance(moment, str | Path):
            moment = self._read(str(moment))
        width = self.trained.header.shape.feature_width
        try:
            array = np.asarray(moment, dtype=np.float32)
        except (ValueError, TypeError) as error:
            raise PlanError(
                f"The {which} is not an array of numbers, but an observation has the shape ({width},)."
            ) from error
        if array.shape != (width,):
            raise PlanError(
                f"The {which} has the shape {array.shape}, but this planner was trained on features of ({width},)."
            )
        if not np.isfinite(array).all():
            raise PlanError(f"The {which} has values that are not finite.")
        return array

    def _read(self, text: str) -> Array:
        if is_of_dataset(text) and self._reader.dataset is None and (self._run or self._data):
            from p3iv.training.run_folder import dataset_of

            self._reader.use_dataset(dataset_of(self._run or Path(), self._data))
        return self._reader.read(text)
