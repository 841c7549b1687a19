# SPDX-License-Identifier: Apache-2.0
"""The effect on a layer's outputs of rounding its inputs."""

from __future__ import annotations

import math

import numpy as np

from ..graph import Op
from ..quant import FloatScale

# Standard deviations that a sum of roundings stays within.
DEVIATIONS = 5


def rounding_steps(op: Op) -> int:
    """Steps, at least 1, that roundings of half a step in all inputs make in a layer's output."""
    weights, requant = (getattr(op, name, None) for name in ("weights", "requant"))
    if not op.columnwise or weights is None or not isinstance(requant, FloatScale):
        return 1
    lengths = np.linalg.norm(weights.reshape(len(weights), -1).astype(np.float64), axis=1)
    largest = float((lengths * np.abs(requant.scale)).max()) / math.sqrt(12)
    return max(1, math.ceil(DEVIATIONS * largest))
