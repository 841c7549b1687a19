# SPDX-License-Identifier: Apache-2.0
"""Mean, over windows, of a function of each value.

Order of access: output bytes in ascending order, all taps of a byte read just before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..graph import Op, Scaled, Shape, Shapes, Window
from ..quant import INT8_MIN
from .kernel_type import ONE_INPUT, SAME_CHANNELS, KernelType
from .layer import Layer
from .values import Array, CStruct, Kernel, Struct
from .window import Pooling, gather, last_users, window_rows, window_values

PARAMS = CStruct(
    "vmcu_table_mean_params",
    """
	const int32_t *table; /**< 256 values for the inputs -128 to 127, in output steps */
	struct vmcu_window window;
	int32_t divisor; /**< divisor of a sum; 0: the number of taps inside the image */
	uint8_t bits;    /**< fractional bits of the values */
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
""",
    declares="""
/**
 * @brief Computes the mean, over a window, of a function of each value. The sum has 64 bits.
 *
 * For each byte, ascending: reads all taps, then writes.
 */
void vmcu_table_mean(const struct vmcu_call *call);
""",
)
KERNEL = KernelType(
    "vmcu_table_mean",
    PARAMS,
    ONE_INPUT,
    SAME_CHANNELS,
    # A sum of so many values, and its divisor, are in 64 bits.
    "(uint32_t)p->window.kernel_h * p->window.kernel_w <= UINT32_C(1) << 20",
    arrays={"table": "VMCU_TABLE_ENTRIES"},
    limits={"bits": (None, 30), "divisor": (0, None)},
)


@dataclass(frozen=True, eq=False)
class TableMean(Pooling, Op):
    """Mean, over the window's taps inside of the image, of a function of each value.

    table int32 (256,): the function's values in output steps, with `bits` fractional bits. out =
    sum of table[q + 128] / divisor + zo, rounded once, half to even; `divisor` 0: the taps inside.
    The float computation of ONNX Runtime where a function is not quantised ahead of its mean.
    """

    clamps = True
    # As an average's: of two taps, every second mean may be half way between two bytes.
    differing_share = 0.3
    data_dependent = "the division by the number of taps; up to 1.3 times as many"

    table: np.ndarray
    window: Window
    bits: int
    divisor: int = 0

    def scaled(self, ins: Shapes, was: Shapes, out: Shape, channels: int) -> Scaled | None:
        pooled = super().scaled(ins, was, out, channels)
        if pooled is None or self.divisor != math.prod(self.window.kernel):
            return pooled
        op, shape = pooled
        assert isinstance(op, TableMean)
        return replace(op, divisor=math.prod(op.window.kernel)), shape


class TableMeanLayer(Layer[TableMean], op=TableMean):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        taps, inside = gather(data[0], self.op.window, self.out.shape[1], y0, y1, 0)
        values = self.op.table.astype(np.int64)[taps - INT8_MIN] * inside[..., None]
        counts = np.maximum(inside.sum(axis=(2, 3)), 1)[..., None]
        whole = counts if self.op.divisor == 0 else np.full_like(counts, self.op.divisor)
        divisor = whole << self.op.bits
        quotient, rest = np.divmod(2 * values.sum(axis=(2, 3)) + divisor, 2 * divisor)
        quotient -= (rest == 0) & (quotient % 2 != 0)
        return self.clamp(np.clip(quotient, -(1 << 20), 1 << 20) + self.out.zero_point)

    @property
    def transposed(self) -> Op | None:
        return replace(self.op, window=self.op.window.transposed)

    def input_rows(self, index: int, y: int) -> range:
        return window_rows(self.op.window, self.ins[0].shape[0], y)

    def last_reads(self, index: int) -> np.ndarray:
        rows, columns = (
            last_users(self.op.window, axis, self.ins[0].shape[axis], self.out.shape[axis])
            for axis in (0, 1)
        )
        return self.ticks_of(rows, columns, np.arange(self.out.shape[2]))

    @property
    def weight_bytes(self) -> int:
        return 4 * self.op.table.size

    @property
    def kernel(self) -> Kernel:
        window = self.op.window
        pairs = (window.kernel, window.stride, window.dilation, window.pad[:2])
        return KERNEL(
            table=Array("table", self.op.table.astype(np.int32)),
            window=Struct("", dict(window_values(*pairs))),
            divisor=self.op.divisor,
            bits=self.op.bits,
            output_zero=self.out.zero_point,
            **self.bounds,
        )
