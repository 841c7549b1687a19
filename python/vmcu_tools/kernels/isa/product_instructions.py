# SPDX-License-Identifier: Apache-2.0
"""What the instructions of products of two activations mean.

The sum of (x - x_zero)(y - y_zero) is that of (x - x_zero) y, less y_zero times that of
(x - x_zero). The second part depends on x alone: accumulators start there, and y is used as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...quant import FixedPoint, requantize, wrap_int32
from ..integer_scale import IntegerScale
from ..language.evaluate import Machine
from ..language.instruction import Instruction, instruction
from ..language.ir import Kept, Ram
from ..softmax import softmax_tflite
from .instructions import COMPOUND, INSTRUCTIONS

# Channels that are summed side by side where the second operand is read down its columns.
WIDE = 4
Place = Ram | Kept

BROADCAST: dict[int, Instruction] = {}
STORE_PRODUCT: dict[int, Instruction] = {}


def _on(family: str, parameters: str, name: str | None = None):
    return instruction(INSTRUCTIONS, family, parameters, name)


@_on("RAMLoad", "int32_t *start, const int8_t *x, int32_t count, int32_t x_zero, int32_t y_zero")
def start_product(
    m: Machine, start: np.ndarray, x: Place, count: int, x_zero: int, y_zero: int
) -> None:
    """Where sums of products with these taps start, so that y needs no zero point."""
    start[0] = -y_zero * (m.load(x) - x_zero).sum()


_OPERANDS = "int32_t *acc, const int8_t *x, const int8_t *y"


@instruction(COMPOUND, "Dot", f"{_OPERANDS}, int32_t count, int32_t x_zero")
def dot_rows(m: Machine, acc: np.ndarray, x: Place, y: Ram, count: int, x_zero: int) -> None:
    """`count` taps times as many taps, summed."""
    acc += ((m.load(x) - x_zero) * m.load(y)).sum()


@instruction(
    COMPOUND, "Dot", f"{_OPERANDS}, int32_t count, int32_t pitch, int32_t lanes, int32_t x_zero"
)
def dot_columns(
    m: Machine,
    acc: np.ndarray,
    x: Place,
    y: Ram,
    count: int,
    pitch: int,
    lanes: int,
    x_zero: int,
) -> None:
    """`count` taps times as many rows of up to four channels, `pitch` bytes apart."""
    acc[:lanes] += (m.load(x) - x_zero) @ m.load(y)


@_on("Dot", f"{_OPERANDS}, int32_t x_zero")
def dot_row_4(m: Machine, acc: np.ndarray, x: Place, y: Ram, x_zero: int) -> None:
    """Four taps times four taps, summed."""
    dot_rows.meaning(m, acc, x, y, 4, x_zero)


@_on("Dot", f"{_OPERANDS}, int32_t x_zero")
def dot_column_4(m: Machine, acc: np.ndarray, x: Place, y: Ram, x_zero: int) -> None:
    """One tap times a row of four channels."""
    acc += (m.load(x) - x_zero) * m.load(y)


@_on("Call", "const struct vmcu_attention_params *p, int8_t *row, int32_t count")
def softmax_kept(m: Machine, p: int, row: Kept, count: int) -> None:
    """Turns a kept row of scores into weights."""
    table = np.frombuffer(m.stream, np.uint32)
    m.store(row, softmax_tflite(m.load(row), table))


def _define(width: int) -> None:
    several = "four channels" if width == WIDE else "one channel"

    def broadcast(m: Machine, acc: np.ndarray, start: np.ndarray) -> None:
        acc[:] = start[0]

    broadcast.__doc__ = f"Starts the sums of {several} at one value."
    BROADCAST[width] = _on("Broadcast", "int32_t *acc, const int32_t *start", f"broadcast_{width}")(
        broadcast
    )

    def store(m: Machine, q: Mapping[str, int], acc: np.ndarray, out: Place, lanes: int) -> None:
        constants = np.array([q["multiplier"]]), np.array([q["shift"]])
        requant = IntegerScale(*constants) if q["is_float"] else FixedPoint(*constants)
        limits = q["output_zero"], q["act_min"], q["act_max"]
        m.store(out, requantize(wrap_int32(acc[:lanes]), requant, *limits))

    store.__doc__ = f"Requantises and stores up to {several}."
    STORE_PRODUCT[width] = _on(
        "RAMStore",
        "const struct vmcu_product *q, const int32_t *acc, int8_t *out, int32_t lanes",
        f"store_product_{width}",
    )(store)


for _width in (WIDE, 1):
    _define(_width)
