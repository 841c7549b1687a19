# SPDX-License-Identifier: Apache-2.0
"""Tiles of bytes: sixteen taps of a pixel, then sixteen of the next."""

from __future__ import annotations

from .windows import DECLARED

HELPERS = {
    "once": r"""
#include <arm_mve.h>

/* What several kernels have in common is there once. */
#define VMCU_ONCE VMCU_CALLED
""",
    "tile": r"""
typedef int8_t vmcu_lane_t;

/* What four taps of a pixel take of a tile. */
#define VMCU_FOUR 4

/* Taps k .. k + count - 1 of pixel `lane` of a tile of `pixels`. */
VMCU_INLINE void vmcu_lane_fours(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				   const int8_t *x, int32_t count)
{
	while (count > 0) {
		const int32_t few = vmcu_min(16 - (k & 15), count);
		const mve_pred16_t some = vctp8q((uint32_t)few);
		int8_t *to = t + (k & ~15) * pixels + 16 * lane + (k & 15);

		vstrbq_p_s8(to, vldrbq_z_s8(x, some), some);
		k += few;
		x += few;
		count -= few;
	}
}

VMCU_INLINE void vmcu_lane_put(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				 int32_t value)
{
	t[(k & ~15) * pixels + 16 * lane + (k & 15)] = (int8_t)value;
}

/* All vectors that have any of `count` taps from k on, the same `value`. */
VMCU_INLINE void vmcu_lane_fill(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				  int32_t value, int32_t count)
{
	for (t += k * pixels + 16 * lane; count > 0; count -= 16, t += 16 * pixels) {
		vstrbq_s8(t, vdupq_n_s8((int8_t)value));
	}
}
""",
    "widen_rows": "",
    "widen_any": r"""
/* `count` taps of each of `pixels`, `pitch` bytes apart. */
VMCU_INLINE void vmcu_widen_rows(vmcu_lane_t *t, int32_t pixels, const int8_t *x, int32_t pitch,
				 int32_t count)
{
	for (; count > 0; count -= 16, x += 16) {
		const mve_pred16_t some = vctp8q((uint32_t)count);
		const int8_t *from = x;

		for (int32_t i = pixels; i > 0; i--, t += 16, from += pitch) {
			vstrbq_s8(t, vldrbq_z_s8(from, some));
		}
	}
}
""",
    "nines": f"""
/* In windows_helium.S. */
{DECLARED}"""
    + r"""
/* Windows of three rows that are one run each, `step` bytes apart, 17 to 32 taps in all. */
VMCU_INLINE bool vmcu_are_three_rows(const struct vmcu_window *window, int32_t line)
{
	return window->kernel_h == 3U && line > 5 && line < 11;
}

/* The same where no tap is padding, and the rows lie in memory as in the tensor. */
VMCU_INLINE bool vmcu_widen_nines(vmcu_lane_t *t, int32_t pixels, const struct vmcu_source *in,
				  int32_t pixel, int32_t channel)
{
	const struct vmcu_window *window = in->window;
	const int32_t wide = (pixels - 1) * window->stride_w + window->kernel_w;
	const int32_t channels = in->tensor->channels;

	if (in->rows == NULL || !in->packed || !vmcu_are_three_rows(window, in->run) ||
	    in->run != window->kernel_w * in->depth || pixel < 0 ||
	    pixel + wide > in->tensor->width) {
		return false;
	}
	vmcu_three_rows(t, in->rows + pixel * channels + channel,
			window->dilation_h * in->tensor->width * channels,
			window->stride_w * channels, in->run, pixels);
	return true;
}

/*
 * Packed windows in one piece, `step` bytes from row to row of `line` taps: one behind the other,
 * then vector by vector.
 */
VMCU_INLINE bool vmcu_widen_straight(vmcu_lane_t *t, int32_t pixels,
				     const struct vmcu_window *window, int32_t line,
				     const int8_t *x, int32_t step, int32_t pitch)
{
	const int32_t count = line * window->kernel_h;
	const mve_pred16_t some = vctp8q((uint32_t)line);
	int8_t taps[VMCU_PACKED + 16];

	if (vmcu_are_three_rows(window, line)) {
		vmcu_three_rows(t, x, step, pitch, line, pixels);
		return true;
	}
	if (line > 16) {
		return false;
	}
	for (int32_t i = pixels; i > 0; i--, x += pitch, t += 16) {
		const int8_t *from = x;

		for (int8_t *to = taps; to < taps + count; from += step, to += line) {
			vstrbq_s8(to, vldrbq_z_s8(from, some));
		}
		vstrbq_s8(t, vldrbq_s8(taps));
		for (int32_t k = 16; k < count; k += 16) {
			vstrbq_s8(t + k * pixels, vldrbq_s8(taps + k));
		}
	}
	return true;
}
""",
}
