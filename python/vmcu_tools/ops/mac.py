# SPDX-License-Identifier: Apache-2.0
"""What convolutions and fully connected layers share: weights, a bias, a requantiser, a window.

Order of access: pixel by pixel, output channel by output channel; all taps of a channel are read
before its byte is written.
"""

from __future__ import annotations

import numpy as np

from ..kernels.pack import MacWeights, blocks, lines
from ..quant import (
    INT32_MAX,
    INT32_MIN,
    FixedPoint,
    FloatScale,
    Requant,
    requantize,
    wrap_int32,
)
from .biases import Biases, beyond_float32
from .layer import Binding, OpT
from .values import CStruct
from .window import WindowLayer, gather, window_fields

# Taps in a word of a stream.
WORD = 4
PARAMS = CStruct(
    "vmcu_mac_params",
    "const void *stream; struct vmcu_window window; uint16_t groups, depth, run, steps;"
    "int8_t input_zero, output_zero, act_min, act_max; uint8_t is_float;",
)


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


class MacLayer(WindowLayer[OpT]):
    """What all of them share: weights, a bias, a requantiser, a window."""

    @property
    def by_columns(self) -> bool:
        # The dense kernel, which takes whole rows, serves outputs of one column only.
        return self.out.shape[1] > 1

    def finish(self, acc: np.ndarray) -> np.ndarray:
        """Accumulators to int8; like the C kernels they are 32 bits wide and wrap."""
        return requantize(
            wrap_int32(acc), self.op.requant, self.out.zero_point, self.op.act_min, self.op.act_max
        )

    def taps(self, data: np.ndarray, y0: int, y1: int) -> np.ndarray:
        """q - zero_point under output rows y0 .. y1-1, int64 (rows, W, kh, kw, C)."""
        zero = self.ins[0].zero_point
        return gather(data, self.window, self.out.shape[1], y0, y1, zero)[0] - zero

    def ranges(self) -> dict[str, int]:
        """Zero points, bounds and requantiser, as every parameter struct with weights has them."""
        is_float = int(isinstance(self.op.requant, FloatScale))
        return {**self.zeros, **self.bounds, "is_float": is_float}

    def bind_mac(self, kernel: str, run: int, pixels: int = 0, flat: bool = False) -> Binding:
        """A kernel of programs/conv.py or dense.py: taps in contiguous runs of `run`; `pixels` in
        the scratch tile."""
        op, packing = self.op, self.target.packing
        depth = op.weights.shape[-1]
        channels, groups = len(op.bias), getattr(op, "groups", 1)
        taps = op.weights.reshape(channels, -1, run)
        block, step = packing.dense, packing.lanes
        if pixels:
            block, step = packing.channels, packing.step
        steps = -(-taps.shape[1] * packing.padded(run) // step)
        size = channels // groups
        picks = (slice(first, first + size) for first in range(0, channels, size))
        parts = (self.mac_weights(taps, pick) for pick in picks)
        stream = b"".join(blocks(part, packing, block, step) for part in parts)
        fields = {
            **window_fields(self.window),
            **{"groups": groups, "depth": depth, "run": run, "steps": steps},
            **self.ranges(),
        }
        tile = min(pixels, self.out.shape[1]) * steps * step * packing.tap
        # A bias, taps of a byte and factors for each channel.
        words = block * (1 + steps * step // WORD + (2 if fields["is_float"] else 3))
        return Binding(self.program(kernel), fields, stream, tile, flat, lines(stream, words))

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

    def biases(self) -> Biases:
        weights = self.whole_weights()
        folded = weights.exact_bias
        rounded = beyond_float32(folded) | beyond_float32(weights.bias)
        if not isinstance(weights.requant, FloatScale):
            rounded &= False
        elif rounded.any():
            # Integers stand for the factors of the others.
            rounded &= weights.integers.word == 0
        beyond = (folded < INT32_MIN) | (folded > INT32_MAX)
        return Biases(rounded, beyond, weights.input_zero)

    @property
    def macs(self) -> int:
        return self.out.shape[0] * self.out.shape[1] * int(self.op.weights.size)

    @property
    def weight_bytes(self) -> int:
        return self.op.weights.size + self.op.bias.size * 4 + requant_bytes(self.op.requant)
