# SPDX-License-Identifier: Apache-2.0
"""Sums of two tensors, byte by byte: both are read, then the sum is written.

`add` does with three multiplications where the factors are those of TensorFlow Lite, whose shifts
all go to the right; `add_exact` takes any factor and range. `add_float` has ONNX Runtime's
arithmetic: two multiplications, and a call where float32 may round either way.
"""

from __future__ import annotations

from ..language.expr import Expr, Int, Name
from ..language.ir import Axis, Builder, Program, Ram
from ..targets.portable import sums


def _begin(symbol: str, params: str, summary: str) -> tuple[Builder, Expr, Expr]:
    k = Builder(symbol, params, summary, inputs=2)
    k.let("int8_t *", "out", "vmcu_output_start(call)")
    for number in range(k.inputs):
        k.let("const int8_t *", f"in{number}", f"vmcu_input_start(call, {number})")
        k.let("const int32_t", f"in{number}_c", f"vmcu_call_input(call, {number})->channels")
    columns = k.columns()
    channels = k.let("const int32_t", "out_c", "vmcu_call_output(call)->channels")
    return k, columns, channels


def _bytes(tensor: int | str, x: Expr, c: Expr) -> Ram:
    return Ram(tensor, Name("y"), x, c, (Axis(2, Int(1), Int(1)),))


def add() -> Program:
    k, columns, channels = _begin(
        "vmcu_add", "vmcu_add_params", "Sum of two tensors in fixed point."
    )
    # Copies: the compiler must not think that stores change them.
    inputs = [k.define(f"{t}_{name}", Name(f"p->{t}.{name}")) for t in "ab" for name in sums.TERM]
    output = [k.define(name, Name(f"p->{name}")) for name in ("multiplier", "bias", "shift")]
    with k.spatial("x0", columns) as turn:
        x = k.along(turn, 1, columns)

        with k.spatial("c", channels) as c:
            acc = k.reg_alloc("acc", 1)
            sources = [_bytes(number, x, c) for number in (0, 1)]
            k.do(sums.add_terms, acc, *sources, *inputs)
            k.do(sums.store_sum, acc, _bytes("output", x, c), *output)

    return k.program()


def add_exact() -> Program:
    k, columns, channels = _begin(
        "vmcu_add_exact", "vmcu_add_exact_params", "Sum of two tensors, for any factors."
    )
    with k.spatial("x0", columns) as turn:
        x = k.along(turn, 1, columns)
        with k.spatial("c", channels) as c:
            acc = k.reg_alloc("acc", 1)
            sources = [_bytes(number, x, c) for number in (0, 1)]
            k.do(sums.sum_exact, Name("p"), acc, *sources)
            k.do(sums.store_sum_exact, Name("p"), acc, _bytes("output", x, c))

    return k.program()


def add_float() -> Program:
    k, columns, channels = _begin(
        "vmcu_add_float", "vmcu_add_float_params", "Sum of two tensors as float32 has it."
    )
    constants = [k.define(name, Name(f"p->sum.{name}")) for name in sums.FLOAT_SUM]
    bounds = [k.define(name, Name(f"p->{name}")) for name in sums.BOUNDS]
    with k.spatial("x0", columns) as turn:
        x = k.along(turn, 1, columns)

        with k.spatial("c", channels) as c:
            acc = k.reg_alloc("acc", 1)
            sources = [_bytes(number, x, c) for number in (0, 1)]
            k.do(sums.sum_float, Name("p"), acc, *sources, *constants)
            k.do(sums.store_bounded, acc, _bytes("output", x, c), *bounds)

    return k.program()


PROGRAMS = [add(), add_exact(), add_float()]
