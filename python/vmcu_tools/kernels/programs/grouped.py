# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers whose weights of 4 bits have a scale for each group of taps.

All taps of a pixel are read for each four channels, then these are written.
"""

from __future__ import annotations

from dataclasses import replace

from ..language.builder import Builder
from ..language.expr import Expr, Int, Name
from ..language.instruction import Instruction
from ..language.ir import Axis, Program, Ram, Stream
from ..language.packing import Packing
from ..targets.portable import grouped as isa
from ..targets.portable.dense import store_dense_any

STREAM = Stream()


def grouped(name: str, bits: int, sums: Instruction, packing: Packing) -> Program:
    """The kernel of multipliers of so many bits."""
    zeros = " zero points," if sums is isa.sums_zeros else ""
    summary = f"Taps of a pixel in groups,{zeros} multipliers of {bits} bits, four channels a time."
    symbol, size = f"vmcu_{name}{packing.suffix}", packing.dense
    k = Builder(symbol, "vmcu_mac_params", summary, packing=packing, small=bits == 16)
    k.let("int8_t *", "out", "vmcu_output_start(call)")
    columns = k.columns()
    channels = k.let("const int32_t", "out_c", "vmcu_call_output(call)->channels")
    k.let("const struct vmcu_source", "in0", "vmcu_dense_source(call, p)")
    y = k.let("const int32_t", "y", "call->y")

    def target(x: Expr, channel: Expr) -> Ram:
        axes = (Axis(2, Int(size), Int(1)),)
        return Ram("output", y, x, channel, axes, guarded=True, limit=channels)

    @k.tiles("x", columns, (1,))
    def pixel(turn: Expr, pixels: int) -> None:
        x = k.along(turn, pixels, columns)
        source = Ram(0, y, x, Int(0), (Axis(2, Name("p->run"), Int(1)),), guarded=True)
        k.rewind(STREAM)
        pointer = k.point("o", target(x, Int(0)))
        with k.strips("n", "lanes", channels, size) as (n, lanes):
            acc = k.reg_alloc("acc", size)
            k.do(sums, Name("p"), acc, source, STREAM)
            place = replace(target(x, n), moving=pointer)
            k.do(store_dense_any, Name("p"), acc, STREAM, place, lanes)

    return k.program()


def programs(packing: Packing) -> list[Program]:
    if not packing.has_groups:
        return []
    return [
        grouped("grouped", 8, isa.sums_coarse, packing),
        grouped("grouped_fine", 16, isa.sums_fine, packing),
        grouped("grouped_zeros", 16, isa.sums_zeros, packing),
    ]
