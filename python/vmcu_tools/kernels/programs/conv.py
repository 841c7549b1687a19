# SPDX-License-Identifier: Apache-2.0
"""Convolutions: a tile of pixels is widened, then met by a block of channels at a time: four pixels
by two channels, or, with half the scratch, two pixels by four channels.

Every byte of a tile's window is read before its first output byte is written; nothing is read
after. `pointwise` is the 1 x 1 kernel without stride or padding, which needs no window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..language.builder import Builder, do
from ..language.expr import Expr, Int, Name
from ..language.instruction import Instruction
from ..language.ir import LEFT, TAKEN, Axis, Program, Ram, Stream, Tile
from ..language.packing import Packing
from ..targets.portable import blocks, blocks_all, shapes, vectors
from ..targets.portable.shapes import Shape
from ..targets.portable.tile import gather, widen

STREAM, TILE = Stream(), Tile()
PARAMS = "vmcu_mac_params"


def output_lets(k: Builder) -> tuple[Expr, Expr]:
    """The output, its columns to compute and its channels."""
    k.let("int8_t *", "out", "vmcu_output_start(call)")
    columns = k.columns()
    return columns, k.let("const int32_t", "out_c", "vmcu_call_output(call)->channels")


@dataclass(frozen=True)
class Tiles:
    """The blocks of a kernel: their shapes by pixels, and the instructions for these: fast ones,
    an exact one, all of a tile."""

    shapes: Mapping[int, Shape]
    run: Instruction
    exact: Instruction
    all: Instruction


def channel_blocks(
    k: Builder, tiles: Tiles, x: Expr, pixels: Expr, first: Expr, channels: Expr
) -> None:
    """All output channels first .. first + channels - 1 of the tile of `pixels` at pixel x."""
    y, size = Name("y"), tiles.shapes[1].channels(k.packing)

    def block(n: Expr, exact: bool) -> None:
        place = replace(target(first + n), guarded=True)
        made, count = (tiles.exact, LEFT) if exact else (tiles.run, TAKEN)
        k.do(made, Name("p"), TILE, STREAM, place, Name("out_c"), count, pixels)

    def target(channel: Expr) -> Ram:
        axes = (Axis(1, pixels, Int(1)), Axis(2, Int(size), Int(1)))
        # A block may hang over the group's end.
        return Ram("output", y, x, channel, axes, limit=first + channels)

    made = do(tiles.all, Name("p"), TILE, STREAM, target(first), Name("out_c"), pixels)
    k.segments("n", channels, size, STREAM, runs=True, by=made)(block)


def pointwise(packing: Packing, name: str, tiles: Tiles) -> Program:
    summary = f"1 x 1 convolution, {max(tiles.shapes)} pixels at a time."
    k = Builder(
        f"vmcu_{name}{packing.suffix}", PARAMS, summary, packing=packing, small=packing.paired
    )
    columns, channels = output_lets(k)
    k.let("const int8_t *", "in0", "vmcu_input_start(call, 0)")
    depth = k.let("const int32_t", "in0_c", "vmcu_call_input(call, 0)->channels")

    with k.spans("x", "pixels", columns, tuple(tiles.shapes)) as (turn, pixels):
        x = k.along(turn, pixels, columns)
        axes = (Axis(1, pixels, Int(1)), Axis(2, depth, Int(1)))
        source = Ram(0, Name("y"), x, Int(0), axes)
        k.do(widen, TILE, source, depth, pixels)
        k.ram_free(source)
        k.rewind(STREAM)
        channel_blocks(k, tiles, x, pixels, Int(0), channels)

    return k.program()


def conv(packing: Packing, name: str, tiles: Tiles) -> Program:
    summary = f"Convolution of any window and any groups, {max(tiles.shapes)} pixels at a time."
    k = Builder(
        f"vmcu_{name}{packing.suffix}", PARAMS, summary, packing=packing, small=packing.paired
    )
    columns, channels = output_lets(k)
    k.let("const struct vmcu_source", "in0", "vmcu_conv_source(call, p)")
    k.let("const int32_t", "y", "call->y")
    groups, depth = Name("p->groups"), Name("p->depth")
    per_group = k.define("per_group", channels // groups)

    def windows(x: Expr, pixels: Expr, channel: Expr) -> Ram:
        side = {axis: Name(f"p->window.{axis}") for axis in WINDOW_FIELDS}
        return Ram(
            0,
            Name("y") * side["stride_h"] - side["pad_top"],
            x * side["stride_w"] - side["pad_left"],
            channel,
            (
                Axis(0, side["kernel_h"], side["dilation_h"]),
                Axis(1, pixels, side["stride_w"]),
                Axis(1, side["kernel_w"], side["dilation_w"]),
                Axis(2, depth, Int(1)),
            ),
            guarded=True,
        )

    wide = packing.vector and tiles is WIDE_TILES
    by = do(vectors.all_tiles, Name("call")) if wide else None
    with k.spans("x", "pixels", columns, tuple(tiles.shapes), by) as (turn, pixels):
        x = k.along(turn, pixels, columns)
        k.rewind(STREAM)
        with k.spatial("g", groups) as g:
            k.do(gather, TILE, windows(x, pixels, g * depth), pixels)
            channel_blocks(k, tiles, x, pixels, g * per_group, per_group)

    return k.program()


WINDOW_FIELDS = (
    "kernel_h",
    "kernel_w",
    "stride_h",
    "stride_w",
    "dilation_h",
    "dilation_w",
    "pad_top",
    "pad_left",
)


WIDE_TILES = Tiles(shapes.WIDE, blocks.RUN_WIDE, blocks.EXACT_WIDE, blocks_all.BLOCKS_WIDE)
NARROW_TILES = Tiles(
    shapes.NARROW, blocks.RUN_NARROW, blocks.EXACT_NARROW, blocks_all.BLOCKS_NARROW
)


def programs(packing: Packing) -> list[Program]:
    return [
        pointwise(packing, "pointwise", WIDE_TILES),
        pointwise(packing, "pointwise_narrow", NARROW_TILES),
        conv(packing, "conv", WIDE_TILES),
        conv(packing, "conv_narrow", NARROW_TILES),
    ]
