"""Moments to plan from (a second of a video, a picture, features), each as the observation (F,) of a planner."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from p3iv.catalogue import MOMENT_FORMS
from p3iv.encoders.identity import IMPORTED, PRECOMPUTED, find_difference, note_comparison
from p3iv.errors import FeatureError, PlanError, warn_caller
from p3iv.features.observation import join_rows
from p3iv.shipped import shipped_clip
from p3iv.types import Array
from p3iv.validation import shown

if TYPE_CHECKING:
    from p3iv.data.folder import Dataset
    from p3iv.encoders.base import VideoEncoder
    from p3iv.features.pictures import Picture
    from p3iv.planners.header import Header

PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")

ONE_MOMENT = (*(suffix for suffix in PICTURES if suffix != ".gif"), ".npy")  # files that take no @SECONDS

MAX_VALUE = 1e9  # of features; sums of larger ones are not finite

OnNote = Callable[[str], object]

# A text or path, a video and its second, a picture (an array or a PIL image), or features (F,): see `p3iv.Planner`.
Moment: TypeAlias = "str | Path | tuple[str | Path, float] | Sequence[float] | Array | Any"

_MOMENT = re.compile(r"(?P<video>.+)@(?P<time>[\d:.]+)", re.DOTALL)
_SECONDS = re.compile(r"\d+(?:\.\d+)?")
_CLOCK = re.compile(r"(?:(?P<hours>\d+):)?(?P<minutes>\d+):(?P<seconds>[0-5]?\d(?:\.\d+)?)")


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
        run: the run folder, which names the dataset that VIDEO@SECONDS is looked up in.
        data: the dataset folder, if it is another than the run says.
    """

    def __init__(
        self,
        header: Header,
        choice: EncoderChoice | None = None,
        on_note: OnNote = warn_caller,
        *,
        run: Path | None = None,
        data: Path | None = None,
    ) -> None:
        self._header, self._choice, self._on_note = header, choice or EncoderChoice(), on_note
        self.observation = header.config.data.observation
        self._run, self._data = run, data
        self.dataset: Dataset | None = None  # where VIDEO@SECONDS is looked up, if there is one

    def use_dataset(self, dataset: Dataset) -> None:
        """Look VIDEO@SECONDS up in this dataset.

        Raises:
            DatasetError: its features are not those of the planner's encoder.
        """
        from p3iv.planners.matching import check_features

        for note in check_features(self._header, dataset):
            self._on_note(note)
        self.dataset = dataset

    def read(self, moment: Moment, which: str = "moment") -> Array:
        """The observation (F,) of a moment; `which` names it in messages.

        Raises:
            P3ivError: naming the moment and the forms that a moment can have.
        """
        found: Any = moment
        try:
            if isinstance(moment, str | Path):
                found = self._read_text(str(moment))
            elif isinstance(moment, tuple) and len(moment) == 2 and isinstance(moment[0], str | Path):
                found = self._read_second(str(moment[0]), _seconds(moment[1]))
            elif (picture := _picture_of(moment)) is not None:
                from p3iv.extraction.moment import encode_picture

                found = join_rows(encode_picture(picture, self.encoder, f"The {which}"), self.observation)
        except PlanError as error:
            raise PlanError(f"The {which}: {error}" if which != "moment" else str(error)) from error
        return self._check(found, which)

    def read_history(self, moment: Moment) -> Array | None:
        """The mean of the video before a moment, (F,); None if it is not of a video, or nothing comes before it.

        Raises:
            P3ivError: naming the moment.
        """
        parts = None
        if isinstance(moment, str | Path):
            parts = split_moment(str(moment))
        elif isinstance(moment, tuple) and len(moment) == 2 and isinstance(moment[0], str | Path):
            parts = str(moment[0]), _seconds(moment[1])
        if parts is None:
            return None
        video, second = parts
        file = shipped_clip(video) or Path(video)
        if _is_file(str(file)):
            from p3iv.extraction.moment import encode_before

            return _repeated(encode_before(file, second, self.encoder), self.observation)
        if (dataset := self.find_dataset()) is None:
            return None
        from p3iv.data.observations import ObservationReader

        means, is_there = ObservationReader(dataset, self.observation).observe_before([(video, second)])
        return means[0] if is_there[0] else None

    def _check(self, observation: Any, which: str) -> Array:
        """An observation (F,) of the planner's width."""
        width = self._header.shape.feature_width
        try:
            array = np.asarray(observation, dtype=np.float32)
        except (ValueError, TypeError):
            array = None
        if array is None or array.ndim == 0:
            raise PlanError(
                f"The {which} is {type(observation).__name__}, which is not a moment. A moment is {MOMENT_FORMS}; in "
                f"Python also (video, seconds), a picture, or an array of features of the shape ({width},)."
            )
        if array.shape != (width,):
            raise PlanError(
                f"The {which} has the shape {array.shape}, but this planner was trained on features of ({width},)."
            )
        if not (np.abs(array) <= MAX_VALUE).all():
            raise PlanError(f"The {which} has values that are not finite, or beyond {MAX_VALUE:g}.")
        return array

    def _read_text(self, text: str) -> Array:
        """The observation of a text: a video and a time, or a file."""
        parts = split_moment(text)
        return join_rows(self._rows(text), self.observation) if parts is None else self._read_second(*parts)

    def _read_second(self, video: str, second: float) -> Array:
        """The observation at a second of a video file, or of a video of the dataset."""
        file = shipped_clip(video) or Path(video)
        if _is_file(str(file)):
            from p3iv.extraction.moment import encode_moment

            if file.suffix.lower() in ONE_MOMENT:
                kind = "a file of features" if file.suffix.lower() == ".npy" else "a picture"
                raise PlanError(f"{video} is {kind}: give it without a time.")
            return join_rows(encode_moment(file, second, self.encoder), self.observation)
        if (dataset := self.find_dataset()) is None:
            raise PlanError(f"There is no file {shown(video)}. A moment is {MOMENT_FORMS}.")
        from p3iv.data.observations import observe_moments

        found: Array = observe_moments(dataset, [(video, second)], self.observation)[0]
        return found

    def find_dataset(self) -> Dataset | None:
        """The dataset that VIDEO@SECONDS is looked up in: the one that was named, or that of the planner's own run.

        Raises:
            DatasetError: it is not there, or its features are not those of the planner's encoder.
        """
        if self.dataset is None and (self._run or self._data):
            from p3iv.planners.header import BEST
            from p3iv.training.run_folder import ENVIRONMENT_FILE, dataset_of

            run = self._run or Path()
            is_own_run = (run / BEST).is_file() and (run / ENVIRONMENT_FILE).is_file()
            if self._data or is_own_run:  # what a planner from elsewhere says about folders here is not used
                self.use_dataset(dataset_of(run, self._data))
        return self.dataset

    def _rows(self, text: str) -> Array:
        """The rows of a picture or a feature file: (N, F) float32."""
        path = Path(text)
        if not _is_file(text) and shipped_clip(text) is None:
            raise PlanError(f"{_explain_moment(text)} A moment is {MOMENT_FORMS}.")
        if path.suffix.lower() == ".npy":
            from p3iv.features.arrays import read_observation

            return read_observation(path).astype(np.float32)
        if path.suffix.lower() in PICTURES:
            from p3iv.extraction.moment import encode_picture
            from p3iv.features.pictures import read_picture

            encoder = self.encoder  # first: without one, what is in the file does not matter
            return encode_picture(read_picture(path), encoder, text)
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


