# SPDX-License-Identifier: Apache-2.0
"""Two pixels times eight channels, which are two blocks of four, and times four for the rest.

A tap of both pixels is loaded once for eight channels. The second block's sums are in the registers
that a block alone has them in, so both have one requantiser.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vmcu_tools.kernels.language.packing import packed_shifts
from vmcu_tools.kernels.targets.portable.shapes import NARROW

from ...assembly import WORD, note
from . import blocks
from .blocks import (
    BYTE,
    CHANNELS,
    CODE,
    HALF,
    LANES,
    OUT,
    PITCH,
    STEPS,
    STREAM,
    TILE,
    Block,
    beyond,
    requantised,
    run,
)
from .frame import save

# Words on the stack. BEGIN: where the code for eight channels is, 0 if there is none; ALONE: for
# four.
(AT_OUT, AT_CHANNELS, AT_HALF, AT_PITCH, AT_TILE, SIZE, BEGIN, ALONE) = range(0, 8 * WORD, WORD)
WORDS = 8
# Of eight channels: the second block's stream, the tile and its end, taps, weights and products.
SECOND, X, END, ROUND = "t5", "a5", "ra", "t4"
TAPS = ("t0", "t1", "t2", "t3")
WEIGHT, PRODUCTS = "a1", ("a2", "a3")
# Sums of the first block; the second one's are those of a block alone.
FIRST = (("s0", "s1", "s10", "s11"), ("a4", "a6", "a7", "t6"))
SUMS = ((*FIRST[0], *blocks.SUMS), (*FIRST[1], *blocks.HIGH))
# Of a block alone. Its products and weights are those of blocks.py.
ALONE_END = "a2"


def kept(n: int, product: str) -> Iterator[str]:
    """Adds the products of some taps to both halves of a channel's sums."""
    yield f"add {SUMS[0][n]}, {SUMS[0][n]}, {product}"
    yield f"add {product}, {product}, {ROUND}"
    yield f"srai {product}, {product}, 16"
    yield f"add {SUMS[1][n]}, {SUMS[1][n]}, {product}"


def place(n: int, tap: int) -> str:
    """That of a weight of channel n."""
    block, channel = divmod(n, 4)
    group, lane = divmod(tap, LANES)
    return f"{LANES * (4 * group + channel) + lane}({(STREAM, SECOND)[block]})"


def few(first: int, count: int) -> Iterator[str]:
    """Up to four taps, which are in registers for all channels."""
    for i in range(count):
        yield f"lw {TAPS[i]}, {WORD * (first + i)}({X})"
    total, other = PRODUCTS
    for n in range(8):
        yield f"lb {total}, {place(n, first)}"
        yield f"lb {WEIGHT}, {place(n, first + 1)}"
        yield f"mul {total}, {total}, {TAPS[0]}"
        ahead = WEIGHT, other
        for i in range(1, count):
            weight, behind = ahead
            if i + 1 < count:
                yield f"lb {behind}, {place(n, first + i + 1)}"
            yield f"mul {weight}, {weight}, {TAPS[i]}"
            yield f"add {total}, {total}, {weight}"
            ahead = behind, weight
        yield from kept(n, total)


def many(count: int) -> Iterator[str]:
    """More taps: products of four channels are in registers."""
    tap, products = WEIGHT, TAPS
    for start in (0, 4):
        for i in range(count):
            yield f"lw {tap}, {WORD * i}({X})"
            for n in range(0, 4, 2):
                pair = products[n : n + 2] if i == 0 else PRODUCTS
                for m, weight in enumerate(pair, start + n):
                    yield f"lb {weight}, {place(m, i)}"
                for m, weight in enumerate(pair, n):
                    yield f"mul {weight}, {weight}, {tap}"
                    if i > 0:
                        yield f"add {products[m]}, {products[m]}, {weight}"
        for n, product in enumerate(products, start):
            yield from kept(n, product)


def advance(name: str, steps: int) -> Iterator[str]:
    yield f"addi {X}, {X}, {WORD * LANES * steps}"
    yield from (f"addi {stream}, {stream}, {4 * LANES * steps}" for stream in (STREAM, SECOND))
    yield f"bne {X}, {END}, <{name}>"


