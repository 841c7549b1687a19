# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution: which program runs it, how wide its strips are, how its stream is packed.

The programs (programs/depthwise.py) read windows of 3, 5 or 7 taps across, at a stride of one or
two, for a strip of output pixels and four channels at a time. Any other window is read pixel by
pixel, and so are layers in which an odd number of outputs, above one, read a channel.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..graph import Op, Scaled, Shape, Shapes, Window
from ..kernels.depthwise_streams import channel_streams, vector_streams, weight_stream
from ..kernels.language.target import Target
from ..kernels.pack import MacWeights, group_streams
from ..kernels.programs.depthwise import tile_bytes
from ..kernels.targets import packings
from ..kernels.targets.portable.depthwise import (
    GROUP,
    SQUARE_TAPS,
    STRIDES,
    TAPS,
    channel_bytes,
)
from ..kernels.targets.portable.strips import WIDER
from ..quant import Requant
from .binding import Binding
from .layer import Cost
from .mac import WORD, MacLayer, kernel_type, repeated
from .rates import Rates
from .window import scaled_window, window_fields

# Scratch that costs no RAM of its own: plan.STACK_SCRATCH. A row in one strip saves a tenth of the
# work, which is worth a few bytes of the pool.
FREE_SCRATCH, ROW_SCRATCH = 256, 288
for _packing in (packing for packing in packings() if packing.bits == 8):
    kernel_type("depthwise_any", _packing, "depthwise_any(c, {packing})")
    for _taps, _stride in () if _packing.vector else itertools.product(TAPS, STRIDES):
        _numbers = f"{_taps}U, {_stride}U, {channel_bytes(_taps, _stride, _packing)}U"
        kernel_type(
            f"depthwise_{_taps}_{_stride}", _packing, f"depthwise(c, {{packing}}, {_numbers})"
        )


@dataclass(frozen=True, eq=False)
class DepthwiseConv2D(Op):
    """weights int8 (kh, kw, Cout), symmetric; bias int32 (Cout,); Cout = Cin * multiplier and
    output channel c reads input channel c // multiplier. weight_bits: 4 if the file has int4
    weights."""

    clamps = windowed = channelwise = True
    # A scale and an offset in the file; offsets are whole numbers of 1/64 of a scale.
    differing_share = 0.12

    weights: np.ndarray
    bias: np.ndarray
    window: Window
    requant: Requant
    multiplier: int = 1
    weight_bits: int = 8

    @property
    def by_channel(self) -> bool:
        return self.multiplier == 1

    def of_channels(self, picked: np.ndarray) -> DepthwiseConv2D:
        weights, requant = self.weights[:, :, picked], self.requant.pick(picked)
        return replace(self, weights=weights, bias=self.bias[picked], requant=requant)

    def scaled(self, ins: Shapes, was: Shapes, out: Shape, channels: int) -> Scaled | None:
        found = scaled_window(self.window, was[0], ins[0], out)
        if found is None:
            return None
        window, size = found
        count = ins[0][2] * self.multiplier
        op = self.of_channels(repeated(count, out[2]))
        taps = np.ix_(*map(repeated, (*window.kernel, count), op.weights.shape))
        return replace(op, weights=op.weights[taps], window=window), (*size, count)


