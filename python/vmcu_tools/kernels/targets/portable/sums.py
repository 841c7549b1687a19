# SPDX-License-Identifier: Apache-2.0
"""Instructions of sums of two tensors, a byte of each at a time."""

from __future__ import annotations

import math

import numpy as np

from ....quant import FLOAT_SUM_SHIFT, INT8_MAX, INT8_MIN, FixedPoint, FloatSum, wrap_int32
from ...language.evaluate import Machine
from ...language.ir import Ram
from .registry import define
from .tile import fixed_fast

TERM = ("multiplier", "half", "offset", "shift")  # constants of an input
ADD_SHIFT = 21  # of the fast form: TensorFlow Lite's 20, and one that SMMLAR needs
# Constants of struct vmcu_float_sum, and bounds, that stay in registers.
FLOAT_SUM = ("a_scale", "b_scale", "bias", "fraction", "shift")
BOUNDS = ("narrow", "act_min", "act_max")
STORE = "const int32_t *acc, int8_t *out, "

HELPERS = {
    "add_term": rf"""
/* See add_term() in targets/portable/sums.py. */
VMCU_INLINE int32_t vmcu_add_term(int32_t q, int32_t multiplier, int32_t half, int32_t offset,
				  int32_t shift)
{{
	const int32_t x = q * (1 << {ADD_SHIFT}) - offset;
	const int64_t sum = (int64_t)x * multiplier + (INT64_C(1) << 31);

	return (half + (x >> 31) + (int32_t)(sum >> 32)) >> shift;
}}
"""
}


def add_term(q: np.ndarray, multiplier: int, half: int, offset: int, shift: int) -> np.ndarray:
    """(q - zero) << 20 scaled, in one 64-bit sum; int64 as q. `offset` is zero << ADD_SHIFT,
    `half` 1 << (shift - 1); see fixed_fast."""
    x = (q << ADD_SHIFT) - offset
    total = x * multiplier + ((half + (x >> 63)) << 32) + (1 << 31)
    return (total >> 32) >> shift


def ints(names: tuple[str, ...]) -> str:
    return ", ".join(f"int32_t {name}" for name in names)


# One input after the other: their constants do not all find a register.
@define(
    "Dot",
    "int32_t *acc, const int8_t *a, const int8_t *b, "
    + ints(tuple(f"{tensor}_{name}" for tensor in "ab" for name in TERM)),
    "\n".join(
        f"acc[0] {sign} vmcu_add_term({x}[0], {', '.join(f'{x}_{name}' for name in TERM)});"
        for x, sign in (("a", "="), ("b", "+="))
    ),
)
def add_terms(m: Machine, acc: np.ndarray, a: Ram, b: Ram, *constants: int) -> None:
    """Scales and adds two bytes."""
    acc[:] = add_term(m.load(a), *constants[:4]) + add_term(m.load(b), *constants[4:])


@define(
    "RAMStore",
    STORE + ints(("multiplier", "bias", "shift")),
    "out[0] = vmcu_fixed(acc[0], multiplier, bias, shift);",
)
def store_sum(m: Machine, acc: np.ndarray, ram: Ram, *constants: int) -> None:
    """Requantises and stores a sum."""
    m.store(ram, fixed_fast(wrap_int32(acc), *constants))


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
    total = 0
    for name, ram in (("a", a), ("b", b)):
        factor = FixedPoint(m.names[f"p->{name}.multiplier"], m.names[f"p->{name}.shift"])
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
    factor = FixedPoint(m.names["p->output.multiplier"], m.names["p->output.shift"])
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
    real = (math.ldexp(m.names[f"p->sum.{name}"], -FLOAT_SUM_SHIFT) for name in names)
    total = FloatSum(*real, m.names["p->sum.offset"])
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
