# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions of square windows, channel by channel.

The tile of a strip has a word for each pixel under it, one of four channels: of 3 x 3 taps all rows
of a column, then those of the next; of larger windows all columns of a row. A byte stays in its
register for all pixels that meet it. Assembly computes channels for the fast requantiser, C the
others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vmcu_tools.kernels.targets.portable.depthwise import BIAS, EXACT, SQUARE_TAPS, STRIDES, TAPS

from ...assembly import Function, note
from . import requant
from .frame import leave, save

# Words on the stack: of all channels, then of a channel. X: the first column, minus taps that the
# largest window would have before it; SPAN: bytes of the output; WIDE: from how many of them on
# there is code for eight pixels; KIND: negative for larger windows.
LANES, X, OUT, SPAN, HALF, KIND, ENTRY, SIZE, WIDE, *OF_CHANNEL = range(0, 4 * 12, 4)
NEXT, FIRST, BIAS_AT = OF_CHANNEL
WORDS = 12
# Of all windows.
SUM, PRODUCT, FACTOR, SHIFT, CONSTANT = "t6", "t5", "a6", "a7", "a0"
COLUMN, BYTE, STEP = "a1", "a2", "a3"
# Of 3 x 3 taps: where the output ends, the bias, weights, columns.
STOP, BIASED = "a4", "a5"
WEIGHTS = tuple(f"s{number}" for number in range(9))
COLUMNS = (("t0", "t1", "t2"), ("t3", "t4", "s9"), ("s10", "s11", "ra"))
# Of larger windows: sums of pixels, bytes of even and of odd columns, and the registers for a row.
SUMS, EVEN, ODD = (
    ("s0", "s1", "s2", "s3"),
    ("t0", "t1", "t2", "t3"),
    ("s4", "s5", "s6", "s7"),
)
WEIGHT, COLUMN_BYTE, STREAM, ROWS_END, TOP, ROW_BYTES, ROW_TAPS, BEGIN, OUT_END = (
    *("t4", "t6", "s8", "s9", "s10", "s11", "ra", "a4", "a5"),
)
LARGEST = max(TAPS)
# Of eight pixels of 5 x 5 taps: sums, a row's weights, bytes of a column and of the next one. MORE:
# while bytes are made, whether there are four more sums.
EIGHT = (*SUMS, *ODD)
FIVE = (*EVEN, WEIGHT)
BYTES = (COLUMN_BYTE, BEGIN)
MORE = WEIGHT


def kind(taps: int, stride: int) -> int:
    """A number of a window: odd at a stride of two."""
    return taps - stride


