# SPDX-License-Identifier: Apache-2.0
"""Blocks of channels whose weights have 4 bits, with the DSP extension.

A word of weights has four taps of two channels: in the upper halves of its bytes two taps of either
channel, in the lower halves the next two. One half at a time is the upper one, with zeros below:
bytes that are 16 times a weight. SXTB16 makes of these two taps of a channel, as of weights of 8
bits that are not joined. So sums are 16 times theirs, until they are requantised.
"""

from __future__ import annotations

from collections.abc import Mapping

from vmcu_tools.kernels.language.packing import NIBBLES
from vmcu_tools.kernels.targets.portable.blocks_all import BLOCKS_NARROW, BLOCKS_WIDE
from vmcu_tools.kernels.targets.portable.dense import run_dense_per_tensor, whole_dense
from vmcu_tools.kernels.targets.portable.shapes import NARROW, WIDE, Shape

from ...assembly import Function, note, repeat
from ..thumb import STREAM, Registers, T, after_turn
from . import tile, widen
from .blocks import OTHERS, UNROLL, Block, pair_of, run_function, smlad
from .blocks_c import blocks_body, run_helpers
from .dense import BLOCK, RUN, declared, run_per_tensor, runs_of

UPPER = "#0xf0f0f0f0"
# A block begins here, so no instruction may pass it.
BETWEEN = note("The second two taps.")


def half(word: str, into: str, second: bool) -> list[str]:
    """The bytes of the first two taps of a word's channels, or of the second two."""
    if not second:
        return [f"and.w {into}, {word}, {UPPER}"]
    return [f"lsl.w {into}, {word}, #4", f"and.w {into}, {into}, {UPPER}"]


def widened(of: str, first: str) -> list[str]:
    """Two taps of each of two channels from their bytes; those of the second replace them."""
    return [f"sxtb16 {first}, {of}", f"sxtb16 {of}, {of}, ror #8"]


def pair_4x2(second: bool, start: bool = False, last: bool = False) -> list[str]:
    """Two taps of four pixels and two channels, see blocks.pair_of()."""
    v, u = OTHERS[:2]
    load = f"ldr.w {v}, [{STREAM}]{', #4' if second else ''}"
    return pair_of(load, [*half(v, v, second), *widened(v, u)], start, last)


def pair_2x4(second: bool, start: bool = False, last: bool = False) -> list[str]:
    """Two taps of two pixels and four channels, the others likewise."""
    shape = Shape(2, False)
    a, (v, u, x, y) = Registers.of(shape).sums, OTHERS
    code = [f"ldr.w {x}, [{T}], #8", f"ldr.w {y}, [{T}, #-4]"]
    for first, place in ((0, "]"), (4, ", #4]")):
        code.append(f"ldr.w {v}, [{STREAM}{'], #4' if second else place}")
        code += [*half(v, v, second), *widened(v, u)]
        for word, begin in ((u, first), (v, first + 2)):
            for tap, pixel in ((y, 1), (x, 0)):
                code.append(smlad(a[begin + pixel], tap, word, a[begin] if start else ""))
    return [*code, *after_turn(shape)] if last else code


PAIRS = {Shape(4, True): pair_4x2, Shape(2, False): pair_2x4}


def products(
    words: list[str], taps: list[list[str]], spare: list[str], sums: list[list[str]]
) -> list[str]:
    """Four taps of some pixels times words of weights, one for each two channels. taps: first and
    second two, by pixel; spare: two registers; sums by channel and pixel."""
    code, (first, both) = [], spare
    for pair, word in enumerate(words):
        for second, held in enumerate(taps):
            of = word if second else both
            code += [*half(word, of, bool(second)), *widened(of, first)]
            for weights, ours in ((first, sums[2 * pair]), (of, sums[2 * pair + 1])):
                code += [smlad(a, tap, weights) for a, tap in zip(ours, held, strict=True)]
    return code


def loads(registers: list[str], pointer: str) -> list[str]:
    """Words that follow one another; the first load moves the pointer behind them."""
    size = 4 * len(registers)
    code = [f"ldr.w {registers[0]}, [{pointer}], #{size}"]
    others = enumerate(registers[1:], 1)
    return [*code, *(f"ldr.w {name}, [{pointer}, #{4 * i - size}]" for i, name in others)]


def by_channel(shape: Shape) -> list[list[str]]:
    """The sums of a block."""
    a, pixels = Registers.of(shape).sums, shape.pixels
    return [[*a[first : first + pixels]] for first in range(0, len(a), pixels)]


def four(shape: Shape) -> list[str]:
    """Four taps of each pixel of a tile."""
    if shape in PAIRS:
        return [*PAIRS[shape](False), BETWEEN, *PAIRS[shape](True)]
    count, pixels, free = shape.channels() // 2, shape.pixels, [*Registers.of(shape).free]
    words, taps = free[:count], free[count : count + 2 * pixels]
    spare = free[count + 2 * pixels :][:2]
    halves = [taps[:pixels], taps[pixels:]]
    return [
        *loads(words, STREAM),
        *loads(taps, T),
        *products(words, halves, spare, by_channel(shape)),
    ]


def block_of(shape: Shape) -> Block:
    """Returns the block of a tile."""
    taps, unroll, head = four(shape), UNROLL[shape.name], []
    turn = [*repeat(unroll, taps), *after_turn(shape)]
    if shape in PAIRS:
        pair = PAIRS[shape]
        head = pair(False, start=True)
        # The last pair of a turn compares.
        turn = [*repeat(unroll - 1, taps), *pair(False), BETWEEN, *pair(True, last=True)]
    return Block(shape, taps, unroll, 8 * shape.pixels, turn, head, nibbles=True)


def run_of(shapes: Mapping[int, Shape], member: str) -> Function:
    blocks = [block_of(shape) for shape in shapes.values()]
    return run_function(f"vmcu_run_of_{member}_int4", blocks, f"a {member} tile")


def dense_four() -> list[str]:
    """Four taps of a pixel."""
    even, odd, *others = Registers.of(BLOCK).free
    return [
        f"ldr.w {odd}, [{T}], #4",
        *loads(others[:2], STREAM),
        f"sxtb16 {even}, {odd}",
        f"sxtb16 {odd}, {odd}, ror #8",
        *products(others[:2], [[even], [odd]], others[2:4], by_channel(BLOCK)),
    ]


RUNS = [run_of(WIDE, "wide"), run_of(NARROW, "narrow")]
SUFFIX = NIBBLES.suffix
FUNCTIONS = runs_of(dense_four(), SUFFIX)
SHARED = ("once", "words", "tile", "fixed")
HELPERS = {
    **{name: tile.HELPERS[name] for name in SHARED},
    **widen.HELPERS,
    **run_helpers(RUNS, "blocks_dsp_int4.S"),
    "dense": f"/* In dense_dsp_int4.S. */\n{declared(FUNCTIONS)}",
    "dense_whole": whole_dense(f"{RUN}{SUFFIX}"),
}
OWN = {
    BLOCKS_WIDE: blocks_body(WIDE, "wide_int4"),
    BLOCKS_NARROW: blocks_body(NARROW, "narrow_int4"),
    run_dense_per_tensor: run_per_tensor(SUFFIX),
}