def split_moment(text: str) -> tuple[str, float] | None:
    """The video and the second of a text such as clip.mp4@12.5 or clip.mp4@1:02.5; None if it is not of that form.

    >>> split_moment("clip.mp4@1:02.5")
    ('clip.mp4', 62.5)
    """
    found = _MOMENT.fullmatch(text)
    if found is None:
        return None
    if _SECONDS.fullmatch(found["time"]):
        return found["video"], float(found["time"])
    clock = _CLOCK.fullmatch(found["time"])
    if clock is None:
        return None
    hours, minutes, seconds = (float(clock[part] or 0) for part in ("hours", "minutes", "seconds"))
    return found["video"], 3600 * hours + 60 * minutes + seconds


def is_of_dataset(text: str) -> bool:
    """Whether a moment is VIDEO@SECONDS of a dataset: VIDEO is neither a file nor a clip that comes with p3iv."""
    moment = split_moment(text)
    return moment is not None and not _is_file(moment[0]) and shipped_clip(moment[0]) is None


def needs_encoder(text: str) -> bool:
    """Whether a moment is of a video file or a picture, not of features."""
    return not is_of_dataset(text) and Path(text).suffix.lower() != ".npy"


def _explain_moment(text: str) -> str:
    """What is wrong with a text that is neither a file nor has a time at its end."""
    _, at, time = text.rpartition("@")
    if not at:
        return f"There is no file {shown(text)}."
    hint = ""
    if number := re.fullmatch(r"([\d:.]+) ?[a-z]+", time):
        hint = f"; type @{number[1]}"
    elif time.startswith("-"):
        hint = " from 0"
    return f"{shown(time)} is not a time in seconds or as mm:ss{hint}."


def _repeated(mean: Array | None, observation: str) -> Array | None:
    """The mean of rows (F,) in the form of an observation."""
    return None if mean is None else join_rows(mean[None], observation)


def _seconds(second: Any) -> float:
    """The second of a pair (video, second)."""
    if isinstance(second, int | float | np.number) and not isinstance(second, bool) and 0 <= second < 1e9:
        return float(second)
    raise PlanError(f"{shown(second)} is not a number of seconds from 0, as (video, seconds) needs.")


def _picture_of(moment: Any) -> Picture | None:
    """A picture that was given as an array (height, width, 3) of uint8 or as a PIL image; None if it is neither."""
    if hasattr(moment, "convert") and hasattr(moment, "getexif"):
        from p3iv.features.pictures import picture_of_image

        return picture_of_image(moment)
    if isinstance(moment, np.ndarray) and moment.ndim == 3:
        if moment.dtype != np.uint8 or moment.shape[2] != 3 or 0 in moment.shape:
            raise PlanError(
                f"A picture of {moment.dtype} and the shape {moment.shape}, but it must be uint8 of the shape "
                f"(height, width, 3), in the order red, green, blue."
            )
        from p3iv.features.pictures import Picture

        return Picture(moment)
    return None


def _is_file(text: str) -> bool:
    """Whether there is such a file; a text that is too long for a file name names none."""
    try:
        return Path(text).is_file()
    except OSError:
        return False
