"""The steps of videos for clients: read and written by the ids of videos."""

from __future__ import annotations

from dataclasses import asdict

from p3iv.data.annotations import Annotation, AnnotationStore, ChangedError
from p3iv.metrics.agreement import compare_annotators
from p3iv.serving.annotate_schema import (
    AgreementAnswer,
    AgreementFigures,
    AnnotatedVideo,
    AnnotationsAnswer,
    ConflictAnswer,
    StepsAnswer,
    VideoAgreement,
)
from p3iv.serving.library import KnownVideo, Library
from p3iv.serving.problems import ServiceError


class ConflictError(ServiceError):
    """A change of steps that somebody else has changed meanwhile."""

    def __init__(self, current: StepsAnswer, tag: str) -> None:
        super().__init__(
            409,
            "The steps of this video were changed in another place.",
            "Read them again, or send yours with the ETag of this answer to replace them.",
        )
        self._current = current
        self.headers |= {"ETag": f'"{tag}"'}

    @property
    def content(self) -> ConflictAnswer:
        return ConflictAnswer(error=super().content.error, current=self._current)


class Annotating:
    """Answers about annotations; every method reads files and belongs in a thread."""

    def __init__(self, store: AnnotationStore) -> None:
        self.store = store

    def overview(self, library: Library, annotator: str, actions: tuple[str, ...]) -> AnnotationsAnswer:
        """All videos, and the names in use.

        Args:
            library: knows the videos.
            annotator: whose progress is asked for.
            actions: that the planner knows; they come after those in use.
        """
        videos = library.annotated()
        names = [name_of(video) for video in videos]
        found, used = self.store.read_all(annotator, names), self.store.vocabulary(names)
        return AnnotationsAnswer(
            annotators=self.store.annotators(),
            videos=tuple(_about(video, found[name_of(video)]) for video in videos),
            steps=tuple(dict.fromkeys((*used.steps, *actions))),
            tasks=used.tasks,
        )

    def read(self, video: KnownVideo, annotator: str) -> tuple[StepsAnswer, str]:
        """The steps of a video, and their tag."""
        found = self.store.read(annotator, name_of(video))
        return _answer(video, annotator, found), found.tag

    def write(self, video: KnownVideo, annotator: str, annotation: Annotation, tag: str) -> tuple[StepsAnswer, str]:
        """Store the steps of a video; they are on the disk when this returns.

        Raises:
            ConflictError: they are others by now.
        """
        try:
            stored = self.store.write(annotator, name_of(video), annotation, tag)
        except ChangedError as error:
            raise ConflictError(_answer(video, annotator, error.current), error.current.tag) from error
        return _answer(video, annotator, stored), stored.tag

    def agreement(self, library: Library, first: str, second: str) -> AgreementAnswer:
        """How far two annotators agree about the videos that both have annotated."""
        videos = {name_of(video): video for video in library.annotated()}
        compared = compare_annotators(self.store, first, second, list(videos))
        return AgreementAnswer(
            annotators=(first, second),
            videos=tuple(
                VideoAgreement(id=videos[name].id, name=videos[name].name, **asdict(figures))
                for name, figures in compared.videos.items()
            ),
            overall=AgreementFigures(**asdict(compared.overall)),
        )


def name_of(video: KnownVideo) -> str:
    """The name of a video in steps.csv."""
    return video.dataset_video or video.name


def _answer(video: KnownVideo, annotator: str, found: Annotation) -> StepsAnswer:
    return StepsAnswer(video=video.id, annotator=annotator, task=found.task, steps=found.steps)


def _about(video: KnownVideo, found: Annotation | Exception) -> AnnotatedVideo:
    if isinstance(found, Exception):
        return AnnotatedVideo(id=video.id, name=video.name, task="", num_steps=0, problem=str(found))
    return AnnotatedVideo(id=video.id, name=video.name, task=found.task, num_steps=len(found.steps), problem=None)
