# SPDX-License-Identifier: Apache-2.0
"""Pooling over windows."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..graph import AveragePool2D, Graph, MaxPool2D, Node, Window
from ..kernels.programs import PROGRAMS
from ..kernels.targets.portable.pooling import (
    MEAN_KEPT,
    MEAN_OF_256,
    MEAN_OF_SUM,
    MEAN_OF_SUM_FLOAT,
)
from ..quant import INT8_MIN, FloatScale, divide_away, float_bits
from .layer import Binding, OpT, ProgramLayer, Reach, gather, window_rows
from .mac import window_fields


class PoolLayer(ProgramLayer[OpT]):
    @property
    def by_columns(self) -> bool:
        return True

    def input_rows(self, index: int, y: int) -> range:
        return window_rows(self.op.window, self.ins[0].shape[0], y)

    def reach(self, index: int) -> Reach:
        return Reach.window(self.op.window)

    def bind_pool(self, name: str, fields: dict[str, int]) -> Binding:
        bounds = {"act_min": self.op.act_min, "act_max": self.op.act_max}
        everything = {**window_fields(self.op.window), **fields, **bounds}
        return Binding(PROGRAMS[f"vmcu_{name}_pool"], everything)


class AveragePool2DLayer(PoolLayer[AveragePool2D]):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        zero = self.ins[0].zero_point
        taps, inside = gather(data[0], self.op.window, self.out.shape[1], y0, y1, zero)
        count = inside.sum(axis=(2, 3))[..., None]
        if self.op.count_padding:
            count = np.full_like(count, self.op.window.kernel[0] * self.op.window.kernel[1])
        # Padding was filled with the zero point, so it adds nothing to this sum.
        total = (taps - zero).sum(axis=(2, 3))
        if self.op.requant is None:
            values = divide_away(total + zero * count, count)
        else:
            scaled = total if self.op.of_sum else divide_away(total << 8, count)
            values = self.op.requant.apply(scaled) + self.out.zero_point
        return self.clamp(values)

    @functools.cached_property
    def binding(self) -> Binding:
        requant = self.op.requant
        fields = {
            "rescale": self.mode,
            "count_padding": int(self.op.count_padding),
            "input_zero": self.ins[0].zero_point,
            "output_zero": self.out.zero_point,
        }
        if isinstance(requant, FloatScale):
            fields |= {"factor.multiplier": float_bits(requant.scale), "factor.shift": 0}
        elif requant is not None:
            fields["factor.multiplier"] = int(np.ravel(requant.multiplier)[0])
            fields["factor.shift"] = int(np.ravel(requant.shift)[0])
        return self.bind_pool("average", fields)

    @property
    def mode(self) -> int:
        """Of enum vmcu_mean."""
        if self.op.requant is None:
            return MEAN_KEPT
        if not self.op.of_sum:
            return MEAN_OF_256
        return MEAN_OF_SUM_FLOAT if isinstance(self.op.requant, FloatScale) else MEAN_OF_SUM


class AveragePool2DSumLayer(AveragePool2DLayer):
    """A mean over the whole image, which is added up pixel by pixel as it comes: call (y, x) reads
    input columns from x on of row y. Its sums, an int32 for each channel, last from the first call
    to the last, which writes the output."""

    can_descend = False
    symbol = "vmcu_average_pool_sum"

    @staticmethod
    def serves(graph: Graph, node: Node) -> bool:
        """True if a node is such a mean."""
        height, width, _ = graph.tensors[node.inputs[0]].shape
        whole = Window((height, width))
        op = node.op
        return isinstance(op, AveragePool2D) and replace(op.window, stride=(1, 1)) == whole

    @property
    def height(self) -> int:
        return self.ins[0].shape[0]

    @property
    def width(self) -> int:
        return self.ins[0].shape[1]

    @property
    def scratch_bytes(self) -> int:
        return 4 * self.out.shape[2]

    def input_rows(self, index: int, y: int) -> range:
        return range(y, y + 1)

    def reach(self, index: int) -> Reach:
        return Reach.shifted()


class MaxPool2DLayer(PoolLayer[MaxPool2D]):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        taps, _ = gather(data[0], self.op.window, self.out.shape[1], y0, y1, INT8_MIN)
        return self.clamp(taps.max(axis=(2, 3)))

    @functools.cached_property
    def binding(self) -> Binding:
        return self.bind_pool("max", {})