def start() -> Iterator[str]:
    """Returns where the first channel is that was not computed."""
    yield from save(WORDS)
    yield note("Arguments, and bytes of a channel in the stream.")
    for register, place in (("a1", X), ("a2", OUT), ("a3", LANES)):
        yield f"sw {register}, {place}(sp)"
    yield f"mv {STEP}, a5"
    yield "mul t0, a4, a5"
    yield f"sw t0, {SPAN}(sp)"
    yield "slli a6, a6, 1"
    yield f"sw a6, {HALF}(sp)"
    yield "lbu t0, 0(a7)"
    yield "lbu t1, 1(a7)"
    yield "mul t2, t0, t0"
    yield "addi t2, t2, 11"
    yield "andi t2, t2, -4"
    yield f"sw t2, {SIZE}(sp)"
    yield "sub t3, t0, t1"
    yield f"sw t3, {KIND}(sp)"
    yield f"li t2, {kind(TAPS[1], STRIDES[-1])}"
    yield "bltu t3, t2, <channel>"
    yield note("Larger windows: bytes of a row, the first column, and where code for a row is.")
    yield f"mv {ROW_TAPS}, t0"
    yield f"addi {ROW_BYTES}, a4, -1"
    yield f"mul {ROW_BYTES}, {ROW_BYTES}, t1"
    yield f"add {ROW_BYTES}, {ROW_BYTES}, t0"
    yield f"slli {ROW_BYTES}, {ROW_BYTES}, 2"
    yield f"addi t0, t0, -{LARGEST}"
    yield "slli t0, t0, 2"
    yield "add t0, t0, a1"
    yield f"sw t0, {X}(sp)"
    *others, last = [(taps, stride) for taps in TAPS[1:] for stride in STRIDES]
    for taps, stride in others:
        yield f"lla {BEGIN}, <row_{taps}_{stride}>"
        if (taps, stride) == (len(FIVE), 1):
            yield f"slli t4, a5, {len(EIGHT).bit_length() - 1}"
        else:
            yield "li t4, -1"
        yield f"li t2, {kind(taps, stride)}"
        yield "beq t3, t2, <chosen>"
    yield "lla {}, <row_{}_{}>".format(BEGIN, *last)
    yield "<chosen>:"
    yield f"sw {BEGIN}, {ENTRY}(sp)"
    yield f"sw t4, {WIDE}(sp)"
    yield "li t0, -1"
    yield f"sw t0, {KIND}(sp)"
    yield note("A channel, unless it is for another requantiser.")
    yield "<channel>:"
    yield "lw t0, 0(a0)"
    yield f"andi t1, t0, {EXACT}"
    yield "bnez t1, <done>"
    yield f"lw t1, {SIZE}(sp)"
    yield "add t1, t1, a0"
    yield f"sw t1, {NEXT}(sp)"
    yield f"lw {FACTOR}, -4(t1)"
    yield f"lw {BYTE}, {OUT}(sp)"
    yield f"lw {COLUMN}, {X}(sp)"
    yield f"lw t1, {KIND}(sp)"
    yield "bltz t1, <larger>"


def constants(bias: str) -> Iterator[str]:
    """Unpacks the constants of the word in T0, where the stream is not needed again."""
    yield f"andi {SHIFT}, t0, 31"
    yield f"srai {bias}, t0, {BIAS}"
    yield f"lw {CONSTANT}, {HALF}(sp)"
    yield f"sll {CONSTANT}, {CONSTANT}, {SHIFT}"
    yield f"addi {SHIFT}, {SHIFT}, 2"


def end() -> Iterator[str]:
    yield note("The next channel, if there is one.")
    yield "<next>:"
    for place, more in ((X, 1), (OUT, 1), (LANES, -1)):
        yield f"lw t0, {place}(sp)"
        yield f"addi t0, t0, {more}"
        yield f"sw t0, {place}(sp)"
    yield f"lw a0, {NEXT}(sp)"
    yield "bgtz t0, <channel>"
    yield "<done>:"
    yield from leave(WORDS)


def stored(acc: str, label: str) -> Iterator[str]:
    """A sum to the byte of a pixel."""
    yield from requant.fixed(acc, FACTOR, CONSTANT, SHIFT, PRODUCT)
    yield from requant.stored_alone(label, PRODUCT, acc, f"0({BYTE})")
    yield f"add {BYTE}, {BYTE}, {STEP}"


def multiplied(acc: str, first: str, weight: str, byte: str) -> Iterator[str]:
    """Adds a product to `first`."""
    yield f"mul {PRODUCT}, {weight}, {byte}"
    yield f"add {acc}, {first}, {PRODUCT}"


def square_pixel(columns: Sequence[Sequence[str]], label: str) -> Iterator[str]:
    """A pixel of 3 x 3 taps."""
    first = BIASED
    for place, weight in enumerate(WEIGHTS):
        r, s = divmod(place, SQUARE_TAPS)
        yield from multiplied(SUM, first, weight, columns[s][r])
        first = SUM
    yield from stored(SUM, label)


def column(number: int, registers: Sequence[str]) -> Iterator[str]:
    for r, register in enumerate(registers):
        yield f"lb {register}, {4 * (SQUARE_TAPS * number + r)}({COLUMN})"


