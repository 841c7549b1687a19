# SPDX-License-Identifier: Apache-2.0
"""Instructions of sums of two tensors, byte by byte."""

from __future__ import annotations

import math

import numpy as np

from ....quant import FLOAT_SUM_SHIFT, INT8_MAX, INT8_MIN, FixedPoint, FloatSum
from ...integer_sum import FINER, line_sum
from ...language.evaluate import Machine
from ...language.instruction import Instruction
from ...language.ir import Ram
from .registry import define

# Bytes of a block.
WIDTHS = (4, 1)
SEVERAL = {4: "four bytes", 1: "a byte"}
# Constants of struct vmcu_float_sum, and bounds, that stay in registers.
FLOAT_SUM = ("a_scale", "b_scale", "bias", "fraction", "shift")
BOUNDS = ("narrow", "act_min", "act_max")
STORE = "const int32_t *acc, int8_t *out, "


def ints(names: tuple[str, ...]) -> str:
    return ", ".join(f"int32_t {name}" for name in names)


def _add_line(width: int) -> Instruction:
    scaled = f"vmcu_scaled_byte({{0}}_scale, (*{{0}})[{{1}}], {FINER});"
    lines = [f"acc[{n}] = bias + {scaled.format('a', n)}" for n in range(width)]
    lines += [f"acc[{n}] += {scaled.format('b', n)}" for n in range(width)]
    lines += [f"*a += {width};", f"*b += {width};"]
    parameters = "int32_t *acc, const int8_t **a, const int8_t **b, "
    parameters += ints(("a_scale", "b_scale", "bias"))

    @define("Dot", parameters, "\n".join(lines), width, SEVERAL[width])
    def add_line(
        m: Machine, acc: np.ndarray, a: Ram, b: Ram, a_scale: int, b_scale: int, bias: int
    ) -> None:
        """Scales and adds {what} of each of two tensors."""
        acc[:] = line_sum(m.load(a), m.load(b), a_scale, b_scale) + bias

    return add_line


def _store_line(width: int) -> Instruction:
    lines = [f"(*out)[{n}] = vmcu_saturate8(acc[{n}] >> shift);" for n in range(width)]
    parameters = "const int32_t *acc, int8_t **out, int32_t shift"

    @define("RAMStore", parameters, "\n".join([*lines, f"*out += {width};"]), width, SEVERAL[width])
    def store_line(m: Machine, acc: np.ndarray, ram: Ram, shift: int) -> None:
        """Shifts and stores {what} of sums."""
        m.store(ram, np.clip(acc >> shift, INT8_MIN, INT8_MAX))

    return store_line


def _factor(m: Machine, member: str) -> FixedPoint:
    multiplier, shift = (np.array(m.names[f"{member}.{part}"]) for part in ("multiplier", "shift"))
    return FixedPoint(multiplier, shift)


ADD_LINE = {width: _add_line(width) for width in WIDTHS}
STORE_LINE = {width: _store_line(width) for width in WIDTHS}


@define(
    "Dot",
    "const struct vmcu_add_exact_params *p, int32_t *acc, const int8_t *a, const int8_t *b",
    """
const uint32_t x = (uint32_t)(a[0] - p->a_zero) << p->left_shift;
const uint32_t y = (uint32_t)(b[0] - p->b_zero) << p->left_shift;

acc[0] = (int32_t)((uint32_t)vmcu_scaled((int32_t)x, p->a.multiplier, p->a.shift) +
		   (uint32_t)vmcu_scaled((int32_t)y, p->b.multiplier, p->b.shift));
""",
)
def sum_exact(m: Machine, p: int, acc: np.ndarray, a: Ram, b: Ram) -> None:
    """The sum of two bytes, for any factors."""
    total: int | np.ndarray = 0
    for name, ram in (("a", a), ("b", b)):
        factor = _factor(m, f"p->{name}")
        centred = m.load(ram) - m.names[f"p->{name}_zero"]
        total = total + factor.apply(centred << m.names["p->left_shift"])
    acc[:] = total


@define(
    "RAMStore",
    "const struct vmcu_add_exact_params *p, const int32_t *acc, int8_t *out",
    """
const int32_t scaled = vmcu_scaled(acc[0], p->output.multiplier, p->output.shift);

out[0] = vmcu_saturate(scaled, p->output_zero, p->act_min, p->act_max);
""",
)
def store_sum_exact(m: Machine, p: int, acc: np.ndarray, ram: Ram) -> None:
    """Requantises and stores a sum, for any factor and range."""
    factor = _factor(m, "p->output")
    values = factor.apply(acc) + m.names["p->output_zero"]
    m.store(ram, np.clip(values, m.names["p->act_min"], m.names["p->act_max"]))


@define(
    "Dot",
    "const struct vmcu_add_float_params *p, int32_t *acc, const int8_t *a, const int8_t *b, "
    + ints(FLOAT_SUM),
    """
const int32_t sum = a[0] * a_scale + b[0] * b_scale + bias;

acc[0] = sum >> shift;
if (vmcu_near_half(sum, fraction)) {
	acc[0] = vmcu_float_sum_exact(&p->sum, a[0], b[0]);
}
""",
)
def sum_float(m: Machine, p: int, acc: np.ndarray, a: Ram, b: Ram, *constants: int) -> None:
    """The sum of two bytes as float32 has it."""
    names = ("a", "b", "constant")
    one, other, constant = (
        math.ldexp(m.names[f"p->sum.{name}"], -FLOAT_SUM_SHIFT) for name in names
    )
    total = FloatSum(one, other, constant, m.names["p->sum.offset"])
    acc[:] = total.apply(m.load(a), m.load(b))


@define(
    "RAMStore",
    STORE + ints(BOUNDS),
    """
out[0] = vmcu_saturate8(acc[0]);
if (narrow != 0) {
	out[0] = vmcu_saturate(acc[0], 0, act_min, act_max);
}
""",
)
def store_bounded(
    m: Machine, acc: np.ndarray, ram: Ram, narrow: int, act_min: int, act_max: int
) -> None:
    """Bounds and stores a sum."""
    low, high = (act_min, act_max) if narrow else (INT8_MIN, INT8_MAX)
    m.store(ram, np.clip(acc, low, high))


@define("RAMStore", "const struct vmcu_call *call", "", apart=True)
def add_vectors(m: Machine, call: int) -> None:
    """All pixels that a call asks for. It has C only in targets whose packing has vectors."""
    raise NotImplementedError("programs say it in loops")
