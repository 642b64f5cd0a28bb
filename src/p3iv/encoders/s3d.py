"""S3D-G with its text tower, trained on HowTo100M with MIL-NCE: the joint video-text space of the paper.

Parameter names are those of the published PyTorch weights (github.com/antoine77340/S3D_HowTo100M), so that
`s3d_howto100m.pth` loads strictly: `p3iv extract DIR --encoder s3d --weights s3d_howto100m.pth`, with the word list
`s3d_dict.npy` beside it. Frames in [0, 1], 16 per second.

A. Miech et al., End-to-End Learning of Visual Representations from Uncurated Instructional Videos, CVPR 2020.
S. Xie et al., Rethinking Spatiotemporal Feature Learning, ECCV 2018 (S3D-G).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeGuard

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from p3iv.encoders.base import Clips, EncoderOptions, Rows, describe_clips, identify, load_strictly, weights_path
from p3iv.encoders.weight_files import read_state
from p3iv.errors import FeatureError
from p3iv.features.arrays import decode, read_content
from p3iv.features.pictures import Framing
from p3iv.types import Array

WORDS_FILE: Final = "s3d_dict.npy"

WIDTH: Final = 512

_Size = tuple[int, int, int]  # over time, height, width

_WORD: Final = re.compile(r"[\w']+")


class Conv(nn.Module):
    """A convolution with batch norm and ReLU; if `separable`, one over space followed by one over time."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: _Size = (1, 1, 1),
        *,
        padding: _Size = (0, 0, 0),
        separable: bool = False,
    ) -> None:
        super().__init__()
        (over_time, *over_space), (pad_time, *pad_space) = kernel, padding
        first, first_padding = ((1, *over_space), (0, *pad_space)) if separable else (kernel, padding)
        self.conv1 = nn.Conv3d(inputs, outputs, first, padding=first_padding, bias=False)  # type: ignore[arg-type]
        self.bn1 = nn.BatchNorm3d(outputs)
        self.separable = separable
        if separable:
            self.conv2 = nn.Conv3d(outputs, outputs, (over_time, 1, 1), padding=(pad_time, 0, 0), bias=False)
            self.bn2 = nn.BatchNorm3d(outputs)

    def forward(self, clips: Tensor) -> Tensor:
        seen = functional.relu(self.bn1(self.conv1(clips)))
        return functional.relu(self.bn2(self.conv2(seen))) if self.separable else seen


