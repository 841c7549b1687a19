# SPDX-License-Identifier: Apache-2.0
"""Softmax over the channels of each pixel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Op
from ..kernels.softmax import softmax_onnx, softmax_tflite
from ..quant import INT8_MIN
from .kernel_type import ALIKE, KernelType
from .pixelwise import PixelwiseLayer
from .rates import Rates
from .values import Array, CStruct, Kernel, Value

PARAMS = CStruct(
    "vmcu_softmax_params",
    "const uint32_t *exp; uint32_t gain; int8_t output_zero, act_min, act_max;",
)
CHECKS = (ALIKE, "vmcu_check_exponentials(c, p->exp)")
ONNX = KernelType("vmcu_softmax_onnx", PARAMS, *CHECKS, reads="PIXEL")
TFLITE = KernelType("vmcu_softmax_tflite", PARAMS, *CHECKS, reads="PIXEL")


@dataclass(frozen=True, eq=False)
class Softmax(Op):
    """Over the channels of each pixel.

    `exp` is a uint32 table indexed by max - q (0..255). `exact_shares`: its entries are 2**23 at
    most, and an output is round(exp / sum / out_scale) + zero_point by an integer division, ties
    upwards. Else entries are in Q0.31, zero beyond gemmlowp's diff_min, and the sum's reciprocal is
    gemmlowp's; output scale 1/256 and zero point -128. ONNX Runtime,
    contrib_ops/cpu/quantization/qlinear_softmax.cc; TensorFlow Lite,
    kernels/internal/reference/softmax.h.
    """

    data_dependent = ".onnx: the division by the sum; up to 1.4 times as many"
    clamps = True
    # Where ONNX Runtime fuses Softmax, it cuts 1 / out_scale to an integer, which no file tells.
    differing_share = 0.4

    exp: np.ndarray
    exact_shares: bool
    out_scale: float = 1.0 / 256

    @property
    def gain(self) -> int:
        """1 / out_scale with 16 fractional bits."""
        return round(65536 / self.out_scale)

    @property
    def is_data_dependent(self) -> bool:
        return self.exact_shares


class SoftmaxLayer(PixelwiseLayer[Softmax], op=Softmax):
    rates = Rates(byte=130)

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        values = data[0][y0:y1].astype(np.int64)
        if not self.op.exact_shares:
            return self.clamp(softmax_tflite(values, self.op.exp))
        return self.clamp(softmax_onnx(values, self.op.exp, self.op.gain, self.zero))

    @property
    def zero(self) -> int:
        return self.out.zero_point if self.op.exact_shares else INT8_MIN

    @property
    def kernel(self) -> Kernel:
        fields: dict[str, Value] = {"exp": Array("exp", self.op.exp.astype(np.uint32))}
        if self.op.exact_shares:
            fields["gain"] = self.op.gain
        kind = ONNX if self.op.exact_shares else TFLITE
        return kind(**fields, output_zero=self.zero, **self.bounds)
