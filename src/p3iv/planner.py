"""Plan from Python: load a trained planner and ask for the plausible plans between two moments.

planner = Planner.from_pretrained("runs/first")
distribution = planner.plan("kitchen.mp4@12.5", "kitchen.mp4@71")
for steps, share in distribution.top(3):
    print(f"{share:.0%}", " -> ".join(steps))
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from p3iv.catalogue import DEFAULT_MODE, DEFAULT_NUM_SAMPLES, MOMENT_FORMS
from p3iv.errors import ConfigError, PlanError
from p3iv.planners.checkpoint import BEST, TrainedPlanner, load_ensemble
from p3iv.planners.layers import choose_device
from p3iv.plans.chain import Chain
from p3iv.plans.decoding import decode, plan_chain, plan_probability, recommended_decoder
from p3iv.plans.distribution import PlanDistribution, count_plans, distribution_of
from p3iv.plans.draws import SampleSettings
from p3iv.types import counted, listed
from p3iv.validation import shown

if TYPE_CHECKING:
    from p3iv.data.folder import Dataset
    from p3iv.encoders.base import VideoEncoder

PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")

_MOMENT = re.compile(r"(?P<video>.+)@(?P<second>\d+(\.\d+)?)", re.DOTALL)


class Planner:
    """Plans between two moments; with the same seed a pair gets the same plans, alone or among others.

    A moment is an array of the features that the planner was trained on, (F,), or a text or path such as
    "kitchen.mp4@12.5"; `p3iv.catalogue.MOMENT_FORMS` lists the forms.
    """

    def __init__(self, trained: TrainedPlanner, *, run: Path | None = None, data: Path | None = None) -> None:
        self.trained = trained
        self._run, self._data = run, data
        self._sampler = lru_cache(maxsize=4)(trained.sampler)
        self._reader: MomentReader | None = None

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path,
        *,
        device: str = "auto",
        ensemble: Sequence[str | Path] = (),
        data: str | Path | None = None,
    ) -> Planner:
        """Load a planner.

        Args:
            path: a run folder of `p3iv train`, or a checkpoint file.
            device: auto, cpu, cuda or mps.
            ensemble: more runs, whose probabilities are averaged with those of the first.
            data: the dataset folder, if it has moved since training.
        """
        paths = [Path(one) for one in (path, *ensemble)]
        files = [one if one.is_file() else one / BEST for one in paths]
        trained = load_ensemble(files, device=str(choose_device(device)))
        run = None if paths[0].is_file() else paths[0]
        return cls(trained, run=run, data=None if data is None else Path(data))

    @property
    def horizon(self) -> int:
        return self.trained.header.shape.horizon

    @property
    def names(self) -> tuple[str, ...]:
        """The actions that plans are made of."""
        return self.trained.header.names

    def plan(
        self, start: Any, goal: Any, *, num_samples: int = DEFAULT_NUM_SAMPLES, seed: int = 0, mode: str = DEFAULT_MODE
    ) -> PlanDistribution:
        """The plans between two moments."""
        settings = SampleSettings(num_samples, seed)
        draws = self._sampler(settings).draw(self._observe("start", start)[None], self._observe("goal", goal)[None])
        transitions = self.trained.transitions
        plan = decode(draws, transitions, recommended_decoder(draws))
        probability = plan_probability(draws, plan, plan_chain(draws, transitions))
        return distribution_of(
            count_plans(draws.plans(mode, transitions.row)),
            0,
            names=self.names,
            plan=plan[0],
            plan_probability=min(1.0, float(probability)),
        )

    def plan_many(
        self, start: Any, goal: Any, *, num_samples: int = DEFAULT_NUM_SAMPLES, seed: int = 0, mode: str = DEFAULT_MODE
    ) -> list[PlanDistribution]:
        """The plans of many pairs: two lists of moments, or two arrays (N, F)."""
        starts, goals = list(start), list(goal)
        if len(starts) != len(goals):
            raise PlanError(f"{len(starts)} starts and {len(goals)} goals, but every plan needs one of each.")
        return [
            self.plan(one, other, num_samples=num_samples, seed=seed, mode=mode)
            for one, other in zip(starts, goals, strict=True)
        ]

    def best_plans(self, start: Any, goal: Any, number: int = 5) -> list[tuple[tuple[str, ...], float]]:
        """The most probable plans, in words, each with its probability; best first.

        Exact if the planner is a chain. Otherwise the chain is that of the averaged marginals of its samples, in the
        default number.
        """
        if number < 1:
            raise PlanError(f"number={number}, but it must be at least 1.")
        plans, logs = self._chain(start, goal).best_plans(number)
        found = zip(plans[0].tolist(), logs[0].exp().tolist(), strict=True)
        return [(tuple(self.names[action] for action in plan), share) for plan, share in found if share > 0]

    def probability(self, start: Any, goal: Any, plan: Sequence[str]) -> float:
        """The probability of a plan in words, sampled or not, under the chain that `best_plans` uses.

        For a planner that chooses its plan without a chain, `PlanDistribution.plan_probability` is a share of the
        samples instead, so the two can differ.
        """
        if len(plan) != self.horizon:
            raise PlanError(f"A plan of {counted(len(plan), 'step')}, but this planner's plans have {self.horizon}.")
        if unknown := [step for step in plan if step not in self.names]:
            near = get_close_matches(str(unknown[0]), self.names, n=3)
            hint = f" Similar: {listed([repr(name) for name in near])}." if near else ""
            raise PlanError(f"{shown(unknown[0])} is not one of the {len(self.names)} actions of this planner.{hint}")
        action_ids = torch.tensor([[self.names.index(step) for step in plan]])
        return float(self._chain(start, goal).log_probability(action_ids, torch.zeros(1, dtype=torch.int64)).exp())

    def _chain(self, start: Any, goal: Any) -> Chain:
        pair = self._observe("start", start)[None], self._observe("goal", goal)[None]
        return plan_chain(self._sampler(SampleSettings()).draw(*pair), self.trained.transitions)

    def _observe(self, which: str, moment: Any) -> Tensor:
        """A moment as an observation (F,), checked."""
        if isinstance(moment, str | Path):
            moment = self._read(str(moment))
        width = self.trained.header.shape.feature_width
        try:
            array = torch.as_tensor(np.asarray(moment, dtype=np.float32))
        except (ValueError, TypeError) as error:
            raise PlanError(
                f"The {which} is not an array of numbers, but an observation has the shape ({width},)."
            ) from error
        if array.shape != (width,):
            shape = tuple(array.shape)
            raise PlanError(
                f"The {which} has the shape {shape}, but this planner was trained on features of ({width},)."
            )
        if not array.isfinite().all():
            raise PlanError(f"The {which} has values that are not finite.")
        return array

    def _read(self, text: str) -> Tensor:
        header = self.trained.header
        if self._reader is None:
            self._reader = MomentReader(header.encoder, header.config.data.observation)
        if is_of_dataset(text) and self._reader.dataset is None and (self._run or self._data):
            from p3iv.training.run_folder import dataset_of

            self._reader.dataset = dataset_of(self._run or Path(), self._data)
        return self._reader.read(text)


class MomentReader:
    """Reads moments in the form that one planner needs; the encoder is built when a picture or video first needs it.

    Args:
        encoder: the encoder of the features that the planner was trained on, as its checkpoint names it.
        observation: `mean` or `concat`, as the planner was trained.
        dataset: where VIDEO@SECONDS is looked up, if there is one.
    """

    def __init__(self, encoder: str | None, observation: str, dataset: Dataset | None = None) -> None:
        self._encoder_name, self._observation, self.dataset = encoder, observation, dataset
        self._encoder: VideoEncoder | None = None

    def read(self, text: str) -> Tensor:
        """The observation (F,) of a moment.

        Raises:
            P3ivError: naming the moment and the forms that a moment can have.
        """
        moment, path = _MOMENT.fullmatch(text), Path(text)
        if moment is not None and is_of_dataset(text) and self.dataset is not None:
            from p3iv.data.tensors import observe_moments

            return observe_moments(self.dataset, [(moment["video"], float(moment["second"]))], self._observation)[0]
        if moment is not None and not is_of_dataset(text):
            return self._join(self._encode(Path(moment["video"]), float(moment["second"])))
        if not path.is_file():
            raise PlanError(f"{text!r} is not a moment. A moment is {MOMENT_FORMS}.")
        if path.suffix.lower() == ".npy":
            from p3iv.features.arrays import read_observation

            return self._join(torch.tensor(read_observation(path), dtype=torch.float32))
        if path.suffix.lower() in PICTURES:
            return self._join(self._encode(path))
        raise PlanError(f"{text} does not say which moment of the file. A moment is {MOMENT_FORMS}.")

    @property
    def encoder(self) -> VideoEncoder:
        """The encoder of the features that the planner was trained on."""
        if self._encoder is None:
            from p3iv.encoders.registry import build_encoder

            try:
                self._encoder = build_encoder(self._encoder_name or "none")
            except ConfigError as error:
                raise PlanError(
                    f"This planner was trained on {self._encoder_name or 'unnamed'} features, which cannot be computed "
                    f"from pictures here. Give a .npy of such features, or VIDEO@SECONDS of the dataset."
                ) from error
        return self._encoder

    def _encode(self, path: Path, second: float | None = None) -> Tensor:
        """The rows of a picture, or those around a second of a video: (1 or 3, F)."""
        from p3iv.extraction.worker import encode_moment, encode_picture

        rows = encode_picture(path, self.encoder) if second is None else encode_moment(path, second, self.encoder)
        return torch.from_numpy(rows)

    def _join(self, rows: Tensor) -> Tensor:
        """Rows around a moment (N, F) -> (F,) or, side by side, (3F,); a single row is used three times."""
        if self._observation == "concat":
            return (rows.expand(3, -1) if len(rows) == 1 else rows).flatten()
        return rows.mean(dim=0)


def is_of_dataset(text: str) -> bool:
    """Whether a moment is VIDEO@SECONDS of a dataset: VIDEO is not a file."""
    moment = _MOMENT.fullmatch(text)
    return moment is not None and not Path(moment["video"]).is_file()
