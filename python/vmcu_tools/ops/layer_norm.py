# SPDX-License-Identifier: Apache-2.0
"""Normalisation of each pixel's channels, with a gain and an offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Op
from .kernel_type import ALIKE, KernelType
from .pixelwise import PixelwiseLayer
from .rates import Rates
from .values import Array, CStruct, Kernel

# z has 22 fractional bits. The root is taken of a number of 47 or 48 bits, so it has 24.
Z_BITS = 22
ROOT_BITS = 48
PARAMS = CStruct(
    "vmcu_layer_norm_params",
    """
	const int32_t *gain;
	const int32_t *offset;
	vmcu_long_t epsilon; /**< addend of the variance times the squared number of channels */
	int32_t factors;
	int32_t run;
	uint8_t bits;
	uint8_t fraction; /**< fractional bits of @a epsilon, an even number */
	bool centred;     /**< subtract the mean */
	int8_t input_zero;
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
""",
    before="""
/**
 * @a gain and @a offset have @a bits fractional bits. Each of them applies to @a run consecutive
 * elements. After @a factors values, the kernel starts again with the first one.
 */
""",
    declares="""
/**
 * @brief Normalises the channels of each pixel to mean 0 and variance 1, or only to a mean
 * square of 1. Then multiplies by a gain and adds an offset.
 *
 * For each pixel: reads all channels, then for each channel, ascending: reads it again and writes.
 */
void vmcu_layer_norm(const struct vmcu_call *call);
""",
)


# Of a mean of squares less the square of the mean, in float32: a few units of 2^-24.
FLOAT32_NOISE = 2.0**-20
KERNEL = KernelType(
    "vmcu_layer_norm",
    PARAMS,
    ALIKE,
    "vmcu_check_output(c)->channels % (uint32_t)p->run == 0U",
    "p->fraction % 2U == 0U",
    # Sums of squares are in 64 bits, and shifts within them.
    "p->epsilon < INT64_C(1) << (46 + p->fraction)",
    "vmcu_check_output(c)->channels <= 1U << 14",
    reads="PIXEL",
    arrays={"gain": "(uint32_t)p->factors", "offset": "(uint32_t)p->factors"},
    limits={
        **{"run": (1, None), "factors": (1, None), "epsilon": (0, None)},
        **{"bits": (None, 31), "fraction": (None, 16)},
    },
)


@dataclass(frozen=True, eq=False)
class LayerNorm(Op):
    """Each pixel's channels at mean zero and variance one, times a gain, plus an offset.

    With n channels, d = q - zi, s the sum of d and t that of d * d,
    z = (n d - s) / sqrt(n t - s s + epsilon). Not `centred`: s is zero, which leaves the mean of
    the squares at one. out = (z * gain + offset) in units of the output, plus its zero point; gain
    and offset are int32 with `bits` fractional bits, one for every `run` neighbours: over the
    channels of a pixel, then over those of the next, and again from the first after the last.
    epsilon is the file's in units of scale * scale / (n * n), with `fraction` fractional bits, an
    even number. Where the root's argument is below one without it, z is zero.
    """

    data_dependent = "the division by the root; up to 1.3 times as many"
    clamps = True

    gain: np.ndarray
    offset: np.ndarray
    bits: int
    epsilon: int
    centred: bool = True
    run: int = 1
    fraction: int = 0


def inverse_root(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m, k) with 1 / sqrt(x) = m * 2**(k - 47), m of 24 bits; x int64, at least 1."""
    lengths = np.array([int(v).bit_length() for v in x.ravel()]).reshape(x.shape)
    k = (ROOT_BITS - lengths) >> 1
    normal = np.where(k >= 0, x << np.maximum(2 * k, 0), x >> np.maximum(-2 * k, 0))
    root = np.sqrt(normal.astype(np.float64)).astype(np.int64)
    root -= root * root > normal
    root += (root + 1) * (root + 1) <= normal
    return (np.int64(1) << 47) // root, k


class LayerNormLayer(PixelwiseLayer[LayerNorm], op=LayerNorm):
    rates = Rates(byte=118)

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        q = data[0][y0:y1].astype(np.int64) - self.ins[0].zero_point
        count = q.shape[2]
        total = q.sum(axis=2, keepdims=True) if self.op.centred else np.int64(0)
        squares = (q * q).sum(axis=2, keepdims=True)
        spread = (count * squares - total * total << self.op.fraction) + self.op.epsilon
        factor, k = inverse_root(np.maximum(spread, 1 << self.op.fraction))
        k += self.op.fraction // 2
        drop = 47 - Z_BITS - k
        z = ((count * q - total) * factor + (np.int64(1) << (drop - 1))) >> drop
        bits = Z_BITS + self.op.bits
        first, last = y0 * self.out.row_bytes, y1 * self.out.row_bytes
        place = (np.arange(first, last) // self.op.run).reshape(q.shape)
        gain, offset = (
            values.astype(np.int64).take(place, mode="wrap")
            for values in (self.op.gain, self.op.offset)
        )
        acc = z * gain + (offset << Z_BITS)
        return self.clamp(((acc + (np.int64(1) << (bits - 1))) >> bits) + self.out.zero_point)

    def rounding_noise(self, data: Sequence[np.ndarray]) -> np.ndarray:
        """Equal values have no variance: ONNX Runtime's float32 leaves that of its rounding, which
        a small epsilon does not hide."""
        q = data[0].astype(np.int64) - self.ins[0].zero_point
        equal = self.op.centred & (q.max(axis=2) == q.min(axis=2))
        squares = (q.shape[2] * q[:, :, 0]).astype(np.float64) ** 2
        hidden = squares * FLOAT32_NOISE <= self.op.epsilon / 2.0**self.op.fraction
        return np.broadcast_to((equal & ~hidden)[:, :, np.newaxis], q.shape)

    @property
    def by_rows(self) -> bool:
        return self.out.row_bytes % (self.op.gain.size * self.op.run) == 0

    @property
    def transposed(self) -> Op | None:
        return self.op if self.out.shape[2] % (self.op.gain.size * self.op.run) == 0 else None

    @property
    def weight_bytes(self) -> int:
        return 8 * self.op.gain.size

    @property
    def kernel(self) -> Kernel:
        op = self.op
        return KERNEL(
            gain=Array("gain", op.gain.astype(np.int32)),
            offset=Array("offset", op.offset.astype(np.int32)),
            epsilon=f"INT64_C({op.epsilon})",
            factors=op.gain.size,
            run=op.run,
            bits=op.bits,
            fraction=op.fraction,
            centred=op.centred,
            **self.zeros,
            **self.bounds,
        )
