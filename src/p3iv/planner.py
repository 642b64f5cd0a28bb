"""Plan from Python: load a trained planner and ask for the plausible plans between two moments.

planner = Planner.from_pretrained("runs/first")
distribution = planner.plan("kitchen.mp4@12.5", "kitchen.mp4@71")
for steps, probability in distribution.top(3):
    print(f"{probability:.0%}", " -> ".join(steps))
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from p3iv.catalogue import DEFAULT_NUM_SAMPLES, MAX_PLANS, MOMENT_FORMS
from p3iv.encoders.identity import IMPORTED, PRECOMPUTED, find_difference, note_comparison
from p3iv.errors import FeatureError, PlanError
from p3iv.features.store import join_rows
from p3iv.planners.checkpoint import TrainedPlanner, load_ensemble
from p3iv.planners.header import BEST, Header
from p3iv.planners.layers import choose_device
from p3iv.planners.matching import check_features
from p3iv.plans.counts import count_plans
from p3iv.plans.decoding import has_chain, plan_chain, plan_probability, rank_plans
from p3iv.plans.distribution import SOURCES, PlanDistribution, Steps
from p3iv.plans.draws import Draws, SampleSettings
from p3iv.types import Array, counted, listed
from p3iv.validation import shown

if TYPE_CHECKING:
    from p3iv.data.folder import Dataset
    from p3iv.encoders.base import VideoEncoder

NUM_PLANS = 100  # that `plan` returns: nearly all of the probability, unless the plans are long
PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")

ONE_MOMENT = (*(suffix for suffix in PICTURES if suffix != ".gif"), ".npy")  # files that take no @SECONDS

OnNote = Callable[[str], object]

_MOMENT = re.compile(r"(?P<video>.+)@(?P<second>\d+(\.\d+)?)", re.DOTALL)


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
        paths = [Path(one) for one in (path, *ensemble)]
        files = [one if one.is_file() else one / BEST for one in paths]
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
        action_ids = torch.tensor([[self.names.index(step) for step in plan]])
        chain = plan_chain(draws, self.trained.transitions)
        return min(1.0, float(plan_probability(draws, action_ids, chain)))

    def _draw(self, start: Any, goal: Any, settings: SampleSettings) -> Draws:
        return self._sampler(settings).draw(self._observe("start", start)[None], self._observe("goal", goal)[None])

    def _words(self, plans: Tensor) -> tuple[Steps, ...]:
        """Plans (n, T) in words."""
        return tuple(tuple(self.names[action] for action in plan) for plan in plans.tolist())

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
        if is_of_dataset(text) and self._reader.dataset is None and (self._run or self._data):
            from p3iv.training.run_folder import dataset_of

            self._reader.use_dataset(dataset_of(self._run or Path(), self._data))
        return self._reader.read(text)


@dataclass(frozen=True)
class EncoderChoice:
    """What a user says about the encoder of new videos and pictures; it must be the one of the planner's features."""

    name: str | None = None  # None: as in the checkpoint
    weights: str | None = None
    allow_download: bool = False  # of the model that `weights` or the checkpoint names on the hub


