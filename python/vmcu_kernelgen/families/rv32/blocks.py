# SPDX-License-Identifier: Apache-2.0
"""Blocks of channels from bias to byte, where pixels are paired.

Compilers have the sums of a block in memory, and code for each shape in each kernel.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vmcu_tools.kernels.language.packing import PAIRED_TAPS, PAIRS, packed_shifts
from vmcu_tools.kernels.targets.portable.shapes import NARROW, SHAPES, Shape

from ...assembly import Function, note
from . import requant
from .frame import leave, save

# Arguments; STEPS becomes the tile's end.
STREAM, TILE, STEPS, OUT, CHANNELS, HALF, PITCH, CODE = (f"a{i}" for i in range(8))
END = STEPS
SUMS, HIGH, PRODUCTS = (
    ("s2", "s3", "s4", "s5"),
    ("s6", "s7", "s8", "s9"),
    ("t0", "t1", "t2", "t3"),
)
# Loads of words to s0 and s1 are short.
WEIGHTS, TAPS, PRODUCT = ("t4", "t5"), ("s0", "s1"), "t6"
START, ROUND, BYTE = "s10", "s11", "ra"
PLACE = WEIGHTS[0]
LANES = PAIRS.lanes
# Registers of the requantiser, which runs when TILE, products and their operands are free.
MULTIPLIER, SHIFT, BIAS, LOW, FOUND = "t0", "t1", "t2", "t3", TILE
PIXELS = (OUT, "t4", "t5", "t6")


def requantised(
    channels: Sequence[Sequence[tuple[int, str]]],
    stream: str,
    name: str = "byte",
    used: Sequence[str] = (MULTIPLIER, SHIFT, BIAS, LOW, BYTE),
) -> Iterator[str]:
    """Channels from sums, (pixel, register) each, to bytes; HALF is twice its value in C. name: of
    labels, see beyond(). used: the one that gets -128 may be that of the bias."""
    multiplier, shift, bias, low, most = used
    yield from [f"li {low}, -128"] * (low != bias)
    for n, outputs in enumerate(channels):
        yield f"lw {multiplier}, {4 * n}({stream})"
        yield f"lbu {shift}, {4 * len(channels) + n}({stream})"
        yield f"sll {bias}, {HALF}, {shift}"
        yield f"addi {shift}, {shift}, 2"
        for pixel, acc in outputs:
            yield from requant.fixed(acc, multiplier, bias, shift, FOUND)
            yield from [f"li {low}, -128"] * (low == bias)
            at = f"{n}({PIXELS[pixel]})"
            yield from requant.stored(f"{name}_{n}_{pixel}", FOUND, (low, most), at)


def beyond(
    channels: Sequence[Sequence[tuple[int, str]]],
    name: str = "byte",
    bounds: tuple[str, str] = (LOW, BYTE),
) -> Iterator[str]:
    """Behind a function: results beyond int8."""
    for n, outputs in enumerate(channels):
        for pixel, _ in outputs:
            at = f"{n}({PIXELS[pixel]})"
            yield from requant.beyond(f"{name}_{n}_{pixel}", FOUND, bounds, at)


@dataclass(frozen=True)
class Block:
    """A block of a shape. `chains`: (channel, word) of each pair of pixels, or of each channel of
    one pixel."""

    shape: Shape
    # Where the next block begins, and words on the stack.
    again: str = "block"
    words_kept: int = 0

    @property
    def channels(self) -> int:
        return self.shape.channels(PAIRS)

    @property
    def stride(self) -> int:
        """Bytes of a step's weights."""
        return LANES * self.channels

    @property
    def words(self) -> int:
        """That a tap is in a tile."""
        return max(self.shape.pixels // 2, 1)

    @property
    def is_large(self) -> bool:
        """Whether a turn of a loop is two steps."""
        return self.shape.sums(PAIRS) == 8

    @property
    def loops(self) -> tuple[str, ...]:
        """Names the loops by the taps at a time. A tile of fewer pixels than others is a row's last
        one."""
        return ("two", "four", "eight") if self.is_large else ("two", "four")

    @property
    def chains(self) -> list[tuple[int, int]]:
        return [(n, i) for n in range(self.channels) for i in range(self.words)]

    @property
    def step(self) -> int:
        """Bytes of a tile's step; a single pixel has bytes."""
        return 2 * LANES * self.shape.pixels if self.shape.pixels > 1 else LANES

    def taps(self, tap: int) -> Iterator[str]:
        """Loads a tap of all pixels."""
        load = "lb" if self.shape.pixels == 1 else "lw"
        size = self.step // LANES // self.words
        for i in range(self.words):
            yield f"{load} {TAPS[i]}, {size * (self.words * tap + i)}({TILE})"

    def tap(self, tap: int, products: tuple[str, ...] | None) -> Iterator[str]:
        """A tap of all pixels times its weights: sets products, or adds to them."""
        yield from self.taps(tap)
        group, lane = divmod(tap, LANES)
        for n in range(self.channels):
            yield f"lb {WEIGHTS[n % 2]}, {LANES * (self.channels * group + n) + lane}({STREAM})"
            # The next weight is on its way while this one is multiplied.
            if n % 2 == 0:
                continue
            yield from self.multiply((n - 1, n), products)

    def multiply(self, pair: tuple[int, int], products: tuple[str, ...] | None) -> Iterator[str]:
        """Two channels' weights times a tap of all pixels."""
        for m, weight in zip(pair, WEIGHTS, strict=True):
            for i in range(self.words):
                at = self.chains.index((m, i))
                if products is not None:
                    yield f"mul {products[at]}, {weight}, {TAPS[i]}"
                else:
                    yield f"mul {PRODUCT}, {weight}, {TAPS[i]}"
                    total = SUMS if self.shape.pixels == 1 else PRODUCTS
                    yield f"add {total[at]}, {total[at]}, {PRODUCT}"

    def group(self, first: int, count: int) -> Iterator[str]:
        """Some taps, and their products for both halves."""
        for tap in range(first, first + count):
            yield from self.tap(tap, PRODUCTS if tap == first else None)
        count = len(self.chains)
        for total, product in zip(SUMS[:count], PRODUCTS, strict=False):
            yield f"add {total}, {total}, {product}"
        for line in ("add {0}, {0}, " + ROUND, "srai {0}, {0}, 16"):
            for product in PRODUCTS[:count]:
                yield line.format(product)
        for total, product in zip(HIGH[:count], PRODUCTS, strict=False):
            yield f"add {total}, {total}, {product}"

    def loop(self, name: str, taps: int, steps: int) -> Iterator[str]:
        """A turn is one or two steps, so many taps at a time; the first turn of an odd number of
        steps may be half."""
        yield note(f"{taps} taps at a time.")
        if steps * LANES > max(taps, LANES):
            yield f"<{name}_odd>:"
            yield f"addi {TILE}, {TILE}, -{self.step}"
            yield f"addi {STREAM}, {STREAM}, -{self.stride}"
            yield f"j <{name}_half>"
        yield f"<{name}>:"
        for first in range(0, steps * LANES, taps):
            if first == LANES:
                yield f"<{name}_half>:"
            yield from self.group(first, taps)
        yield from self.advance(name, steps)
        yield "j <taken>"

    def advance(self, name: str, steps: int = 1) -> Iterator[str]:
        yield f"addi {TILE}, {TILE}, {steps * self.step}"
        yield f"addi {STREAM}, {STREAM}, {steps * self.stride}"
        yield f"bne {TILE}, {END}, <{name}>"

    def biases(self) -> Iterator[str]:
        """Sums start at the bias; the higher ones' carry into the lower ones goes there."""
        for n in range(self.channels):
            first, *others = [at for at, (m, _) in enumerate(self.chains) if m == n]
            if self.shape.pixels == 1:
                yield f"lw {SUMS[n]}, {4 * n}({STREAM})"
                continue
            yield f"lw {HIGH[first]}, {4 * n}({STREAM})"
            yield f"slli {PRODUCT}, {HIGH[first]}, 16"
            yield f"add {SUMS[first]}, {PRODUCT}, {HIGH[first]}"
            for at in others:
                yield f"mv {HIGH[at]}, {HIGH[first]}"
                yield f"mv {SUMS[at]}, {SUMS[first]}"
        yield f"addi {STREAM}, {STREAM}, {4 * self.channels}"
        yield f"mv {TILE}, {START}"

    def choose(self) -> Iterator[str]:
        """Selects the code for as many taps."""
        yield f"li {PRODUCT}, 2"
        yield f"lla {PLACE}, <one>"
        yield f"beqz {CODE}, <chosen>"
        if self.is_large:
            yield f"andi {WEIGHTS[1]}, {STEPS}, 1"
            yield f"bnez {WEIGHTS[1]}, <odd>"
        yield f"lla {PLACE}, <two>"
        yield f"blt {CODE}, {PRODUCT}, <chosen>"
        yield f"lla {PLACE}, <four>"
        if self.is_large:
            yield f"beq {CODE}, {PRODUCT}, <chosen>"
            yield f"lla {PLACE}, <eight>"
            yield "j <chosen>"
            yield "<odd>:"
            yield f"lla {PLACE}, <two_odd>"
            yield f"blt {CODE}, {PRODUCT}, <chosen>"
            yield f"lla {PLACE}, <four_odd>"
        yield "<chosen>:"
        yield f"mv {CODE}, {PLACE}"

    def all_taps(self) -> Iterator[str]:
        if self.shape.pixels == 1:
            yield note("Four taps.")
            yield "<step>:"
            for tap in range(LANES):
                yield from self.tap(tap, None)
            yield from self.advance("step")
            return
        yield f"jr {CODE}"
        yield from self.turns()

    def turns(self) -> Iterator[str]:
        """Loops, each for so many taps at a time, and the first pixels' sums."""
        for taps, name in zip(PAIRED_TAPS[1:], self.loops, strict=False):
            yield from self.loop(name, taps, 2 if self.is_large else 1)
        yield note("Tap by tap, which is rare: the stream has whole words of each channel's.")
        yield "<one>:"
        yield from self.group(0, 1)
        yield f"addi {TILE}, {TILE}, {self.step // LANES}"
        yield f"addi {STREAM}, {STREAM}, 1"
        yield f"andi {PRODUCT}, {STREAM}, {LANES - 1}"
        yield f"bnez {PRODUCT}, <one>"
        yield f"addi {STREAM}, {STREAM}, {self.stride - LANES}"
        yield f"bne {TILE}, {END}, <one>"
        yield note("The first pixels' sums.")
        yield "<taken>:"
        for at in range(len(self.chains)):
            yield f"slli {PRODUCT}, {HIGH[at]}, 16"
            yield f"sub {SUMS[at]}, {SUMS[at]}, {PRODUCT}"

    def outputs(self, channel: int) -> list[tuple[int, str]]:
        """Pixel and register of a channel's sums."""
        places = []
        for at, (n, i) in enumerate(self.chains):
            if n == channel:
                places.append((2 * i, SUMS[at]))
                if self.shape.pixels > 1:
                    places.append((2 * i + 1, HIGH[at]))
        return places

    def requantised(self) -> Iterator[str]:
        size = 4 * self.channels
        pixels = PIXELS[: self.shape.pixels]
        for before, pointer in itertools.pairwise(pixels):
            yield f"add {pointer}, {before}, {PITCH}"
        channels = [self.outputs(n) for n in range(self.channels)]
        yield from requantised(channels, STREAM)
        yield f"addi {STREAM}, {STREAM}, {size + packed_shifts(self.channels)}"
        yield f"addi {OUT}, {OUT}, {self.channels}"
        yield f"addi {CHANNELS}, {CHANNELS}, -{self.channels}"
        yield f"bgtz {CHANNELS}, <{self.again}>"
        yield "<leave>:"
        yield from leave(self.words_kept)
        yield from beyond(channels)

    def code(self) -> Iterator[str]:
        yield from save()
        yield note("Where steps end, and where the code for as many taps is.")
        yield f"mv {START}, {TILE}"
        if self.shape.pixels > 1:
            yield f"lui {ROUND}, 8"
            yield from self.choose()
        yield f"li {BYTE}, 127"
        yield f"slli {HALF}, {HALF}, 1"
        yield f"slli {END}, {STEPS}, {self.step.bit_length() - 1}"
        yield f"add {END}, {END}, {TILE}"
        yield note("The sums of a block at their biases.")
        yield "<block>:"
        yield from self.biases()
        yield from self.all_taps()
        yield from self.finish()

    def finish(self) -> Iterator[str]:
        yield note("The sums alone.")
        yield f"bnez {CHANNELS}, <bytes>"
        for n in range(self.channels):
            for pixel, acc in self.outputs(n):
                yield f"sw {acc}, {4 * (n * self.shape.pixels + pixel)}({OUT})"
        yield "j <leave>"
        yield note("Requantise and store.")
        yield "<bytes>:"
        yield from self.requantised()


def run(block: Block, suffix: str = "") -> Function:
    shape = block.shape
    summary = (
        f"Whole blocks, or, where there are no channels, the sums of one, as words: {shape.name} "
        "pixels and channels. Returns where the flash stream goes on."
    )
    return Function(f"vmcu_paired_{shape.name}{suffix}", summary, [*block.code()], thumb=False)


# dense.py has that of one pixel of a narrow tile, eight.py that of two.
FUNCTIONS = [run(Block(shape)) for shape in SHAPES if shape not in NARROW.values()]
