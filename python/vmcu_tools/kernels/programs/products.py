# SPDX-License-Identifier: Apache-2.0
"""Products of activations: matrix product, chain of two.

A matrix is one row of a tensor, a line of the matrix a pixel of it; the rows of a tensor are a
batch. What lies between two products of a chain is one line, and it lives in scratch only.
"""

from __future__ import annotations

from collections.abc import Callable

from ..language.builder import Builder
from ..language.expr import Expr, Int, Name
from ..language.ir import Axis, Params, Program, Ram, Registers
from ..targets.portable import products as isa

# A stretch of a line: from a channel on, so many of them.
Line = Callable[[Expr, Expr], isa.Place]
Y = Name("y")


def line_of(tensor: int | str, pixel: Expr) -> Callable[[Expr, Expr], Ram]:
    return lambda first, count: Ram(tensor, Y, pixel, first, (Axis(2, count, Int(1)),))


def begin(symbol: str, params: str, inputs: int, summary: str) -> Builder:
    k = Builder(symbol, params, summary, small=True)
    k.let("int8_t *", "out", "vmcu_row(call->pool, vmcu_call_output(call), call->y)")
    k.let("const int32_t", "out_w", "vmcu_call_output(call)->width")
    k.let("const int32_t", "out_c", "vmcu_call_output(call)->channels")
    for index in range(inputs):
        k.let("const int8_t *", f"in{index}", f"vmcu_input_row(call, {index}, call->y)")
        k.let("const int32_t", f"in{index}_w", f"vmcu_call_input(call, {index})->width")
        k.let("const int32_t", f"in{index}_c", f"vmcu_call_input(call, {index})->channels")
    return k


def start(k: Builder, which: str, line: Line, depth: Expr) -> tuple[Registers, Expr]:
    """Where the sums of a line's products start, and the line's zero point."""
    at, zero = k.reg_alloc(f"{which}_start", 1), Name(f"p->{which}.x_zero")
    taps = line(Int(0), depth)
    k.do(isa.start_product, at, taps, depth, zero, Name(f"p->{which}.y_zero"))
    return at, zero


def times_columns(
    k: Builder, which: str, line: Line, depth: Expr, matrix: int, result: Line
) -> None:
    """result = line times the matrix, of which `depth` lines are read, channels side by side."""
    at, zero = start(k, which, line, depth)
    pitch = Name(f"in{matrix}_c")
    with k.strips("n", "lanes", pitch, isa.WIDE) as (n, lanes):
        acc = k.reg_alloc("acc", isa.WIDE)
        k.do(isa.BROADCAST[isa.WIDE], acc, at)
        axes = (Axis(1, depth, Int(1)), Axis(2, lanes, Int(1)))
        taps = line(Int(0), depth), Ram(matrix, Y, Int(0), n, axes)
        k.do(isa.dot_columns, acc, *taps, depth, pitch, lanes, zero)
        k.do(isa.STORE_PRODUCT[isa.WIDE], Params(which), acc, result(n, lanes), lanes)


def times_rows(k: Builder, which: str, line: Line, depth: Expr, matrix: int, result: Line) -> None:
    """result = line times the transposed matrix: a sum for each of the matrix's lines."""
    at, zero = start(k, which, line, depth)
    with k.spatial("n", Name(f"in{matrix}_w")) as n:
        acc = k.reg_alloc("acc", 1)
        k.do(isa.BROADCAST[1], acc, at)
        taps = line(Int(0), depth), line_of(matrix, n)(Int(0), depth)
        k.do(isa.dot_rows, acc, *taps, depth, zero)
        k.do(isa.STORE_PRODUCT[1], Params(which), acc, result(n, Int(1)), 1)


def matmul(transposed: bool) -> Program:
    what = " with the second matrix transposed" if transposed else ""
    name = "vmcu_matmul_transposed" if transposed else "vmcu_matmul"
    k = begin(name, "vmcu_matmul_params", 2, f"Product of two matrices{what}, line by line.")
    times = times_rows if transposed else times_columns
    with k.spatial("x", Name("out_w")) as x:
        line = line_of(0, x)
        times(k, "product", line, Name("in0_c"), 1, line_of("output", x))
        k.ram_free(line(Int(0), Name("in0_c")))
    return k.program()


PROGRAMS = [matmul(False), matmul(True)]
