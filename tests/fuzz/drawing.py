# SPDX-License-Identifier: Apache-2.0
"""What random networks in files have in common: which tensor a layer reads, and which are outputs.

Formats say how a layer is written; see onnx_networks.py and tflite_networks.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Shape = tuple[int, int, int]

# How far back a layer looks for its inputs: chains with short branches, or anything.
RECENT = (1, 2, 4, 100)
# Larger tensors are not made, so that a network takes seconds.
MOST_BYTES = 6000


@dataclass(frozen=True)
class Value:
    """An activation. name: as the format refers to it; shape: H, W, C; scale: of its int8."""

    name: str | int
    shape: Shape
    scale: float


@dataclass(frozen=True)
class Taps:
    """A window along both axes. pad: before and after, for formats that have a choice."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pad: tuple[tuple[int, int], tuple[int, int]]
    same: bool


class FileNetwork(ABC):
    """Grows a network of up to `layers` layers; the same generator draws the same one."""

    def __init__(self, rng: np.random.Generator, layers: int):
        self.rng = rng
        self.recent = self.pick(*RECENT)
        size = self.pick(1, 3, 7, 10, 13), self.pick(1, 2, 5, 8, 11)
        self.inputs = [
            self.input((*size, self.pick(1, 2, 3, 5))) for _ in range(self.pick(1, 1, 1, 2))
        ]
        self.past = list(self.inputs)
        for _ in range(int(rng.integers(1, layers + 1))):
            self.grow()
        if rng.random() < 0.3:
            self.past.append(self.classifier(self.any()))

    def grow(self) -> None:
        choices = (
            *(self.spatial, self.spatial, self.pointwise, self.depthwise, self.pooled),
            *(self.added, self.added, self.joined, self.joined, self.padded, self.mapped),
            *(self.residual, self.deep, self.meant),
        )
        made = choices[int(self.rng.integers(len(choices)))]()
        if made is not None:
            self.past.append(made)

    @abstractmethod
    def input(self, shape: Shape) -> Value: ...

    @abstractmethod
    def conv(self, x: Value, count: int, taps: Taps) -> Value: ...

    @abstractmethod
    def conv_depthwise(self, x: Value, multiplier: int, taps: Taps) -> Value: ...

    @abstractmethod
    def pool(self, x: Value, taps: Taps, largest: bool) -> Value: ...

    @abstractmethod
    def add(self, x: Value, y: Value) -> Value: ...

    @abstractmethod
    def concat(self, parts: list[Value], axis: int) -> Value: ...

    @abstractmethod
    def pad(self, x: Value, amounts: list[tuple[int, int]]) -> Value: ...

    @abstractmethod
    def function(self, x: Value) -> Value: ...

    @abstractmethod
    def mean(self, x: Value) -> Value: ...

    @abstractmethod
    def classifier(self, x: Value) -> Value: ...

    @abstractmethod
    def out_size(self, taps: Taps, shape: Shape) -> tuple[int, int]: ...

    @abstractmethod
    def serialized(self, outputs: list[Value]) -> bytes: ...

    def file(self) -> bytes:
        """With all that nothing reads as outputs, and some more: inputs, inner tensors, and the
        same tensor twice."""
        read = self.read()
        outputs = [v for v in self.past if v.name not in read]
        outputs += [v for v in self.past if self.rng.random() < 0.08]
        return self.serialized([outputs[int(n)] for n in self.rng.permutation(len(outputs))])

    @abstractmethod
    def read(self) -> set[str | int]:
        """What some layer reads."""

    def pick(self, *choices: int) -> int:
        return int(self.rng.choice(choices))

    def any(self) -> Value:
        """A value to go on from, rather a late one."""
        return self.past[-1 - int(self.rng.integers(min(self.recent, len(self.past))))]

    def taps(self, shape: Shape) -> Taps:
        """A window, also one larger than the image where padding makes up for it."""
        while True:
            kernel = self.pick(1, 1, 2, 3, 5), self.pick(1, 2, 3, 4)
            stride = self.pick(1, 1, 2, 4), self.pick(1, 1, 2, 3)
            dilation = self.pick(1, 1, 1, 2), self.pick(1, 1, 1, 3)
            before, after = (
                (int(self.rng.integers(0, kernel[0])), int(self.rng.integers(0, kernel[1])))
                for _ in range(2)
            )
            pad = (before[0], after[0]), (before[1], after[1])
            taps = Taps(kernel, stride, dilation, pad, bool(self.rng.random() < 0.6))
            if min(self.out_size(taps, shape)) >= 1:
                return taps

    @staticmethod
    def plain(kernel: int = 1) -> Taps:
        """Windows that keep the size."""
        side = (kernel // 2, kernel // 2)
        return Taps((kernel, kernel), (1, 1), (1, 1), (side, side), True)

    def spatial(self) -> Value:
        x = self.any()
        return self.conv(x, self.pick(1, 2, 5, 8), self.taps(x.shape))

    def pointwise(self) -> Value:
        return self.conv(self.any(), self.pick(1, 3, 4, 12), self.plain())

    def depthwise(self) -> Value:
        x = self.any()
        taps = self.plain(3) if self.rng.random() < 0.5 else self.taps(x.shape)
        return self.conv_depthwise(x, self.pick(1, 1, 1, 2), taps)

    def pooled(self) -> Value:
        x = self.any()
        taps = self.taps(x.shape)
        return self.pool(
            x, Taps(taps.kernel, taps.stride, (1, 1), taps.pad, taps.same), self.coin()
        )

    def coin(self) -> bool:
        return bool(self.rng.random() < 0.5)

    def some(self, keep: Callable[[Value], bool]) -> Value:
        found = [v for v in self.past if keep(v)]
        return found[int(self.rng.integers(len(found)))]

    def added(self) -> Value:
        """Of two tensors, or of one to itself."""
        x = self.any()
        return self.add(x, self.some(lambda v: v.shape == x.shape))

    def joined(self) -> Value | None:
        """Of any tensors that fit, so of other concatenations too, and of one tensor twice."""
        x, axis = self.any(), self.pick(0, 1, 2, 2)
        others = [a for a in range(3) if a != axis]

        def fits(value: Value) -> bool:
            return all(value.shape[a] == x.shape[a] for a in others)

        parts = [x, *(self.some(fits) for _ in range(self.pick(1, 2)))]
        if sum(int(np.prod(part.shape)) for part in parts) > MOST_BYTES:
            return None
        return self.concat(parts, axis)

    def padded(self) -> Value | None:
        x = self.any()
        amounts = [(int(a), int(b)) for a, b in self.rng.integers(0, 3, (3, 2))]
        return self.pad(x, amounts) if np.prod(x.shape) < MOST_BYTES / 8 else None

    def mapped(self) -> Value:
        return self.function(self.any())

    def residual(self) -> Value:
        """Out and back to the tensor it left."""
        x = self.any()
        y = self.conv(x, self.pick(2, 6, 12), self.plain())
        y = self.conv_depthwise(y, 1, self.plain(3))
        return self.add(x, self.conv(y, x.shape[2], self.plain()))

    def deep(self) -> Value:
        """A long branch that a short one waits for."""
        x = y = self.any()
        for _ in range(self.pick(3, 5, 8)):
            y = self.conv_depthwise(y, 1, self.plain(3))
        return self.concat([y, x], 2) if self.coin() else self.add(y, x)

    def meant(self) -> Value:
        return self.mean(self.any())
