# SPDX-License-Identifier: Apache-2.0
"""A dense layer over all rows of a call of a stream, which takes each row as it comes.

An output row has six columns of a byte for each channel: the output of the sums so far, the sums,
int32 with the least significant byte first, and which of its call's rows it is. The layer reads the
row before, which is of its own output. The last row of each call has the layer's result.

Order of access: the number of the row before is read first. Then, channel by channel, ascending:
all of the input and the channel's sum are read, and its result and sum written. At last the number
of the row is written.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..graph import Op
from ..quant import FixedPoint, requantize, wrap_int32
from .carrying import CarryingLayer
from .kernel_type import KernelType
from .layer import NEVER
from .values import Array, CStruct, Kernel

COLUMNS = 6
# Of a call, a channel number and a row's bytes.
MOST_ROWS, MOST_CHANNELS, MOST_BYTES = 200, 1024, 4096
PARAMS = CStruct(
    "vmcu_dense_by_rows_params",
    """
	const int8_t *weights;      /**< by row of a call, channel and byte of the row */
	const int32_t *begins;      /**< sums before the first row, by channel */
	const int32_t *multipliers; /**< by channel, see struct vmcu_factor */
	const int32_t *shifts;
	uint16_t rows; /**< of a call */
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
""",
    declares="""
/**
 * @brief Adds a row of input 0 to the sums of a dense layer over all rows of a call. Input 1 is the
 * output, whose row before has the sums so far.
 *
 * Output rows have the results so far, then the sums, int32, then the number of the row in its
 * call. Reads the number in the row before. Then for each channel, ascending: reads all of the row
 * of input 0 and the channel's sum, then writes its result and its sum. Writes the number last.
 */
void vmcu_dense_by_rows(const struct vmcu_call *call);
""",
)
_COUNT = "vmcu_check_output(c)->channels"
_TAPS = "(uint32_t)vmcu_check_input(c, 0)->width * vmcu_check_input(c, 0)->channels"
KERNEL = KernelType(
    "vmcu_dense_by_rows",
    PARAMS,
    "vmcu_check_inputs(c, 2U) && vmcu_check_calls(c)",
    "vmcu_check_rows(c, 0) && vmcu_check_rows(c, 1)",
    "vmcu_check_input(c, 0)->height == vmcu_check_output(c)->height",
    "vmcu_check_input(c, 1) == vmcu_check_output(c)",
    f"vmcu_check_output(c)->width == {COLUMNS}U",
    f"{_COUNT} <= {MOST_CHANNELS}U && {_TAPS} <= {MOST_BYTES}U",
    f"vmcu_check_shifts(c, p->shifts, {_COUNT})",
    reads="CARRIED",
    limits={"rows": (1, MOST_ROWS)},
    arrays={
        "weights": f"p->rows * {_COUNT} * ({_TAPS})",
        "begins": _COUNT,
        "multipliers": _COUNT,
    },
    streams=True,
)


@dataclass(frozen=True, eq=False)
class DenseByRows(Op):
    """weights int8 (rows of a call, channels, bytes of a row), symmetric; begin int32 (channels,):
    the bias, the input's zero point included."""

    clamps = True

    weights: np.ndarray
    begin: np.ndarray
    requant: FixedPoint


class DenseByRowsLayer(CarryingLayer[DenseByRows], op=DenseByRows):
    def step(self, x: np.ndarray, before: np.ndarray | None) -> np.ndarray:
        op, number, sums = self.op, 0, self.op.begin.astype(np.int64)
        if before is not None:
            number = (int(before[-1, 0].astype(np.uint8)) + 1) % len(op.weights)
        if before is not None and number:
            sums = np.ascontiguousarray(before[1:-1]).ravel().view("<i4").astype(np.int64)
        sums = wrap_int32(sums + op.weights[number].astype(np.int64) @ x.ravel().astype(np.int64))
        given = requantize(sums, op.requant, self.out.zero_point, op.act_min, op.act_max)
        numbers = np.full(len(sums), number, np.uint8).view(np.int8)
        parts = given, sums.astype("<i4").view(np.int8), numbers
        return np.concatenate(parts).reshape(COLUMNS, -1)

    @property
    def unit_ticks(self) -> tuple[np.ndarray, np.ndarray]:
        channels = np.arange(self.out.shape[2])
        last = np.full_like(channels, channels[-1])
        written = np.concatenate([channels, np.repeat(channels, 4), last]).reshape(COLUMNS, -1)
        read = written.copy()
        read[0] = read[-1] = NEVER
        read[-1, 0] = 0
        return read, written

    @property
    def macs(self) -> int:
        return self.out.shape[0] * int(self.op.weights[0].size)

    @property
    def weight_bytes(self) -> int:
        return self.op.weights.size + 12 * len(self.op.begin)

    @property
    def kernel(self) -> Kernel:
        op = self.op
        return KERNEL(
            weights=Array("weights", np.ascontiguousarray(op.weights, np.int8)),
            begins=Array("biases", op.begin.astype(np.int32)),
            multipliers=Array("multipliers", op.requant.multiplier.astype(np.int32)),
            shifts=Array("shifts", op.requant.shift.astype(np.int32)),
            rows=len(op.weights),
            output_zero=self.out.zero_point,
            **self.bounds,
        )
