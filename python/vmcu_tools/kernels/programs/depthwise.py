# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions, four channels of a strip of pixels at a time.

For each strip, for each four channels: all of their window's bytes are read into the tile, then
their output bytes are written. Square windows of 3, 5 and 7 taps at strides of one and two have
programs of their own, `taps` serves all the others pixel by pixel.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..language.builder import Builder, do
from ..language.expr import Expr, Int, Name
from ..language.ir import Axis, Program, Ram, Stream, Tile
from ..language.packing import Packing
from ..targets.portable import depthwise as isa
from ..targets.portable import places, strips, vectors

STREAM, TILE = Stream(), Tile()
PARAMS = "vmcu_mac_params"
WINDOW = "p->window."


def first_row() -> Expr:
    return Name("y") * Name(f"{WINDOW}stride_h") - Name(f"{WINDOW}pad_top")


def output_lets(k: Builder) -> tuple[Expr, Expr, Expr, Expr]:
    """The output, its columns to compute, groups, channels of a group, and how far apart in the
    input the channels are that the outputs of a group read: one where all channels are one group,
    none where a channel has a group of its own."""
    k.let("int8_t *", "out", "vmcu_output_start(call)")
    columns = k.columns()
    channels = k.let("const int32_t", "out_c", "vmcu_call_output(call)->channels")
    k.let("const int32_t", "y", "call->y")
    groups, spread = k.define("groups", Name("p->groups")), k.define("spread", Name("p->run"))
    return columns, groups, k.define("per_group", channels // groups), spread


def tile_lets(k: Builder, taps: int, stride: int) -> None:
    """Words of the tile: those of even columns in two rows, of two rows, of a plane."""
    wide = Name("p->steps")
    first, *others = (wide + (count - 1) for count in isa.pair_counts(taps, stride))
    phase = k.define("phase", first)
    row = k.define("row", phase + others[0] if others else phase)
    k.define("plane", row * (taps // 2) + (wide * stride + (taps + 1 - stride)) // 2)


def tile_bytes(taps: int, stride: int, wide: int, packing: Packing) -> int:
    """Counts the bytes of a tile for strips of `wide` pixels, which a core may compute in blocks
    that hang over, see blocks_of() in ops/depthwise.py. A core that pairs pixels may have a word
    for each column and row."""
    pixels = packing.pixels
    if taps == isa.SQUARE_TAPS and stride == 2 and not packing.paired:
        pixels += strips.WIDER
    row = sum(wide + count - 1 for count in isa.pair_counts(taps, stride))
    plane = row * (taps // 2) + (wide * stride + taps + 1 - stride) // 2
    # Behind the last plane, those of the last row.
    over = -wide % pixels * stride // 2
    words = 2 * plane + over
    if packing.paired:
        block = 2 if taps == isa.SQUARE_TAPS else pixels
        words = max(words, ((wide + -wide % block - 1) * stride + taps) * taps)
    return words * 4


@dataclass(frozen=True)
class Kernel:
    """A program for one size of window, while it is being built."""

    k: Builder
    taps: int
    stride: int

    def window(self, x: Expr, wide: Expr, c: Expr, lanes: Expr) -> Ram:
        """The input under `wide` output pixels from x on."""
        axes = (
            Axis(0, Int(self.taps), Name(f"{WINDOW}dilation_h")),
            Axis(1, wide * self.stride + (self.taps - self.stride), Int(1)),
            Axis(2, lanes, Int(1)),
        )
        left = x * self.stride - Name(f"{WINDOW}pad_left")
        return Ram(0, first_row(), left, c, axes, guarded=True)

    def strip(self, x0: Expr, wide: Expr, c: Expr, lanes: Expr) -> None:
        """A strip of `wide` pixels from x0 on, whose taps are in the tile."""
        words = (Name(name) for name in ("phase", "row", "plane"))
        made, place = strips.STRIP[self.taps, self.stride], target(x0, wide, c, lanes)
        self.k.do(made, Name("p"), TILE, *words, STREAM, place, Name("out_c"), wide, lanes)


def target(x: Expr, wide: Expr, c: Expr, lanes: Expr) -> Ram:
    """Output of `wide` pixels and some channels."""
    return Ram("output", Name("y"), x, c, (Axis(1, wide, Int(1)), Axis(2, lanes, Int(1))))


def depthwise(packing: Packing, taps: int, stride: int) -> Program:
    summary = f"Depthwise convolution of {taps} x {taps} taps at a stride of {stride}."
    symbol = f"vmcu_depthwise_{taps}_{stride}{packing.suffix}"
    k = Builder(symbol, PARAMS, summary, packing=packing)
    kernel = Kernel(k, taps, stride)
    columns, groups, per_group, spread = output_lets(k)
    tile_lets(k, taps, stride)
    k.let("struct vmcu_band", "in0", "")
    made = strips.STRIP[taps, stride].symbol
    by = do(strips.all_strips, Name("call"), Name(made))
    with k.strips("strip", "wide", columns, Name("p->steps"), by) as (turn, wide):
        x0 = k.along(turn, wide, columns)
        k.rewind(STREAM)
        strips_of_group = k.strips("c", "lanes", per_group, isa.GROUP)
        with k.spatial("g", groups) as g, strips_of_group as (c, lanes):
            source = kernel.window(x0, wide, g + c * spread, (lanes - 1) * spread + 1)
            k.do(isa.stage, TILE, source, Name("call"), wide, lanes)
            kernel.strip(x0, wide, g * per_group + c, lanes)

    return k.program()


def source(x: Expr, first: Expr, lanes: Expr) -> Ram:
    """Any window under output pixel x."""
    axes = (
        Axis(0, Name(f"{WINDOW}kernel_h"), Name(f"{WINDOW}dilation_h")),
        Axis(1, Name(f"{WINDOW}kernel_w"), Name(f"{WINDOW}dilation_w")),
        Axis(2, lanes, Int(1)),
    )
    left = x * Name(f"{WINDOW}stride_w") - Name(f"{WINDOW}pad_left")
    return Ram(0, first_row(), left, first, axes, guarded=True)


def some(x: Expr, first: Expr, lanes: Expr) -> Ram:
    """Some channels of output pixel x."""
    return Ram("output", Name("y"), x, first, (Axis(2, lanes, Int(1)),))


def any_window(packing: Packing, channels: str) -> tuple[Builder, Expr, Expr, Expr, Expr]:
    """A program for any window, pixel by pixel, and what output_lets() returns."""
    summary = f"Depthwise convolution of any window, {channels} channels of a pixel at a time."
    k = Builder(f"vmcu_depthwise_any{packing.suffix}", PARAMS, summary, packing=packing)
    outputs = output_lets(k)
    k.let("struct vmcu_places", "in0", "")
    return k, *outputs


def of_vectors(packing: Packing) -> Program:
    """Any window, a vector of channels at a time."""
    k, columns, groups, per_group, spread = any_window(packing, str(packing.vector))
    by = do(vectors.all_vectors, Name("call"))
    with k.spatial("x0", columns, by=by) as turn:
        x = k.along(turn, 1, columns)
        k.rewind(STREAM)
        strips = k.strips("q", "lanes", per_group, packing.vector)
        with k.spatial("g", groups) as g, strips as (q, lanes):
            acc = k.reg_alloc("acc", packing.vector + 1)
            taps = source(x, g + q * spread, (lanes - 1) * spread + 1)
            k.do(vectors.dot_vector, acc, taps, lanes, spread, STREAM)
            place = some(x, g * per_group + q, lanes)
            k.do(vectors.store_vector, Name("p"), acc, STREAM, place, lanes)

    return k.program()


def taps(packing: Packing) -> Program:
    """Any window, four channels at a time."""
    k, columns, groups, per_group, spread = any_window(packing, "four")
    whole = k.define("whole", per_group // isa.GROUP)

    with k.spatial("x0", columns) as turn:
        x = k.along(turn, 1, columns)
        k.rewind(STREAM)
        k.do(places.find_taps, TILE, source(x, Int(0), Int(0)), Name("call"))
        with k.spatial("g", groups) as g:
            fours = source(x, g, spread * (isa.GROUP - 1) + 1)
            first = some(x, g * per_group, Int(isa.GROUP))
            run = do(places.run_taps, Name("p"), fours, spread, STREAM, first, whole)
            with k.spatial("q", whole, by=run) as q:
                acc, n = k.reg_alloc("acc", isa.GROUP), q * isa.GROUP
                taps = source(x, g + n * spread, spread * (isa.GROUP - 1) + 1)
                k.do(places.dot_taps, acc, taps, spread, STREAM)
                place = some(x, g * per_group + n, Int(isa.GROUP))
                k.do(places.store_taps, Name("p"), acc, STREAM, place)
            with k.strips("r", "lanes", per_group % isa.GROUP, isa.GROUP) as (r, lanes):
                acc, n = k.reg_alloc("acc", isa.GROUP), whole * isa.GROUP + r
                taps = source(x, g + n * spread, (lanes - 1) * spread + 1)
                k.do(places.dot_some_taps, acc, taps, lanes, spread, STREAM)
                place = some(x, g * per_group + n, lanes)
                k.do(places.store_some_taps, Name("p"), acc, STREAM, place, lanes)

    return k.program()


def programs(packing: Packing) -> list[Program]:
    if packing.bits == 4:
        # Too few weights for their bytes to matter.
        return []
    if packing.vector:
        return [of_vectors(packing)]
    made = [depthwise(packing, size, stride) for size in isa.TAPS for stride in isa.STRIDES]
    return [*made, taps(packing)]
