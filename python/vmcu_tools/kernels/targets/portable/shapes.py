# SPDX-License-Identifier: Apache-2.0
"""Shapes of blocks: so many pixels of a wide or a narrow tile."""

from __future__ import annotations

from dataclasses import dataclass

from ...language.packing import WORDS, Packing
from .tile import PIXELS


@dataclass(frozen=True)
class Shape:
    """The shape of a block: so many pixels of a wide or a narrow tile."""

    pixels: int
    wide: bool

    def channels(self, packing: Packing = WORDS) -> int:
        """Channels of a block."""
        return packing.channels if self.wide else packing.dense

    def sums(self, packing: Packing = WORDS) -> int:
        """Channels times pixels."""
        return self.pixels * self.channels(packing)

    @property
    def name(self) -> str:
        """Names it by its pixels and channels in WORDS."""
        return f"{self.pixels}x{self.channels()}"


# By pixels.
WIDE = {pixels: Shape(pixels, True) for pixels in PIXELS}
NARROW = {pixels: Shape(pixels, False) for pixels in PIXELS[1:]}
SHAPES = (*WIDE.values(), *NARROW.values())
