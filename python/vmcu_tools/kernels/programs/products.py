# SPDX-License-Identifier: Apache-2.0
"""Products of two matrices of activations.

A matrix is one row of a tensor, a line of the matrix a pixel of it; the rows of a tensor are a
batch.
"""

from __future__ import annotations

from collections.abc import Callable

from ..language.builder import Builder
from ..language.expr import Expr, Int, Name
from ..language.ir import Axis, Params, Program, Ram, Registers
from ..targets.portable import products as isa

# A stretch of a line: from a channel on, so many of them.
Line = Callable[[Expr, Expr], Ram]
Y = Name("y")


def line_of(tensor: int | str, pixel: Expr) -> Callable[[Expr, Expr], Ram]:
    return lambda first, count: Ram(tensor, Y, pixel, first, (Axis(2, count, Int(1)),))


def start(k: Builder, line: Line, depth: Expr) -> tuple[Registers, Expr]:
    """Returns the start of the sums of a line's products, and the line's zero point."""
    at, zero = k.reg_alloc("product_start", 1), Name("p->product.x_zero")
    taps = line(Int(0), depth)
    k.do(isa.start_product, at, taps, depth, zero, Name("p->product.y_zero"))
    return at, zero


def times_columns(k: Builder, line: Line, depth: Expr, result: Line) -> None:
    """result = line times the second matrix, of which `depth` lines are read, channels side by
    side."""
    at, zero = start(k, line, depth)
    pitch = Name("in1_c")
    with k.strips("n", "lanes", pitch, isa.WIDE) as (n, lanes):
        acc = k.reg_alloc("acc", isa.WIDE)
        k.do(isa.BROADCAST[isa.WIDE], acc, at)
        axes = (Axis(1, depth, Int(1)), Axis(2, lanes, Int(1)))
        taps = line(Int(0), depth), Ram(1, Y, Int(0), n, axes)
        k.do(isa.dot_columns, acc, *taps, depth, pitch, lanes, zero)
        k.do(isa.STORE_PRODUCT[isa.WIDE], Params("product"), acc, result(n, lanes), lanes)


def times_rows(k: Builder, line: Line, depth: Expr, result: Line) -> None:
    """result = line times the transposed second matrix: a sum for each of the matrix's lines."""
    at, zero = start(k, line, depth)
    with k.spatial("n", Name("in1_w")) as n:
        acc = k.reg_alloc("acc", 1)
        k.do(isa.BROADCAST[1], acc, at)
        taps = line(Int(0), depth), line_of(1, n)(Int(0), depth)
        k.do(isa.dot_rows, acc, *taps, depth, zero)
        k.do(isa.STORE_PRODUCT[1], Params("product"), acc, result(n, Int(1)), 1)


def matmul(transposed: bool) -> Program:
    what = " with the second matrix transposed" if transposed else ""
    name = "vmcu_matmul_transposed" if transposed else "vmcu_matmul"
    summary = f"Product of two matrices{what}, line by line."
    k = Builder(name, "vmcu_matmul_params", summary, small=True)
    k.let("int8_t *", "out", "vmcu_row(call->pool, vmcu_call_output(call), call->y)")
    k.let("const int32_t", "out_w", "vmcu_call_output(call)->width")
    k.let("const int32_t", "out_c", "vmcu_call_output(call)->channels")
    for index in (0, 1):
        k.let("const int8_t *", f"in{index}", f"vmcu_input_row(call, {index}, call->y)")
        k.let("const int32_t", f"in{index}_w", f"vmcu_call_input(call, {index})->width")
        k.let("const int32_t", f"in{index}_c", f"vmcu_call_input(call, {index})->channels")
    times = times_rows if transposed else times_columns
    with k.spatial("x", Name("out_w")) as x:
        line = line_of(0, x)
        times(k, line, Name("in0_c"), line_of("output", x))
        k.ram_free(line(Int(0), Name("in0_c")))
    return k.program()


PROGRAMS = [matmul(False), matmul(True)]
