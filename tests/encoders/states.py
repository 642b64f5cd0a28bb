"""Random weights for encoders in their published layouts."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import torch
from torch import Tensor, nn

WORDS = ["open", "door", "cut", "tomato", "the", "don't", "pour"]


def seeded_state(network: nn.Module, seed: int) -> dict[str, Tensor]:
    """Weights that depend on a parameter's name, shape and the seed alone, and keep the signal at its size."""
    state = {}
    for name, value in network.state_dict().items():
        rng = torch.Generator().manual_seed(seed + zlib.crc32(name.encode()))
        drawn = torch.zeros_like(value) if name.endswith("tracked") else torch.randn(value.shape, generator=rng)
        if name.endswith("running_var"):
            drawn = 1 + 0.1 * drawn.abs()
        elif ".bn" in name and name.endswith("weight"):
            drawn = 1 + 0.1 * drawn
        elif value.dim() > 1 and "word_embd" not in name:
            drawn = drawn * (2 / value[0].numel()) ** 0.5
        elif value.dim() == 1:
            drawn = 0.1 * drawn
        state[name] = drawn
    return state


def make_clip_model(folder: Path) -> Path:
    """A CLIP of random weights that is small enough to live in a test."""
    from transformers import CLIPConfig, CLIPModel

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision = {**sizes, "image_size": 32, "patch_size": 8}
    text = {**sizes, "vocab_size": 50, "max_position_embeddings": 12, "eos_token_id": 3, "bos_token_id": 2}
    torch.manual_seed(0)
    CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)).save_pretrained(folder)
    letters = {f"{letter}{end}": 0 for letter in "abcdefghijklmnopqrst" for end in ("", "</w>")}
    vocabulary = {"<pad>": 0, "<unk>": 1, "<|startoftext|>": 2, "<|endoftext|>": 3}
    vocabulary |= {piece: place for place, piece in enumerate(letters, start=4)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "CLIPTokenizer", "pad_token": "<pad>", "unk_token": "<unk>"})
    )
    scaling = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "resample": 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(scaling))
    return folder