def blocks_of(target: Target, taps: int, stride: int, pixels: int) -> list[int]:
    """The blocks that a strip is computed in, which may hang over its end."""
    narrow, wide = target.packing.pixels, target.packing.pixels + WIDER
    if taps != SQUARE_TAPS or target.packing.paired:
        return [narrow] * -(-pixels // narrow)
    if stride == 2:
        return [wide] * -(-pixels // wide)
    first = min((wide - pixels % wide) // 2 % (wide // 2) * narrow, pixels)
    return [narrow] * -(-first // narrow) + [wide] * -(-(pixels - first) // wide)


def row_cost(target: Target, taps: int, stride: int, wide: int, width: int) -> float:
    """Returns the cost of a row of `width` pixels in strips of `wide`, in pixels: every block
    reads its weights and constants, every strip reads columns that the one before has read."""
    strips, left = divmod(width, wide)
    parts = [wide] * strips + [left] * (left > 0)
    blocks = [block for part in parts for block in blocks_of(target, taps, stride, part)]
    return sum(blocks) + len(blocks) * target.costs.block + len(parts) * target.costs.strip


def strip_width(target: Target, taps: int, stride: int, width: int) -> int:
    """Pixels of a strip, whole blocks, in rows of `width`: the cheapest whose tile costs no RAM,
    the whole row if its tile is hardly larger, else one block."""
    widths = {sum(blocks_of(target, taps, stride, pixels)) for pixels in range(1, width + 1)}
    whole = max(widths)

    def scratch(wide: int) -> int:
        return tile_bytes(taps, stride, wide, target.packing)

    if FREE_SCRATCH < scratch(whole) <= ROW_SCRATCH:
        return whole
    # Strips of narrow blocks suit cores that have no others.
    narrow = target.packing.pixels if stride == 1 else 1
    widths = {wide for wide in widths if wide % narrow == 0 or wide == whole}
    free = [wide for wide in sorted(widths) if scratch(wide) <= FREE_SCRATCH]
    return min(free or [min(widths)], key=lambda wide: row_cost(target, taps, stride, wide, width))


class DepthwiseConv2DLayer(MacLayer[DepthwiseConv2D], op=DepthwiseConv2D):
    @property
    def rates(self) -> Rates:  # type: ignore[override]
        window = self.op.window
        span = (min(self.columns, self.width) - 1) * window.stride[1] + window.kernel[1]
        # Each call copies the rows under its windows, which costs more than the products.
        call = 1150 + 8.3 * self.out.shape[2] * window.kernel[0] * span
        return Rates(call=call, byte=0, floating=31, block=self.block)

    @property
    def transposed(self) -> Op | None:
        weights = self.op.weights.swapaxes(0, 1)
        transposed: Op = replace(self.op, weights=weights, window=self.op.window.transposed)
        return transposed

    @property
    def block(self) -> int:  # type: ignore[override]
        return self.target.packing.pixels

    @property
    def cost(self) -> Cost:
        costs = self.target.costs
        per_call = costs.call_strip + costs.call_strip_channel * self.out.shape[2]
        return Cost(per_call, costs.mac_depthwise)

    def tap_weights(self) -> np.ndarray:
        weights: np.ndarray = self.op.weights.astype(np.int64).transpose(2, 0, 1)[..., None]
        return weights

    def tap_channels(self) -> np.ndarray:
        channels = np.arange(len(self.op.bias)) // self.op.multiplier
        numbers: np.ndarray = channels[:, None, None, None]
        return numbers

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        wide = np.repeat(self.taps(data[0], y0, y1), self.op.multiplier, axis=-1)
        acc = (wide * self.op.weights.astype(np.int64)).sum(axis=(2, 3)) + self.op.bias
        return self.finish(acc)

    @functools.cached_property
    def binding(self) -> Binding:
        op, window = self.op, self.op.window
        taps, stride = window.kernel[1], window.stride[1]
        # Strips compute channels of a group in twos.
        is_even = op.multiplier % 2 == 0 and not self.target.packing.paired
        special = (
            (op.multiplier == 1 or is_even)
            and taps in TAPS
            and window.kernel[0] == taps
            and stride in STRIDES
            and window.dilation[1] == 1
        )
        if self.target.packing.vector:
            return self._any(self.target.packing.vector)
        return self._strips(taps, stride) if special else self._any(GROUP)

    @functools.cached_property
    def _weights(self) -> MacWeights:
        channels = len(self.op.bias)
        taps = self.op.weights.reshape(-1, channels).T[:, None]
        return self.mac_weights(taps, slice(0, channels))

    def whole_weights(self) -> MacWeights:
        return self._weights

    def _fields(self, steps: int) -> dict[str, int]:
        channels, is_one = self.ins[0].shape[2], self.op.multiplier == 1
        groups = 1 if is_one else channels
        counts = {"groups": groups, "depth": channels // groups, "run": int(is_one), "steps": steps}
        return {**window_fields(self.window), **counts, **self.ranges()}

    def _strips(self, taps: int, stride: int) -> Binding:
        # Channels are computed in twos.
        windows = [*np.moveaxis(self.op.weights, 2, 0)]
        windows += [np.zeros((taps, taps), np.int8)] * (len(windows) % 2)
        stream = self.shared_stream(
            lambda: channel_streams(
                self._weights,
                self.target.packing,
                [weight_stream(self.target.packing, window, stride) for window in windows],
            ),
            (taps, stride),
        )
        wide = strip_width(self.target, taps, stride, self.columns)
        program = self.program(f"depthwise_{taps}_{stride}")
        fields = self._fields(wide)
        tile = tile_bytes(taps, stride, wide, self.target.packing)
        # Behind the channels, the constants that some of them lack.
        line = channel_bytes(taps, stride, self.target.packing) // WORD
        lines = (line,) * len(windows) + (2,)
        return Binding(program, fields, stream, tile, lines=lines)

    def _any(self, size: int) -> Binding:
        """Any window, `size` channels at a time."""
        channels = len(self.op.bias)
        group = self.op.multiplier if self.op.multiplier > 1 else channels
        weights, packing = self._weights, self.target.packing
        starts = range(0, channels, group)
        picks = [
            np.arange(first, min(first + size, start + group))
            for start in starts
            for first in range(start, start + group, size)
        ]
        if packing.vector:
            parts = vector_streams(weights, picks, size)
        else:
            parts = group_streams(weights, packing, picks)
        scratch, padding = 4 * weights.weights.shape[-1], 0
        if packing.vector:
            # Whole vectors of addresses, those of rows, and a pixel of padding.
            padding = any(self.window.pad) * self.ins[0].shape[2]
            scratch = -(-scratch // 16) * 16 + 4 * self.window.kernel[0] + padding
        fields = self._fields(padding)
        lines = tuple(len(part) // WORD for part in parts)
        program = self.program("depthwise_any")
        return Binding(program, fields, b"".join(parts), scratch, lines=lines)