@dataclass(frozen=True)
class Eight(Block):
    """The shape of a pair of pixels in a narrow tile."""

    @property
    def is_large(self) -> bool:
        return False

    @property
    def loops(self) -> tuple[str, ...]:
        """Names the loops of four channels, which are few of a layer's."""
        return ("two",)

    def code(self) -> Iterator[str]:
        yield from save(WORDS)
        yield note("Where the code for as many taps is: of four channels, of eight.")
        yield f"slli {HALF}, {HALF}, 1"
        for register, at in ((TILE, AT_TILE), (HALF, AT_HALF), (PITCH, AT_PITCH)):
            yield f"sw {register}, {at}(sp)"
        yield "lla t0, <one>"
        yield "li t1, 0"
        yield f"beqz {CODE}, <chosen>"
        yield "lla t0, <two>"
        yield f"andi t2, {STEPS}, 1"
        yield "lla t1, <two_8>"
        yield f"addi {CODE}, {CODE}, -2"
        yield f"bltz {CODE}, <odd>"
        yield "lla t1, <four_8>"
        yield f"beqz {CODE}, <chosen>"
        yield "bnez t2, <chosen>"
        yield "lla t1, <eight_8>"
        yield "j <chosen>"
        yield "<odd>:"
        yield "beqz t2, <chosen>"
        yield "lla t1, <odd_8>"
        yield "<chosen>:"
        yield f"sw t0, {ALONE}(sp)"
        yield f"sw t1, {BEGIN}(sp)"
        yield note("Bytes of a block, and where steps end.")
        yield f"slli t0, {STEPS}, {self.step.bit_length() - 1}"
        yield f"add {ALONE_END}, t0, {TILE}"
        yield f"addi t0, t0, {2 * 4 * WORD + packed_shifts(4)}"
        yield f"sw t0, {SIZE}(sp)"
        yield "<next>:"
        yield f"addi t0, {CHANNELS}, -8"
        yield f"lw t1, {BEGIN}(sp)"
        yield "bltz t0, <alone>"
        yield "beqz t1, <alone>"
        yield from self.eight()
        yield from self.alone()
        yield from self.finish()

    def eight(self) -> Iterator[str]:
        yield note("Eight channels: sums at their biases.")
        yield f"sw {OUT}, {AT_OUT}(sp)"
        yield f"sw {CHANNELS}, {AT_CHANNELS}(sp)"
        yield f"mv {END}, {ALONE_END}"
        yield f"lw t0, {SIZE}(sp)"
        yield f"add {SECOND}, {STREAM}, t0"
        for n in range(8):
            block, channel = divmod(n, 4)
            low, high = SUMS[0][n], SUMS[1][n]
            yield f"lw {high}, {WORD * channel}({(STREAM, SECOND)[block]})"
            yield f"slli {low}, {high}, 16"
            yield f"add {low}, {low}, {high}"
        yield from (f"addi {stream}, {stream}, {4 * WORD}" for stream in (STREAM, SECOND))
        yield f"lw {X}, {AT_TILE}(sp)"
        yield f"lui {ROUND}, 8"
        yield "jr t1"
        yield note("2 taps at a time, the first turn of an odd number of steps is half.")
        yield "<odd_8>:"
        yield f"addi {X}, {X}, -{self.step}"
        yield from (f"addi {stream}, {stream}, -{4 * LANES}" for stream in (STREAM, SECOND))
        yield "j <half_8>"
        yield "<two_8>:"
        yield from few(0, 2)
        yield from few(2, 2)
        yield "<half_8>:"
        yield from few(4, 2)
        yield from few(6, 2)
        yield from advance("two_8", 2)
        yield "j <sums>"
        yield note("4 taps at a time.")
        yield "<four_8>:"
        yield from few(0, 4)
        yield from advance("four_8", 1)
        yield "j <sums>"
        yield note("8 taps at a time.")
        yield "<eight_8>:"
        yield from many(8)
        yield from advance("eight_8", 2)
        yield note("The bytes of the first block.")
        yield "<sums>:"
        yield f"lw {HALF}, {AT_HALF}(sp)"
        yield f"lw {OUT}, {AT_OUT}(sp)"
        yield f"lw t4, {AT_PITCH}(sp)"
        yield f"add t4, {OUT}, t4"
        yield f"mv {ALONE_END}, {END}"
        yield f"li {BYTE}, 127"
        for low, high in zip(*FIRST, strict=True):
            yield f"slli t0, {high}, 16"
            yield f"sub {low}, {low}, t0"
        yield from requantised(self.first(), STREAM, name="first")
        yield note("Go on as with a block alone.")
        yield f"mv {STREAM}, {SECOND}"
        yield f"addi {OUT}, {OUT}, 4"
        yield f"lw {PITCH}, {AT_PITCH}(sp)"
        yield f"lw {CHANNELS}, {AT_CHANNELS}(sp)"
        yield f"addi {CHANNELS}, {CHANNELS}, -4"
        yield "j <taken>"

    @staticmethod
    def first() -> Sequence[Sequence[tuple[int, str]]]:
        """Pixels and sums of the first block's channels."""
        return [[*enumerate(pair)] for pair in zip(*FIRST, strict=True)]

    def alone(self) -> Iterator[str]:
        yield note("Four channels: sums at their biases.")
        yield "<alone>:"
        yield f"lw {blocks.START}, {AT_TILE}(sp)"
        yield f"lui {blocks.ROUND}, 8"
        yield from self.biases()
        yield f"li {BYTE}, 127"
        yield f"lw {PITCH}, {AT_PITCH}(sp)"
        yield f"lw {HALF}, {AT_HALF}(sp)"
        yield f"lw t0, {ALONE}(sp)"
        yield "jr t0"
        yield from self.turns()

    def finish(self) -> Iterator[str]:
        yield from super().finish()
        yield from beyond(self.first(), "first")


FUNCTIONS = [run(Eight(NARROW[2], "next", WORDS))]
