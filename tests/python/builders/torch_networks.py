# SPDX-License-Identifier: Apache-2.0
"""Small networks of PyTorch for tests of training steps, each with inputs and an optimiser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True)
class Network:
    """`build`: the model; `inputs`: what the loss needs besides, for a batch of 4; `optimizer`: of
    the model's parameters."""

    build: Callable[[], nn.Module]
    inputs: Callable[[], tuple[torch.Tensor, torch.Tensor]]
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]


class Residual(nn.Module):
    """A basic block of ResNet (arXiv:1512.03385)."""

    def __init__(self, before: int, after: int, stride: int):
        super().__init__()
        self.body = nn.Sequential(
            *convolved(before, after, 3, stride),
            nn.ReLU(inplace=True),
            *convolved(after, after, 3),
        )
        is_same = stride == 1 and before == after
        self.shortcut = nn.Sequential(*([] if is_same else convolved(before, after, 1, stride)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.body(x) + self.shortcut(x))


class Inverted(nn.Module):
    """An inverted residual block of MobileNetV2 (arXiv:1801.04381)."""

    def __init__(self, before: int, after: int, stride: int, expansion: int):
        super().__init__()
        inner = before * expansion
        self.is_residual = stride == 1 and before == after
        self.body = nn.Sequential(
            *([] if expansion == 1 else [*convolved(before, inner, 1), nn.ReLU6(inplace=True)]),
            *convolved(inner, inner, 3, stride, inner),
            nn.ReLU6(inplace=True),
            *convolved(inner, after, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x) if self.is_residual else self.body(x)


class Encoder(nn.Module):
    """A transformer encoder that classifies sequences of 16 words."""

    def __init__(self, words: int = 50, width: int = 32):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(16, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.words(text) + self.places(torch.arange(16))
        return self.head(self.encoder(x).mean(1))


def convolved(
    before: int, after: int, size: int, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """A convolution and its normalisation."""
    return [
        nn.Conv2d(before, after, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(after),
    ]


def resnet18() -> nn.Module:
    """ResNet-18 for small images."""
    blocks, before = [], 64
    for after, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [Residual(before, after, stride), Residual(after, after, 1)]
        before = after
    start = [*convolved(3, 64, 3), nn.ReLU(inplace=True)]
    return nn.Sequential(*start, *blocks, *pooled(512))


def mobilenet_v2() -> nn.Module:
    """MobileNetV2 for small images, all 17 blocks."""
    rows = (
        *((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2)),
        *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
    )
    blocks, before = [], 32
    for expansion, after, count, stride in rows:
        for number in range(count):
            blocks.append(Inverted(before, after, stride if number == 0 else 1, expansion))
            before = after
    start = [*convolved(3, 32, 3), nn.ReLU6(inplace=True)]
    end = [*convolved(320, 1280, 1), nn.ReLU6(inplace=True)]
    return nn.Sequential(*start, *blocks, *end, *pooled(1280, nn.Dropout(0.2)))


def pooled(width: int, *last: nn.Module) -> list[nn.Module]:
    """The mean of an image, and ten classes."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), *last, nn.Linear(width, 10)]


def lenet() -> nn.Module:
    """LeNet-5 with ReLU."""
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 10))


def batch_of(*shape: int) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    """Random numbers with random classes."""
    return lambda: (torch.randn(4, *shape), torch.randint(10, (4,)))


def sentences() -> tuple[torch.Tensor, torch.Tensor]:
    """Random words with random classes."""
    return torch.randint(50, (4, 16)), torch.randint(10, (4,))


def momentum(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)


NETWORKS = {
    "mlp": Network(mlp, batch_of(64), lambda m: torch.optim.SGD(m.parameters(), lr=0.1)),
    "lenet": Network(lenet, batch_of(1, 28, 28), momentum),
    "resnet18": Network(resnet18, batch_of(3, 32, 32), momentum),
    "mobilenet-v2": Network(
        mobilenet_v2, batch_of(3, 32, 32), lambda m: torch.optim.RMSprop(m.parameters())
    ),
    "encoder": Network(Encoder, sentences, lambda m: torch.optim.AdamW(m.parameters())),
}


def cross_entropy(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The loss of all networks here."""
    return functional.cross_entropy(model(x), y)
