# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions, four channels of a strip of pixels at a time.

For each strip, for each four channels: all of their window's bytes are read into the tile, then
their output bytes are written, block by block or, of 3 x 3 taps, at once. Square windows of 3, 5
and 7 taps at strides of one and two have programs of their own, `taps` serves all the others pixel
by pixel.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..language.builder import Builder
from ..language.expr import Expr, Int, Name
from ..language.ir import Axis, Program, Ram, Registers, Stream, Tile
from ..language.packing import Packing
from ..targets.portable import depthwise as isa
from ..targets.portable import places, square

STREAM, TILE = Stream(), Tile()
PARAMS = "vmcu_mac_params"
WINDOW = "p->window."


def first_row() -> Expr:
    return Name("y") * Name(f"{WINDOW}stride_h") - Name(f"{WINDOW}pad_top")


def output_lets(k: Builder) -> tuple[Expr, Expr]:
    """The output, its columns to compute and its channels."""
    k.let("int8_t *", "out", "vmcu_output_start(call)")
    columns = k.columns()
    channels = k.let("const int32_t", "out_c", "vmcu_call_output(call)->channels")
    k.let("const int32_t", "y", "call->y")
    return columns, channels


def weight_bytes(taps: int, stride: int) -> int:
    """Weights of one channel in the stream, without the gap that aligns their end."""
    if taps == isa.SQUARE_TAPS:
        return 4 * taps
    last = taps if stride == 1 else (taps + 1) // 2
    return 2 * (taps // 2 * taps + last)


def gap(taps: int, stride: int) -> int:
    return -weight_bytes(taps, stride) % 4


def channel_bytes(taps: int, stride: int) -> int:
    """Of a channel in the stream: word, gap, weights, multiplier."""
    return 4 + gap(taps, stride) + weight_bytes(taps, stride) + 4


def tile_lets(k: Builder, taps: int, stride: int) -> None:
    """Words of the tile: those of even columns in two rows, of two rows, of a plane."""
    wide = Name("p->steps")
    first, *others = (wide + (count - 1) for count in isa.pair_counts(taps, stride))
    phase = k.define("phase", first)
    row = k.define("row", phase + others[0] if others else phase)
    k.define("plane", row * (taps // 2) + (wide * stride + (taps + 1 - stride)) // 2)


def tile_bytes(taps: int, stride: int, wide: int, pixels: int) -> int:
    """What a tile takes for strips of `wide` pixels, which a core may compute in blocks of so many
    `pixels` that hang over."""
    row = sum(wide + count - 1 for count in isa.pair_counts(taps, stride))
    plane = row * (taps // 2) + (wide * stride + taps + 1 - stride) // 2
    # Behind the last plane, those of the last row.
    over = -wide % pixels // 2 if stride == 1 else 0
    return (2 * plane + over) * 4


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

    def dot(self, acc: Registers, plane: Expr, x: Expr, odd: int) -> None:
        """The bias and all taps of the pixels from x on; the channel's words are at `plane`."""
        k, phase, row = self.k, Name("phase"), Name("row")
        counts = isa.pair_counts(self.taps, self.stride)
        last = plane + row * (self.taps // 2) + (x // 2 if self.stride == 1 else x)
        k.do(isa.bias_depthwise, acc, STREAM, gap(self.taps, self.stride))
        with k.reduce("r", self.taps // 2) as r:
            for number, count in enumerate(counts):
                place = plane + r * row + x
                place = place + phase if number else place
                k.do(isa.PAIR[count], acc, TILE, place, odd, STREAM)
        if self.stride == 1:
            k.do(isa.LINE[self.taps], acc, TILE, last, odd, STREAM)
        else:
            k.do(isa.PAIR[counts[0]], acc, TILE, last, odd, STREAM)

    def block(self, x: Expr, column: Expr, wide: Expr, c: Expr, lanes: Expr) -> None:
        """`lanes` channels from c on of `wide` pixels from `column` on, at x in the tile. A block
        may reach beyond its strip: what it computes there is not stored."""
        k = self.k
        k.rewind(STREAM, to_mark=True)
        patch = k.reg_alloc("patch", k.packing.pixels)
        with k.spatial("h", (lanes + 1) // 2) as h:
            for odd in (0, 1):
                acc = k.reg_alloc(f"acc{odd}", k.packing.pixels)
                self.dot(acc, h * Name("plane"), x, odd)
                size = channel_bytes(self.taps, self.stride) - 4
                k.do(isa.finish_depthwise, Name("p"), acc, STREAM, patch, h * 2 + odd, size)
        k.do(isa.store_patch, patch, target(column, wide, c, lanes), Name("out_c"), wide, lanes)

    def strip(self, x0: Expr, wide: Expr, c: Expr, lanes: Expr) -> None:
        """A strip of `wide` pixels from x0 on, whose taps are in the tile."""
        k = self.k
        if self.taps == isa.SQUARE_TAPS:
            words = (Name(name) for name in ("phase", "row", "plane"))
            sizes = Name("out_c"), wide, lanes
            place = target(x0, wide, c, lanes)
            k.do(square.SQUARE[self.stride], Name("p"), TILE, *words, STREAM, place, *sizes)
            return
        k.mark(STREAM)
        with k.strips("x", "left", wide, k.packing.pixels) as (x, left):
            self.block(x, x0 + x, left, c, lanes)


def target(x: Expr, wide: Expr, c: Expr, lanes: Expr) -> Ram:
    """Output of `wide` pixels and some channels."""
    return Ram("output", Name("y"), x, c, (Axis(1, wide, Int(1)), Axis(2, lanes, Int(1))))


def depthwise(packing: Packing, taps: int, stride: int) -> Program:
    summary = f"Depthwise convolution of {taps} x {taps} taps at a stride of {stride}."
    symbol = f"vmcu_depthwise_{taps}_{stride}{packing.suffix}"
    k = Builder(symbol, PARAMS, summary, packing=packing)
    kernel = Kernel(k, taps, stride)
    columns, channels = output_lets(k)
    tile_lets(k, taps, stride)
    k.let("struct vmcu_band", "in0", "")
    with k.strips("strip", "wide", columns, Name("p->steps")) as (turn, wide):
        x0 = k.along(turn, wide, columns)
        k.rewind(STREAM)
        with k.strips("c", "lanes", channels, isa.GROUP) as (c, lanes):
            source = kernel.window(x0, wide, c, lanes)
            k.do(isa.stage, TILE, source, Name("call"), wide, lanes)
            kernel.strip(x0, wide, c, lanes)

    return k.program()


def taps(packing: Packing) -> Program:
    """Any window, pixel by pixel. The outputs of a group read input channels that are `spread`
    apart: one apart where all channels are one group, none where a channel has a group of its
    own."""
    summary = "Depthwise convolution of any window, four channels of a pixel at a time."
    k = Builder(f"vmcu_depthwise_any{packing.suffix}", PARAMS, summary, packing=packing)
    columns, channels = output_lets(k)
    k.let("struct vmcu_places", "in0", "")
    groups, spread = k.define("groups", Name("p->groups")), k.define("spread", Name("p->run"))
    per_group = k.define("per_group", channels // groups)
    whole = k.define("whole", per_group // isa.GROUP)

    def source(x: Expr, first: Expr, lanes: Expr) -> Ram:
        axes = (
            Axis(0, Name(f"{WINDOW}kernel_h"), Name(f"{WINDOW}dilation_h")),
            Axis(1, Name(f"{WINDOW}kernel_w"), Name(f"{WINDOW}dilation_w")),
            Axis(2, lanes, Int(1)),
        )
        left = x * Name(f"{WINDOW}stride_w") - Name(f"{WINDOW}pad_left")
        return Ram(0, first_row(), left, first, axes, guarded=True)

    def target(x: Expr, first: Expr, lanes: Expr) -> Ram:
        return Ram("output", Name("y"), x, first, (Axis(2, lanes, Int(1)),))

    with k.spatial("x0", columns) as turn:
        x = k.along(turn, 1, columns)
        k.rewind(STREAM)
        k.do(places.find_taps, TILE, source(x, Int(0), Int(0)), Name("call"))
        with k.spatial("g", groups) as g:
            with k.spatial("q", whole) as q:
                acc, n = k.reg_alloc("acc", isa.GROUP), q * isa.GROUP
                taps = source(x, g + n * spread, spread * (isa.GROUP - 1) + 1)
                k.do(places.dot_taps, acc, taps, spread, STREAM)
                place = target(x, g * per_group + n, Int(isa.GROUP))
                k.do(places.store_taps, Name("p"), acc, STREAM, place)
            with k.strips("r", "lanes", per_group % isa.GROUP, isa.GROUP) as (r, lanes):
                acc, n = k.reg_alloc("acc", isa.GROUP), whole * isa.GROUP + r
                taps = source(x, g + n * spread, (lanes - 1) * spread + 1)
                k.do(places.dot_some_taps, acc, taps, lanes, spread, STREAM)
                place = target(x, g * per_group + n, lanes)
                k.do(places.store_some_taps, Name("p"), acc, STREAM, place, lanes)

    return k.program()


def programs(packing: Packing) -> list[Program]:
    made = [depthwise(packing, size, stride) for size in isa.TAPS for stride in isa.STRIDES]
    return [*made, taps(packing)]
