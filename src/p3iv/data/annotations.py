"""Steps of videos as annotators mark them: one file per annotator and video, from which steps.csv is kept up to date.

    annotations/ANNOTATOR/VIDEO.json    {"task": ..., "steps": [{"step": ..., "start_s": ..., "end_s": ...}, ...]}

steps.csv has the steps of one annotator, `main`: it is rewritten with every change of theirs. A video is in it as soon
as it has a task and a step. If somebody changes its rows in another way, these count.
"""

from __future__ import annotations

import errno
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from p3iv.data.folder import find_videos
from p3iv.errors import DatasetError, SourceError
from p3iv.files import exclusive, remove_leftovers, write_text
from p3iv.readers.edit_steps import replace_video_rows
from p3iv.readers.files import UnusableError, is_there, read_bytes, read_text
from p3iv.readers.steps import MAX_STEPS_BYTES, STEPS_FILE, parse_steps
from p3iv.readers.variants import spelling_key
from p3iv.types import Step, Video
from p3iv.validation import check_plain, explain

MAIN: Final = "main"  # the annotator whose steps are in steps.csv
FOLDER: Final = "annotations"
ANNOTATOR: Final = "[a-z0-9][a-z0-9_-]{0,31}"  # it names a folder, and some systems do not tell capitals apart
MAX_STEPS: Final = 5000  # of a video
MAX_SECOND: Final = 86_400.0  # no video that p3iv reads is longer
_MAX_BYTES: Final = 2**22  # of a file of annotations


def _clean_name(text: str) -> str:
    return check_plain(text.strip())


Name = Annotated[str, AfterValidator(_clean_name)]
Second = Annotated[float, Field(ge=0, le=MAX_SECOND, allow_inf_nan=False)]


