# SPDX-License-Identifier: Apache-2.0
"""Blocks of channels from bias to byte, where pixels are paired.

Compilers have the sums of a block in memory, and code for each shape in each kernel.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...language.assembly import Function, note
from ...language.packing import PAIRED_TAPS, PAIRS, packed_shifts
from ..portable.blocks import NARROW, SHAPES, Shape
from ..portable.blocks_paired import RUN_PAIRED
from . import requant
from .frame import leave, save

# Arguments; STEPS becomes the tile's end.
STREAM, TILE, STEPS, OUT, CHANNELS, HALF, PITCH, CODE = (f"a{i}" for i in range(8))
END = STEPS
SUMS, HIGH, PRODUCTS = (
    ("s0", "s1", "s2", "s3"),
    ("s4", "s5", "s6", "s7"),
    ("t0", "t1", "t2", "t3"),
)
WEIGHTS, TAPS, PRODUCT = ("t4", "t5"), ("t6", "s8"), "s9"
START, ROUND, LONG_END = "s10", "s11", "ra"
LANES = PAIRS.lanes
# Of the requantiser, by when TILE, products and what they are made of are free.
MULTIPLIER, SHIFT, BIAS, *TEMPORARY = "t0", "t1", "t2", "t3", "s8", "s9"
PIXELS = (OUT, "t4", "t5", "t6")
BYTE = TILE


def requantised(
    channels: Sequence[Sequence[tuple[int, str]]], stream: str, first: int = 0, name: str = "byte"
) -> Iterator[str]:
    """Channels from sums, (pixel, register) each, to bytes; HALF is twice what it is in C. first:
    the first one's place in the output. name: of labels, see saturated()."""
    high, low = TEMPORARY[:2]
    for n, outputs in enumerate(channels):
        yield f"lw {MULTIPLIER}, {4 * n}({stream})"
        yield f"lbu {SHIFT}, {4 * len(channels) + n}({stream})"
        yield f"sll {BIAS}, {HALF}, {SHIFT}"
        yield f"addi {SHIFT}, {SHIFT}, 2"
        for pixel, acc in outputs:
            yield from requant.fixed(acc, MULTIPLIER, BIAS, SHIFT, TEMPORARY)
            yield f"bltu {BYTE}, {low}, <over_{name}_{n}_{pixel}>"
            yield f"<store_{name}_{n}_{pixel}>:"
            yield f"sb {high}, {first + n}({PIXELS[pixel]})"


def saturated(channels: Sequence[Sequence[tuple[int, str]]], name: str = "byte") -> Iterator[str]:
    """Behind a function: results beyond int8."""
    for n, outputs in enumerate(channels):
        for pixel, _ in outputs:
            yield from requant.saturated(f"{name}_{n}_{pixel}", TEMPORARY[0])


