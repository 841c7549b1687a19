# SPDX-License-Identifier: Apache-2.0
"""Draws the pieces that random layers are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from vmcu_tools.graph import Graph, Node, Op, Port, Shape, Tensor, Window
from vmcu_tools.quant import FixedPoint, FloatScale, FloatSum, Requant

CHANNELS = (1, 2, 3, 4, 5, 8, 13, 16)


@dataclass
class Builder:
    """Collects nodes; every node's inputs are graph inputs and its output is a graph output."""

    rng: np.random.Generator
    tensors: dict[str, Tensor] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    weight_bits: int = 8

    def tensor(self, shape: Shape) -> Tensor:
        name = f"t{len(self.tensors)}"
        self.tensors[name] = Tensor(name, shape, 0.05, int(self.rng.integers(-128, 128)))
        return self.tensors[name]

    def input(self, shape: Shape) -> Tensor:
        tensor = self.tensor(shape)
        self.inputs.append(tensor.name)
        return tensor

    def node(self, op: Op, inputs: Sequence[Tensor], shape: Shape) -> Tensor:
        out = self.tensor(shape)
        names = tuple(tensor.name for tensor in inputs)
        self.nodes.append(Node(f"n{len(self.nodes)}", op, names, (out.name,)))
        return out

    def graph(self, outputs: Sequence[str]) -> Graph:
        def ports(names: Sequence[str]) -> tuple[Port, ...]:
            return tuple(Port(n, n, (1, *self.tensors[n].shape), "int8") for n in names)

        return Graph(
            "random", "", self.tensors, tuple(self.nodes), ports(self.inputs), ports(outputs)
        )

    def pick(self, *choices: int) -> int:
        return int(self.rng.choice(choices))

    def shape(self) -> Shape:
        h, w = self.rng.integers(1, 9, 2)
        return int(h), int(w), self.pick(*CHANNELS)

    def limits(self) -> dict[str, int]:
        """Bounds of a fused activation, half of the time none."""
        if self.rng.random() < 0.5:
            return {}
        low, high = sorted(int(v) for v in self.rng.integers(-128, 128, 2))
        return {"act_min": low, "act_max": high}

    def window(self, shape: Shape) -> tuple[Window, int, int]:
        """A window that fits the padded input, and the output's height and width."""
        while True:
            kernel, stride, dilation = (
                (self.pick(1, 1, 2, 3, 5), self.pick(1, 2, 3)),
                (self.pick(1, 1, 2, 4), self.pick(1, 1, 2, 3)),
                (self.pick(1, 1, 1, 2), self.pick(1, 1, 1, 3)),
            )
            # Less padding than taps, so that no window misses the image altogether.
            pads = [int(self.rng.integers(0, kernel[axis % 2])) for axis in range(4)]
            window = Window(kernel, stride, dilation, (pads[0], pads[1], pads[2], pads[3]))
            size = window.out_size(0, shape[0]), window.out_size(1, shape[1])
            if min(size) >= 1 and self._touches(window, shape, size):
                return window, *size

    @staticmethod
    def _touches(window: Window, shape: Shape, size: tuple[int, int]) -> bool:
        """Whether every window holds at least one tap inside the image."""
        for axis in (0, 1):
            taps = np.arange(window.kernel[axis]) * window.dilation[axis]
            for out in range(size[axis]):
                at = window.first(axis, out) + taps
                if not ((at >= 0) & (at < shape[axis])).any():
                    return False
        return True

    def factor(self, low: float, high: float) -> FixedPoint:
        return FixedPoint.of(np.exp(self.rng.uniform(np.log(low), np.log(high), 1)))

    def requant(self, channels: int, depth: int) -> Requant:
        """Factors that spread sums of `depth` products over the int8 range and beyond; some
        negative or zero, or of shifts that kernels have no short cut for."""
        typical = 60.0 / (75.0 * 75.0 * np.sqrt(depth)) * (1 << 8 - self.weight_bits)
        real = typical * np.exp(self.rng.uniform(-1.5, 1.5, channels))
        if self.rng.random() < 0.3:
            real = real * self.rng.choice([1.0, 1.0, -1.0, 0.0, 2.0**-18, 2.0**9], channels)
        if self.rng.random() < 0.5:
            return FixedPoint.of(real)
        return FloatScale(real.astype(np.float32))

    def matrix_product(self, depth: int) -> Requant:
        """As product(), of either runtime."""
        fixed = self.product(depth)
        if self.rng.random() < 0.5:
            return fixed
        real = fixed.multiplier.astype(np.float64) * 2.0 ** (fixed.shift.astype(np.float64) - 31)
        return FloatScale(real.astype(np.float32))

    def product(self, depth: int) -> FixedPoint:
        """One factor for sums of `depth` products of activations, of either sign."""
        sign = -1 if self.rng.random() < 0.1 else 1
        real = np.exp(self.rng.uniform(np.log(0.002), np.log(0.02), 1))
        return FixedPoint.of(sign * real / np.sqrt(depth))

    def exponentials(self, bits: int) -> np.ndarray:
        """A table for softmax; the finer one ends early, as that of TensorFlow Lite does."""
        steps = np.exp(-np.arange(256) * self.rng.uniform(0.01, 0.2))
        table = np.minimum(np.rint(steps * 2.0**bits), 2**31 - 1).astype(np.uint32)
        if bits == 31:
            table[int(self.rng.integers(100, 256)) :] = 0
        return table

    def weights(self, *shape: int) -> np.ndarray:
        reach = 1 << self.weight_bits - 1
        return self.rng.integers(-reach, reach, shape).astype(np.int8)

    def bias(self, channels: int) -> np.ndarray:
        """Within the range of the sums, sometimes anywhere in that of int32."""
        reach = 2**31 if self.rng.random() < 0.1 else 20000
        return self.rng.integers(-reach, reach, channels).astype(np.int32)

    def float_sum(self) -> FloatSum:
        """Scales at random, far from each other, or such that sums come out half way."""
        uniform = self.rng.uniform(0.05, 1, 3)
        far = 2.0 ** self.rng.uniform(-13, -6, 3)
        simple = 0.5 * self.rng.integers(1, 5, 3)
        a, b, out = (float(scale) for scale in (uniform, far, simple)[self.pick(0, 1, 2)])
        zero_a, zero_b, zero = (int(zero) for zero in self.rng.integers(-128, 128, 3))
        total = FloatSum.of((a, b, out), (zero_a, zero_b, zero), self.pick(0, 128))
        assert total.usable
        return total
