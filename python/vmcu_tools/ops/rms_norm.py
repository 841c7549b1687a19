# SPDX-License-Identifier: Apache-2.0
"""Each pixel's channels at a mean square of one, as float32 computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Op
from ..quant import float_bits
from .kernel_type import ALIKE, KernelType
from .pixelwise import PixelwiseLayer
from .rates import Rates
from .values import Array, CStruct, Kernel

# Sums of so many squares of at most 255 are below 2^24: float32 holds each of them, in any order.
MOST_CHANNELS = 256
# Exponents of float32 factors; their products stay far from float32's ends.
LEAST, MOST = 2.0**-30, 2.0**30
_FIRST, _LAST = (float_bits(value) for value in (LEAST, MOST))
PARAMS = CStruct(
    "vmcu_rms_norm_params",
    """
	const int32_t *gain; /**< float32 bits, one for each channel */
	int32_t epsilon;     /**< float32 bits, addend of the mean square */
	int32_t scale;       /**< float32 bits, of the output */
	int8_t input_zero;
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
""",
    declares="""
/**
 * @brief Divides the channels of each pixel by the root of their mean square. Then multiplies by
 * a gain. Each step rounds as float32 does.
 *
 * For each pixel: reads all channels, then for each channel, ascending: reads it again and writes.
 */
void vmcu_rms_norm(const struct vmcu_call *call);
""",
)
KERNEL = KernelType(
    "vmcu_rms_norm",
    PARAMS,
    ALIKE,
    f"vmcu_check_output(c)->channels <= {MOST_CHANNELS}U",
    reads="PIXEL",
    arrays={"gain": "vmcu_check_output(c)->channels"},
    limits={"epsilon": (_FIRST, _LAST), "scale": (_FIRST, _LAST)},
)


@dataclass(frozen=True, eq=False)
class RmsNorm(Op):
    """q / scale of the output, with q = d / sqrt(sum(d * d) / n + epsilon) * gain.

    d are the n channels of a pixel less their zero point. Each operation rounds to float32, from
    left to right; the sum is exact. gain: float32 (n,); epsilon: float32 in units of the input's
    scale, squared. Zhang and Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019.
    """

    data_dependent = "the division by the root; up to 8 times as many"
    clamps = True
    differing_share = 0.0

    gain: np.ndarray
    epsilon: float


def fits(channels: int, gain: np.ndarray, epsilon: float, scale: float) -> bool:
    """Whether RmsNorm can normalise `channels` values; scale: of the output."""
    factors = np.array([epsilon, scale, *np.abs(gain[gain != 0])])
    within = bool((factors >= LEAST).all() and (factors <= MOST).all())
    return within and gain.shape == (channels,) and channels <= MOST_CHANNELS


class RmsNormLayer(PixelwiseLayer[RmsNorm], op=RmsNorm):
    rates = Rates(call=1100, byte=77)

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        values = (data[0][y0:y1].astype(np.int32) - self.ins[0].zero_point).astype(np.float32)
        squares = (values * values).sum(axis=2, keepdims=True, dtype=np.float32)
        mean = squares / np.float32(values.shape[2])
        root = np.sqrt(mean + np.float32(self.op.epsilon))
        scaled = values / root * self.op.gain / np.float32(self.out.scale)
        return self.clamp(np.rint(scaled).astype(np.int64) + self.out.zero_point)

    @property
    def weight_bytes(self) -> int:
        return 4 * self.op.gain.size

    @property
    def kernel(self) -> Kernel:
        return KERNEL(
            gain=Array("gain", self.op.gain.astype(np.float32).view(np.int32)),
            epsilon=float_bits(self.op.epsilon),
            scale=float_bits(self.out.scale),
            **self.zeros,
            **self.bounds,
        )
