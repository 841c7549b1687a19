# SPDX-License-Identifier: Apache-2.0
"""Blocks of channels whose weights have 4 bits: a byte has the weights of two channels."""

from __future__ import annotations

from collections.abc import Iterator

from .. import pairs
from ..portable.blocks import SHAPES
from ..portable.dense import whole_dense
from . import tile
from .blocks import LANES, STREAM, WEIGHTS, Block, run

SUFFIX = "_int4"


class Nibbles(Block):
    """A block of such weights."""

    @property
    def stride(self) -> int:
        return LANES * self.channels // 2

    def tap(self, tap: int, products: tuple[str, ...] | None) -> Iterator[str]:
        yield from self.taps(tap)
        (group, lane), half = divmod(tap, LANES), self.channels // 2
        upper, lower = WEIGHTS
        for n in range(half):
            yield f"lb {lower}, {self.stride * group + LANES * n + lane}({STREAM})"
            yield f"srai {upper}, {lower}, 4"
            yield f"slli {lower}, {lower}, 28"
            yield f"srai {lower}, {lower}, 28"
            yield from self.multiply((n, n + half), products)


FUNCTIONS = [run(Nibbles(shape), SUFFIX) for shape in SHAPES]
HELPERS = {
    **pairs.HELPERS,
    **tile.HELPERS,
    "paired_runs": pairs.paired_runs(SUFFIX),
    "dense_whole": whole_dense(f"vmcu_paired_1x4{SUFFIX}", ", 0, 0"),
}
