# SPDX-License-Identifier: Apache-2.0
"""A fully connected layer whose weights are a tensor, see trainable.py.

Order of access: for each output, ascending: reads the whole input and the row of its weights, then
writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Op
from ..quant import FixedPoint, wrap_int32
from .kernel_type import KernelType
from .layer import Layer
from .rates import Rates
from .trainable import unpacked
from .values import CStruct, Kernel, factor

PARAMS = CStruct(
    "vmcu_trained_dense_params",
    """
	struct vmcu_factor factor;
	int8_t input_zero;
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
""",
    declares="""
/**
 * @brief Computes a fully connected layer with the weights of input 1, whose row n has those of
 * output n: an int16 for each byte of input 0, then an int32 bias.
 *
 * For each output, ascending: reads all of input 0 and a row of input 1, then writes. Sums wrap.
 */
void vmcu_trained_dense(const struct vmcu_call *call);
""",
)
# A row of input {1} has a weight for each byte of input {0}, and a bias. 64 bits: a damaged file
# can have a tensor of any size.
_AXES = (f"vmcu_check_input(c, {{0}})->{axis}" for axis in ("height", "width", "channels"))
ROW = f"vmcu_check_input(c, {{1}})->channels == 2U * (uint64_t){' * '.join(_AXES)} + 4U"
KERNEL = KernelType(
    "vmcu_trained_dense",
    PARAMS,
    "vmcu_check_inputs(c, 2U) && vmcu_check_calls(c)",
    "vmcu_check_rows(c, 0) && vmcu_check_rows(c, 1)",
    "vmcu_check_output(c)->height == 1U && vmcu_check_output(c)->width == 1U",
    "vmcu_check_input(c, 1)->height == vmcu_check_output(c)->channels",
    "vmcu_check_input(c, 1)->width == 1U",
    ROW.format(0, 1),
)


@dataclass(frozen=True, eq=False)
class TrainedDense(Op):
    """A sum of all bytes of the first input, times weights of the second, for each output channel.
    requant: one factor for sums."""

    clamps = True

    requant: FixedPoint


class TrainedDenseLayer(Layer[TrainedDense], op=TrainedDense):
    rates = Rates(mac=7)

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        values = data[0].astype(np.int64).ravel() - self.ins[0].zero_point
        weights, biases = unpacked(data[1])
        sums = wrap_int32(weights @ values + biases)
        return self.clamp(self.op.requant.apply(sums) + self.out.zero_point).reshape(1, 1, -1)

    def input_rows(self, index: int, y: int) -> range:
        return range(self.ins[index].shape[0])

    def last_reads(self, index: int) -> np.ndarray:
        tensor, last = self.ins[index], self.out.bytes - 1
        times = np.arange(last + 1)[:, None, None] if index else np.array(last)
        return np.broadcast_to(times.astype(np.int64), tensor.shape)

    @property
    def macs(self) -> int:
        return self.ins[0].bytes * self.out.bytes

    @property
    def kernel(self) -> Kernel:
        return KERNEL(factor=factor(self.op.requant), **self.zeros, **self.bounds)
