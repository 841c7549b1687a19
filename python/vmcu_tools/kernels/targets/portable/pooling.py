# SPDX-License-Identifier: Apache-2.0
"""Instructions of pooling: up to four channels of a pixel at a time."""

from __future__ import annotations

import numpy as np

from ....quant import INT8_MIN, FixedPoint, FloatScale, Requant, divide_away
from ...language.evaluate import Machine
from ...language.ir import Ram
from .registry import define

GROUP = 4
SOURCE = "const struct vmcu_source *in, int32_t row, int32_t pixel, int32_t channel, int32_t lanes"
# enum vmcu_mean
MEAN_KEPT, MEAN_OF_256, MEAN_OF_SUM, MEAN_OF_SUM_FLOAT = range(4)

HELPERS = {
    "four": r"""
/* Adds `count` pixels, `pitch` bytes apart, to four sums. */
VMCU_INLINE void vmcu_sum_words(int32_t *acc, const int8_t *x, int32_t pitch, int32_t count)
{
	for (; count > 0; count--, x += pitch) {
		acc[0] += x[0];
		acc[1] += x[1];
		acc[2] += x[2];
		acc[3] += x[3];
	}
}

/* The maximum of each of four channels. */
VMCU_INLINE void vmcu_most_words(int32_t *acc, const int8_t *x, int32_t pitch, int32_t count)
{
	for (; count > 0; count--, x += pitch) {
		for (int32_t i = 0; i < 4; i++) {
			acc[i] = (x[i] > acc[i]) ? x[i] : acc[i];
		}
	}
}
"""
}


def row_c(name: str) -> str:
    """A call, with a copy of the registers: their own address must not escape."""
    return f"""
int32_t copy[] = {{acc[0], acc[1], acc[2], acc[3]}};

vmcu_{name}_row(copy, in, row, pixel, channel, lanes);
acc[0] = copy[0];
acc[1] = copy[1];
acc[2] = copy[2];
acc[3] = copy[3];
"""


@define(
    "Broadcast",
    "int32_t *acc, int32_t value",
    "\n".join(f"acc[{i}] = value;" for i in range(GROUP)),
)
def start_four(m: Machine, acc: np.ndarray, value: int) -> None:
    """Sets four registers."""
    acc[:] = value


@define("Dot", f"int32_t *acc, {SOURCE}", row_c("sum"))
def sum_taps(m: Machine, acc: np.ndarray, ram: Ram, lanes: int) -> None:
    """Adds a row of a window to sums; padding adds nothing."""
    acc[:lanes] += m.load(ram).sum(axis=0)


@define("Dot", f"int32_t *acc, {SOURCE}", row_c("most"))
def most_of_taps(m: Machine, acc: np.ndarray, ram: Ram, lanes: int) -> None:
    """The maxima of the taps inside and of a row of a window; padding is not looked at."""
    acc[:lanes] = np.maximum(acc[:lanes], m.load(ram, INT8_MIN).max(axis=0))


@define(
    "Broadcast",
    "int32_t *shape, const struct vmcu_average_pool_params *p, const struct vmcu_call *call, "
    "int32_t row, int32_t pixel",
    """
const struct vmcu_window *w = &p->window;
const struct vmcu_tensor *in = vmcu_call_input(call, 0);
const struct vmcu_taps ty = vmcu_taps(row, w->kernel_h, w->dilation_h, in->height);
const struct vmcu_taps tx = vmcu_taps(pixel, w->kernel_w, w->dilation_w, in->width);
const int32_t inside = (ty.end - ty.begin) * (tx.end - tx.begin);

shape[0] = (p->count_padding || inside == 0) ? w->kernel_h * w->kernel_w : inside;
shape[1] = p->input_zero * (p->rescale ? -inside : shape[0] - inside);
""",
)
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


@define(
    "RAMStore",
    "const struct vmcu_average_pool_params *p, const int32_t *acc, const int32_t *shape, "
    "int8_t *out, int32_t lanes",
    """
for (int32_t i = 0; i < lanes; i++) {
	out[i] = vmcu_mean(p, acc[i] + shape[1], shape[0]);
}
""",
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


@define(
    "RAMStore",
    "const struct vmcu_max_pool_params *p, const int32_t *acc, int8_t *out, int32_t lanes",
    """
for (int32_t i = 0; i < lanes; i++) {
	out[i] = vmcu_saturate(acc[i], 0, p->act_min, p->act_max);
}
""",
)
def store_most(m: Machine, p: int, acc: np.ndarray, ram: Ram, lanes: int) -> None:
    """Bounds and stores maxima."""
    m.store(ram, np.clip(acc[:lanes], m.names["p->act_min"], m.names["p->act_max"]))


@define("RAMStore", "const struct vmcu_call *call", "", apart=True)
def average_vectors(m: Machine, call: int) -> None:
    """All pixels that a call asks for, a vector of channels at a time."""
    raise NotImplementedError("programs say it in loops")


@define("RAMStore", "const struct vmcu_call *call", "", apart=True)
def max_vectors(m: Machine, call: int) -> None:
    """All pixels that a call asks for, a vector of channels at a time."""
    raise NotImplementedError("programs say it in loops")


# They have C only in targets whose packing has vectors.
POOLS = {"average": average_vectors, "max": max_vectors}
