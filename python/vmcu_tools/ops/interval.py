# SPDX-License-Identifier: Apache-2.0
"""The range of a tensor's bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Interval:
    """The least and the largest byte of each channel of a tensor, over all pixels and all inputs
    that there can be: int64 (C,)."""

    low: np.ndarray
    high: np.ndarray

    @staticmethod
    def between(low: int, high: int, channels: int) -> Interval:
        return Interval(np.full(channels, low, np.int64), np.full(channels, high, np.int64))

    @staticmethod
    def around(images: Sequence[np.ndarray]) -> Interval:
        """Returns the range of all bytes of some int8 (..., C)."""
        values = np.concatenate([image.reshape(-1, image.shape[-1]) for image in images])
        return Interval(values.min(axis=0).astype(np.int64), values.max(axis=0).astype(np.int64))

    @property
    def constant(self) -> np.ndarray:
        """Channels of one byte, bool (C,)."""
        is_constant: np.ndarray = self.low == self.high
        return is_constant
