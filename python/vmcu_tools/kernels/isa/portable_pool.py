# SPDX-License-Identifier: Apache-2.0
"""Pooling and sums in portable C99."""

from __future__ import annotations

from .pool_instructions import (
    ADD,
    ADD_FLOAT,
    ADD_SHIFT,
    STORE_BOUNDED,
    STORE_SUM,
    TERM,
)

PRELUDE = r"""
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

/* See add_term() in isa/pool_instructions.py. */
VMCU_INLINE int32_t vmcu_add_term(int32_t q, int32_t multiplier, int32_t half, int32_t offset,
				  int32_t shift)
{
	const int32_t x = q * (1 << 21) - offset;
	const int64_t sum = (int64_t)x * multiplier + (INT64_C(1) << 31);

	return (half + (x >> 31) + (int32_t)(sum >> 32)) >> shift;
}
"""
assert f"1 << {ADD_SHIFT}" in PRELUDE


def add(width: int) -> str:
    """One input after the other: their constants do not all find a register."""
    constants = {t: ", ".join(f"{t}_{name}" for name in TERM) for t in "ab"}
    lines = [f"acc[{i}] = vmcu_add_term(a[{i}], {constants['a']});" for i in range(width)]
    lines += [f"acc[{i}] += vmcu_add_term(b[{i}], {constants['b']});" for i in range(width)]
    return "\n".join(lines)


def store_sum(width: int) -> str:
    return "\n".join(
        f"out[{i}] = vmcu_fixed(acc[{i}], multiplier, bias, shift);" for i in range(width)
    )


def add_float(width: int) -> str:
    """All sums before any test, so that there is one call of what is slow."""
    sums = [
        f"const int32_t sum{i} = a[{i}] * a_scale + b[{i}] * b_scale + bias;" for i in range(width)
    ]
    near = ["bool near = vmcu_near_half(sum0, fraction);"]
    near += [f"near = near || vmcu_near_half(sum{i}, fraction);" for i in range(1, width)]
    shifts = [f"acc[{i}] = sum{i} >> shift;" for i in range(width)]
    exact = [f"acc[{i}] = vmcu_float_sum_exact(&p->sum, a[{i}], b[{i}]);" for i in range(width)]
    return "\n".join([*sums, *near, "", "if (near) {", *exact, "} else {", *shifts, "}"])


def store_bounded(width: int) -> str:
    bounded = [f"out[{i}] = vmcu_saturate(acc[{i}], 0, act_min, act_max);" for i in range(width)]
    whole = [f"out[{i}] = vmcu_saturate8(acc[{i}]);" for i in range(width)]
    return "\n".join(["if (narrow != 0) {", *bounded, "} else {", *whole, "}"])


def rows(name: str) -> str:
    """A call, with a copy of the registers: their own address must not escape."""
    return f"""
int32_t copy[] = {{acc[0], acc[1], acc[2], acc[3]}};

vmcu_{name}_row(copy, in, row, pixel, channel, lanes);
acc[0] = copy[0];
acc[1] = copy[1];
acc[2] = copy[2];
acc[3] = copy[3];
"""


START_FOUR = "\n".join(f"acc[{i}] = value;" for i in range(4))

WINDOW_SHAPE = """
const struct vmcu_window *w = &p->window;
const struct vmcu_tensor *in = vmcu_call_input(call, 0);
const struct vmcu_taps ty = vmcu_taps(row, w->kernel_h, w->dilation_h, in->height);
const struct vmcu_taps tx = vmcu_taps(pixel, w->kernel_w, w->dilation_w, in->width);
const int32_t inside = (ty.end - ty.begin) * (tx.end - tx.begin);

shape[0] = (p->count_padding || inside == 0) ? w->kernel_h * w->kernel_w : inside;
shape[1] = p->input_zero * (p->rescale ? -inside : shape[0] - inside);
"""

STORE_MEAN = """
for (int32_t i = 0; i < lanes; i++) {
	out[i] = vmcu_mean(p, acc[i] + shape[1], shape[0]);
}
"""

STORE_MOST = """
for (int32_t i = 0; i < lanes; i++) {
	out[i] = vmcu_saturate(acc[i], 0, p->act_min, p->act_max);
}
"""

SUM_EXACT = """
const uint32_t x = (uint32_t)(a[0] - p->a_zero) << p->left_shift;
const uint32_t y = (uint32_t)(b[0] - p->b_zero) << p->left_shift;

acc[0] = (int32_t)((uint32_t)vmcu_scaled((int32_t)x, p->a.multiplier, p->a.shift) +
		   (uint32_t)vmcu_scaled((int32_t)y, p->b.multiplier, p->b.shift));
"""

STORE_SUM_EXACT = """
const int32_t scaled = vmcu_scaled(acc[0], p->output.multiplier, p->output.shift);

out[0] = vmcu_saturate(scaled, p->output_zero, p->act_min, p->act_max);
"""

BODIES = (
    {made.name: add(width) for width, made in ADD.items()}
    | {made.name: store_sum(width) for width, made in STORE_SUM.items()}
    | {made.name: add_float(width) for width, made in ADD_FLOAT.items()}
    | {made.name: store_bounded(width) for width, made in STORE_BOUNDED.items()}
    | {
        "start_four": START_FOUR,
        "sum_taps": rows("sum"),
        "most_of_taps": rows("most"),
        "window_shape": WINDOW_SHAPE,
        "store_mean": STORE_MEAN,
        "store_most": STORE_MOST,
        "sum_exact": SUM_EXACT,
        "store_sum_exact": STORE_SUM_EXACT,
    }
)
