"""CLIP and its relatives, by their name on the hub or from a local folder, through transformers.

Sizes and scaling are those of the model's own `preprocessor_config.json`; pictures are cropped and resized here,
without torchvision or Pillow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from p3iv.encoders.base import Clips, EncoderOptions, Rows, describe_clips, identify, load_pretrained
from p3iv.errors import FeatureError
from p3iv.features.pictures import Framing

# of OpenAI's models, for those without a preprocessor_config.json
_MEAN: Final = (0.48145466, 0.4578275, 0.40821073)

_STD: Final = (0.26862954, 0.26130258, 0.27577711)

_BILINEAR: Final = 2  # Pillow's number for it, in `resample`


class ClipEncoder:
    """Encodes one picture from the middle of each second, and texts in the same space."""

    frames_per_second = 1
    frames_per_clip = 1

    def __init__(self, options: EncoderOptions) -> None:
        if options.weights is None:
            raise FeatureError(
                "The encoder clip needs a model: --weights NAME with a name on the hub, such as "
                "openai/clip-vit-base-patch32, or --weights FOLDER with a saved one."
            )
        source = options.weights
        loaded = load_pretrained(source, allow_download=options.allow_download)
        self._model, self._tokenizer, processing = loaded.model, loaded.tokenizer, loaded.preprocessing
        if not hasattr(self._model, "get_image_features") or not hasattr(self._model, "get_text_features"):
            raise FeatureError(
                f"clip model {source}: a {type(self._model).__name__} does not encode both pictures and texts"
            )
        size = int(self._model.config.vision_config.image_size)
        self.framing = Framing(size, "bilinear" if processing.get("resample") == _BILINEAR else "bicubic")
        self._mean = torch.tensor(processing.get("image_mean") or _MEAN)[:, None, None]
        self._std = torch.tensor(processing.get("image_std") or _STD)[:, None, None]
        self.width = int(self.encode(np.zeros((1, 1, 3, size, size), np.uint8)).shape[1])
        state, scaling = self._model.state_dict(), [self._mean.flatten().tolist(), self._std.flatten().tolist()]
        self.identity = identify("clip", source, state, clips=describe_clips(self), scaling=scaling)
        self.text_identity = identify("clip", source, state, vocabulary=self._tokenizer.get_vocab(), padded=True)

    @torch.inference_mode()
    def encode(self, clips: Clips) -> Rows:
        """(B, 1, 3, S, S) uint8 -> (B, F)."""
        pixels = (torch.from_numpy(clips)[:, 0].to(torch.float32) / 255 - self._mean) / self._std
        return _embedding(self._model.get_image_features(pixel_values=pixels)).float().numpy()

    @torch.inference_mode()
    def encode_text(self, texts: Sequence[str]) -> Tensor:
        """(N, F), in the space of the rows."""
        if not texts:
            return torch.empty(0, self.width)
        max_tokens = int(self._model.config.text_config.max_position_embeddings)
        # SigLIP was trained on texts padded to a fixed length
        tokens = self._tokenizer(
            list(texts), padding="max_length", truncation=True, max_length=max_tokens, return_tensors="pt"
        )
        wanted = {name: tokens[name] for name in ("input_ids", "attention_mask") if name in tokens}
        return _embedding(self._model.get_text_features(**wanted))


def _embedding(output: Any) -> Tensor:
    """The joint embedding; from version 5 on, transformers wraps it."""
    embedding: Tensor = output if isinstance(output, Tensor) else output.pooler_output
    return embedding
