# SPDX-License-Identifier: Apache-2.0
"""Blocks of channels whose weights have 4 bits: a byte has the weights of two channels."""

from __future__ import annotations

from collections.abc import Iterator

from vmcu_tools.kernels.targets.portable.dense import whole_dense
from vmcu_tools.kernels.targets.portable.shapes import NARROW, SHAPES

from .. import pairs
from . import dense, tile
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
        for n in range(half):
            place = f"{self.stride * group + LANES * n + lane}({STREAM})"
            yield from dense.of_byte(*WEIGHTS, place)
            yield from self.multiply((n, n + half), products)


FUNCTIONS = [
    *(run(Nibbles(shape), SUFFIX) for shape in SHAPES if shape != NARROW[1]),
    dense.run(f"vmcu_paired_1x4{SUFFIX}", dense.Weights(nibbles=True)),
]
HELPERS = {
    **pairs.HELPERS,
    **tile.HELPERS,
    "paired_runs": pairs.paired_runs(SUFFIX),
    "dense_whole": whole_dense(f"vmcu_paired_1x4{SUFFIX}", ", 0, 0"),
}
