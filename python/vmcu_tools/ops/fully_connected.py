# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers, of each pixel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..graph import Op, Scaled, Shape, Shapes, Window
from ..quant import Requant
from .mac import MacLayer, Reading, accumulate, repeated
from .rates import DENSE


@dataclass(frozen=True, eq=False)
class FullyConnected(Op):
    """Applied to each pixel's C values. weights int8 (N, C), symmetric; bias int32 (N,).
    weight_bits: 4 if the file has int4 weights."""

    clamps = columnwise = True

    weights: np.ndarray
    bias: np.ndarray
    requant: Requant
    weight_bits: int = 8

    def scaled(self, ins: Shapes, was: Shapes, out: Shape, channels: int) -> Scaled | None:
        pick = repeated(channels, out[2])
        op = replace(
            self,
            weights=self.weights[np.ix_(pick, repeated(ins[0][2], was[0][2]))],
            bias=self.bias[pick],
            requant=self.requant.pick(pick),
        )
        return op, (*ins[0][:2], channels)


class FullyConnectedLayer(MacLayer[FullyConnected], op=FullyConnected):
    can_remove_channels = True

    rates = DENSE

    @property
    def window(self) -> Window:
        return Window()

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        taps = self.taps(data[0], y0, y1)[:, :, 0, 0]
        return self.finish(accumulate(taps, self.op.weights.T, self.op.bias))

    @property
    def reading(self) -> Reading:
        depth = self.op.weights.shape[1]
        if self.out.shape[1] == 1:
            return Reading("dense", depth, tiled=False, flat=True)
        return Reading("pointwise", depth)
