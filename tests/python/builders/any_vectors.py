# SPDX-License-Identifier: Apache-2.0
"""Bodies of kernels that read vectors, in portable C."""

from __future__ import annotations

from vmcu_tools.kernels.language.instruction import Instruction
from vmcu_tools.kernels.targets.portable.dense import run_dense, run_dense_per_tensor, sums_dense
from vmcu_tools.kernels.targets.portable.pooling import POOLS
from vmcu_tools.kernels.targets.portable.sums import add_vectors
from vmcu_tools.kernels.targets.portable.vectors import all_tiles, all_vectors

# Vector by vector, as families/helium reads the stream. Addresses have four bytes, as on its cores;
# what stands for padding is behind them and those of rows.
ALL_VECTORS = r"""
VMCU_OWN_PARAMS(vmcu_mac_params, p, call);
const uint8_t *const stream = vmcu_constants(call, p->stream);
const struct vmcu_window *window = &p->window;
const int32_t channels = vmcu_call_output(call)->channels;
const int32_t count = window->kernel_h * window->kernel_w;
const int32_t size = channels / p->groups;
int8_t *const zeros = (int8_t *)call->scratch + ((count + 3) & ~3) * 4 + window->kernel_h * 4;
int8_t *const out = vmcu_output_start(call);
struct vmcu_places in;

VMCU_OWN_POINTER(call, p, stream);
for (int32_t done = 0; done < (int32_t)call->columns; done++) {
	const int32_t x = (call->layer->descending != 0) ? (int32_t)call->columns - 1 - done : done;
	const uint8_t *w = stream;
	int8_t *to = out + x * channels;

	vmcu_places_find(&in, call, call->scratch, call->y * window->stride_h - window->pad_top,
			(call->x + x) * window->stride_w - window->pad_left);
	memset(zeros, p->input_zero, p->steps);
	for (int32_t g = 0; g < p->groups; g++, to += size) {
		for (int32_t n = 0; n < size; n += 16) {
			const int32_t *bias = (const int32_t *)&w[4];
			const int8_t *v = (const int8_t *)&bias[16];
			const int32_t *c = (const int32_t *)&v[16 * count];
			const int32_t several = w[1] + 256 * w[2];
			const int32_t bits = (w == stream) ? w[0] & ~1 : w[0];
			const bool exact = bits != 0;

			/* See targets/portable/vectors.py; assembly jumps by the code. */
			if (several < 1 || several > count || (exact && (bits & ~0x40) != VMCU_EXACT) ||
				(w[3] != 0 && (exact || size - n < 16 || w[3] > several))) {
				__builtin_trap();
			}
			for (int32_t i = 0; i < vmcu_min(16, size - n); i++) {
				const int32_t at = ((i & 1) << 3) | ((i & 2) << 1) | (i >> 2);
				const int32_t channel = g + (n + i) * p->run;
				int32_t sum = bias[at];

				for (int32_t k = 0; k < count; k++) {
					const int32_t place = in.offsets[k];
					int32_t tap = in.zeros & 0xff;

					if (place != VMCU_PLACE_OUTSIDE) {
						tap = in.start[place + channel];
					} else if (p->run != 0) {
						if (n + i >= p->steps) {
							__builtin_trap();
						}
						tap = zeros[n + i];
					}
					sum = vmcu_mac(sum, (int8_t)tap, v[16 * k + i]);
				}
				if (exact) {
					to[n + i] = vmcu_any(p, sum, c[at], c[16 + at]);
				} else {
					const int32_t shift = ~((const int8_t *)&c[16])[at];

					to[n + i] = vmcu_fixed(sum, c[at], vmcu_half(p) * (1 << shift),
							shift);
				}
			}
			w = (const uint8_t *)&c[16] + (exact ? 64 : 16);
		}
	}
}
"""