def square(stride: int) -> Iterator[str]:
    """Pixels of a channel of 3 x 3 taps, as many as bring columns back to their registers."""
    a, b, c = COLUMNS
    kept = SQUARE_TAPS - stride
    for number in range(kept):
        yield from column(number, COLUMNS[number])
    turns = [(a, b, c), (b, c, a), (c, a, b)] if stride == 1 else [(a, b, c), (c, b, a)]
    yield f"<square_{stride}>:"
    for pixel, columns in enumerate(turns):
        for s in range(kept, SQUARE_TAPS):
            yield from column(stride * pixel + s, columns[s])
        yield from square_pixel(columns, f"{stride}_{pixel}")
        if pixel < len(turns) - 1:
            yield f"beq {BYTE}, {STOP}, <next>"
    yield f"addi {COLUMN}, {COLUMN}, {4 * SQUARE_TAPS * stride * len(turns)}"
    yield f"bne {BYTE}, {STOP}, <square_{stride}>"
    yield "j <next>"


def squares() -> Iterator[str]:
    yield note("3 x 3 taps: all weights are in registers.")
    for place, weight in enumerate(WEIGHTS):
        yield f"lb {weight}, {4 + place}(a0)"
    yield from constants(BIASED)
    yield f"lw {STOP}, {SPAN}(sp)"
    yield f"add {STOP}, {STOP}, {BYTE}"
    yield f"lw t0, {KIND}(sp)"
    yield f"li t1, {kind(SQUARE_TAPS, 2)}"
    yield "beq t0, t1, <by_two>"
    yield note("Three pixels, of which each needs one more column.")
    yield from square(1)
    yield note("Two pixels, of which each needs two more columns.")
    yield "<by_two>:"
    yield from square(2)