class MomentReader:
    """Reads moments in the form that one planner needs; the encoder is built when a picture or video first needs it.

    Args:
        header: of the planner's checkpoint.
        choice: what the user says about the encoder.
        on_note: is called with what the user should know.
    """

    def __init__(self, header: Header, choice: EncoderChoice | None = None, on_note: OnNote = warnings.warn) -> None:
        self._header, self._choice, self._on_note = header, choice or EncoderChoice(), on_note
        self._observation = header.config.data.observation
        self.dataset: Dataset | None = None  # where VIDEO@SECONDS is looked up, if there is one

    def use_dataset(self, dataset: Dataset) -> None:
        """Look VIDEO@SECONDS up in this dataset.

        Raises:
            DatasetError: its features are not those of the planner's encoder.
        """
        for note in check_features(self._header, dataset):
            self._on_note(note)
        self.dataset = dataset

    def read(self, text: str) -> Tensor:
        """The observation (F,) of a moment.

        Raises:
            P3ivError: naming the moment and the forms that a moment can have.
        """
        moment = _MOMENT.fullmatch(text)
        if moment is not None and is_of_dataset(text) and self.dataset is not None:
            from p3iv.data.tensors import observe_moments

            return observe_moments(self.dataset, [(moment["video"], float(moment["second"]))], self._observation)[0]
        return torch.from_numpy(join_rows(self._rows(text), self._observation))

    def _rows(self, text: str) -> Array:
        """The rows of a picture or a feature file, or those around a second of a video: (N, F) float32."""
        moment, path = _MOMENT.fullmatch(text), Path(text)
        if moment is not None and not is_of_dataset(text):
            from p3iv.extraction.worker import encode_moment

            if Path(moment["video"]).suffix.lower() in ONE_MOMENT:
                kind = "a file of features" if moment["video"].lower().endswith(".npy") else "a picture"
                raise PlanError(f"{moment['video']} is {kind}; write it without @{moment['second']}.")
            return encode_moment(Path(moment["video"]), float(moment["second"]), self.encoder)
        if not _is_file(text):
            raise PlanError(f"{_explain_moment(text)} A moment is {MOMENT_FORMS}.")
        if path.suffix.lower() == ".npy":
            from p3iv.features.arrays import read_observation

            return read_observation(path).astype(np.float32)
        if path.suffix.lower() in PICTURES:
            from p3iv.extraction.worker import encode_picture

            return encode_picture(path, self.encoder)
        raise PlanError(f"{text} does not say which moment of the file. A moment is {MOMENT_FORMS}.")

    @cached_property
    def encoder(self) -> VideoEncoder:
        """The encoder of the features that the planner was trained on.

        Raises:
            PlanError: it is not known, or the one that was found is another.
        """
        from p3iv.encoders.base import EncoderOptions
        from p3iv.encoders.registry import build_encoder

        expected, choice = self._header.encoder, self._choice
        name = self._encoder_name()
        try:
            encoder = build_encoder(name, EncoderOptions(self._weights(), allow_download=choice.allow_download))
        except FeatureError as error:
            raise (PlanError(f"{error}. {self._what_to_type(name)}") if self._needless_options() else error) from error
        if difference := find_difference(encoder.identity, expected):
            raise PlanError(
                f"This planner was trained on features of {expected}, but {encoder.identity} is another encoder: "
                f"{difference}. {self._what_to_type(expected.name if expected else name)}"
            )
        for note in note_comparison(encoder.identity, expected):
            self._on_note(note)
        return encoder

    def _encoder_name(self) -> str:
        from p3iv.encoders.registry import VIDEO_ENCODERS

        expected, choice = self._header.encoder, self._choice
        name = choice.name or (expected.name if expected else None)
        is_other = expected is not None and expected.name not in (*VIDEO_ENCODERS, IMPORTED, PRECOMPUTED)
        if is_other or name is None or (choice.name is None and name not in VIDEO_ENCODERS):
            advice = (
                "To plan from videos and pictures, type: p3iv extract DIR --overwrite, then train again."
                if is_other
                else f"If one of p3iv's encoders made them, name it: --encoder {'|'.join(VIDEO_ENCODERS)}, with its "
                f"--weights."
            )
            raise PlanError(
                f"This planner was trained on {expected or 'unnamed'} features, which cannot be computed "
                f"from pictures here. Give a .npy of such features, or VIDEO@SECONDS of the dataset. {advice}"
            )
        return name

    def _weights(self) -> str | None:
        """The weights that the user gave, or those of the checkpoint; a path in a checkpoint is never opened."""
        from p3iv.encoders.registry import ENCODERS

        expected, choice = self._header.encoder, self._choice
        if choice.weights is not None or choice.name is not None or expected is None:
            return choice.weights
        if expected.fingerprint is None:
            raise PlanError(
                f"The checkpoint says that its features are of {expected}, but not with which weights. Name the "
                f"encoder yourself; that it is the same cannot be checked. {self._what_to_type(expected.name)}"
            )
        if expected.weights is not None and not (ENCODERS[expected.name].on_hub and expected.is_hub_name):
            raise PlanError(
                f"This planner was trained on features of {expected.name} with the weights {expected.weights}, which "
                f"are not in the checkpoint. {self._what_to_type(expected.name)}"
            )
        return expected.weights

    def _needless_options(self) -> str:
        """The options with which the user chose an encoder, where the checkpoint's own needs none of them."""
        expected, choice = self._header.encoder, self._choice
        if expected is None or expected.fingerprint is None or expected.weights is not None:
            return ""
        given = {"--encoder": choice.name, "--weights": choice.weights}
        return " and ".join(option for option, value in given.items() if value is not None)

    def _what_to_type(self, name: str) -> str:
        from p3iv.encoders.registry import ENCODERS

        if options := self._needless_options():
            return f"Leave out {options}: the planner's features are of the packaged weights."
        file = self._header.encoder.weights if self._header.encoder else None
        needs = file or (name in ENCODERS and ENCODERS[name].weights)
        weights = (
            f" --weights {file or 'FILE'}" if needs else " (with --weights FILE if they are not the packaged ones)"
        )
        return f"Type: --encoder {name}{weights}, or give moments of the dataset (VIDEO@SECONDS) or arrays of features."


def is_of_dataset(text: str) -> bool:
    """Whether a moment is VIDEO@SECONDS of a dataset: VIDEO is not a file."""
    moment = _MOMENT.fullmatch(text)
    return moment is not None and not _is_file(moment["video"])


def needs_encoder(text: str) -> bool:
    """Whether a moment is of a video file or a picture, not of features."""
    return not is_of_dataset(text) and Path(text).suffix.lower() != ".npy"


def _explain_moment(text: str) -> str:
    """What is wrong with a text that is neither a file nor has a number of seconds at its end."""
    _, at, second = text.rpartition("@")
    if not at:
        return f"There is no file {shown(text)}."
    hint = ""
    if clock := re.fullmatch(r"(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)", second):
        hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        hint = f"; for {second} type @{3600 * hours + 60 * minutes + seconds:.10g}"
    elif number := re.fullmatch(r"(\d+(?:\.\d+)?) ?[a-z]+", second):
        hint = f"; type @{number[1]}"
    elif second.startswith("-"):
        hint = " from 0"
    return f"{shown(second)} is not a number of seconds{hint}."


def _is_file(text: str) -> bool:
    """Whether there is such a file; a text that is too long for a file name names none."""
    try:
        return Path(text).is_file()
    except OSError:
        return False
