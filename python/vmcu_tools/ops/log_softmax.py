# SPDX-License-Identifier: Apache-2.0
"""The logarithm of softmax over the channels of each pixel, by either way to a logarithm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Op
from ..kernels.softmax import log_softmax_onnx, log_softmax_tflite
from .kernel_type import ALIKE, KernelType
from .pixelwise import PixelwiseLayer
from .values import Array, CStruct, Kernel

SQUARING_PARAMS = CStruct(
    "vmcu_log_softmax_onnx_params",
    """
	const uint32_t *exp; /**< see vmcu_softmax_onnx() */
	vmcu_long_t gain;    /**< factor of a base-2 logarithm */
	int32_t step;        /**< the input scale */
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
""",
    before="""
/** @a step and @a gain are in units of 1/65536 of the output scale. */
""",
    declares="""
/**
 * @brief Computes the logarithm of softmax over the channels of each pixel, as ONNX Runtime does.
 *
 * For each pixel: reads all channels, then for each channel, ascending: reads it again and writes.
 */
void vmcu_log_softmax_onnx(const struct vmcu_call *call);
""",
)
POLYNOMIAL_PARAMS = CStruct(
    "vmcu_log_softmax_tflite_params",
    """
	const uint32_t *exp;   /**< in Q0.31 */
	const int32_t *scaled; /**< the negative scaled difference, in Q5.26 */
	int8_t act_min;
	int8_t act_max;
""",
    before="""
/** The index into both tables is the pixel's maximum minus q; they have VMCU_SOFTMAX_ENTRIES. */
""",
    declares="""
/** @brief Computes log softmax as TensorFlow Lite does: output scale 1/16, zero point 127. */
void vmcu_log_softmax_tflite(const struct vmcu_call *call);
""",
)
SQUARING = KernelType(
    "vmcu_log_softmax_onnx",
    SQUARING_PARAMS,
    ALIKE,
    "vmcu_check_exponentials(c, p->exp)",
    reads="PIXEL",
    # Logarithms are below 2^21, and their products within 64 bits.
    limits={"step": (0, None), "gain": (0, 2**40 - 1)},
)
POLYNOMIAL = KernelType(
    "vmcu_log_softmax_tflite",
    POLYNOMIAL_PARAMS,
    ALIKE,
    "vmcu_check_exponentials(c, p->exp)",
    reads="PIXEL",
    arrays={"scaled": "VMCU_SOFTMAX_ENTRIES"},
)


@dataclass(frozen=True, eq=False)
class LogSoftmaxSquaring(Op):
    """Logarithm of softmax over the channels of each pixel: d * step - log2(sum of exp[-d]) * gain,
    with d = q - max and both factors in units of 1/65536 of an output's step. `exp` is Softmax's
    table for `exact_shares`; its sum is taken in units of 2**23. The logarithm's bits come from
    squaring."""

    data_dependent = "the logarithm of the sum; up to 1.2 times as many"
    clamps = True

    exp: np.ndarray
    step: int
    gain: int


class LogSoftmaxSquaringLayer(PixelwiseLayer[LogSoftmaxSquaring], op=LogSoftmaxSquaring):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        values = data[0][y0:y1].astype(np.int64)
        logs = log_softmax_onnx(values, self.op.exp, self.op.step, self.op.gain)
        return self.clamp(logs + self.out.zero_point)

    @property
    def kernel(self) -> Kernel:
        return SQUARING(
            exp=Array("exp", self.op.exp.astype(np.uint32)),
            step=self.op.step,
            gain=f"INT64_C({self.op.gain})",
            output_zero=self.out.zero_point,
            **self.bounds,
        )


@dataclass(frozen=True, eq=False)
class LogSoftmaxPolynomial(Op):
    """Logarithm of softmax over the channels of each pixel, scale 1/16 and zero point 127.

    Both tables are indexed by max - q: `exp`, uint32, in Q0.31 and zero beyond diff_min; `scaled`,
    int32, the negative difference in real units with 26 fractional bits, -20 where it is below
    that. The logarithm is gemmlowp's polynomial: TensorFlow Lite,
    kernels/internal/reference/log_softmax.h.
    """

    data_dependent = "the logarithm of the sum; up to 1.1 times as many"
    clamps = True

    exp: np.ndarray
    scaled: np.ndarray  # type: ignore[assignment] # a field here, where others are made larger


class LogSoftmaxPolynomialLayer(PixelwiseLayer[LogSoftmaxPolynomial], op=LogSoftmaxPolynomial):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        values = data[0][y0:y1].astype(np.int64)
        return self.clamp(log_softmax_tflite(values, self.op.exp, self.op.scaled))

    @property
    def weight_bytes(self) -> int:
        return 8 * self.op.exp.size

    @property
    def kernel(self) -> Kernel:
        return POLYNOMIAL(
            exp=Array("exp", self.op.exp.astype(np.uint32)),
            scaled=Array("scaled", self.op.scaled.astype(np.int32)),
            **self.bounds,
        )
