# SPDX-License-Identifier: Apache-2.0
"""Instructions of products of two activations.

The sum of (x - x_zero)(y - y_zero) is that of (x - x_zero) y, less y_zero times that of
(x - x_zero). The second part depends on x alone: accumulators start there, and y is used as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ....quant import FixedPoint, requantize, wrap_int32
from ...integer_scale import IntegerScale
from ...language.evaluate import Machine
from ...language.instruction import Instruction
from ...language.ir import Ram
from .registry import compound, define

# Channels that are summed side by side where the second operand is read down its columns.
WIDE = 4
SEVERAL = {WIDE: "four channels", 1: "one channel"}
OPERANDS = "int32_t *acc, const int8_t *x, const int8_t *y"


@define(
    "RAMLoad",
    "int32_t *start, const int8_t *x, int32_t count, int32_t x_zero, int32_t y_zero",
    "start[0] = vmcu_product_start(x, count, x_zero, y_zero);",
)
def start_product(
    m: Machine, start: np.ndarray, x: Ram, count: int, x_zero: int, y_zero: int
) -> None:
    """Computes the start of sums of products with these taps, so that y needs no zero point."""
    start[0] = -y_zero * (m.load(x) - x_zero).sum()


@compound(
    "Dot",
    f"{OPERANDS}, int32_t count, int32_t x_zero",
    "acc[0] = vmcu_product_row(acc[0], x, y, count, x_zero);",
)
def dot_rows(m: Machine, acc: np.ndarray, x: Ram, y: Ram, count: int, x_zero: int) -> None:
    """`count` taps times as many taps, summed."""
    acc += ((m.load(x) - x_zero) * m.load(y)).sum()


@compound(
    "Dot",
    f"{OPERANDS}, int32_t count, int32_t pitch, int32_t lanes, int32_t x_zero",
    """
int32_t sums[] = {acc[0], acc[1], acc[2], acc[3]};

vmcu_product_columns(sums, x, y, count, pitch, lanes, x_zero);
acc[0] = sums[0];
acc[1] = sums[1];
acc[2] = sums[2];
acc[3] = sums[3];
""",
)
def dot_columns(
    m: Machine,
    acc: np.ndarray,
    x: Ram,
    y: Ram,
    count: int,
    pitch: int,
    lanes: int,
    x_zero: int,
) -> None:
    """`count` taps times as many rows of up to four channels, `pitch` bytes apart."""
    acc[:lanes] += (m.load(x) - x_zero) @ m.load(y)


@define(
    "Dot",
    f"{OPERANDS}, int32_t x_zero",
    "\n".join(f"acc[0] = vmcu_mac(acc[0], x[{i}] - x_zero, y[{i}]);" for i in range(4)),
)
def dot_row_4(m: Machine, acc: np.ndarray, x: Ram, y: Ram, x_zero: int) -> None:
    """Four taps times four taps, summed."""
    dot_rows.meaning(m, acc, x, y, 4, x_zero)


@define(
    "Dot",
    OPERANDS,
    "\n".join(
        f"acc[{n}] = vmcu_mac(acc[{n}], x[{i}], y[{WIDE * n + i}]);"
        for i in range(4)
        for n in range(WIDE)
    ),
)
def dot_rows_4(m: Machine, acc: np.ndarray, x: Ram, y: Ram) -> None:
    """Four taps times four rows of four taps, one row after the other."""
    acc += m.load(y).reshape(WIDE, -1) @ m.load(x)


@define(
    "Dot",
    f"{OPERANDS}, int32_t x_zero",
    "const int32_t tap = x[0] - x_zero;\n\n"
    + "\n".join(f"acc[{n}] = vmcu_mac(acc[{n}], tap, y[{n}]);" for n in range(WIDE)),
)
def dot_column_4(m: Machine, acc: np.ndarray, x: Ram, y: Ram, x_zero: int) -> None:
    """One tap times a row of four channels."""
    acc += (m.load(x) - x_zero) * m.load(y)


def _broadcast(width: int) -> Instruction:
    text = "\n".join(f"acc[{n}] = start[0];" for n in range(width))
    parameters = "int32_t *acc, const int32_t *start"

    @define("Broadcast", parameters, text, width, SEVERAL[width])
    def broadcast(m: Machine, acc: np.ndarray, start: np.ndarray) -> None:
        """Starts the sums of {what} at one value."""
        acc[:] = start[0]

    return broadcast


def _store_product(width: int) -> Instruction:
    # A call, with a copy of the accumulators: their own address must not escape from registers.
    sums = ", ".join(f"acc[{n}]" for n in range(width))
    text = f"const int32_t sums[] = {{{sums}}};\n\nvmcu_product_store(q, sums, out, lanes);"
    parameters = "const struct vmcu_product *q, const int32_t *acc, int8_t *out, int32_t lanes"

    @define("RAMStore", parameters, text, width, SEVERAL[width])
    def store_product(
        m: Machine, q: Mapping[str, int], acc: np.ndarray, out: Ram, lanes: int
    ) -> None:
        """Requantises and stores up to {what}."""
        constants = np.array([q["multiplier"]]), np.array([q["shift"]])
        requant: Any = IntegerScale(*constants) if q["is_float"] else FixedPoint(*constants)
        limits = q["output_zero"], q["act_min"], q["act_max"]
        m.store(out, requantize(wrap_int32(acc[:lanes]), requant, *limits))

    return store_product


BROADCAST = {width: _broadcast(width) for width in SEVERAL}
STORE_PRODUCT = {width: _store_product(width) for width in SEVERAL}
