# SPDX-License-Identifier: Apache-2.0
"""Biases so large that sums lose something on the way to their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

# float32 holds every integer up to here.
MOST_FLOAT32 = 1 << 24
REMEDY = (
    "The product of the scales of its input and weights is the bias's step: quantise the model "
    "again, with samples that make it larger."
)


def beyond_float32(biases: np.ndarray) -> np.ndarray:
    """bool, as the biases: those that float32 may not hold."""
    return np.abs(biases.astype(np.int64)) > MOST_FLOAT32


@dataclass(frozen=True, eq=False)
class Biases:
    """Of a layer, bool (channels,) each: `beyond`, those that leave int32 once the input's zero
    point `input_zero` is part of them; `rounded`, those whose sums float32 rounds."""

    rounded: np.ndarray
    beyond: np.ndarray | None = None
    input_zero: int = 0

    def reasons(self) -> Iterator[str]:
        """What to warn of."""
        if self.beyond is not None and self.beyond.any():
            yield (
                f"{_share(self.beyond)} leave int32 once the input's zero point {self.input_zero} "
                "is part of them: they wrap, and so do sums that do not come back"
            )
        if self.rounded.any():
            yield (
                f"{_share(self.rounded)} are beyond 2^24, where float32 does not hold every sum: "
                "sums are rounded before they are scaled"
            )


def _share(which: np.ndarray) -> str:
    return f"the biases of {np.count_nonzero(which)} of {which.size} channels"
