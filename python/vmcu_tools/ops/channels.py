# SPDX-License-Identifier: Apache-2.0
"""Layers that need a whole pixel: normalisations and the search for an extreme.

Order of access: a pixel is read as a whole. Normalisations then read each channel once more just
before they write that channel; the search writes its four bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..graph import ArgMax, L2Norm, LayerNorm
from ..quant import fixed_point_multiply, inverse_square_root
from .elementwise import ElementwiseLayer
from .layer import Layer, Reach

# z has 16 fractional bits. The root is taken of a number of 47 or 48 bits, so it has 24.
Z_BITS = 16
ROOT_BITS = 48


def inverse_root(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m, k) with 1 / sqrt(x) = m * 2**(k - 47), m of 24 bits; x int64, at least 1."""
    lengths = np.array([int(v).bit_length() for v in x.ravel()]).reshape(x.shape)
    k = (ROOT_BITS - lengths) >> 1
    normal = np.where(k >= 0, x << np.maximum(2 * k, 0), x >> np.maximum(-2 * k, 0))
    root = np.sqrt(normal.astype(np.float64)).astype(np.int64)
    root -= root * root > normal
    root += (root + 1) * (root + 1) <= normal
    return (np.int64(1) << 47) // root, k


class LayerNormLayer(ElementwiseLayer[LayerNorm]):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        q = data[0][y0:y1].astype(np.int64) - self.ins[0].zero_point
        count = q.shape[2]
        total = q.sum(axis=2, keepdims=True) if self.op.centred else np.int64(0)
        squares = (q * q).sum(axis=2, keepdims=True)
        spread = np.maximum(count * squares - total * total + self.op.epsilon, 1)
        factor, k = inverse_root(spread)
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

    @property
    def weight_bytes(self) -> int:
        return 8 * self.op.gain.size


class L2NormLayer(ElementwiseLayer[L2Norm]):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        values = data[0][y0:y1].astype(np.int64) - self.ins[0].zero_point
        squares = (values * values).sum(axis=2, keepdims=True)
        inverses = [inverse_square_root(int(v)) for v in squares.ravel()]
        multiplier, shift = (
            np.array(part).reshape(squares.shape) for part in zip(*inverses, strict=True)
        )
        # Times 2**7, as the output counts in 1/128.
        return self.clamp(fixed_point_multiply(values, multiplier, shift + 7))


class ArgMaxLayer(Layer[ArgMax]):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        values = data[0][y0:y1].astype(np.int64)
        if self.op.smallest:
            values = -values
        if self.op.last:
            found = values.shape[2] - 1 - values[:, :, ::-1].argmax(axis=2)
        else:
            found = values.argmax(axis=2)
        return np.ascontiguousarray(found.astype("<i4")).view(np.int8).reshape(*found.shape, 4)

    @property
    def by_columns(self) -> bool:
        return True

    def input_rows(self, index: int, y: int) -> range:
        return range(y, y + 1)

    def reach(self, index: int) -> Reach:
        return Reach.shifted()

    def last_reads(self, index: int) -> np.ndarray:
        return np.broadcast_to(self.writes()[:, :, :1], self.ins[0].shape)
