# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution: which program runs it, how wide its strips are, how its stream is packed.

The programs (programs/depthwise.py) read windows of 3, 5 or 7 taps across, at a stride of one or
two, for a strip of output pixels and four channels at a time; any other window is read pixel by
pixel.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..graph import Op, Window
from ..kernels.isa.depthwise_instructions import (
    BLOCK,
    EXACT,
    GROUP,
    SQUARE_TAPS,
    STRIDES,
    TAPS,
    line_order,
    pair_bytes,
)
from ..kernels.pack import MacWeights, constants, fill
from ..kernels.programs import PROGRAMS
from ..kernels.programs.depthwise import gap, tile_bytes, weight_bytes
from ..quant import FloatScale, Requant
from .layer import Binding, Cost
from .mac import MacLayer
from .window import window_fields

# Scratch that costs no RAM of its own: plan.STACK_SCRATCH. A row in one strip saves a tenth of the
# work, which is worth a few bytes of the pool.
FREE_SCRATCH, ROW_SCRATCH = 256, 288
# In units of a pixel, as measured.
BLOCK_COST, STRIP_COST = 4, 6


@dataclass(frozen=True, eq=False)
class DepthwiseConv2D(Op):
    """weights int8 (kh, kw, Cout), symmetric; bias int32 (Cout,); Cout = Cin * multiplier and
    output channel c reads input channel c // multiplier."""

    clamps = windowed = channelwise = True

    weights: np.ndarray
    bias: np.ndarray
    window: Window
    requant: Requant
    multiplier: int = 1

    @property
    def by_channel(self) -> bool:
        return self.multiplier == 1

    def of_channels(self, picked: np.ndarray) -> DepthwiseConv2D:
        weights, requant = self.weights[:, :, picked], self.requant.pick(picked)
        return replace(self, weights=weights, bias=self.bias[picked], requant=requant)


