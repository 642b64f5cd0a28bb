"""The user's door: a trained planner, two moments, and the plausible plans between them.

planner = Planner.from_pretrained("runs/first")
distribution = planner.plan(start, goal)        # two observations, arrays of the features that it was trained on
for steps, probability in distribution.top(3):
    print(f"{probability:.0%}", " -> ".join(steps))
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from p3iv.data.folder import Dataset
from p3iv.data.tensors import observe_moments
from p3iv.encoders.base import VideoEncoder
from p3iv.encoders.registry import build_encoder
from p3iv.errors import ConfigError, PlanError
from p3iv.extraction.worker import encode_moment, encode_picture
from p3iv.features.arrays import read_observation
from p3iv.planners.checkpoint import BEST, TrainedPlanner, load_ensemble
from p3iv.planners.device import choose_device
from p3iv.plans.chain import Chain
from p3iv.plans.decoding import deciding_chain, decode, followed, followed_probability
from p3iv.plans.distribution import PlanDistribution, count_plans, distribution_of
from p3iv.plans.draws import SampleSettings
from p3iv.types import counted, listed

EXPECTED = "FILE@SECONDS of a video, a picture, a .npy of features, or VIDEO@SECONDS of the dataset"

PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")

_MOMENT = re.compile(r"(?P<video>.+)@(?P<second>\d+(\.\d+)?)", re.DOTALL)


class MomentReader:
    """Reads moments as one planner wants them; the encoder is built when a picture or a video first needs it.

    Args:
        encoder: of the features that the planner was trained on, as its checkpoint names it.
        observation: `mean` or `concat`, as the planner was trained.
        dataset: where VIDEO@SECONDS is looked up; None where there is none.
    """

    def __init__(self, encoder: str | None, observation: str, dataset: Dataset | None) -> None:
        self._encoder_name, self._observation, self._dataset = encoder, observation, dataset
        self._encoder: VideoEncoder | None = None

    def read(self, text: str) -> Tensor:
        """The observation (F,) that a moment shows.

        Raises:
            P3ivError: saying what was pointed at and what may be.
        """
        moment = _MOMENT.fullmatch(text)
        if moment is not None and Path(moment["video"]).is_file():
            return self._join(
                torch.from_numpy(encode_moment(Path(moment["video"]), float(moment["second"]), self.encoder))
            )
        if moment is not None and self._dataset is not None:
            return observe_moments(self._dataset, [(moment["video"], float(moment["second"]))], self._observation)[0]
        path = Path(text)
        if not path.is_file():
            raise PlanError(f"{text!r} is no moment: it is {EXPECTED}.")
        if path.suffix.lower() == ".npy":
            return self._join(torch.tensor(read_observation(path), dtype=torch.float32))
        if path.suffix.lower() in PICTURES:
            return self._join(torch.from_numpy(encode_picture(path, self.encoder)))
        raise PlanError(f"{text}: which moment of it? A moment is {EXPECTED}.")

    @property
    def encoder(self) -> VideoEncoder:
        """What made the features that the planner was trained on."""
        if self._encoder is None:
            try:
                self._encoder = build_encoder(self._encoder_name or "none")
            except ConfigError as error:
                raise PlanError(
                    f"This planner was trained on {self._encoder_name or 'unnamed'} features, which are not computed "
                    f"from pictures here. Give a .npy of such features, or VIDEO@SECONDS of the dataset."
                ) from error
        return self._encoder

    def _join(self, rows: Tensor) -> Tensor:
        """Rows around a moment (N, F) -> (F,) or, side by side, (3F,); a single one stands for all three."""
        if self._observation == "concat":
            return (rows.expand(3, -1) if len(rows) == 1 else rows).flatten()
        return rows.mean(dim=0)


def needs_dataset(text: str) -> bool:
    """Whether a moment is looked up in a dataset: VIDEO@SECONDS, where VIDEO is no file."""
    moment = _MOMENT.fullmatch(text)
    return moment is not None and not Path(moment["video"]).is_file()


class Planner:
    """Plans for pairs of observations; the same seed gives a pair the same plans, alone or among others."""

    def __init__(self, trained: TrainedPlanner) -> None:
        self.trained = trained
        self._sampler = lru_cache(maxsize=4)(trained.sampler)

    @classmethod
    def from_pretrained(cls, path: str | Path, *, device: str = "auto", ensemble: Sequence[str | Path] = ()) -> Planner:
        """Load a run folder of `p3iv train`, or a checkpoint file; with others as an ensemble, one average of all."""
        paths = [Path(one) for one in (path, *ensemble)]
        files = [one if one.is_file() else one / BEST for one in paths]
        return cls(load_ensemble(files, device=str(choose_device(device))))

    @property
    def horizon(self) -> int:
        return self.trained.header.shape.horizon

    @property
    def names(self) -> tuple[str, ...]:
        """The actions that plans are made of."""
        return self.trained.header.names

    def plan(
        self, start: Any, goal: Any, *, num_samples: int = 1500, seed: int = 0, mode: str = "argmax"
    ) -> PlanDistribution:
        """The plans between two observations, each an array of (F,)."""
        start, goal = self._pair("start", start)[None], self._pair("goal", goal)[None]
        return self.plan_many(start, goal, num_samples=num_samples, seed=seed, mode=mode)[0]

    def plan_many(
        self, start: Any, goal: Any, *, num_samples: int = 1500, seed: int = 0, mode: str = "argmax"
    ) -> list[PlanDistribution]:
        """The plans of many pairs, (N, F) twice."""
        starts, goals = list(start), list(goal)
        if len(starts) != len(goals):
            raise PlanError(f"{len(starts)} starts and {len(goals)} goals, but a plan leads from one to one.")
        return [
            self._plan_one(*pair, SampleSettings(num_samples, seed), mode) for pair in zip(starts, goals, strict=True)
        ]

    def best_plans(self, start: Any, goal: Any, number: int = 5) -> list[tuple[tuple[str, ...], float]]:
        """The most probable plans of the chain that decodes, in words, each with its probability; best first.

        Exact where a planner is a chain. Of others the chain is that of their averaged marginals, from 1500 samples.
        """
        if number < 1:
            raise PlanError(f"{number} best plans, but ask for at least 1.")
        plans, logs = self._chain(start, goal).best_plans(number)
        found = zip(plans[0].tolist(), logs[0].exp().tolist(), strict=True)
        return [(tuple(self.names[action] for action in plan), share) for plan, share in found if share > 0]

    def probability(self, start: Any, goal: Any, plan: Sequence[str]) -> float:
        """How probable a plan in words is, drawn or not, under the chain that decodes: see `best_plans`."""
        if len(plan) != self.horizon:
            raise PlanError(f"A plan of {counted(len(plan), 'step')}, but this planner's plans have {self.horizon}.")
        if unknown := [step for step in plan if step not in self.names]:
            near = get_close_matches(str(unknown[0]), self.names, n=3)
            hint = f" Near it: {listed([repr(name) for name in near])}." if near else ""
            raise PlanError(f"{unknown[0]!r} is none of the {len(self.names)} actions of this planner.{hint}")
        action_ids = torch.tensor([[self.names.index(step) for step in plan]])
        return float(self._chain(start, goal).log_probability(action_ids, torch.zeros(1, dtype=torch.int64)).exp())

    def _chain(self, start: Any, goal: Any) -> Chain:
        draws = self._sampler(SampleSettings()).draw(self._pair("start", start)[None], self._pair("goal", goal)[None])
        return deciding_chain(draws, self.trained.transitions)

    def _plan_one(self, start: Any, goal: Any, settings: SampleSettings, mode: str) -> PlanDistribution:
        draws = self._sampler(settings).draw(self._pair("start", start)[None], self._pair("goal", goal)[None])
        transitions = self.trained.transitions
        best = decode(draws, transitions)[followed(draws)]
        probability = followed_probability(draws, best, deciding_chain(draws, transitions))
        return distribution_of(
            count_plans(draws.plans(mode, transitions.row)),
            0,
            names=self.names,
            decoded=best[0],
            decoded_probability=min(1.0, float(probability)),
        )

    def _pair(self, which: str, observation: Any) -> Tensor:
        """An observation as a tensor (F,), checked."""
        width = self.trained.header.shape.feature_width
        try:
            array = torch.as_tensor(np.asarray(observation, dtype=np.float32))
        except (ValueError, TypeError) as error:
            raise PlanError(f"The {which} is no array of numbers, but an observation is one of ({width},).") from error
        if array.shape != (width,):
            shape = tuple(array.shape)
            raise PlanError(
                f"The {which} has the shape {shape}, but this planner was trained on features of ({width},)."
            )
        if not array.isfinite().all():
            raise PlanError(f"The {which} holds values that are not finite.")
        return array
