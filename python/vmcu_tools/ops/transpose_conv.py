# SPDX-License-Identifier: Apache-2.0
"""Transposed convolution.

Order of access: pixel by pixel, channel by channel; a channel's taps are read just before it is
written. An output pixel gathers the input pixels that would have added to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..graph import Op
from ..quant import FixedPoint, FloatScale, Requant, requantize, wrap_int32
from .biases import Biases, beyond_float32
from .kernel_type import KernelType
from .layer import NEVER, Layer
from .rates import Rates
from .values import Array, CStruct, Kernel, Struct
from .window import window_values

PARAMS = CStruct(
    "vmcu_transpose_conv_params",
    """
	const int8_t *weights; /**< output channel, kernel row, kernel column, input channel */
	const int32_t *bias;
	const int32_t *multiplier;
	const int32_t *shift;
	const float *scale;
	struct vmcu_window window; /**< its padding is cropped from the full result */
	uint16_t groups;
	uint16_t depth; /**< input channels of a group */
	int8_t input_zero;
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
""",
    before="""
/** One factor for each channel: float32 if @a scale is not NULL, else fixed point. */
""",
    declares="""
/**
 * @brief Computes a transposed convolution.
 *
 * For each pixel, for each channel: reads all taps, then writes the channel.
 */
void vmcu_transpose_conv(const struct vmcu_call *call);
""",
)
KERNEL = KernelType("vmcu_transpose_conv", PARAMS, check="vmcu_check_transpose_conv(c)")


@dataclass(frozen=True, eq=False)
class TransposeConv2D(Op):
    """Every input pixel adds its kernel to the output at (y * stride - pad).

    weights int8 (Cout, kh, kw, Cin / groups), symmetric; bias int32 (Cout,); stride and dilation
    (y, x); pad (top, left) is cut from the full result.
    """

    clamps = True

    weights: np.ndarray
    bias: np.ndarray
    stride: tuple[int, int]
    pad: tuple[int, int]
    requant: Requant
    groups: int = 1
    dilation: tuple[int, int] = (1, 1)


class TransposeConv2DLayer(Layer[TransposeConv2D], op=TransposeConv2D):
    rates = Rates(call=700, mac=8.4, byte=330, floating=63)

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        op = self.op
        image = data[0].astype(np.int64) - self.ins[0].zero_point
        groups, depth = op.groups, op.weights.shape[3]
        image = image.reshape(*image.shape[:2], groups, depth)
        per_group = self.out.shape[2] // groups
        weights = op.weights.astype(np.int64).reshape(groups, per_group, *op.weights.shape[1:])
        acc = np.zeros((y1 - y0, self.out.shape[1], groups, per_group), np.int64)
        for ky in range(op.weights.shape[1]):
            for kx in range(op.weights.shape[2]):
                ys, in_y = self._taps(0, np.arange(y0, y1), ky)
                xs, in_x = self._taps(1, np.arange(self.out.shape[1]), kx)
                taps = image[np.ix_(in_y, in_x)]
                part = np.einsum("yxgd,gnd->yxgn", taps, weights[:, :, ky, kx])
                acc[np.ix_(ys, xs)] += part
        sums = wrap_int32(acc.reshape(*acc.shape[:2], -1) + op.bias)
        return requantize(sums, op.requant, self.out.zero_point, op.act_min, op.act_max)

    def _taps(self, axis: int, outs: np.ndarray, tap: int) -> tuple[np.ndarray, np.ndarray]:
        """Which of some output indices of an axis a tap adds to, and from which input index."""
        at = outs + self.op.pad[axis] - tap * self.op.dilation[axis]
        index, rest = np.divmod(at, self.op.stride[axis])
        used = np.flatnonzero((rest == 0) & (index >= 0) & (index < self.ins[0].shape[axis]))
        return used, index[used]

    @property
    def transposed(self) -> Op | None:
        pairs = (self.op.stride, self.op.pad, self.op.dilation)
        stride, pad, dilation = ((across, down) for down, across in pairs)
        weights = self.op.weights.swapaxes(1, 2)
        return replace(self.op, weights=weights, stride=stride, pad=pad, dilation=dilation)

    def input_rows(self, index: int, y: int) -> range:
        taps = range(self.op.weights.shape[1])
        rows = [int(row) for tap in taps for row in self._taps(0, np.array([y]), tap)[1]]
        return range(min(rows), max(rows) + 1) if rows else range(0)

    def last_reads(self, index: int) -> np.ndarray:
        rows, columns = self._last_users(0), self._last_users(1)
        per_group = self.out.shape[2] // self.op.groups
        groups = np.arange(self.ins[0].shape[2]) // self.op.weights.shape[3]
        channel = (groups + 1) * per_group - 1
        return self.ticks_of(rows, columns, channel)

    def _last_users(self, axis: int) -> np.ndarray:
        last = np.full(self.ins[0].shape[axis], NEVER, np.int64)
        for tap in range(self.op.weights.shape[1 + axis]):
            used, index = self._taps(axis, np.arange(self.out.shape[axis]), tap)
            np.maximum.at(last, index, used)
        return last

    @property
    def macs(self) -> int:
        """Counts every input pixel with the whole kernel; taps that fall off the output count."""
        height, width, _ = self.ins[0].shape
        return height * width * self.op.weights.size

    def biases(self) -> Biases:
        rounded = beyond_float32(self.op.bias) & isinstance(self.op.requant, FloatScale)
        return Biases(rounded)

    @property
    def weight_bytes(self) -> int:
        words = 3 if isinstance(self.op.requant, FixedPoint) else 2
        return self.op.weights.size + 4 * words * self.op.bias.size

    @property
    def kernel(self) -> Kernel:
        op = self.op
        if isinstance(op.requant, FloatScale):
            factors = {"scale": op.requant.scale.astype(np.float32)}
        else:
            names = ("multiplier", "shift")
            factors = {name: getattr(op.requant, name).astype(np.int32) for name in names}
        arrays = {"weights": op.weights, "bias": op.bias.astype(np.int32), **factors}
        window = window_values(op.weights.shape[1:3], op.stride, op.dilation, op.pad)
        return KERNEL(
            **{name: Array(name, values) for name, values in arrays.items()},
            window=Struct("", {**window}),
            groups=op.groups,
            depth=op.weights.shape[3],
            **self.zeros,
            **self.bounds,
        )