def row_cost(wide: int, width: int) -> int:
    """What a row of `width` pixels costs in strips of `wide`: every block reads its weights and
    constants, every strip reads columns that the one before has read."""
    strips, left = divmod(width, wide)
    blocks = strips * (wide // BLOCK) + -(-left // BLOCK)
    return blocks * (BLOCK + BLOCK_COST) + -(-width // wide) * STRIP_COST


def strip_width(taps: int, stride: int, width: int) -> int:
    """Pixels of a strip, whole blocks, in rows of `width`: the cheapest whose tile costs no RAM,
    the whole row if its tile is hardly larger, else one block."""
    whole = -(-width // BLOCK) * BLOCK
    if FREE_SCRATCH < tile_bytes(taps, stride, whole) <= ROW_SCRATCH:
        return whole
    widths = range(BLOCK, whole + 1, BLOCK)
    free = [wide for wide in widths if tile_bytes(taps, stride, wide) <= FREE_SCRATCH]
    return min(free or [BLOCK], key=lambda wide: row_cost(wide, width))


def packed(pairs: list[tuple[int, int]]) -> bytes:
    """Pairs of weights as the kernels read them."""
    data = np.zeros(2 * len(pairs), np.int8)
    for pair, places in zip(pairs, pair_bytes(len(pairs)), strict=True):
        for weight, place in zip(pair, places, strict=True):
            data[place] = weight
    return data.tobytes()


def weight_stream(window: np.ndarray, stride: int) -> bytes:
    """The weights of one channel, int8 (taps, taps)."""
    taps = len(window)
    last = np.append(window[-1], np.int8(0))  # -1 names no weight
    line = [(last[a], last[b]) for a, b in line_order(taps)]
    if (taps, stride) == (SQUARE_TAPS, 1):
        return packed([*zip(window[0], window[1], strict=True), *line])
    stream = b""
    for r in range(0, taps - 1, 2):
        for phase in range(stride):
            columns = range(phase, taps, stride)
            stream += packed([(window[r, s], window[r + 1, s]) for s in columns])
    if stride == 1:
        return stream + packed(line)
    return stream + packed([(last[s], last[s + 1]) for s in range(0, taps, 2)])


def factor_stream(weights: MacWeights, channel: int) -> bytes:
    """The requantiser's constants of one channel."""
    if isinstance(weights.requant, FloatScale):
        found = weights.integers
        words = found.multiplier[channel], found.word[channel], EXACT
        return np.array(words, np.int32).tobytes()
    multiplier, shift = weights.requant.multiplier[channel], weights.requant.shift[channel]
    if weights.is_fast[channel]:
        words = multiplier, weights.fast_bias[channel], -shift
    else:
        words = multiplier, shift, EXACT
    return np.array(words, np.int32).tobytes()


class DepthwiseConv2DLayer(MacLayer[DepthwiseConv2D], op=DepthwiseConv2D):
    block = BLOCK

    @property
    def cost(self) -> Cost:
        return Cost(per_call=900 + 36 * self.out.shape[2], per_idle=3.0)

    def tap_weights(self) -> np.ndarray:
        return self.op.weights.astype(np.int64).transpose(2, 0, 1)[..., None]

    def tap_channels(self) -> np.ndarray:
        channels = np.arange(len(self.op.bias)) // self.op.multiplier
        return channels[:, None, None, None]

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        wide = np.repeat(self.taps(data[0], y0, y1), self.op.multiplier, axis=-1)
        acc = (wide * self.op.weights.astype(np.int64)).sum(axis=(2, 3)) + self.op.bias
        return self.finish(acc)

    @functools.cached_property
    def binding(self) -> Binding:
        op, window = self.op, self.op.window
        taps, stride = window.kernel[1], window.stride[1]
        special = (
            op.multiplier == 1
            and taps in TAPS
            and window.kernel[0] == taps
            and stride in STRIDES
            and window.dilation[1] == 1
        )
        return self._strips(taps, stride) if special else self._taps()

    @functools.cached_property
    def _weights(self) -> MacWeights:
        channels = len(self.op.bias)
        taps = self.op.weights.reshape(-1, channels).T[:, None]
        return self.mac_weights(taps, slice(0, channels))

    def whole_weights(self) -> MacWeights:
        return self._weights

    def _fields(self, groups: int, run: int, steps: int) -> dict[str, int]:
        depth = self.ins[0].shape[2] // groups
        counts = {"groups": groups, "depth": depth, "run": run, "steps": steps}
        return {**window_fields(self.window), **counts, **self.ranges()}

    def _strips(self, taps: int, stride: int) -> Binding:
        channels = len(self.op.bias)
        bias, parts = self._weights.folded_bias, []
        for channel in range(channels):
            parts += [bias[channel].tobytes(), bytes(gap(taps, stride))]
            parts += [weight_stream(self.op.weights[:, :, channel], stride)]
            parts += [factor_stream(self._weights, channel)]
        # Channels are computed in fours; nothing of those that do not exist is stored.
        parts += [self._missing(taps, stride)] * (-channels % GROUP)
        wide = strip_width(taps, stride, self.columns)
        program = PROGRAMS[f"vmcu_depthwise_{taps}_{stride}"]
        fields = self._fields(1, 1, wide)
        return Binding(program, fields, b"".join(parts), tile_bytes(taps, stride, wide))

    def _missing(self, taps: int, stride: int) -> bytes:
        """A channel that does not exist."""
        constants = np.array((0, 0, EXACT), np.int32).tobytes()
        return bytes(4 + gap(taps, stride) + weight_bytes(taps, stride)) + constants

    def _taps(self) -> Binding:
        channels, multiplied = len(self.op.bias), self.op.multiplier > 1
        group = self.op.multiplier if multiplied else channels
        bias, parts = self._weights.folded_bias, []
        for start in range(0, channels, group):
            for first in range(start, start + group, GROUP):
                pick = np.arange(first, min(first + GROUP, start + group))
                taps = self._weights.weights[pick, 0]
                pieces = [fill(bias[pick], GROUP), fill(taps, GROUP).T]
                pieces += constants(self._weights, pick, GROUP, False)
                parts += [np.ascontiguousarray(piece).tobytes() for piece in pieces]
        fields = self._fields(channels // group, int(not multiplied), 0)
        return Binding(PROGRAMS["vmcu_depthwise_any"], fields, b"".join(parts))
