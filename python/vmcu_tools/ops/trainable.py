# SPDX-License-Identifier: Apache-2.0
"""Weights in a tensor, which training changes: how its bytes store them, and a layer's limits.

The tensor has a row of one pixel for each output of the layer: an int16 weight for each tap, in the
order of the input's bytes, then an int32 bias. All are stored least significant byte first. A sum
of products and the bias has one scale: that of the input times that of the weights.
"""

from __future__ import annotations

import numpy as np

WEIGHT_BYTES, BIAS_BYTES = 2, 4
# Sums of products and biases each have half of int32, so that their sum fits.
MOST_BIAS = 1 << 30
MOST_INPUT = 255
INT16_MAX = 2**15 - 1


def most_weight(taps: int) -> int:
    """The largest weight for which a sum over `taps` inputs fits, whatever the inputs are."""
    return min(MOST_BIAS // (MOST_INPUT * taps), INT16_MAX)


def row_bytes(taps: int) -> int:
    """Bytes of an output's weights and bias."""
    return WEIGHT_BYTES * taps + BIAS_BYTES


def packed(weights: np.ndarray, biases: np.ndarray) -> np.ndarray:
    """The tensor, int8 (outputs, 1, row_bytes), of int16 (outputs, taps) and int32 (outputs,)."""
    parts = (weights.astype("<i2"), biases.astype("<i4")[:, None])
    rows = np.concatenate([np.ascontiguousarray(part).view(np.int8) for part in parts], axis=1)
    return rows[:, None, :]


def unpacked(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (outputs, taps) and biases (outputs,) of a tensor, both int64."""
    flat = rows.reshape(len(rows), -1)
    weights, biases = (np.ascontiguousarray(p) for p in np.split(flat, [-BIAS_BYTES], axis=1))
    return weights.view("<i2").astype(np.int64), biases.view("<i4")[:, 0].astype(np.int64)
