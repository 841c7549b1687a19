# SPDX-License-Identifier: Apache-2.0
"""Pooling: for each pixel, for each four channels, or as many as a vector of the packing has: all
taps are read, then the channels written."""

from __future__ import annotations

from ...quant import INT8_MIN
from ..language.builder import Builder, do
from ..language.expr import Expr, Int, Name
from ..language.ir import Axis, Program, Ram
from ..language.packing import WORDS, Packing
from ..targets.portable import pooling as isa

WINDOW = "p->window."


def pooling(name: str, summary: str, packing: Packing = WORDS) -> Program:
    group = packing.vector or isa.GROUP
    symbol = f"vmcu_{name}_pool{packing.suffix}"
    k = Builder(symbol, f"vmcu_{name}_pool_params", summary, packing=packing)
    k.let("int8_t *", "out", "vmcu_output_start(call)")
    columns = k.columns()
    channels = k.let("const int32_t", "out_c", "vmcu_call_output(call)->channels")
    k.let("const int32_t", "y", "call->y")
    k.let("const struct vmcu_source", "in0", "vmcu_window_source(call, &p->window)")
    side = {axis: Name(f"{WINDOW}{axis}") for axis in ("kernel_h", "kernel_w")}
    row = Name("y") * Name(f"{WINDOW}stride_h") - Name(f"{WINDOW}pad_top")
    across = Axis(1, side["kernel_w"], Name(f"{WINDOW}dilation_w"))
    with k.spatial("x0", columns, by=do(isa.POOLS[name], Name("call"))) as turn:
        x = k.along(turn, 1, columns)
        pixel = x * Name(f"{WINDOW}stride_w") - Name(f"{WINDOW}pad_left")
        if name == "average":
            shape = k.reg_alloc("shape", 2)
            k.do(isa.window_shape, shape, Name("p"), Name("call"), row, pixel)
        with k.strips("c", "lanes", channels, group) as (c, lanes):
            acc = k.reg_alloc("acc", group)
            axes = (across, Axis(2, lanes, Int(1)))
            place = Ram("output", Name("y"), x, c, (Axis(2, lanes, Int(1)),))

            def taps(r: Expr) -> Ram:
                line = row + r * Name(f"{WINDOW}dilation_h")
                return Ram(0, line, pixel, c, axes, guarded=True)

            k.do(isa.start_four, acc, 0 if name == "average" else INT8_MIN)
            with k.reduce("r", side["kernel_h"]) as r:
                k.do(isa.sum_taps if name == "average" else isa.most_of_taps, acc, taps(r), lanes)
            if name == "average":
                k.do(isa.store_mean, Name("p"), acc, shape, place, lanes)
            else:
                k.do(isa.store_most, Name("p"), acc, place, lanes)

    return k.program()


PROGRAMS = [
    pooling("average", "Mean over a window, four channels of a pixel at a time."),
    pooling("max", "Maximum over a window, four channels of a pixel at a time."),
]


def programs(packing: Packing) -> list[Program]:
    """Those of a packing that has vectors."""
    if not packing.has_pooling:
        return []
    channels = f"{packing.vector} channels of a pixel at a time."
    return [
        pooling("average", f"Mean over a window, {channels}", packing),
        pooling("max", f"Maximum over a window, {channels}", packing),
    ]
