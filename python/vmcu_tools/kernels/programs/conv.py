# SPDX-License-Identifier: Apache-2.0
"""Convolutions: a tile of pixels is widened, then met by a block of channels at a time: four pixels
by two channels, or, with half the scratch, two pixels by four channels.

Every byte of a tile's window is read before its first output byte is written; nothing is read
after. `pointwise` is the 1 x 1 kernel without stride or padding, which needs no window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..language.expr import Expr, Int, Name
from ..language.ir import LEFT, TAKEN, Axis, Builder, Program, Ram, Stream, Tile
from ..language.packing import Packing
from ..targets.portable.blocks import EXACT, NARROW, RUN, WIDE, Shape
from ..targets.portable.tile import GATHER, WIDEN

STREAM, TILE = Stream(), Tile()
PARAMS = "vmcu_mac_params"


def output_lets(k: Builder) -> tuple[Expr, Expr]:
    """The output, its columns to compute and its channels."""
    k.let("int8_t *", "out", "vmcu_output_start(call)")
    columns = k.columns()
    return columns, k.let("const int32_t", "out_c", "vmcu_call_output(call)->channels")


def channel_blocks(k: Builder, x: Expr, shape: Shape, first: Expr, channels: Expr) -> None:
    """All output channels first .. first + channels - 1 of the tile at pixel x."""
    y, size, pitch = Name("y"), shape.channels(k.packing), Name("out_c")

    def block(n: Expr, exact: bool) -> None:
        place = replace(target(first + n), guarded=True, moving=pointer)
        if exact:
            k.do(EXACT[shape], Name("p"), TILE, STREAM, place, pitch, LEFT)
        else:
            k.do(RUN[shape], Name("p"), TILE, STREAM, place, pitch, TAKEN)

    def target(channel: Expr) -> Ram:
        axes = (Axis(1, Int(shape.pixels), Int(1)), Axis(2, Int(size), Int(1)))
        # A block may hang over the group's end.
        return Ram("output", y, x, channel, axes, limit=first + channels)

    pointer = k.point("o", target(first))
    k.segments("n", channels, size, STREAM, runs=True)(block)


def pointwise(packing: Packing, name: str, shapes: Mapping[int, Shape]) -> Program:
    summary = f"1 x 1 convolution, {max(shapes)} pixels at a time."
    k = Builder(f"vmcu_{name}{packing.suffix}", PARAMS, summary, packing=packing)
    columns, channels = output_lets(k)
    k.let("const int8_t *", "in0", "vmcu_input_start(call, 0)")
    depth = k.let("const int32_t", "in0_c", "vmcu_call_input(call, 0)->channels")

    @k.tiles("x", columns, tuple(shapes))
    def tile(turn: Expr, pixels: int) -> None:
        x = k.along(turn, pixels, columns)
        axes = (Axis(1, Int(pixels), Int(1)), Axis(2, depth, Int(1)))
        source = Ram(0, Name("y"), x, Int(0), axes)
        k.do(WIDEN[pixels], TILE, source, depth)
        k.ram_free(source)
        k.rewind(STREAM)
        channel_blocks(k, x, shapes[pixels], Int(0), channels)

    return k.program()


def conv(packing: Packing, name: str, shapes: Mapping[int, Shape]) -> Program:
    summary = f"Convolution of any window and any groups, {max(shapes)} pixels at a time."
    k = Builder(f"vmcu_{name}{packing.suffix}", PARAMS, summary, packing=packing)
    columns, channels = output_lets(k)
    k.let("const struct vmcu_source", "in0", "vmcu_mac_source(call, p)")
    k.let("const int32_t", "y", "call->y")
    groups, depth = Name("p->groups"), Name("p->depth")
    per_group = k.define("per_group", channels // groups)

    def windows(x: Expr, pixels: int, channel: Expr) -> Ram:
        side = {axis: Name(f"p->window.{axis}") for axis in WINDOW_FIELDS}
        return Ram(
            0,
            Name("y") * side["stride_h"] - side["pad_top"],
            x * side["stride_w"] - side["pad_left"],
            channel,
            (
                Axis(0, side["kernel_h"], side["dilation_h"]),
                Axis(1, Int(pixels), side["stride_w"]),
                Axis(1, side["kernel_w"], side["dilation_w"]),
                Axis(2, depth, Int(1)),
            ),
            guarded=True,
        )

    @k.tiles("x", columns, tuple(shapes))
    def tile(turn: Expr, pixels: int) -> None:
        x = k.along(turn, pixels, columns)
        k.rewind(STREAM)
        with k.spatial("g", groups) as g:
            k.do(GATHER[pixels], TILE, windows(x, pixels, g * depth))
            channel_blocks(k, x, shapes[pixels], g * per_group, per_group)

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


def programs(packing: Packing) -> list[Program]:
    return [
        pointwise(packing, "pointwise", WIDE),
        pointwise(packing, "pointwise_narrow", NARROW),
        conv(packing, "conv", WIDE),
        conv(packing, "conv_narrow", NARROW),
    ]
