# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers, convolutions with one column of output and nothing to pad beside it, and
1 x 1 convolutions that shall do without scratch.

The input is widened on the way, once for each four channels, instead of being kept. All taps of a
pixel are read for each four channels, then these are written.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from ..language.builder import Builder, do
from ..language.expr import Expr, Int, Name
from ..language.ir import APART, LEFT, TAKEN, Axis, Program, Ram, Stream
from ..language.packing import Packing
from ..targets.portable import dense as isa

STREAM = Stream()


def dense(packing: Packing) -> Program:
    summary, size = "All taps of a pixel, four channels at a time.", packing.dense
    symbol = f"vmcu_dense{packing.suffix}"
    k = Builder(symbol, "vmcu_mac_params", summary, packing=packing, small=packing.paired)
    k.let("int8_t *", "out", "vmcu_output_start(call)")
    columns = k.columns()
    channels = k.let("const int32_t", "out_c", "vmcu_call_output(call)->channels")
    k.let("const struct vmcu_source", "in0", "vmcu_dense_source(call, p)")
    k.let("const int32_t", "y", "call->y")
    rows = Axis(0, Name("p->window.kernel_h"), Name("p->window.dilation_h"))
    taps = Axis(2, Name("p->run"), Int(1))

    def block(x: Expr, pointer: str, n: Expr, exact: bool) -> None:
        row = Name("y") * Name("p->window.stride_h") - Name("p->window.pad_top")
        source = Ram(0, row, x, Int(0), (rows, taps), guarded=True)
        place = replace(target(x, n), guarded=True, limit=channels, moving=pointer)
        if not exact:
            k.do(isa.run_dense, Name("p"), source, STREAM, place, TAKEN)
            return
        acc = k.reg_alloc("acc", size)
        k.do(isa.sums_dense, Name("p"), acc, source, STREAM, APART)
        k.do(isa.store_dense_any, Name("p"), acc, STREAM, place, LEFT)

    def target(x: Expr, channel: Expr) -> Ram:
        return Ram("output", Name("y"), x, channel, (Axis(2, Int(size), Int(1)),))

    @k.tiles("x", columns, (1,))
    def pixel(turn: Expr, pixels: int) -> None:
        x = k.along(turn, pixels, columns)
        k.rewind(STREAM)
        pointer = k.point("o", target(x, Int(0)))
        k.segments("n", channels, size, STREAM, runs=True)(functools.partial(block, x, pointer))

    return k.program()


def per_tensor(packing: Packing) -> Program:
    """Whole blocks of whole turns of taps of a single column, all of which the fast requantiser
    serves with one factor. The stream has biases and weights."""
    symbol, size = f"vmcu_dense_per_tensor{packing.suffix}", packing.dense
    summary = "All taps of a pixel, four channels at a time, with one factor."
    k = Builder(symbol, "vmcu_dense_per_tensor_params", summary, packing=packing)
    k.let("const int8_t *", "in0", "vmcu_input_row(call, 0, call->y)")
    k.let("int8_t *", "out", "vmcu_output_start(call)")
    depth = k.let("const int32_t", "in0_c", "vmcu_call_input(call, 0)->channels")
    channels = k.let("const int32_t", "out_c", "vmcu_call_output(call)->channels")
    y, p = Name("y"), Name("p")
    source = Ram(0, y, Int(0), Int(0), (Axis(2, depth, Int(1)),))

    def target(n: Expr) -> Ram:
        return Ram("output", y, Int(0), n, (Axis(2, Int(size), Int(1)),))

    made = do(isa.run_dense_per_tensor, p, source, depth, STREAM, target(Int(0)), channels)
    with k.spatial("n", channels, size, by=made) as n:
        acc = k.reg_alloc("acc", size)
        k.do(isa.sums_dense_whole, acc, source, depth, STREAM)
        k.do(isa.store_dense_per_tensor, p, acc, target(n))
    return k.program()


def programs(packing: Packing) -> list[Program]:
    if packing.paired:
        return [dense(packing)]
    return [dense(packing), per_tensor(packing)]