# Sixteen channels of a pixel are read, then written. MORE: of a tap; LAST: at last.
POOL = r"""
const struct vmcu_{name}_pool_params *p = vmcu_params(call);
const struct vmcu_source in = vmcu_window_source(call, &p->window);
const struct vmcu_tensor *t = in.tensor;
const int32_t row = call->y * p->window.stride_h - p->window.pad_top;
int8_t *const out = vmcu_output_start(call);

for (int32_t done = 0; done < (int32_t)call->columns; done++) {{
	const int32_t x = (call->layer->descending != 0) ? (int32_t)call->columns - 1 - done : done;
	const int32_t left = (call->x + x) * p->window.stride_w - p->window.pad_left;

	for (int32_t c = 0; c < t->channels; c += 16) {{
		int32_t acc[16], inside = 0;

		for (int32_t i = 0; i < 16; i++) {{
			acc[i] = {start};
		}}
		for (int32_t k = 0; k < p->window.kernel_h * p->window.kernel_w; k++) {{
			const int32_t at = row + k / p->window.kernel_w * p->window.dilation_h;
			const int32_t column = left + k % p->window.kernel_w * p->window.dilation_w;

			if (at < 0 || at >= t->height || column < 0 || column >= t->width) {{
				continue;
			}}
			inside++;
			for (int32_t i = 0; i < vmcu_min(16, t->channels - c); i++) {{
				const int8_t tap = vmcu_pixel_at(in.pool, t, at, column)[c + i];

				{more}
			}}
		}}
		(void)inside;
		for (int32_t i = 0; i < vmcu_min(16, t->channels - c); i++) {{
			{last}
		}}
	}}
}}
"""


MEAN = r"""
const int32_t all = p->window.kernel_h * p->window.kernel_w;
const int32_t count = (p->count_padding || inside == 0) ? all : inside;
const int32_t offset = p->input_zero * (p->rescale ? -inside : count - inside);

out[x * t->channels + c + i] = vmcu_mean(p, acc[i] + offset, count);
"""


MOST = r"""
out[x * t->channels + c + i] = vmcu_saturate(acc[i], 0, p->act_min, p->act_max);
"""


# Pixel by pixel, as a descending layer demands.
ADD = r"""
const struct vmcu_add_params *p = vmcu_params(call);
const int8_t *const a = vmcu_input_start(call, 0);
const int8_t *const b = vmcu_input_start(call, 1);
int8_t *const out = vmcu_output_start(call);
const int32_t channels = vmcu_call_output(call)->channels;

for (int32_t done = 0; done < (int32_t)call->columns; done++) {
	const int32_t x = (call->layer->descending != 0) ? (int32_t)call->columns - 1 - done : done;

	for (int32_t at = x * channels; at < (x + 1) * channels; at++) {
		int32_t sum = vmcu_scaled_byte(p->a_scale, a[at], 8);

		sum = (sum + vmcu_scaled_byte(p->b_scale, b[at], 8) + p->bias) >> p->shift;
		out[at] = vmcu_saturate(sum, 0, INT8_MIN, INT8_MAX);
	}
}
"""


# Portable C has tiles of four lanes.
TILES = {
    "tile": r"""
typedef int8_t vmcu_lane_t;

#define VMCU_FOUR 4

VMCU_INLINE void vmcu_lane_put(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				int32_t value)
{
	t[(k & ~15) * pixels + 16 * lane + (k & 15)] = (int8_t)value;
}

VMCU_INLINE void vmcu_lane_fours(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				const int8_t *x, int32_t count)
{
	for (int32_t i = 0; i < count; i++) {
		vmcu_lane_put(t, pixels, lane, k + i, x[i]);
	}
}

VMCU_INLINE void vmcu_lane_fill(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				int32_t value, int32_t count)
{
	for (int32_t i = 0; i < ((count + 15) & ~15); i++) {
		vmcu_lane_put(t, pixels, lane, k + i, value);
	}
}
""",
    "widen_rows": "",
    "widen_any": r"""
VMCU_INLINE void vmcu_widen_rows(vmcu_lane_t *t, int32_t pixels, const int8_t *x, int32_t pitch,
				int32_t count)
{
	for (int32_t i = 0; i < pixels; i++) {
		for (int32_t k = 0; k < ((count + 15) & ~15); k++) {
			vmcu_lane_put(t, pixels, i, k, (k < count) ? x[i * pitch + k] : 0);
		}
	}
}
""",
    "nines": r"""
/* Of the portable target, further down. */
VMCU_INLINE void vmcu_gather(vmcu_lane_t *t, const struct vmcu_source *in, int32_t row,
				int32_t pixel, int32_t channel, int32_t pixels);
VMCU_INLINE void vmcu_blocks_of_wide(const struct vmcu_mac_params *p, const vmcu_lane_t *tile,
				const uint8_t **w, int8_t *out, int32_t pitch,
				int32_t pixels);

VMCU_INLINE bool vmcu_widen_nines(vmcu_lane_t *t, int32_t pixels, const struct vmcu_source *in,
				int32_t pixel, int32_t channel)
{
	(void)t;
	(void)pixels;
	(void)in;
	(void)pixel;
	(void)channel;
	return false;
}

VMCU_INLINE bool vmcu_widen_straight(vmcu_lane_t *t, int32_t pixels,
				const struct vmcu_window *window, int32_t line,
				const int8_t *x, int32_t step, int32_t pitch)
{
	for (int32_t i = 0; i < pixels; i++) {
		for (int32_t k = 0; k < line * window->kernel_h; k++) {
			const int8_t *row = x + i * pitch + k / line * step;

			vmcu_lane_put(t, pixels, i, k, row[k % line]);
		}
	}
	return true;
}
""",
}


