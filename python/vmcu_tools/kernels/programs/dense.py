# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers, convolutions with one column of output and nothing to pad, and 1 x 1
convolutions that shall do without scratch.

The input is widened on the way, once for each four channels, instead of being kept. All taps of a
pixel are read for each four channels, then these are written.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from ..isa.instructions import COMPOUND, INSTRUCTIONS
from ..language.expr import Expr, Int, Name
from ..language.ir import LEFT, Axis, Builder, Program, Ram, Stream

STREAM = Stream()


def dense() -> Program:
    k = Builder("vmcu_dense", "vmcu_mac_params", "All taps of a pixel, four channels at a time.")
    k.let("int8_t *", "out", "vmcu_output_start(call)")
    columns = k.columns()
    channels = k.let("const int32_t", "out_c", "vmcu_call_output(call)->channels")
    k.let("const int32_t", "y", "call->y")
    steps = k.define("steps", Name("p->run") // 4)
    rest = k.define("rest", Name("p->run") % 4)

    def block(x: Expr, pointer: str, n: Expr, exact: bool) -> None:
        acc = k.reg_alloc("acc", 4)
        k.do(INSTRUCTIONS["bias_dense"], acc, STREAM)
        with k.reduce("r", Name("p->window.kernel_h")) as r:
            row = Name("y") * Name("p->window.stride_h") + r * Name("p->window.dilation_h")
            line = k.line("line", 0, row, x)

            def taps(first: Expr, count: Expr) -> Ram:
                axes = (Axis(2, count, Int(1)),)
                return Ram(0, row, x, first, axes, line=line)

            with k.reduce("s", steps, unroll=1 if exact else 2) as s:
                k.do(INSTRUCTIONS["dot_dense"], acc, taps(s * 4, Int(4)), STREAM)
            k.do(INSTRUCTIONS["dot_dense_tail"], acc, taps(steps * 4, rest), rest, STREAM)
        place = replace(target(x, n), guarded=exact, moving=pointer)
        if exact:
            k.do(COMPOUND["store_dense_any"], Name("p"), acc, STREAM, place, LEFT)
        else:
            k.do(INSTRUCTIONS["store_dense_fixed"], acc, STREAM, place)

    def target(x: Expr, channel: Expr) -> Ram:
        return Ram("output", Name("y"), x, channel, (Axis(2, Int(4), Int(1)),))

    @k.tiles("x", columns, (1,))
    def pixel(turn: Expr, pixels: int) -> None:
        x = k.along(turn, pixels, columns)
        k.rewind(STREAM)
        pointer = k.point("o", target(x, Int(0)))
        k.segments("n", channels, 4, STREAM)(functools.partial(block, x, pointer))

    return k.program()
