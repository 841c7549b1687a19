# SPDX-License-Identifier: Apache-2.0
"""Elements of more than a byte at a model's ends: another width, and an int16 softmax.

An int16 or int32 element is two or four channels, the least significant byte first. Order of
access: the bytes of an element are read, then the bytes of that output element are written,
ascending.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Op
from ..kernels.softmax import softmax_tflite
from ..quant import FixedPoint
from .kernel_type import ONE_INPUT, KernelType
from .layer import OpT
from .pixelwise import OwnPixelLayer
from .rates import Rates
from .softmax import PARAMS as SOFTMAX_PARAMS
from .values import Array, CStruct, Kernel, factor

PARAMS = CStruct(
    "vmcu_requantize_wide_params",
    """
	struct vmcu_factor factor;
	int16_t input_zero;
	int16_t output_zero;
	uint8_t input_bytes;  /**< of an element: 1 or 2 */
	uint8_t output_bytes; /**< of an element: 1, 2 or 4 */
""",
    declares="""
/**
 * @brief Changes scale, zero point and width of elements, which are 1, 2 or 4 channels each.
 *
 * For each element, ascending: reads all bytes, then writes all, the least significant one first.
 */
void vmcu_requantize_wide(const struct vmcu_call *call);

/**
 * @brief Computes softmax over the channels of each pixel: int16 elements in two channels each.
 *
 * For each pixel: reads all channels, then for each channel, ascending: reads it again and writes
 * two bytes, the least significant one first. The output has scale 2^-16 and zero point -2^15.
 */
void vmcu_softmax_int16(const struct vmcu_call *call);
""",
)
NO_OTHER_INPUT = (ONE_INPUT, "vmcu_check_columns(c, 0)")
REQUANTIZE = KernelType(
    "vmcu_requantize_wide",
    PARAMS,
    *NO_OTHER_INPUT,
    "vmcu_check_input(c, 0)->channels % p->input_bytes == 0U",
    "vmcu_check_input(c, 0)->channels / p->input_bytes * p->output_bytes == "
    "vmcu_check_output(c)->channels",
    reads="PIXEL",
    limits={"input_bytes": (1, 2), "output_bytes": (1, 4)},
)
SOFTMAX = KernelType(
    "vmcu_softmax_int16",
    SOFTMAX_PARAMS,
    *NO_OTHER_INPUT,
    "vmcu_check_output(c)->channels == 2U * vmcu_check_input(c, 0)->channels",
    "vmcu_check_exponentials(c, p->exp)",
    reads="PIXEL",
)


def elements(data: np.ndarray, width: int) -> np.ndarray:
    """int8 (H, W, C) as int64 (H, W, C / width), the elements of so many bytes."""
    return np.ascontiguousarray(data).view(f"<i{width}").astype(np.int64)


def channels(values: np.ndarray, width: int) -> np.ndarray:
    """Inverts elements(): int8, after a cut to the range of so many bytes."""
    dtype = np.dtype(f"<i{width}")
    limits = np.iinfo(dtype)
    narrow: np.ndarray = np.clip(values, limits.min, limits.max).astype(dtype).view(np.int8)
    return narrow


@dataclass(frozen=True, eq=False)
class RequantizeWide(Op):
    """Another scale, zero point and width: Quantize of int8 or int16 to int8, int16 or int32.
    requant.apply(q - zi) + zo; widths in bytes. TensorFlow Lite,
    kernels/internal/reference/requantize.h."""

    requant: FixedPoint
    input_bytes: int
    output_bytes: int


@dataclass(frozen=True, eq=False)
class SoftmaxInt16(Op):
    """Over the channels of each pixel, to int16 of scale 2^-16 and zero point -2^15; `exp` as
    Softmax has it for TensorFlow Lite. TensorFlow Lite, kernels/internal/reference/softmax.h."""

    exp: np.ndarray


class WideLayer(OwnPixelLayer[OpT]):
    """Output element i is written when element i of the input has been read for the last time."""

    def last_reads(self, index: int) -> np.ndarray:
        shape, count = self.ins[index].shape, self.ins[index].bytes
        written = self.out.bytes // (count // self._input_bytes)
        ticks = np.arange(count, dtype=np.int64) // self._input_bytes * written
        return ticks.reshape(shape)

    @property
    def _input_bytes(self) -> int:
        return 1


class RequantizeWideLayer(WideLayer[RequantizeWide], op=RequantizeWide):
    rates = Rates(byte=60)

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        values = elements(data[0][y0:y1], self.op.input_bytes) - self.ins[0].zero_point
        scaled = self.op.requant.apply(values) + self.out.zero_point
        return channels(scaled, self.op.output_bytes)

    @property
    def _input_bytes(self) -> int:
        return self.op.input_bytes

    @property
    def kernel(self) -> Kernel:
        widths = {"input_bytes": self.op.input_bytes, "output_bytes": self.op.output_bytes}
        return REQUANTIZE(factor=factor(self.op.requant), **self.zeros, **widths)


class SoftmaxInt16Layer(WideLayer[SoftmaxInt16], op=SoftmaxInt16):
    rates = Rates(byte=130)

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        return channels(softmax_tflite(data[0][y0:y1].astype(np.int64), self.op.exp, 2), 2)

    @property
    def kernel(self) -> Kernel:
        return SOFTMAX(exp=Array("exp", self.op.exp.astype(np.uint32)))
