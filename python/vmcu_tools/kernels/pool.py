# SPDX-License-Identifier: Apache-2.0
"""Pooling over windows."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from ..graph import AveragePool2D, MaxPool2D
from ..quant import INT8_MIN, divide_away
from .base import Binding, OpT, ProgramLayer, Reach, gather, window_rows
from .mac import window_fields
from .programs import PROGRAMS


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
            values = self.op.requant.apply(divide_away(total << 8, count)) + self.out.zero_point
        return self.clamp(values)

    @functools.cached_property
    def binding(self) -> Binding:
        requant = self.op.requant
        fields = {
            "rescale": int(requant is not None),
            "count_padding": int(self.op.count_padding),
            "input_zero": self.ins[0].zero_point,
            "output_zero": self.out.zero_point,
        }
        if requant is not None:
            fields["factor.multiplier"] = int(np.ravel(requant.multiplier)[0])
            fields["factor.shift"] = int(np.ravel(requant.shift)[0])
        return self.bind_pool("average", fields)


class MaxPool2DLayer(PoolLayer[MaxPool2D]):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        taps, _ = gather(data[0], self.op.window, self.out.shape[1], y0, y1, INT8_MIN)
        return self.clamp(taps.max(axis=(2, 3)))

    @functools.cached_property
    def binding(self) -> Binding:
        return self.bind_pool("max", {})
