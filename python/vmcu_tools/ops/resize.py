# SPDX-License-Identifier: Apache-2.0
"""Linear interpolation.

Order of access: output bytes in ascending order, four taps read just before each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..graph import REQUANTISERS, Op
from ..quant import FixedPoint, divide_away
from .kernel_type import KernelType
from .layer import NEVER, Layer
from .values import Array, CStruct, Kernel, factor

UNIT = 1 << 10
PARAMS = CStruct(
    "vmcu_resize_params",
    """
	const int16_t *rows;
	const int16_t *columns;
	struct vmcu_factor factor; /**< factor of a sum of taps, whose weights add up to 2^20 */
	bool rescale;
	int8_t input_zero;
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
""",
    before="""
/**
 * @brief For each output index: two input indices and the weight of the second one in 1/1024.
 *
 * Without @a rescale, input and output have the same scale and zero point.
 */
""",
    declares="""
/** @brief Interpolates linearly. For each byte, ascending: reads four taps, then writes. */
void vmcu_resize(const struct vmcu_call *call);
""",
)
KERNEL = KernelType("vmcu_resize", PARAMS, check="vmcu_check_resize(c)")


@dataclass(frozen=True, eq=False)
class Resize(Op):
    """Linear interpolation along H and W.

    rows int32 (H, 3) and columns int32 (W, 3) hold for each output index two input indices and
    the second one's weight in 1/1024, w; the first one weighs 1024 - w. `requant` None: scale and
    zero point are kept, the sum of the four taps is divided by 2**20, ties away from zero.
    TensorFlow Lite, kernels/internal/reference/resize_bilinear.h, ResizeBilinearInteger.
    Otherwise requant.apply(sum - zi * 2**20) + zo, the one factor in_scale / out_scale / 2**20.
    """

    clamps = monotone = by_channel = True
    # Weights of 1/1024 instead of float32.
    differing_share = 0.3
    always_has = frozenset(REQUANTISERS.values())

    rows: np.ndarray
    columns: np.ndarray
    requant: FixedPoint | None = None


class ResizeLayer(Layer[Resize], op=Resize):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        top, bottom, weight_y = self.op.rows[y0:y1].T.astype(np.int64)
        left, right, weight_x = self.op.columns.T.astype(np.int64)
        values = data[0].astype(np.int64)
        weight_y, weight_x = weight_y[:, None, None], weight_x[None, :, None]
        upper, lower = (
            values[rows][:, left] * (UNIT - weight_x) + values[rows][:, right] * weight_x
            for rows in (top, bottom)
        )
        total = upper * (UNIT - weight_y) + lower * weight_y
        if self.op.requant is None:
            return self.clamp(divide_away(total, np.int64(UNIT * UNIT)))
        centred = total - self.ins[0].zero_point * UNIT * UNIT
        return self.clamp(self.op.requant.apply(centred) + self.out.zero_point)

    @property
    def transposed(self) -> Op | None:
        return replace(self.op, rows=self.op.columns, columns=self.op.rows)

    def input_rows(self, index: int, y: int) -> range:
        top, bottom, _ = (int(v) for v in self.op.rows[y])
        return range(min(top, bottom), max(top, bottom) + 1)

    def last_reads(self, index: int) -> np.ndarray:
        height, width, channels = self.ins[0].shape
        rows, columns = (
            _last_users(taps, size)
            for taps, size in ((self.op.rows, height), (self.op.columns, width))
        )
        return self.ticks_of(rows, columns, np.arange(channels))

    @property
    def weight_bytes(self) -> int:
        return 4 * (self.op.rows.size + self.op.columns.size)

    @property
    def kernel(self) -> Kernel:
        fields = {} if self.op.requant is None else {"factor": factor(self.op.requant)}
        return KERNEL(
            rows=Array("rows", self.op.rows.astype(np.int16)),
            columns=Array("columns", self.op.columns.astype(np.int16)),
            rescale=self.op.requant is not None,
            **self.zeros,
            **self.bounds,
            **fields,
        )


def _last_users(taps: np.ndarray, size: int) -> np.ndarray:
    """Returns for every input index of an axis the last output index that reads it."""
    last = np.full(size, NEVER, np.int64)
    for place in (0, 1):
        np.maximum.at(last, taps[:, place], np.arange(len(taps)))
    return last
