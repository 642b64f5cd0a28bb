"""Step texts -> language.npz."""

from __future__ import annotations

from dataclasses import dataclass

from p3iv.dataset import Dataset
from p3iv.extraction.request import KEEP, ExtractionRequest
from p3iv.features import write_language
from p3iv.features.encoders import (
    DEFAULT_TEXT_ENCODER,
    EncoderOptions,
    TextEncoder,
    VideoEncoder,
    build_text_encoder,
)

LANGUAGE_FILE = "language.npz"
UNALIGNED_FILE = "language_text.npz"  # the embeddings of the texts alone, where `p3iv align` has replaced them


@dataclass(frozen=True)
class TextPlan:
    """Who embeds the steps of a dataset; nobody where language.npz stays."""

    dataset: Dataset
    encoder: TextEncoder | None

    @property
    def name(self) -> str | None:
        """As dataset.yaml keeps it."""
        return self.encoder.name if self.encoder else self.dataset.card.text_encoder

    def write(self) -> None:
        """Embed every step of the vocabulary, in its order and with its ids."""
        if self.encoder is None:
            return
        actions = self.dataset.vocabulary.actions
        embedding = self.encoder.encode_text([action.text for action in actions]).numpy()
        ids = [action.id for action in actions if action.id is not None]
        complete = ids if len(ids) == len(actions) else None
        path = self.dataset.folder / LANGUAGE_FILE
        write_language(path, [action.name for action in actions], embedding, complete)
        (path.parent / UNALIGNED_FILE).unlink(missing_ok=True)


def plan_texts(request: ExtractionRequest, dataset: Dataset, encoder: VideoEncoder) -> TextPlan:
    """The text encoder that was asked for, else the encoder's own text tower, else the default."""
    if request.text_encoder == KEEP:
        return TextPlan(dataset, None)
    if request.text_encoder in (None, request.encoder) and isinstance(encoder, TextEncoder):
        return TextPlan(dataset, encoder)
    options = EncoderOptions(request.text_weights, request.max_words)
    return TextPlan(dataset, build_text_encoder(request.text_encoder or DEFAULT_TEXT_ENCODER, options))