# Tile by tile, from either side.
ALL_TILES = r"""
const struct vmcu_mac_params *p = vmcu_params(call);
const struct vmcu_source in = vmcu_conv_source(call, p);
const struct vmcu_window *window = &p->window;
const int32_t columns = call->columns, channels = vmcu_call_output(call)->channels;
const int32_t row = call->y * window->stride_h - window->pad_top;
const uint8_t *w;

for (int32_t done = 0, pixels = 4; done < columns; done += pixels) {
	while (pixels > columns - done) {
		pixels >>= 1;
	}
	const int32_t x = (call->layer->descending != 0) ? columns - pixels - done : done;
	const int32_t pixel = (call->x + x) * window->stride_w - window->pad_left;
	int8_t *to = vmcu_output_start(call) + x * channels;

	w = vmcu_constants(call, p->stream);
	for (int32_t g = 0; g < p->groups; g++, to += channels / p->groups) {
		vmcu_gather(call->scratch, &in, row, pixel, g * p->depth, pixels);
		vmcu_blocks_of_wide(p, call->scratch, &w, to, channels, pixels);
	}
}
"""


# size: bytes of sixteen taps of four channels; weight: of tap k and channel n.
SUMS = """
{{
	const int32_t *bias = (const int32_t *)*w;
	const int8_t *v = (const int8_t *)&bias[4];
	int32_t y = row;

	__builtin_memcpy(acc, bias, 16);
	for (int32_t r = 0; r < vmcu_source_rows(in); r++, y += in->window->dilation_h) {{
		const int8_t *x = vmcu_source_taps(in, y, pixel) + channel;

		for (int32_t k = 0; k < in->run; k++) {{
			for (int32_t n = 0; n < 4; n++) {{
				acc[n] = vmcu_sum(acc[n], x[k] * ({weight}));
			}}
		}}
		v += (in->run + 15) / 16 * {size};
	}}
	*w = (const uint8_t *)v;
}}
"""


def dense_bodies(size: int, weight: str) -> dict[Instruction, str]:
    """Of a fully connected layer; size and weight are those of SUMS."""
    sums = SUMS.format(size=size, weight=weight)
    return {
        sums_dense: f"(void)p;\n(void)apart;\n{sums}",
        run_dense: f"""
for (; taken > 0; taken -= 4, *out += 4) {{
	int32_t acc[4];

	{sums}
	*w = vmcu_store_some(p, acc, 4, 1, *w, *out, 0, vmcu_min(taken, 4));
}}
""",
        run_dense_per_tensor: f"""
const int32_t half = vmcu_wrapping_shift(2 * p->output_zero + 1, p->shift);

for (; channels > 0; channels -= 4, out += 4) {{
	const int32_t *bias = (const int32_t *)*w;
	const int8_t *v = (const int8_t *)&bias[4];

	for (int32_t n = 0; n < 4; n++) {{
		int32_t sum = bias[n];

		for (int32_t k = 0; k < depth; k++) {{
			sum += x[k] * ({weight});
		}}
		out[n] = vmcu_fixed(sum, p->multiplier, half, p->shift);
	}}
	*w = (const uint8_t *)v + (depth + 15) / 16 * {size};
}}
""",
    }


BODIES = {
    all_tiles: ALL_TILES,
    all_vectors: ALL_VECTORS,
    add_vectors: ADD,
    POOLS["max"]: POOL.format(
        name="max", start="INT8_MIN", more="acc[i] = (tap > acc[i]) ? tap : acc[i];", last=MOST
    ),
    POOLS["average"]: POOL.format(name="average", start="0", more="acc[i] += tap;", last=MEAN),
    **dense_bodies(64, "v[k / 16 * 64 + 16 * n + k % 16]"),
}


# The lower halves of bytes are those of channels 2 and 3.
NIBBLE = "v[k / 16 * 32 + n % 2 * 16 + k % 16]"


INT4_BODIES = {
    all_tiles: ALL_TILES,
    **dense_bodies(32, f"(n < 2) ? {NIBBLE} >> 4 : vmcu_low_half({NIBBLE})"),
}
