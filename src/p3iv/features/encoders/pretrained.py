"""Models in the layout of transformers, by their name on the hub or from a local folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from p3iv.errors import FeatureError, MissingExtraError

try:
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils.hub import cached_file
    from transformers.utils.logging import disable_progress_bar
except ImportError as error:
    raise MissingExtraError("transformers", "encoders", "This encoder") from error


@dataclass(frozen=True)
class Pretrained:
    """A model, ready to be asked, and what turns text into its tokens."""

    model: Any
    tokenizer: Any
    pictures: Mapping[str, Any]  # preprocessor_config.json; empty where there is none


def load_pretrained(source: str | Path) -> Pretrained:
    """Load a model; only a name on the hub that is not in the cache needs a network.

    Raises:
        FeatureError: naming the model.
    """
    disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        model: Any = AutoModel.from_pretrained(source)
        tokenizer: Any = AutoTokenizer.from_pretrained(source)
        pictures = _read_pictures(source)
    except (OSError, ValueError, KeyError, ImportError) as error:
        reason = " ".join(str(error).split())[:300]
        raise FeatureError(f"model {source}: cannot be loaded ({reason})") from error
    return Pretrained(model.eval().requires_grad_(False), tokenizer, pictures)


def _read_pictures(source: str | Path) -> Mapping[str, Any]:
    path = cached_file(source, "preprocessor_config.json", _raise_exceptions_for_missing_entries=False)
    content = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    return content if isinstance(content, Mapping) else {}
