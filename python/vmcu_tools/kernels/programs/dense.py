# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers, and convolutions with one column of output and nothing to pad.

The input is used once per channel, so it is widened on the way instead of being kept: no scratch.
All taps are read for each four channels, then these are written.
"""

from __future__ import annotations

from dataclasses import replace

from ..isa.instructions import INSTRUCTIONS
from ..language.expr import Expr, Int, Name
from ..language.ir import LEFT, Axis, Builder, Program, Ram, Stream

STREAM = Stream()


def dense() -> Program:
    k = Builder("vmcu_dense", "vmcu_mac_params", "All taps, four channels at a time.")
    k.let("int8_t *", "out", "vmcu_row(call->pool, vmcu_call_output(call), call->y)")
    channels = k.let("const int32_t", "out_c", "vmcu_call_output(call)->channels")
    k.let("const int32_t", "y", "call->y")
    steps = k.define("steps", Name("p->run") // 4)
    rest = k.define("rest", Name("p->run") % 4)

    def block(n: Expr, exact: bool) -> None:
        acc = k.reg_alloc("acc", 4)
        k.do(INSTRUCTIONS["bias_dense"], acc, STREAM)
        with k.reduce("r", Name("p->window.kernel_h")) as r:
            row = Name("y") * Name("p->window.stride_h") + r * Name("p->window.dilation_h")
            line = k.line("line", 0, row)

            def taps(first: Expr, count: Expr) -> Ram:
                axes = (Axis(2, count, Int(1)),)
                return Ram(0, row, Int(0), first, axes, line=line)

            with k.reduce("s", steps, unroll=1 if exact else 2) as s:
                k.do(INSTRUCTIONS["dot_dense"], acc, taps(s * 4, Int(4)), STREAM)
            k.do(INSTRUCTIONS["dot_dense_tail"], acc, taps(steps * 4, rest), rest, STREAM)
        place = replace(target(n), guarded=exact, moving=pointer)
        if exact:
            k.do(INSTRUCTIONS["store_dense_any"], Name("p"), acc, STREAM, place, LEFT)
        else:
            k.do(INSTRUCTIONS["store_dense_fixed"], acc, STREAM, place)

    def target(channel: Expr) -> Ram:
        return Ram("output", Name("y"), Int(0), channel, (Axis(2, Int(4), Int(1)),))

    pointer = k.point("o", target(Int(0)))
    k.segments("n", channels, 4, STREAM)(block)
    return k.program()