@dataclass(frozen=True)
class Block:
    """Of a shape. `chains`: (channel, word) of each pair of pixels, or of each channel of one
    pixel."""

    shape: Shape

    @property
    def channels(self) -> int:
        return self.shape.channels(PAIRS)

    @property
    def words(self) -> int:
        """That a tap is in a tile."""
        return max(self.shape.pixels // 2, 1)

    @property
    def chains(self) -> list[tuple[int, int]]:
        return [(n, i) for n in range(self.channels) for i in range(self.words)]

    @property
    def step(self) -> int:
        """Bytes of a tile's step."""
        return 2 * LANES * self.shape.pixels

    def tap(self, tap: int, products: tuple[str, ...] | None) -> Iterator[str]:
        """A tap of all pixels times its weights: sets products, or adds to them."""
        load = "lh" if self.shape.pixels == 1 else "lw"
        size = self.step // LANES // self.words
        group, lane = divmod(tap, LANES)
        for i in range(self.words):
            yield f"{load} {TAPS[i]}, {size * (self.words * tap + i)}({TILE})"
        for n in range(self.channels):
            yield f"lb {WEIGHTS[n % 2]}, {LANES * (self.channels * group + n) + lane}({STREAM})"
            # The next weight is on its way while this one is multiplied.
            if n % 2 == 0:
                continue
            for m in (n - 1, n):
                for i in range(self.words):
                    at = self.chains.index((m, i))
                    if products is not None:
                        yield f"mul {products[at]}, {WEIGHTS[m % 2]}, {TAPS[i]}"
                    else:
                        yield f"mul {PRODUCT}, {WEIGHTS[m % 2]}, {TAPS[i]}"
                        total = SUMS if self.shape.pixels == 1 else PRODUCTS
                        yield f"add {total[at]}, {total[at]}, {PRODUCT}"

    def group(self, first: int, count: int) -> Iterator[str]:
        """Some taps, and what they add to both halves."""
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

    def loop(self, name: str, taps: int, end: str, steps: int = 1) -> Iterator[str]:
        """Steps up to `end`, so many taps at a time."""
        yield f"beq {TILE}, {end}, <{name}_done>"
        yield f"<{name}>:"
        for first in range(0, steps * LANES, taps):
            yield from self.group(first, taps)
        yield from self.advance(name, end, steps)
        yield f"<{name}_done>:"

    def advance(self, name: str, end: str, steps: int = 1) -> Iterator[str]:
        yield f"addi {TILE}, {TILE}, {steps * self.step}"
        yield f"addi {STREAM}, {STREAM}, {steps * LANES * self.channels}"
        yield f"bne {TILE}, {end}, <{name}>"

    def biases(self) -> Iterator[str]:
        """Sums start at the bias; what the higher ones add of it to the lower ones goes there."""
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

    def all_taps(self) -> Iterator[str]:
        if self.shape.pixels == 1:
            yield "<step>:"
            for tap in range(LANES):
                yield from self.tap(tap, None)
            yield from self.advance("step", END)
            return
        yield f"jr {CODE}"
        for taps, name in zip(PAIRED_TAPS[1:], ("two", "four", "eight"), strict=True):
            yield f"<{name}>:"
            # A tile of fewer pixels than others is a row's last one.
            if taps == 8 or self.shape.sums(PAIRS) == 8:
                yield from self.loop(f"{name}_two", taps, LONG_END, 2)
            if taps < 8:
                yield from self.loop(f"{name}_last", taps, END)
                yield "j <taken>"
        yield f"bne {TILE}, {END}, <four_last>"
        yield "j <taken>"
        yield "<one>:"
        yield from self.loop("one_step", 1, END)
        yield "<taken>:"
        for at in range(len(self.chains)):
            yield f"slli {PRODUCT}, {HIGH[at]}, 16"
            yield f"sub {SUMS[at]}, {SUMS[at]}, {PRODUCT}"

    def outputs(self, channel: int) -> list[tuple[int, str]]:
        """Pixel and register of a channel's sums."""
        found = []
        for at, (n, i) in enumerate(self.chains):
            if n == channel:
                found.append((2 * i, SUMS[at]))
                if self.shape.pixels > 1:
                    found.append((2 * i + 1, HIGH[at]))
        return found

    def requantised(self) -> Iterator[str]:
        size = 4 * self.channels
        pixels = PIXELS[: self.shape.pixels]
        for before, pointer in itertools.pairwise(pixels):
            yield f"add {pointer}, {before}, {PITCH}"
        yield f"li {BYTE}, 255"
        channels = [self.outputs(n) for n in range(self.channels)]
        yield from requantised(channels, STREAM)
        yield f"addi {STREAM}, {STREAM}, {size + packed_shifts(self.channels)}"
        yield f"addi {OUT}, {OUT}, {self.channels}"
        yield f"addi {CHANNELS}, {CHANNELS}, -{self.channels}"
        yield f"bgtz {CHANNELS}, <block>"
        yield from leave()
        yield from saturated(channels)

    def code(self) -> Iterator[str]:
        yield from save()
        yield note("Where steps end, and where two of them at a time do.")
        yield f"mv {START}, {TILE}"
        if self.shape.pixels > 1:
            bits = self.step.bit_length() - 1
            yield f"andi {LONG_END}, {STEPS}, -2"
            yield f"slli {LONG_END}, {LONG_END}, {bits}"
            yield f"add {LONG_END}, {LONG_END}, {TILE}"
            yield f"lui {ROUND}, 8"
            yield note("Where the code for as many taps is.")
            yield f"addi {PRODUCT}, {CODE}, -2"
            for branch, name in (("bgtz", "eight"), ("beqz", "four")):
                yield f"lla {WEIGHTS[0]}, <{name}>"
                yield f"{branch} {PRODUCT}, <chosen>"
            yield f"lla {WEIGHTS[0]}, <two>"
            yield f"bnez {CODE}, <chosen>"
            yield f"lla {WEIGHTS[0]}, <one>"
            yield "<chosen>:"
            yield f"mv {CODE}, {WEIGHTS[0]}"
        yield f"slli {HALF}, {HALF}, 1"
        yield f"slli {END}, {STEPS}, {self.step.bit_length() - 1}"
        yield f"add {END}, {END}, {TILE}"
        yield "<block>:"
        yield from self.biases()
        yield from self.all_taps()
        yield note("The sums alone.")
        yield f"bnez {CHANNELS}, <bytes>"
        for n in range(self.channels):
            for pixel, acc in self.outputs(n):
                yield f"sw {acc}, {4 * (n * self.shape.pixels + pixel)}({OUT})"
        yield from leave()
        yield "<bytes>:"
        yield from self.requantised()


def run(shape: Shape) -> Function:
    summary = (
        f"Whole blocks, or, where there are no channels, the sums of one, as words: {shape.name} "
        "pixels and channels. Returns where the flash stream goes on."
    )
    return Function(f"vmcu_paired_{shape.name}", summary, [*Block(shape).code()], thumb=False)


# dense.py has that of one pixel of a narrow tile.
FUNCTIONS = [run(shape) for shape in SHAPES if shape != NARROW[1]]
DECLARED = "".join(
    f"""
const uint8_t *vmcu_paired_{shape.name}(const uint8_t *stream, const vmcu_lane_t *tile,
				int32_t steps, int8_t *out, int32_t channels, int32_t half,
				int32_t pitch, int32_t code);"""
    for shape in SHAPES
)
HELPERS = {"paired_runs": f"/* In blocks_rv32.S and dense_rv32.S. */{DECLARED}\n"}
OWN = {
    made: f"*w = vmcu_paired_{shape.name}(*w, tile, p->steps, out, channels, vmcu_half(p), pitch,\n"
    "\t\t\tcode);"
    for shape, made in RUN_PAIRED.items()
}
