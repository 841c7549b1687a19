# SPDX-License-Identifier: Apache-2.0
"""What the instructions of pooling and of sums of two tensors mean.

Both work on up to four channels of a pixel at a time.
"""

from __future__ import annotations

import math

import numpy as np

from ...quant import (
    FLOAT_SUM_SHIFT,
    INT8_MAX,
    INT8_MIN,
    FixedPoint,
    FloatScale,
    FloatSum,
    Requant,
    divide_away,
    wrap_int32,
)
from ..language.evaluate import Machine
from ..language.instruction import Instruction, instruction
from ..language.ir import Ram
from .instructions import INSTRUCTIONS, fixed_fast

GROUP = 4
WIDTHS = (4, 1)  # bytes that are added at a time
TERM = ("multiplier", "half", "offset", "shift")  # constants of an input
ADD: dict[int, Instruction] = {}
STORE_SUM: dict[int, Instruction] = {}
ADD_SHIFT = 21  # of the fast form: TensorFlow Lite's 20, and one that SMMLAR needs
SOURCE = "const struct vmcu_source *in, int32_t row, int32_t pixel, int32_t channel, int32_t lanes"
STORE = "const int32_t *acc, int8_t *out, "


def _on(family: str, parameters: str):
    return instruction(INSTRUCTIONS, family, parameters)


@_on("Broadcast", "int32_t *acc, int32_t value")
def start_four(m: Machine, acc: np.ndarray, value: int) -> None:
    """Sets four registers."""
    acc[:] = value


@_on("Dot", f"int32_t *acc, {SOURCE}")
def sum_taps(m: Machine, acc: np.ndarray, ram: Ram, lanes: int) -> None:
    """Adds a row of a window to sums; padding adds nothing."""
    acc[:lanes] += m.load(ram).sum(axis=0)


@_on("Dot", f"int32_t *acc, {SOURCE}")
def most_of_taps(m: Machine, acc: np.ndarray, ram: Ram, lanes: int) -> None:
    """The same with the maximum in place of the sum."""
    acc[:lanes] = np.maximum(acc[:lanes], m.load(ram, INT8_MIN).max(axis=0))


# enum vmcu_mean
MEAN_KEPT, MEAN_OF_256, MEAN_OF_SUM, MEAN_OF_SUM_FLOAT = range(4)


@_on(
    "Broadcast",
    "int32_t *shape, const struct vmcu_average_pool_params *p, const struct vmcu_call *call, "
    "int32_t row, int32_t pixel",
)
def window_shape(m: Machine, shape: np.ndarray, p: int, call: int, row: int, pixel: int) -> None:
    """What the sum of the window at (row, pixel) is divided by, and what is added to it before."""
    inside, count = 1, 1
    for first, axis, size in zip((row, pixel), "hw", m.shape(0)[:2], strict=True):
        taps, step = (m.names[f"p->window.{name}_{axis}"] for name in ("kernel", "dilation"))
        inside *= sum(0 <= first + tap * step < size for tap in range(taps))
        count *= taps
    if inside and not m.names["p->count_padding"]:
        count = inside
    zero = m.names["p->input_zero"]
    shape[:] = count, -zero * inside if m.names["p->rescale"] else zero * (count - inside)


@_on(
    "RAMStore",
    "const struct vmcu_average_pool_params *p, const int32_t *acc, const int32_t *shape, "
    "int8_t *out, int32_t lanes",
)
def store_mean(
    m: Machine, p: int, acc: np.ndarray, shape: np.ndarray, ram: Ram, lanes: int
) -> None:
    """Divides sums, requantises and stores them."""
    count, offset = shape
    values = acc[:lanes] + offset
    mode = m.names["p->rescale"]
    if mode == MEAN_KEPT:
        values = divide_away(values, count)
    else:
        multiplier = m.names["p->factor.multiplier"]
        requant: Requant = FixedPoint(np.array(multiplier), np.array(m.names["p->factor.shift"]))
        if mode == MEAN_OF_SUM_FLOAT:
            requant = FloatScale(np.array([multiplier], np.int32).view(np.float32))
        if mode == MEAN_OF_256:
            values = divide_away(values << 8, count)
        values = requant.apply(values) + m.names["p->output_zero"]
    m.store(ram, np.clip(values, m.names["p->act_min"], m.names["p->act_max"]))


@_on("RAMStore", f"const struct vmcu_max_pool_params *p, {STORE}int32_t lanes")
def store_most(m: Machine, p: int, acc: np.ndarray, ram: Ram, lanes: int) -> None:
    """Bounds and stores maxima."""
    m.store(ram, np.clip(acc[:lanes], m.names["p->act_min"], m.names["p->act_max"]))


