# SPDX-License-Identifier: Apache-2.0
"""Constants of products of two activations, which layers share."""

from __future__ import annotations

import numpy as np

from ..kernels.integer_scale import integer_scale
from ..quant import INT8_MAX, INT8_MIN, FloatScale, Requant
from .values import CStruct, factor_of

PRODUCT = CStruct(
    "vmcu_product",
    "int32_t multiplier, shift; uint8_t is_float;"
    "int8_t x_zero, y_zero, output_zero, act_min, act_max;",
)


def scale_fields(requant: Requant, zero: int, depth: int) -> dict[str, int]:
    """The one factor of a product with sums of `depth` terms; of a float32 see integer_scale.py."""
    if isinstance(requant, FloatScale):
        reach = np.array([depth * (INT8_MAX - INT8_MIN) ** 2])
        scale = integer_scale(np.ravel(requant.scale)[:1], zero, -reach, reach, False)
        return {"multiplier": int(scale.multiplier[0]), "shift": int(scale.word[0]), "is_float": 1}
    multiplier, shift = factor_of(requant)
    return {"multiplier": multiplier, "shift": shift, "is_float": 0}


def product_fields(
    requant: Requant, zeros: tuple[int, int], output: tuple[int, int, int], depth: int
) -> dict[str, int]:
    """struct vmcu_product, of the zero points of both operands; output: its zero point, least and
    largest byte; depth: terms of a sum."""
    fields = scale_fields(requant, output[0], depth)
    fields |= dict(zip(("x_zero", "y_zero"), zeros, strict=True))
    return fields | dict(zip(("output_zero", "act_min", "act_max"), output, strict=True))
