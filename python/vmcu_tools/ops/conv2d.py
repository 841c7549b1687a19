# SPDX-License-Identifier: Apache-2.0
"""Convolution of any window, in groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..graph import Graph, Node, Op, Scaled, Shape, Shapes, Window
from ..kernels.targets.portable.dense import are_copied
from ..kernels.targets.portable.shapes import NARROW
from ..quant import Requant
from .layer import PAIR, Cost, Form, Layer
from .mac import MacLayer, Reading, accumulate, repeated
from .rates import DENSE, DENSE_ROW, DENSE_ROW_REST, DIRECT, POINTWISE, TILED, TILED_NARROW, Rates
from .window import scaled_window


@dataclass(frozen=True, eq=False)
class Conv2D(Op):
    """weights int8 (Cout, kh, kw, Cin / groups), symmetric; bias int32 (Cout,). weight_bits: 4 if
    the file has int4 weights."""

    clamps = windowed = columnwise = True

    weights: np.ndarray
    bias: np.ndarray
    window: Window
    requant: Requant
    groups: int = 1
    weight_bits: int = 8

    @property
    def pointwise(self) -> bool:
        """True if each output pixel is made of one input pixel, all of it."""
        return self.window == Window() and self.groups == 1

    def scaled(self, ins: Shapes, was: Shapes, out: Shape, channels: int) -> Scaled | None:
        found = scaled_window(self.window, was[0], ins[0], out)
        same = (ins[0][2], channels) == (was[0][2], out[2])
        if found is None or (self.groups > 1 and not same):
            return None
        window, size = found
        depth = ins[0][2] // self.groups
        shape = channels, *window.kernel, depth
        pick = repeated(channels, out[2])
        op = replace(
            self,
            weights=self.weights[np.ix_(*map(repeated, shape, self.weights.shape))],
            bias=self.bias[pick],
            requant=self.requant.pick(pick),
            window=window,
        )
        return op, (*size, channels)


def as_convolution(op: Any, weights: np.ndarray, window: Window) -> Conv2D:
    """The convolution with all else that another layer with weights has."""
    names = ("bias", "requant", "weight_bits", "act_min", "act_max")
    same = {name: getattr(op, name) for name in names}
    return Conv2D(weights=weights, window=window, **same)


class Conv2DLayer(MacLayer[Conv2D], op=Conv2D):
    @classmethod
    def working(cls, graph: Graph, node: Node, form: Form) -> type[Layer[Any]] | None:
        if form is not Form.DIRECT:
            return super().working(graph, node, form)
        return cls if cls(graph, node).reading != cls(graph, node, form=form).reading else None

    @property
    def block(self) -> int:  # type: ignore[override]
        return 1 if self.form is Form.DIRECT else PAIR

    @property
    def cost(self) -> Cost:
        costs, usual = self.target.costs, super().cost
        if self.form is Form.DIRECT:
            usual = replace(usual, per_mac=costs.mac_direct)
        if self.op.window.kernel != (1, 1):
            return replace(usual, per_call=costs.call_window)
        return usual

    @property
    def rates(self) -> Rates:  # type: ignore[override]
        if self.reading.kernel != "dense":
            if self.op.window.kernel == (1, 1):
                return POINTWISE
            return TILED_NARROW if self.shapes is NARROW else TILED
        if self.form is Form.DIRECT and self.out.shape[1] > 1:
            return DIRECT
        rest = self.reading.run % self.target.packing.lanes
        row = DENSE_ROW_REST if rest else DENSE_ROW
        return replace(DENSE, byte=DENSE.byte + row * (self.op.window.kernel[0] - 1))

    @property
    def can_remove_channels(self) -> bool:
        return bool(self.op.groups == 1)

    @property
    def transposed(self) -> Op | None:
        weights = self.op.weights.swapaxes(1, 2)
        transposed: Op = replace(self.op, weights=weights, window=self.op.window.transposed)
        return transposed

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        taps = self.taps(data[0], y0, y1)
        cout, kh, kw, depth = self.op.weights.shape
        per_group = cout // self.op.groups
        parts = []
        for g in range(self.op.groups):
            group = taps[..., g * depth : (g + 1) * depth]
            filters = self.op.weights[g * per_group : (g + 1) * per_group].reshape(per_group, -1).T
            bias = self.op.bias[g * per_group : (g + 1) * per_group]
            parts.append(accumulate(group.reshape(*taps.shape[:2], kh * kw * depth), filters, bias))
        return self.finish(np.concatenate(parts, axis=-1))

    @property
    def reading(self) -> Reading:
        op, window = self.op, self.op.window
        kw, depth = op.weights.shape[2:]
        # Without dilation and groups a row of the window is contiguous in the input.
        merged = op.groups == 1 and (window.dilation[1] == 1 or kw == 1)
        run = kw * depth if merged else depth
        direct = self.form is Form.DIRECT
        # Padding above and below takes scratch, too, if less than a tile.
        copied = are_copied(window.kernel[0], run)
        tall = copied or (direct and window.kernel[0] > 1)
        padded = any(window.pad[1::2]) or (any(window.pad) and not tall)
        if merged and self.out.shape[1] == 1 and not padded:
            rows = window.kernel[0] if copied else 1
            return Reading("dense", run, tiled=False, flat=True, rows=rows)
        if op.pointwise:
            return Reading("dense", run, tiled=False) if direct else Reading("pointwise", run)
        taps = op.weights[0].size
        packing = self.target.packing
        packed = taps if run % packing.lanes and taps <= packing.packed else 0
        return Reading("conv", run, packed=packed)