def add_term(q: np.ndarray, multiplier: int, half: int, offset: int, shift: int) -> np.ndarray:
    """(q - zero) << 20 scaled, in one 64-bit sum; see fixed_fast."""
    x = (q << ADD_SHIFT) - offset
    total = x * multiplier + ((half + (x >> 63)) << 32) + (1 << 31)
    return (total >> 32) >> shift


def _define_add(width: int) -> None:
    def add(m: Machine, acc: np.ndarray, a: Ram, b: Ram, *constants: int) -> None:
        acc[:] = add_term(m.load(a), *constants[:4]) + add_term(m.load(b), *constants[4:])

    def store(m: Machine, acc: np.ndarray, ram: Ram, *constants: int) -> None:
        m.store(ram, fixed_fast(wrap_int32(acc), *constants))

    add.__doc__ = f"Scales and adds bytes, {width} at a time."
    store.__doc__ = f"Requantises and stores sums, {width} at a time."
    constants = ", ".join(f"int32_t {tensor}_{name}" for tensor in "ab" for name in TERM)
    ADD[width] = instruction(
        INSTRUCTIONS,
        "Dot",
        f"int32_t *acc, const int8_t *a, const int8_t *b, {constants}",
        f"add_{width}",
    )(add)
    STORE_SUM[width] = instruction(
        INSTRUCTIONS,
        "RAMStore",
        f"{STORE}int32_t multiplier, int32_t bias, int32_t shift",
        f"store_sum_{width}",
    )(store)


for _width in WIDTHS:
    _define_add(_width)


@_on("Dot", "const struct vmcu_add_exact_params *p, int32_t *acc, const int8_t *a, const int8_t *b")
def sum_exact(m: Machine, p: int, acc: np.ndarray, a: Ram, b: Ram) -> None:
    """The sum of two bytes, for any factors."""
    total = 0
    for name, ram in (("a", a), ("b", b)):
        factor = FixedPoint(m.names[f"p->{name}.multiplier"], m.names[f"p->{name}.shift"])
        centred = m.load(ram) - m.names[f"p->{name}_zero"]
        total = total + factor.apply(centred << m.names["p->left_shift"])
    acc[:] = total


@_on("RAMStore", "const struct vmcu_add_exact_params *p, const int32_t *acc, int8_t *out")
def store_sum_exact(m: Machine, p: int, acc: np.ndarray, ram: Ram) -> None:
    """Requantises and stores a sum, for any factor and range."""
    factor = FixedPoint(m.names["p->output.multiplier"], m.names["p->output.shift"])
    values = factor.apply(acc) + m.names["p->output_zero"]
    m.store(ram, np.clip(values, m.names["p->act_min"], m.names["p->act_max"]))


# Constants of struct vmcu_float_sum, and bounds, that stay in registers.
FLOAT_SUM = ("a_scale", "b_scale", "bias", "fraction", "shift")
BOUNDS = ("narrow", "act_min", "act_max")
ADD_FLOAT: dict[int, Instruction] = {}
STORE_BOUNDED: dict[int, Instruction] = {}


def _define_add_float(width: int) -> None:
    def add(m: Machine, p: int, acc: np.ndarray, a: Ram, b: Ram, *constants: int) -> None:
        names = ("a", "b", "constant")
        real = (math.ldexp(m.names[f"p->sum.{name}"], -FLOAT_SUM_SHIFT) for name in names)
        total = FloatSum(*real, m.names["p->sum.offset"])
        acc[:] = total.apply(m.load(a), m.load(b))

    def store(
        m: Machine, acc: np.ndarray, ram: Ram, narrow: int, act_min: int, act_max: int
    ) -> None:
        low, high = (act_min, act_max) if narrow else (INT8_MIN, INT8_MAX)
        m.store(ram, np.clip(acc, low, high))

    add.__doc__ = f"Sums of bytes as float32 has them, {width} at a time."
    store.__doc__ = f"Bounds and stores sums, {width} at a time."
    constants = ", ".join(f"int32_t {name}" for name in FLOAT_SUM)
    ADD_FLOAT[width] = instruction(
        INSTRUCTIONS,
        "Dot",
        "const struct vmcu_add_float_params *p, int32_t *acc, const int8_t *a, const int8_t *b, "
        f"{constants}",
        f"add_float_{width}",
    )(add)
    STORE_BOUNDED[width] = instruction(
        INSTRUCTIONS,
        "RAMStore",
        STORE + ", ".join(f"int32_t {name}" for name in BOUNDS),
        f"store_bounded_{width}",
    )(store)


for _width in WIDTHS:
    _define_add_float(_width)
