# SPDX-License-Identifier: Apache-2.0
"""Instructions of pooling: up to four channels of a pixel at a time. See pooling.h."""

from __future__ import annotations

import numpy as np

from ....quant import INT8_MIN, FixedPoint, FloatScale, Requant, divide_away
from ...language.evaluate import Machine
from ...language.ir import Ram
from .registry import define

GROUP = 4
# enum vmcu_mean
MEAN_KEPT, MEAN_OF_256, MEAN_OF_SUM, MEAN_OF_SUM_FLOAT = range(4)

HELPERS = {
    "four": r"""
/* One loop for all pooling, which calls a function for four channels. */
#define VMCU_POOL_ROW  VMCU_APART
#define VMCU_POOL_PART VMCU_APART

/* Whether code is only for four channels. */
#define VMCU_FOURS(lanes) (__builtin_constant_p(lanes) && (lanes) == 4)

/* Adds taps of up to four channels, each so far from x, to sums. */
VMCU_INLINE void vmcu_sum_list(int32_t *acc, const int8_t *x, const int32_t *offset,
			       const int32_t *end, int32_t lanes)
{
	do {
		const int8_t *tap = x + *offset++;

		for (int32_t i = 0; !VMCU_FOURS(lanes) && i < lanes; i++) {
			acc[i] += tap[i];
		}
		if (VMCU_FOURS(lanes)) {
			acc[0] += tap[0];
			acc[1] += tap[1];
			acc[2] += tap[2];
			acc[3] += tap[3];
		}
	} while (offset != end);
}

/* Starts the maxima of four channels at the lower bound. */
VMCU_INLINE void vmcu_most_start(int32_t *acc, int32_t low)
{
	acc[0] = low;
	acc[1] = low;
	acc[2] = low;
	acc[3] = low;
}

/* The maxima of these and of taps of up to four channels, each so far from x. */
VMCU_INLINE void vmcu_most_list(int32_t *acc, const int8_t *x, const int32_t *offset,
				const int32_t *end, int32_t lanes)
{
	do {
		const int8_t *tap = x + *offset++;

		for (int32_t i = 0; !VMCU_FOURS(lanes) && i < lanes; i++) {
			acc[i] = vmcu_larger(acc[i], tap[i]);
		}
		if (VMCU_FOURS(lanes)) {
			acc[0] = vmcu_larger(acc[0], tap[0]);
			acc[1] = vmcu_larger(acc[1], tap[1]);
			acc[2] = vmcu_larger(acc[2], tap[2]);
			acc[3] = vmcu_larger(acc[3], tap[3]);
		}
	} while (offset != end);
}

/* Stores maxima up to the upper bound. */
VMCU_INLINE void vmcu_most_store(const int32_t *acc, int8_t *out, int32_t high, int32_t lanes)
{
	for (int32_t i = 0; !VMCU_FOURS(lanes) && i < lanes; i++) {
		out[i] = (int8_t)vmcu_smaller(acc[i], high);
	}
	if (VMCU_FOURS(lanes)) {
		out[0] = (int8_t)vmcu_smaller(acc[0], high);
		out[1] = (int8_t)vmcu_smaller(acc[1], high);
		out[2] = (int8_t)vmcu_smaller(acc[2], high);
		out[3] = (int8_t)vmcu_smaller(acc[3], high);
	}
}
"""
}


@define("Broadcast", "", "")
def start_four(m: Machine, acc: np.ndarray, value: int) -> None:
    """Sets four registers."""
    acc[:] = value


@define("Dot", "", "")
def sum_taps(m: Machine, acc: np.ndarray, ram: Ram, lanes: int) -> None:
    """Adds a row of a window to sums; padding adds nothing."""
    acc[:lanes] += m.load(ram).sum(axis=0)


@define("Dot", "", "")
def most_of_taps(m: Machine, acc: np.ndarray, ram: Ram, lanes: int) -> None:
    """The maxima of the taps inside and of a row of a window; padding is not looked at."""
    acc[:lanes] = np.maximum(acc[:lanes], m.load(ram, INT8_MIN).max(axis=0))


@define("Broadcast", "", "")
def window_shape(m: Machine, shape: np.ndarray, p: int, call: int, row: int, pixel: int) -> None:
    """Returns the divisor of the sum of the window at (row, pixel), and the addend before it."""
    inside, count = 1, 1
    for first, axis, size in zip((row, pixel), "hw", m.shape(0)[:2], strict=True):
        taps, step = (m.names[f"p->window.{name}_{axis}"] for name in ("kernel", "dilation"))
        inside *= sum(0 <= first + tap * step < size for tap in range(taps))
        count *= taps
    if inside and not m.names["p->count_padding"]:
        count = inside
    zero = m.names["p->input_zero"]
    shape[:] = count, -zero * inside if m.names["p->rescale"] else zero * (count - inside)


@define("RAMStore", "", "")
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


@define("RAMStore", "", "")
def store_most(m: Machine, p: int, acc: np.ndarray, ram: Ram, lanes: int) -> None:
    """Bounds and stores maxima."""
    m.store(ram, np.clip(acc[:lanes], m.names["p->act_min"], m.names["p->act_max"]))


@define("RAMStore", "const struct vmcu_call *call", "vmcu_mean_row(call);")
def average_vectors(m: Machine, call: int) -> None:
    """All pixels that a call asks for, four channels or a vector at a time."""
    raise NotImplementedError("programs say it in loops")


@define("RAMStore", "const struct vmcu_call *call", "vmcu_max_row(call);")
def max_vectors(m: Machine, call: int) -> None:
    """All pixels that a call asks for, four channels or a vector at a time."""
    raise NotImplementedError("programs say it in loops")


# In C they are whole kernels; what programs are made of is their meaning.
POOLS = {"average": average_vectors, "max": max_vectors}
