# SPDX-License-Identifier: Apache-2.0
"""Layers that multiply and accumulate: convolution, fully connected; see also depthwise.py.

Order of access: pixel by pixel, output channel by output channel; all taps of a channel are read
before its byte is written.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from ..graph import Conv2D, FullyConnected, Window
from ..kernels.isa.instructions import LANES, STEP, padded
from ..kernels.pack import MacWeights, blocks, lines
from ..kernels.programs import PROGRAMS
from ..kernels.programs.conv import WINDOW_FIELDS
from ..quant import FixedPoint, FloatScale, Requant, requantize, wrap_int32
from .layer import Binding, Form, Layer, OpT, ProgramLayer, Reach, gather, window_rows


def requant_bytes(requant: Requant) -> int:
    if isinstance(requant, FixedPoint):
        return requant.multiplier.size * 5
    return requant.scale.size * 8


def accumulate(taps: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """(..., K) taps times (K, N) weights plus bias (N,), exact.

    float64 carries sums below 2**53 without rounding and is much faster than integer products.
    """
    acc = taps.astype(np.float64) @ weights.astype(np.float64)
    return acc.astype(np.int64) + bias.astype(np.int64)


def window_fields(window: Window) -> dict[str, int]:
    """struct vmcu_window."""
    values = (*window.kernel, *window.stride, *window.dilation, *window.pad[:2])
    return {f"window.{name}": value for name, value in zip(WINDOW_FIELDS, values, strict=True)}


class MacLayer(Layer[OpT]):
    """What all of them share: weights, a bias, a requantiser, a window."""

    @property
    def by_columns(self) -> bool:
        # The dense kernel, which takes whole rows, serves outputs of one column only.
        return self.out.shape[1] > 1

    @property
    def window(self) -> Window:
        return self.op.window

    def finish(self, acc: np.ndarray) -> np.ndarray:
        """Accumulators to int8; like the C kernels they are 32 bits wide and wrap."""
        return requantize(
            wrap_int32(acc), self.op.requant, self.out.zero_point, self.op.act_min, self.op.act_max
        )

    def taps(self, data: np.ndarray, y0: int, y1: int) -> np.ndarray:
        """q - zero_point under output rows y0 .. y1-1, int64 (rows, W, kh, kw, C)."""
        zero = self.ins[0].zero_point
        return gather(data, self.window, self.out.shape[1], y0, y1, zero)[0] - zero

    def input_rows(self, index: int, y: int) -> range:
        return window_rows(self.window, self.ins[0].shape[0], y)

    def reach(self, index: int) -> Reach:
        return Reach.window(self.window)

    def ranges(self) -> dict[str, int]:
        """Zero points, bounds and requantiser, as every parameter struct with weights has them."""
        return {
            "input_zero": self.ins[0].zero_point,
            "output_zero": self.out.zero_point,
            "act_min": self.op.act_min,
            "act_max": self.op.act_max,
            "is_float": int(isinstance(self.op.requant, FloatScale)),
        }

    def bind_mac(
        self, kernel: str, run: int, block: int, pixels: int = 0, flat: bool = False
    ) -> Binding:
        """A kernel of isa/instructions.py: taps in contiguous runs of `run`, `block` channels at
        a time; `pixels` in the scratch tile."""
        op = self.op
        depth = op.weights.shape[-1]
        channels, groups = len(op.bias), getattr(op, "groups", 1)
        taps = op.weights.reshape(channels, -1, run)
        step = STEP if pixels else LANES
        steps = padded(taps.shape[1] * padded(run), step) // step
        size = channels // groups
        picks = (slice(first, first + size) for first in range(0, channels, size))
        stream = b"".join(blocks(self.mac_weights(taps, pick), block, step) for pick in picks)
        fields = {
            **window_fields(self.window),
            **{"groups": groups, "depth": depth, "run": run, "steps": steps},
            **self.ranges(),
        }
        tile = min(pixels, self.out.shape[1]) * steps * step * 2
        program = PROGRAMS[f"vmcu_{kernel}"]
        # A bias, taps of a byte and factors for each channel.
        words = block * (1 + steps * step // 4 + (2 if fields["is_float"] else 3))
        return Binding(program, fields, stream, tile, flat, lines(stream, words))

    def mac_weights(self, taps: np.ndarray, pick: slice) -> MacWeights:
        """The weights of some output channels; taps (channels, runs, run)."""
        op = self.op
        return MacWeights(
            taps[pick],
            op.bias[pick],
            op.requant.pick(pick),
            self.ins[0].zero_point,
            self.out.zero_point,
            op.act_min,
            op.act_max,
        )

    def whole_weights(self) -> MacWeights:
        """The weights of all output channels."""
        channels = len(self.op.bias)
        return self.mac_weights(self.op.weights.reshape(channels, 1, -1), slice(0, channels))

    @property
    def macs(self) -> int:
        return self.out.shape[0] * self.out.shape[1] * int(self.op.weights.size)

    @property
    def weight_bytes(self) -> int:
        return self.op.weights.size + self.op.bias.size * 4 + requant_bytes(self.op.requant)


class Conv2DLayer(MacLayer[Conv2D], ProgramLayer[Conv2D]):
    @property
    def pointwise(self) -> bool:
        return self.op.window == Window() and self.op.groups == 1

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

    @functools.cached_property
    def binding(self) -> Binding:
        op, window = self.op, self.op.window
        kw, depth = op.weights.shape[2:]
        # Without dilation and groups a row of the window is contiguous in the input.
        merged = op.groups == 1 and (window.dilation[1] == 1 or kw == 1)
        run = kw * depth if merged else depth
        if merged and self.out.shape[1] == 1 and not any(window.pad):
            return self.bind_mac("dense", run, 4, flat=True)
        if self.pointwise:
            if self.form is Form.DIRECT:
                return self.bind_mac("dense", run, 4)
            return self.bind_mac("pointwise", run, 2, pixels=2)
        return self.bind_mac("conv", run, 2, pixels=2)


class FullyConnectedLayer(MacLayer[FullyConnected], ProgramLayer[FullyConnected]):
    @property
    def window(self) -> Window:
        return Window()

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        taps = self.taps(data[0], y0, y1)[:, :, 0, 0]
        return self.finish(accumulate(taps, self.op.weights.T, self.op.bias))

    @functools.cached_property
    def binding(self) -> Binding:
        depth = self.op.weights.shape[1]
        if self.out.shape[1] == 1:
            return self.bind_mac("dense", depth, 4, flat=True)
        return self.bind_mac("pointwise", depth, 2, pixels=2)
