# SPDX-License-Identifier: Apache-2.0
"""Sums of two tensors: some bytes of both are read, then as many sums are written.

`add` takes two multiplications, where a line through the integers gives the right byte for each
pair (integer_sum.py). `add_exact` has TensorFlow Lite's arithmetic, for any factor and range,
`add_float` ONNX Runtime's: two multiplications, and a call where float32 may round either way.
"""

from __future__ import annotations

from ..language.builder import Builder, do
from ..language.expr import Expr, Int, Name
from ..language.ir import Axis, Program, Ram
from ..language.packing import WORDS, Packing
from ..targets.portable import sums


def _begin(
    symbol: str, params: str, summary: str, packing: Packing = WORDS
) -> tuple[Builder, Expr, Expr]:
    k = Builder(symbol, params, summary, packing=packing)
    k.let("int8_t *", "out", "vmcu_output_start(call)")
    for number in (0, 1):
        k.let("const int8_t *", f"in{number}", f"vmcu_input_start(call, {number})")
        k.let("const int32_t", f"in{number}_c", f"vmcu_call_input(call, {number})->channels")
    columns = k.columns()
    channels = k.let("const int32_t", "out_c", "vmcu_call_output(call)->channels")
    return k, columns, channels


def _bytes(tensor: int | str, x: Expr, c: Expr, width: int = 1, moving: str | None = None) -> Ram:
    return Ram(tensor, Name("y"), x, c, (Axis(2, Int(width), Int(1)),), moving=moving)


def add(packing: Packing = WORDS) -> Program:
    symbol, summary = f"vmcu_add{packing.suffix}", "Sum of two tensors by a line."
    k, columns, channels = _begin(symbol, "vmcu_add_params", summary, packing)
    # Copies: the compiler must not think that stores change them.
    scales = [k.define(name, Name(f"p->{name}")) for name in ("a_scale", "b_scale", "bias")]
    shift = k.define("shift", Name("p->shift"))

    by = do(sums.add_vectors, Name("call")) if packing.vector else None
    with k.spatial("x0", columns, by=by) as turn:
        x = k.along(turn, 1, columns)
        a, b = (k.point(name, _bytes(n, x, Int(0))) for n, name in enumerate("ab"))
        out = k.point("o", _bytes("output", x, Int(0)))

        @k.tiles("c", channels, sums.WIDTHS)
        def block(c: Expr, width: int) -> None:
            acc = k.reg_alloc("acc", width)
            sources = (_bytes(n, x, c, width, name) for n, name in enumerate((a, b)))
            k.do(sums.ADD_LINE[width], acc, *sources, *scales)
            k.do(sums.STORE_LINE[width], acc, _bytes("output", x, c, width, out), shift)

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


def programs(packing: Packing) -> list[Program]:
    """Those of a packing that has vectors."""
    return [add(packing)] if packing.has_pooling else []