def row(stride: int) -> Iterator[str]:
    """A row of four pixels: of the largest window, or of one that skips its first taps."""
    rings = (EVEN, ODD) if stride == 2 else (EVEN,)

    def byte(at: int) -> str:
        """The register of a column."""
        return rings[at % stride][at // stride % len(EVEN)]

    def load(at: int) -> str:
        return f"lb {byte(at)}, {4 * at}({COLUMN})"

    reach = stride * (len(SUMS) - 1)
    for taps in TAPS[1:]:
        first = LARGEST - taps
        yield f"<row_{taps}_{stride}>:"
        yield from (load(at) for at in range(first, first + reach))
        if first > 0:
            yield f"j <tap_{first}_{stride}>"
    for s in range(LARGEST):
        if LARGEST - s in TAPS[1:-1]:
            yield f"<tap_{s}_{stride}>:"
        yield load(s + reach)
        yield f"lb {WEIGHT}, {s}({STREAM})"
        for pixel, acc in enumerate(SUMS):
            yield from multiplied(acc, acc, WEIGHT, byte(s + stride * pixel))


def eight() -> Iterator[str]:
    """Eight pixels of 5 x 5 taps at a stride of one: a row's weights are in registers."""
    first = LARGEST - len(FIVE)

    def load(at: int) -> str:
        return f"lb {BYTES[at % 2]}, {4 * (first + at)}({COLUMN})"

    yield note("Eight pixels of 5 x 5 taps.")
    yield "<eight>:"
    yield from started(EIGHT)
    yield "<eight_row>:"
    yield load(0)
    yield from (f"lb {weight}, {first + s}({STREAM})" for s, weight in enumerate(FIVE))
    columns = len(EIGHT) + len(FIVE) - 1
    for at in range(columns):
        yield from [load(at + 1)] * (at + 1 < columns)
        for s, weight in enumerate(FIVE):
            if 0 <= at - s < len(EIGHT):
                acc = EIGHT[at - s]
                yield from multiplied(acc, acc, weight, BYTES[at % 2])
    yield f"add {STREAM}, {STREAM}, {ROW_TAPS}"
    yield f"add {COLUMN}, {COLUMN}, {ROW_BYTES}"
    yield f"bne {STREAM}, {ROWS_END}, <eight_row>"
    yield f"addi {TOP}, {TOP}, {4 * len(EIGHT)}"
    yield f"lw {BEGIN}, {ENTRY}(sp)"
    yield f"li {MORE}, 1"
    yield "j <bytes>"


def started(sums: Sequence[str]) -> Iterator[str]:
    """Sums at their bias, at the first weight and column."""
    yield f"lw {STREAM}, {FIRST}(sp)"
    yield f"lw {sums[0]}, {BIAS_AT}(sp)"
    yield from (f"mv {acc}, {sums[0]}" for acc in sums[1:])
    yield f"mv {COLUMN}, {TOP}"


def larger() -> Iterator[str]:
    yield note("Larger windows: four pixels at a time, row by row.")
    yield "<larger>:"
    yield f"mv {TOP}, {COLUMN}"
    yield f"addi {STREAM}, {ROW_TAPS}, {4 - LARGEST}"
    yield f"add {STREAM}, {STREAM}, a0"
    yield f"sw {STREAM}, {FIRST}(sp)"
    yield f"mul {ROWS_END}, {ROW_TAPS}, {ROW_TAPS}"
    yield f"add {ROWS_END}, {ROWS_END}, {STREAM}"
    yield f"lw {OUT_END}, {SPAN}(sp)"
    yield f"add {OUT_END}, {OUT_END}, {BYTE}"
    yield from constants(PRODUCT)
    yield f"sw {PRODUCT}, {BIAS_AT}(sp)"
    yield "<block>:"
    yield f"lw t0, {WIDE}(sp)"
    yield f"sub t1, {OUT_END}, {BYTE}"
    yield "bgeu t1, t0, <eight>"
    yield from started(SUMS)
    yield f"jr {BEGIN}"
    for stride in STRIDES:
        yield note(f"A row at a stride of {stride}.")
        yield from row(stride)
        yield f"add {STREAM}, {STREAM}, {ROW_TAPS}"
        yield f"add {COLUMN}, {COLUMN}, {ROW_BYTES}"
        yield f"beq {STREAM}, {ROWS_END}, <sums_{stride}>"
        yield f"jr {BEGIN}"
        yield f"<sums_{stride}>:"
        yield f"addi {TOP}, {TOP}, {4 * len(SUMS) * stride}"
        yield f"li {MORE}, 0"
        yield "j <bytes>"
    yield from eight()
    yield note("The bytes of the pixels that exist.")
    yield "<more>:"
    yield from (f"mv {acc}, {other}" for acc, other in zip(SUMS, EIGHT[len(SUMS) :], strict=True))
    yield f"li {MORE}, 0"
    yield "<bytes>:"
    for pixel, acc in enumerate(SUMS):
        yield from stored(acc, str(pixel))
        yield from [f"beq {BYTE}, {OUT_END}, <next>"] * (pixel < len(SUMS) - 1)
    yield f"bnez {MORE}, <more>"
    yield f"bne {BYTE}, {OUT_END}, <block>"


def code() -> Iterator[str]:
    yield from start()
    yield from squares()
    yield from larger()
    yield from end()
    for stride, pixels in ((1, 3), (2, 2)):
        for pixel in range(pixels):
            yield from requant.beyond_alone(f"{stride}_{pixel}", SUM, f"0({BYTE})")
    for pixel, acc in enumerate(SUMS):
        yield from requant.beyond_alone(str(pixel), acc, f"0({BYTE})")


FUNCTIONS = [
    Function(
        "vmcu_paired_strip",
        "Up to four channels of a strip. Returns where the first channel is in the stream that is "
        "for another requantiser, or what is behind the last one.",
        [*code()],
        thumb=False,
    )
]
