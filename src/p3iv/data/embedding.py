"""Embeddings of the steps of a dataset: language.npz, made by a text encoder."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from p3iv.data.folder import (
    LANGUAGE_FILE,
    UNALIGNED_FILE,
    Dataset,
    DatasetCard,
    exclusive_dataset,
    extend_vocabulary,
    open_dataset,
    read_card,
    refuse_leftover,
)
from p3iv.encoders.base import EncoderOptions, TextEncoder
from p3iv.encoders.identity import EncoderIdentity
from p3iv.encoders.registry import DEFAULT_TEXT_ENCODER, build_text_encoder
from p3iv.errors import DatasetError
from p3iv.features.language import read_language, write_language
from p3iv.readers.folder import read_folder
from p3iv.types import Vocabulary


@dataclass(frozen=True)
class StepEmbedder:
    """Embeds the steps of a dataset with a text encoder; without one, language.npz stays as it is."""

    dataset: Dataset
    encoder: TextEncoder | None

    @property
    def identity(self) -> EncoderIdentity | None:
        """The text encoder, for dataset.yaml."""
        return self.encoder.text_identity if self.encoder else self.dataset.card.text_encoder

    def write(self) -> None:
        """Write language.npz: every step of the vocabulary, in its order and with its ids."""
        if self.encoder is not None:
            write_embeddings(self.dataset.folder, self.dataset.vocabulary, self.encoder)


def write_embeddings(folder: Path, vocabulary: Vocabulary, encoder: TextEncoder) -> None:
    """Write the language.npz of a vocabulary, with its ids if all steps have one."""
    actions = vocabulary.actions
    embedding = encoder.encode_text([action.text for action in actions]).numpy()
    ids = [action.id for action in actions if action.id is not None]
    complete = ids if len(ids) == len(actions) else None
    write_language(folder / LANGUAGE_FILE, vocabulary.names, embedding, complete)
    (folder / UNALIGNED_FILE).unlink(missing_ok=True)


def can_be_made_again(card: DatasetCard) -> bool:
    """Whether p3iv made the embeddings from the texts alone, so that nothing is lost when it does so again."""
    made = card.text_encoder
    return made is not None and made.fingerprint is not None and not made.name.endswith(" aligned")


def open_for_embedding(folder: Path, *, overwrite: bool) -> Dataset:
    """Open a dataset whose embeddings will be replaced: they need not match its steps, as after new videos.

    Without `overwrite`, only those that p3iv made can be made again.
    """
    language = folder / LANGUAGE_FILE
    if not language.is_file():
        return open_dataset(folder)
    refuse_leftover(folder)
    annotations, card = read_folder(folder), read_card(folder)
    is_ours = card.text_encoder is not None and card.text_encoder.fingerprint is not None
    if annotations.problems or not (overwrite or is_ours):
        return open_dataset(folder)  # which raises an error about them
    vocabulary = extend_vocabulary(annotations.vocabulary, read_language(language))
    return Dataset(
        folder, card, annotations.videos, vocabulary, annotations.split, language=None, notes=annotations.notes
    )


@dataclass(frozen=True)
class EmbeddingRequest:
    """Which dataset, and which text encoder."""

    folder: Path
    text_encoder: str = DEFAULT_TEXT_ENCODER
    options: EncoderOptions = field(default_factory=EncoderOptions)
    overwrite: bool = False


@dataclass(frozen=True)
class EmbeddingReport:
    """The step embeddings of a dataset."""

    folder: Path
    text_encoder: EncoderIdentity
    num_steps: int
    width: int
    num_new_steps: int  # steps that had no embedding of this encoder
    notes: tuple[str, ...] = ()  # what was understood in steps.csv


def embed_dataset(request: EmbeddingRequest) -> EmbeddingReport:
    """Give a dataset embeddings of its steps; complete ones of the same encoder stay as they are.

    Raises:
        DatasetError: it has embeddings that p3iv cannot make again, and `overwrite` is False.
        BusyError: another process is writing into the folder.
    """
    folder = request.folder
    with exclusive_dataset(folder):
        dataset = open_for_embedding(folder, overwrite=request.overwrite)
        old = read_language(folder / LANGUAGE_FILE) if (folder / LANGUAGE_FILE).is_file() else None
        encoder = build_text_encoder(request.text_encoder, request.options)
        identity, card, num_steps = encoder.text_identity, dataset.card, len(dataset.vocabulary)
        if old is not None and not request.overwrite:
            _refuse_to_replace(folder, card, identity)
        num_new = num_steps - (len(old.names) if old is not None and not request.overwrite else 0)
        if num_new:
            replace(card, text_encoder=identity).write(folder)
            write_embeddings(folder, dataset.vocabulary, encoder)
        width = read_language(folder / LANGUAGE_FILE).embedding.shape[1]
    return EmbeddingReport(folder, identity, num_steps, width, num_new, dataset.notes)


def _refuse_to_replace(folder: Path, card: DatasetCard, wanted: EncoderIdentity) -> None:
    made = card.text_encoder
    if not can_be_made_again(card) or made is None or made.fingerprint != wanted.fingerprint:
        raise DatasetError(
            f"{folder / LANGUAGE_FILE} has embeddings by {made or 'an unknown encoder'}. Pass --overwrite to replace "
            f"them by embeddings of {wanted}."
        )
