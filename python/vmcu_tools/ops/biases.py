# SPDX-License-Identifier: Apache-2.0
"""Biases so large that sums lose something on the way to their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

# float32 holds every integer up to here.
MOST_FLOAT32 = 1 << 24
REMEDY = (
    "quantise the model again, with calibration samples that give the layer's input a larger range"
)


def beyond_float32(biases: np.ndarray) -> np.ndarray:
    """bool, as the biases: those that float32 may not hold."""
    return np.abs(biases.astype(np.int64)) > MOST_FLOAT32


@dataclass(frozen=True, eq=False)
class Biases:
    """The faults of a layer's biases, bool (channels,) each: `beyond`, those that leave int32
    once the input's zero point `input_zero` is part of them; `rounded`, those whose sums float32
    rounds."""

    rounded: np.ndarray
    beyond: np.ndarray | None = None
    input_zero: int = 0

    def reasons(self) -> Iterator[str]:
        """Yields the warnings."""
        if self.beyond is not None and self.beyond.any():
            yield (
                f"{_share(self.beyond)} overflow int32 together with the input's zero point "
                f"{self.input_zero}: they wrap, as in the file's own runtime"
            )
        if self.rounded.any():
            yield (
                f"{_share(self.rounded)} exceed 2^24: float32 rounds their sums before it scales "
                "them"
            )


def _share(which: np.ndarray) -> str:
    return f"the biases of {np.count_nonzero(which)} of {which.size} channels"
