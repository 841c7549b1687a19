# SPDX-License-Identifier: Apache-2.0
"""Sums of two tensors, four bytes of a pixel at a time: both are read, then the sum is written.

`add` does with three multiplications a byte where the factors are those of TensorFlow Lite, whose
shifts all go to the right; `add_exact` takes any factor and range, byte by byte. `add_float` does
with two multiplications where ONNX Runtime's float32 does not come out near a half.
"""

from __future__ import annotations

from ..isa.pool_instructions import (
    ADD,
    ADD_FLOAT,
    BOUNDS,
    FLOAT_SUM,
    INSTRUCTIONS,
    STORE_BOUNDED,
    STORE_SUM,
    TERM,
    WIDTHS,
)
from ..language.expr import Expr, Int, Name
from ..language.ir import Axis, Builder, Program, Ram


def _begin(symbol: str, params: str, summary: str) -> tuple[Builder, Expr, Expr]:
    k = Builder(symbol, params, summary, inputs=2)
    k.let("int8_t *", "out", "vmcu_output_start(call)")
    for number in range(k.inputs):
        k.let("const int8_t *", f"in{number}", f"vmcu_input_start(call, {number})")
        k.let("const int32_t", f"in{number}_c", f"vmcu_call_input(call, {number})->channels")
    columns = k.columns()
    channels = k.let("const int32_t", "out_c", "vmcu_call_output(call)->channels")
    return k, columns, channels


def _bytes(tensor: int | str, x: Expr, c: Expr, count: int) -> Ram:
    return Ram(tensor, Name("y"), x, c, (Axis(2, Int(count), Int(1)),))


def add() -> Program:
    k, columns, channels = _begin(
        "vmcu_add", "vmcu_add_params", "Sum of two tensors, four bytes at a time."
    )
    # Copies: the compiler must not think that stores change them.
    inputs = [k.define(f"{t}_{name}", Name(f"p->{t}.{name}")) for t in "ab" for name in TERM]
    output = [k.define(name, Name(f"p->{name}")) for name in ("multiplier", "bias", "shift")]
    with k.spatial("x0", columns) as turn:
        x = k.along(turn, 1, columns)

        @k.tiles("c", channels, WIDTHS)
        def block(c: Expr, count: int) -> None:
            acc = k.reg_alloc("acc", count)
            sources = [_bytes(number, x, c, count) for number in (0, 1)]
            k.do(ADD[count], acc, *sources, *inputs)
            k.do(STORE_SUM[count], acc, _bytes("output", x, c, count), *output)

    return k.program()


def add_exact() -> Program:
    k, columns, channels = _begin(
        "vmcu_add_exact", "vmcu_add_exact_params", "Sum of two tensors, for any factors."
    )
    with k.spatial("x0", columns) as turn:
        x = k.along(turn, 1, columns)
        with k.spatial("c", channels) as c:
            acc = k.reg_alloc("acc", 1)
            sources = [_bytes(number, x, c, 1) for number in (0, 1)]
            k.do(INSTRUCTIONS["sum_exact"], Name("p"), acc, *sources)
            k.do(INSTRUCTIONS["store_sum_exact"], Name("p"), acc, _bytes("output", x, c, 1))

    return k.program()


def add_float() -> Program:
    k, columns, channels = _begin(
        "vmcu_add_float", "vmcu_add_float_params", "Sum of two tensors as float32 has it."
    )
    constants = [k.define(name, Name(f"p->sum.{name}")) for name in FLOAT_SUM]
    bounds = [k.define(name, Name(f"p->{name}")) for name in BOUNDS]
    with k.spatial("x0", columns) as turn:
        x = k.along(turn, 1, columns)

        @k.tiles("c", channels, WIDTHS)
        def block(c: Expr, count: int) -> None:
            acc = k.reg_alloc("acc", count)
            sources = [_bytes(number, x, c, count) for number in (0, 1)]
            k.do(ADD_FLOAT[count], Name("p"), acc, *sources, *constants)
            k.do(STORE_BOUNDED[count], acc, _bytes("output", x, c, count), *bounds)

    return k.program()


PROGRAMS = [add(), add_exact(), add_float()]