class Gate(nn.Module):
    """Multiplies every channel by a weight computed from the mean of the clip."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc = nn.Linear(channels, channels)

    def forward(self, clips: Tensor) -> Tensor:
        weights = torch.sigmoid(self.fc(clips.mean(dim=(2, 3, 4))))
        return weights[:, :, None, None, None] * clips


class Mixed(nn.Module):
    """An inception block: four branches of `branches` channels side by side, each gated."""

    def __init__(self, inputs: int, *, narrow: tuple[int, int], branches: tuple[int, int, int, int]) -> None:
        super().__init__()
        around: _Size = (3, 3, 3)
        self.conv_b0 = Conv(inputs, branches[0])
        self.conv_b1_a = Conv(inputs, narrow[0])
        self.conv_b1_b = Conv(narrow[0], branches[1], around, padding=(1, 1, 1), separable=True)
        self.conv_b2_a = Conv(inputs, narrow[1])
        self.conv_b2_b = Conv(narrow[1], branches[2], around, padding=(1, 1, 1), separable=True)
        self.conv_b3_b = Conv(inputs, branches[3])
        self.gating_b0, self.gating_b1, self.gating_b2, self.gating_b3 = (Gate(width) for width in branches)
        self.width = sum(branches)

    def forward(self, clips: Tensor) -> Tensor:
        pooled = functional.max_pool3d(clips, 3, stride=1, padding=1)
        return torch.cat(
            (
                self.gating_b0(self.conv_b0(clips)),
                self.gating_b1(self.conv_b1_b(self.conv_b1_a(clips))),
                self.gating_b2(self.conv_b2_b(self.conv_b2_a(clips))),
                self.gating_b3(self.conv_b3_b(pooled)),
            ),
            dim=1,
        )


class TextTower(nn.Module):
    """Words -> 300 -> 2048, maximum over the words -> 512.

    Texts are padded to `max_words` words with word 0, which takes part in the maximum, as in the published code. Words
    that are not in the list are skipped.
    """

    def __init__(self, words: Sequence[str], *, max_words: int = 16, num_words: int = 66250) -> None:
        super().__init__()
        if len(words) >= num_words:
            raise FeatureError(f"a list of {len(words)} words; the text tower takes at most {num_words - 1}")
        self.word_embd = nn.Embedding(num_words, 300)
        self.fc1 = nn.Linear(300, 2048)
        self.fc2 = nn.Linear(2048, WIDTH)
        self.max_words = max_words
        self._number_of = {word: number for number, word in enumerate(words, start=1)}

    def forward(self, texts: Sequence[str]) -> Tensor:
        """(N, 512)."""
        numbers = torch.tensor([self._numbers(text) for text in texts], dtype=torch.int64).reshape(-1, self.max_words)
        seen = functional.relu(self.fc1(self.word_embd(numbers)))  # (N, words, 2048)
        embedding: Tensor = self.fc2(seen.amax(dim=1))
        return embedding

    def _numbers(self, text: str) -> list[int]:
        known = [self._number_of[word] for word in _WORD.findall(text.lower()) if word in self._number_of]
        return (known + [0] * self.max_words)[: self.max_words]


class S3D(nn.Module):
    """The video tower and, as `text_module`, the text tower."""

    def __init__(self, words: Sequence[str], *, max_words: int = 16) -> None:
        super().__init__()
        self.conv1 = Conv(24, 64, (2, 4, 4), padding=(1, 2, 2))
        self.conv_2b = Conv(64, 64)
        self.conv_2c = Conv(64, 192, (3, 3, 3), padding=(1, 1, 1), separable=True)
        self.gating = Gate(192)
        self.mixed_3b = Mixed(192, narrow=(96, 16), branches=(64, 128, 32, 32))
        self.mixed_3c = Mixed(256, narrow=(128, 32), branches=(128, 192, 96, 64))
        self.mixed_4b = Mixed(480, narrow=(96, 16), branches=(192, 208, 48, 64))
        self.mixed_4c = Mixed(512, narrow=(112, 24), branches=(160, 224, 64, 64))
        self.mixed_4d = Mixed(512, narrow=(128, 24), branches=(128, 256, 64, 64))
        self.mixed_4e = Mixed(512, narrow=(144, 32), branches=(112, 288, 64, 64))
        self.mixed_4f = Mixed(528, narrow=(160, 32), branches=(256, 320, 128, 128))
        self.mixed_5b = Mixed(832, narrow=(160, 32), branches=(256, 320, 128, 128))
        self.mixed_5c = Mixed(832, narrow=(192, 48), branches=(384, 384, 128, 128))
        self.fc = nn.Linear(self.mixed_5c.width, WIDTH)
        self.text_module = TextTower(words, max_words=max_words)

    def forward(self, clips: Tensor) -> Tensor:
        """(B, 3, L, H, W) in [0, 1], L, H and W even -> (B, 512) in the joint space."""
        seen = self.conv1(space_to_depth(clips))[:, :, 1:, 1:, 1:]  # as with TensorFlow's padding
        seen = max_pool_same(seen, (1, 3, 3), (1, 2, 2))
        seen = self.gating(self.conv_2c(self.conv_2b(seen)))
        seen = max_pool_same(seen, (1, 3, 3), (1, 2, 2))
        seen = max_pool_same(self.mixed_3c(self.mixed_3b(seen)), (3, 3, 3), (2, 2, 2))
        for block in (self.mixed_4b, self.mixed_4c, self.mixed_4d, self.mixed_4e, self.mixed_4f):
            seen = block(seen)
        seen = self.mixed_5c(self.mixed_5b(max_pool_same(seen, (2, 2, 2), (2, 2, 2))))
        embedding: Tensor = self.fc(seen.mean(dim=(2, 3, 4)))
        return embedding


def space_to_depth(clips: Tensor) -> Tensor:
    """Turn cubes of 2 x 2 x 2 pixels into channels, ordered by position in the cube: (B, 24, L/2, H/2, W/2)."""
    cubes = clips.unflatten(4, (-1, 2)).unflatten(3, (-1, 2)).unflatten(2, (-1, 2))  # (B, 3, L/2, 2, H/2, 2, W/2, 2)
    depth: Tensor = cubes.permute(0, 3, 5, 7, 1, 2, 4, 6).flatten(1, 4)
    return depth


def max_pool_same(clips: Tensor, kernel: _Size, stride: _Size) -> Tensor:
    """Max pooling, padded as in TensorFlow with zeros, which do not change the maximum after a ReLU."""
    padding = []
    for size, step in zip(reversed(kernel), reversed(stride), strict=True):
        total = max(size - step, 0)
        padding += [total // 2, total - total // 2]
    return functional.max_pool3d(functional.pad(clips, padding), kernel, stride, ceil_mode=True)


class S3DEncoder:
    """Encodes videos and texts with both published towers."""

    width = WIDTH
    frames_per_second = 16
    frames_per_clip = 16
    framing = Framing(size=224)

    def __init__(self, options: EncoderOptions) -> None:
        path = weights_path(options)
        if path is None:
            raise FeatureError(
                "The encoder s3d needs the published weights. Type: --weights s3d_howto100m.pth, with s3d_dict.npy "
                "beside it (github.com/antoine77340/S3D_HowTo100M has links to both)."
            )
        if not 1 <= options.max_words <= 1000:
            raise FeatureError(
                f"--max-words {options.max_words}, but it must be 1 to 1000; published: 16, P3IV's release: 30"
            )
        state = read_state(path)
        words = read_words(path.parent / WORDS_FILE)
        self.network = S3D(words, max_words=options.max_words)
        load_strictly(self.network, state, str(path))
        self.network.eval().requires_grad_(False)
        towers: dict[bool, dict[str, Tensor]] = {True: {}, False: {}}
        for name, tensor in self.network.state_dict().items():
            towers[name.startswith("text_module.")][name] = tensor
        video = {"clips": describe_clips(self), "scaling": [0, 255]}
        text = {"words": words, "max_words": options.max_words, "word": _WORD.pattern}
        self.identity = identify("s3d", options.weights, towers[False], **video)
        self.text_identity = identify("s3d", options.weights, towers[True], **text)

    @torch.inference_mode()
    def encode(self, clips: Clips) -> Rows:
        """(B, 16, 3, S, S) uint8 -> (B, 512)."""
        features: Tensor = self.network(torch.from_numpy(clips).transpose(1, 2).to(torch.float32) / 255)
        return features.numpy()

    @torch.inference_mode()
    def encode_text(self, texts: Sequence[str]) -> Tensor:
        """(N, 512), in the space of the rows."""
        embedding: Tensor = self.network.text_module(texts)
        return embedding


def read_words(path: Path) -> list[str]:
    """Read the word list, `s3d_dict.npy`; it does not contain word 0, which pads texts.

    Raises:
        FeatureError: naming the file.
    """
    try:
        words = decode(read_content(path))
    except OSError as error:
        raise FeatureError(f"{path}: cannot be read ({error.strerror}); s3d expects its word list there") from error
    except FeatureError as error:
        raise FeatureError(f"{path}: {error}") from error
    if not _is_list_of_words(words):
        raise FeatureError(f"{path}: is not a list of words like the published {WORDS_FILE}")
    return [str(word) for word in words]


def _is_list_of_words(words: object) -> TypeGuard[Array]:
    if not isinstance(words, np.ndarray) or words.ndim != 1 or not len(words):
        return False
    return words.dtype.kind == "U" or all(isinstance(word, str) for word in words.tolist())
