# SPDX-License-Identifier: Apache-2.0
"""Weights that a float model had in int8 or int4, which its int8 form keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..quant import INT8_MAX, INT8_MIN

# How far a weight may be from a whole step for rounding to be all that moved it.
_WHOLE = 1e-3


@dataclass(frozen=True, eq=False)
class KeptWeights:
    """The quantisation that weights have in the file: float32 scales (n,) and zero points (n,).
    axis: the axis of the scales in the ONNX tensor; None for one scale."""

    scales: np.ndarray
    zero_points: np.ndarray
    axis: int | None = None

    def overrides(self, weights: np.ndarray) -> list[dict[str, Any]] | None:
        """Returns what onnxruntime's quantiser has to know of float weights, by channel; None if
        another layer was multiplied into them."""
        sizes = [1] * weights.ndim
        if self.axis is not None:
            if weights.shape[self.axis : self.axis + 1] != self.scales.shape:
                return None
            sizes[self.axis] = -1
        scales, zeros = (array.reshape(sizes) for array in (self.scales, self.zero_points))
        steps = weights / scales + zeros
        whole = np.abs(steps - np.rint(steps)).max(initial=0) < _WHOLE
        low, high = steps.min(initial=0), steps.max(initial=0)
        if not whole or low < INT8_MIN - 0.5 or high > INT8_MAX + 0.5:
            return None
        axis = {} if self.axis is None else {"axis": self.axis}
        return [
            axis | {"scale": np.float32(scale), "zero_point": np.int8(zero)}
            for scale, zero in zip(self.scales, self.zero_points, strict=True)
        ]
