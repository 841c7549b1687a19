# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers, convolutions with one column of output and nothing to pad, and 1 x 1
convolutions that shall do without scratch.

The input is widened on the way, once for each four channels, instead of being kept. All taps of a
pixel are read for each four channels, then these are written.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from ..language.expr import Expr, Int, Name
from ..language.ir import LEFT, Axis, Builder, Program, Ram, Stream
from ..language.packing import Packing
from ..targets.portable import dense as isa

STREAM = Stream()


def dense(packing: Packing) -> Program:
    summary, lanes = "All taps of a pixel, four channels at a time.", packing.lanes
    k = Builder(f"vmcu_dense{packing.suffix}", "vmcu_mac_params", summary, packing=packing)
    k.let("int8_t *", "out", "vmcu_output_start(call)")
    columns = k.columns()
    channels = k.let("const int32_t", "out_c", "vmcu_call_output(call)->channels")
    k.let("const int32_t", "y", "call->y")
    steps = k.define("steps", Name("p->run") // lanes)
    rest = k.define("rest", Name("p->run") % lanes)

    def block(x: Expr, pointer: str, n: Expr, exact: bool) -> None:
        acc = k.reg_alloc("acc", packing.dense)
        k.do(isa.bias_dense, acc, STREAM)
        with k.reduce("r", Name("p->window.kernel_h")) as r:
            row = Name("y") * Name("p->window.stride_h") + r * Name("p->window.dilation_h")
            line = k.line("line", 0, row, x)

            def taps(first: Expr, count: Expr) -> Ram:
                axes = (Axis(2, count, Int(1)),)
                return Ram(0, row, x, first, axes, line=line)

            with k.reduce("s", steps, unroll=1 if exact else 2) as s:
                k.do(isa.dot_dense, acc, taps(s * lanes, Int(lanes)), STREAM)
            k.do(isa.dot_dense_tail, acc, taps(steps * lanes, rest), rest, STREAM)
        place = replace(target(x, n), guarded=exact, moving=pointer)
        if exact:
            k.do(isa.store_dense_any, Name("p"), acc, STREAM, place, LEFT)
        else:
            k.do(isa.store_dense_fixed, acc, STREAM, place)

    def target(x: Expr, channel: Expr) -> Ram:
        return Ram("output", Name("y"), x, channel, (Axis(2, Int(packing.dense), Int(1)),))

    @k.tiles("x", columns, (1,))
    def pixel(turn: Expr, pixels: int) -> None:
        x = k.along(turn, pixels, columns)
        k.rewind(STREAM)
        pointer = k.point("o", target(x, Int(0)))
        k.segments("n", channels, packing.dense, STREAM)(functools.partial(block, x, pointer))

    return k.program()


def programs(packing: Packing) -> list[Program]:
    return [dense(packing)]
