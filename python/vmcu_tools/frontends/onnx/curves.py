# SPDX-License-Identifier: Apache-2.0
"""Functions of an activation's bytes as tables at the scale of their result."""

from __future__ import annotations

import numpy as np

from ...graph import Tensor
from ...ops.lookup import Lookup
from ...quant import INT8_MAX, INT8_MIN
from .. import tables
from ..common import require
from .values import Curve, Pending

REQUANTISE = "quantise the float model with `vmcu quantize`, which leaves nothing in float"


def range_scale(low: float, high: float) -> tuple[float, int]:
    """Scale and zero point that hold a range and zero."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = (high - low) / 255 or 1.0
    return scale, round(INT8_MIN - low / scale)


def table_of(curve: Curve, out: Tensor) -> np.ndarray:
    """The bytes of a function's values, int8 (256,)."""
    integers = curve.integers and curve.integers(out)
    return tables.quantised(curve.real, out) if integers is None else tables.as_table(integers)


def tabulated(curve: Curve, node: str) -> Pending:
    """A pending Lookup."""
    x = curve.activation

    def make(out: Tensor) -> Lookup:
        return Lookup(table_of(curve, out))

    inputs = (x.tensor,)
    return Pending(node, node, x.shape, x.order, inputs, make, x.dtype, memory=x.tensor.shape)


def check_steps(curve: Curve, scale: float, zero_point: int) -> None:
    """Raises UnsupportedError where half a step of a function's input, which the file does not
    round, would make more than half a step of its result."""
    bounds = np.array([INT8_MIN, INT8_MAX]) - zero_point
    with np.errstate(all="ignore"):
        steps = np.abs(np.diff(np.clip(curve.real.astype(np.float64) / scale, *bounds)))
    fine = bool((steps <= 1).all())
    require(fine, "an input is a float result that int8 cannot represent accurately", REQUANTISE)


def clamp_range(low: float, high: float, scale: float, zero_point: int) -> tuple[int, int]:
    """The int8 interval that a real one becomes, rounded half to even as QuantizeLinear does."""
    bounds = np.array([low, high], np.float32) / np.float32(scale)
    q = np.clip(np.rint(bounds) + np.float32(zero_point), INT8_MIN, INT8_MAX)
    return int(q[0]), int(q[1])