class AnnotatedStep(BaseModel):
    """A step and its times in a video."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: Annotated[Name, Field(min_length=1)]
    start_s: Second
    end_s: Second

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.step:
            raise ValueError("the step is blank, expected its name")
        if self.end_s < self.start_s:
            raise ValueError(f"the end {self.end_s:g} is before the start {self.start_s:g}")
        return self


class Annotation(BaseModel):
    """What one annotator says about one video."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: Name = ""  # the procedure; "": not said yet
    steps: Annotated[tuple[AnnotatedStep, ...], Field(max_length=MAX_STEPS)] = ()

    def in_order(self) -> Annotation:
        """The same with its steps ordered by start, then end."""
        return Annotation(task=self.task, steps=tuple(sorted(self.steps, key=lambda step: (step.start_s, step.end_s))))

    @property
    def tag(self) -> str:
        """Changes with the content."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:32]

    def to_video(self, name: str) -> Video:
        """The video as steps.csv has it: without steps, as long as the task is not known."""
        steps = tuple(Step(step.step, step.start_s, step.end_s) for step in self.steps) if self.task else ()
        return Video(name, self.task, steps)


class ChangedError(DatasetError):
    """Somebody else has changed the steps of a video since they were read."""

    def __init__(self, current: Annotation) -> None:
        super().__init__("The steps of this video were changed in another place.")
        self.current = current


@dataclass(frozen=True)
class Vocabulary:
    """The names that are in use, the most frequent first."""

    steps: tuple[str, ...]
    tasks: tuple[str, ...]


class AnnotationStore:
    """The annotations in a folder whose `videos/` has the videos.

    Args:
        folder: that becomes a dataset folder.

    Raises:
        DatasetError: it has no folder videos/ with a video.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not find_videos(folder / "videos"):
            raise DatasetError(f"{folder / 'videos'} has no videos. Put those that you want to annotate there.")

    def annotators(self) -> tuple[str, ...]:
        """Everybody who has annotated a video, `main` first."""
        place = self.folder / FOLDER
        found = sorted(path.name for path in place.iterdir() if path.is_dir()) if place.is_dir() else []
        return (MAIN, *(name for name in found if name != MAIN and re.fullmatch(ANNOTATOR, name)))

    def read(self, annotator: str, video: str) -> Annotation:
        """The steps of a video; none, if it was not annotated yet.

        Raises:
            DatasetError: a file cannot be used.
        """
        own = self._read_own(annotator, video)
        return own if annotator != MAIN else _latest(own, self._listed().get(video))

    def read_all(self, annotator: str, videos: Sequence[str]) -> dict[str, Annotation | DatasetError]:
        """The steps of several videos, or why those of one cannot be used."""
        listed = self._listed() if annotator == MAIN else {}
        found: dict[str, Annotation | DatasetError] = {}
        for video in videos:
            try:
                found[video] = _latest(self._read_own(annotator, video), listed.get(video))
            except DatasetError as error:
                found[video] = error
        return found

    def write(self, annotator: str, video: str, annotation: Annotation, tag: str) -> Annotation:
        """Store the steps of a video, on the disk when this returns.

        Args:
            annotator: whose steps they are.
            video: the name of its file without the ending.
            annotation: the new content.
            tag: of the content that it replaces.

        Returns:
            What is stored: the same, in the order of time.

        Raises:
            ChangedError: the content is another one by now.
            DatasetError: it cannot be stored.
        """
        annotation = annotation.in_order()
        place = self._place(annotator, video)
        with _naming(video), exclusive(self.folder / STEPS_FILE, doing=f"is writing {STEPS_FILE}", wait=True):
            current = self.read(annotator, video)
            if current == annotation and is_there(place):
                return annotation  # as when a request is sent again, because its answer was lost
            if current.tag != tag:
                raise ChangedError(current)
            steps_text = self._changed_steps(annotation.to_video(video)) if annotator == MAIN else None
            remove_leftovers(place)
            write_text(place, annotation.model_dump_json(indent=1) + "\n")
            if steps_text is not None:
                remove_leftovers(self.folder / STEPS_FILE)
                write_text(self.folder / STEPS_FILE, steps_text)
        return annotation

    def vocabulary(self, videos: Sequence[str]) -> Vocabulary:
        """The names of steps and tasks that any annotator has used."""
        steps: Counter[str] = Counter()
        tasks: Counter[str] = Counter()
        for annotator in self.annotators():
            for found in self.read_all(annotator, videos).values():
                if isinstance(found, Annotation):
                    steps.update(step.step for step in found.steps)
                    tasks.update([found.task] if found.task else [])
        for video in self._listed().values():
            steps.update(step.action for step in video.steps)
            tasks.update([video.task])
        return Vocabulary(*(tuple(name for name, _ in counts.most_common()) for counts in (steps, tasks)))

    def _place(self, annotator: str, video: str) -> Path:
        if not re.fullmatch(ANNOTATOR, annotator):
            raise DatasetError(f"an annotator's name has letters a to z, digits, - and _, got {annotator!r}.")
        return self.folder / FOLDER / annotator / f"{video}.json"

    def _read_own(self, annotator: str, video: str) -> Annotation:
        place = self._place(annotator, video)
        if not is_there(place):
            return Annotation()
        try:
            return Annotation.model_validate_json(read_text(place, _MAX_BYTES)).in_order()
        except UnusableError as error:
            raise DatasetError(f"{_shown(place)}: {error}.") from error
        except ValidationError as error:
            raise DatasetError(f"{_shown(place)}: {explain(error)}. Repair or delete it.") from error

    def _listed(self) -> dict[str, Video]:
        """The videos of steps.csv."""
        if not is_there(self.folder / STEPS_FILE):
            return {}
        with _usable_steps():
            return parse_steps(read_bytes(self.folder / STEPS_FILE, MAX_STEPS_BYTES)).videos.videos

    def _changed_steps(self, video: Video) -> str | None:
        """The content of steps.csv with other rows of a video; None if they are the same."""
        place = self.folder / STEPS_FILE
        with _usable_steps():
            content = read_bytes(place, MAX_STEPS_BYTES) if is_there(place) else b""
            changed = replace_video_rows(content, video) if content or video.steps else ""
        return None if changed.encode("utf-8") == content else changed


def _latest(own: Annotation, listed: Video | None) -> Annotation:
    """The rows of steps.csv, if there are any and they are not those of the annotator's file."""
    if listed is None or not listed.steps:
        return own
    if not listed.is_timed:
        raise DatasetError(
            f"The steps of this video have no times in {STEPS_FILE}. Add times to its rows, or delete these rows."
        )
    known = [(spelling_key(step.step), step.start_s, step.end_s) for step in own.steps]
    found = [(spelling_key(step.action), step.start_s, step.end_s) for step in listed.steps]
    if known == found and spelling_key(own.task) == spelling_key(listed.task):  # the file has one spelling of a name
        return own
    steps = tuple(
        AnnotatedStep(step=step.action, start_s=step.start_s or 0.0, end_s=step.end_s or 0.0) for step in listed.steps
    )
    return Annotation(task=listed.task, steps=steps)


def _shown(place: Path) -> str:
    """A file of annotations without the folder around them, which a client need not know."""
    return "/".join(place.parts[-3:])


@contextmanager
def _usable_steps() -> Iterator[None]:
    try:
        yield
    except (UnusableError, SourceError) as error:
        raise DatasetError(f"{STEPS_FILE}: {error}.") from error


@contextmanager
def _naming(video: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise DatasetError(f"The name of the video has {len(video)} characters: rename its file.") from error
