# SPDX-License-Identifier: Apache-2.0
"""SVDF with an int16 state: a dense layer to int16, and filters of its results along time.

TensorFlow Lite Micro, kernels/svdf_common.cc. An int16 is two channels, the least significant byte
first. Order of access: for each output element, ascending, all that it is made of is read, then its
bytes are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Op, Window
from ..quant import FixedPoint, wrap_int32
from .biases import Biases
from .kernel_type import ONE_INPUT, KernelType
from .layer import NEVER, Layer
from .pixelwise import OwnPixelLayer
from .rates import Rates
from .reach import Reach
from .values import Array, CStruct, Kernel, Struct, factor
from .wide import NO_OTHER_INPUT, channels, elements
from .window import gather, last_users, window_rows, window_values

WIDTH = 2
DENSE_PARAMS = CStruct(
    "vmcu_dense_int16_params",
    """
	const int8_t *weights; /**< by element and input channel */
	struct vmcu_factor factor;
	int8_t input_zero;
""",
    declares="""
/**
 * @brief Computes a fully connected layer of each pixel: int16 elements in two channels each.
 *
 * For each element, ascending: reads all channels, then writes two bytes, the least significant one
 * first, or reads for some elements ahead. The output has the zero point 0.
 */
void vmcu_dense_int16(const struct vmcu_call *call);
""",
)
_ELEMENTS = "vmcu_check_output(c)->channels / 2U"
DENSE = KernelType(
    "vmcu_dense_int16",
    DENSE_PARAMS,
    *NO_OTHER_INPUT,
    "vmcu_check_output(c)->channels % 2U == 0U",
    reads="PIXEL",
    arrays={"weights": f"{_ELEMENTS} * vmcu_check_input(c, 0)->channels"},
)
FILTER_PARAMS = CStruct(
    "vmcu_filter_int16_params",
    """
	const int16_t *weights; /**< by row of the window, output channel and filter */
	const int32_t *bias;
	struct vmcu_window window; /**< one column */
	struct vmcu_factor factor;
	uint16_t rank; /**< filters of a channel */
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
""",
    declares="""
/**
 * @brief Computes output channels from filters, along the rows of a window, of int16 elements. Both
 * tensors have one column.
 *
 * For each channel, ascending: reads all elements of its filters, then writes, or reads some
 * channels ahead. Sums wrap.
 */
void vmcu_filter_int16(const struct vmcu_call *call);
""",
)
# So that twice the elements of all channels are within 32 bits.
MOST_RANK = (1 << 15) - 1
FILTER = KernelType(
    "vmcu_filter_int16",
    FILTER_PARAMS,
    ONE_INPUT,
    "vmcu_check_rows(c, 0)",
    "vmcu_check_input(c, 0)->width == 1U && vmcu_check_output(c)->width == 1U",
    "vmcu_check_input(c, 0)->channels == 2U * p->rank * vmcu_check_output(c)->channels",
    "p->window.kernel_w == 1U && p->window.pad_left == 0",
    reads="WINDOW",
    limits={"rank": (1, MOST_RANK)},
    arrays={
        "weights": "(uint32_t)p->window.kernel_h * p->rank * vmcu_check_output(c)->channels",
        "bias": "vmcu_check_output(c)->channels",
    },
)


@dataclass(frozen=True, eq=False)
class DenseInt16(Op):
    """weights int8 (elements, channels), symmetric, one factor; to int16 of zero point 0."""

    weights: np.ndarray
    requant: FixedPoint


@dataclass(frozen=True, eq=False)
class FilterInt16(Op):
    """weights int16 (channels, rows of the window, filters of a channel), bias int32 (channels,),
    one factor. The input's int16 elements, of zero point 0, are those of the filters of each
    channel in turn."""

    clamps = windowed = columnwise = True

    weights: np.ndarray
    bias: np.ndarray
    window: Window
    requant: FixedPoint


class DenseInt16Layer(OwnPixelLayer[DenseInt16], op=DenseInt16):
    rates = Rates(mac=2.2, byte=27)

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        values = data[0][y0:y1].astype(np.int64) - self.ins[0].zero_point
        sums = wrap_int32(values @ self.op.weights.astype(np.int64).T)
        return channels(self.op.requant.apply(sums), WIDTH)

    def last_reads(self, index: int) -> np.ndarray:
        return np.broadcast_to(self.writes()[:, :, -WIDTH, None], self.ins[0].shape)

    @property
    def macs(self) -> int:
        return self.out.shape[0] * self.out.shape[1] * self.op.weights.size

    @property
    def weight_bytes(self) -> int:
        return self.op.weights.size

    @property
    def kernel(self) -> Kernel:
        weights = Array("weights", np.ascontiguousarray(self.op.weights, np.int8))
        zero = self.ins[0].zero_point
        return DENSE(weights=weights, factor=factor(self.op.requant), input_zero=zero)


class FilterInt16Layer(Layer[FilterInt16], op=FilterInt16):
    rates = Rates(mac=8, byte=70)

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        count, _, rank = self.op.weights.shape
        values = elements(data[0], WIDTH)
        taps, _ = gather(values, self.op.window, 1, y0, y1, 0)
        taps = taps.reshape(y1 - y0, -1, count, rank)
        sums = np.einsum("ykur,ukr->yu", taps, self.op.weights.astype(np.int64)) + self.op.bias
        scaled = self.op.requant.apply(wrap_int32(sums)) + self.out.zero_point
        return self.clamp(scaled[:, None])

    @property
    def by_rows(self) -> bool:
        return not self.op.window.pad[2]

    def input_rows(self, index: int, y: int) -> range:
        return window_rows(self.op.window, self.ins[0].shape[0], y)

    def reach(self, index: int) -> Reach:
        return Reach.window(self.op.window)

    def last_reads(self, index: int) -> np.ndarray:
        height, _, size = self.ins[0].shape
        rows = last_users(self.op.window, 0, height, self.out.shape[0])[:, None]
        channel = np.arange(size) // (WIDTH * self.op.weights.shape[2])
        ticks = np.where(rows == NEVER, NEVER, rows * self.out.row_bytes + channel)
        return ticks.reshape(self.ins[0].shape)

    @property
    def macs(self) -> int:
        return self.out.shape[0] * self.op.weights.size

    def biases(self) -> Biases:
        return Biases(np.zeros(self.op.bias.shape, bool))

    @property
    def weight_bytes(self) -> int:
        return WIDTH * self.op.weights.size + 4 * self.op.bias.size

    @property
    def kernel(self) -> Kernel:
        op, window = self.op, self.op.window
        pairs = (window.kernel, window.stride, window.dilation, window.pad[:2])
        return FILTER(
            weights=Array("weights", np.ascontiguousarray(op.weights.swapaxes(0, 1), np.int16)),
            bias=Array("bias", op.bias.astype(np.int32)),
            window=Struct("", dict(window_values(*pairs))),
            factor=factor(op.requant),
            rank=op.weights.shape[2],
            output_zero=self.out.zero_point,
            **self.bounds,
        )
