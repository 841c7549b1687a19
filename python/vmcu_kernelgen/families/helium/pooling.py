# SPDX-License-Identifier: Apache-2.0
"""Pooling with MVE, sixteen channels of a pixel at once."""

from __future__ import annotations

from vmcu_tools.kernels.targets.portable.pooling import average_vectors, max_vectors

HELPERS = {
    "pools": r"""
/* Where the rows of a window's taps are, if these are in one piece of memory: else no rows. */
struct vmcu_pooled {
	struct vmcu_source in;
	struct vmcu_taps tall;
	const int8_t *rows;
	int32_t row;
};

VMCU_APART struct vmcu_pooled vmcu_pooled_of(const struct vmcu_call *call,
					 const struct vmcu_window *window)
{
	struct vmcu_pooled pool = {.in = vmcu_window_source(call, window)};
	const struct vmcu_tensor *t = pool.in.tensor;

	pool.row = call->y * window->stride_h - window->pad_top;
	pool.tall = vmcu_taps(pool.row, window->kernel_h, window->dilation_h, t->height);
	if (pool.tall.begin < pool.tall.end) {
		const uint32_t first = (uint32_t)vmcu_tap(&pool.tall, pool.tall.begin);
		const uint32_t last = (uint32_t)vmcu_tap(&pool.tall, pool.tall.end - 1);
		const int8_t *x = vmcu_row(pool.in.pool, t, first);
		const uint32_t bytes = (last - first + 1U) * t->width * t->channels;

		if (vmcu_straight(pool.in.pool, t, vmcu_place(t, first, 0), x, bytes)) {
			pool.rows = x;
		}
	}
	return pool;
}

/* The taps of a window in one piece of memory: few enough for sums of 16 bits. */
#define VMCU_PATCH_TAPS 255
struct vmcu_patch {
	const int8_t *x;
	int32_t rows;
	int32_t taps;  /* of a row */
	int32_t pitch; /* bytes from a tap to the next one of its row */
	int32_t below; /* bytes from a row to the next one */
};

/* False if there is no such patch. */
VMCU_INLINE bool vmcu_patch_of(struct vmcu_patch *patch, const struct vmcu_pooled *pool,
			       const struct vmcu_taps *wide)
{
	const struct vmcu_tensor *t = pool->in.tensor;

	patch->x = pool->rows;
	patch->rows = pool->tall.end - pool->tall.begin;
	patch->taps = wide->end - wide->begin;
	patch->pitch = wide->dilation * t->channels;
	patch->below = pool->tall.dilation * t->width * t->channels;
	if (pool->rows == NULL || patch->rows * patch->taps > VMCU_PATCH_TAPS) {
		return false;
	}
	patch->x += vmcu_tap(wide, wide->begin) * t->channels;
	return true;
}

/* The first pixel of a window, of those that a call asks for. */
VMCU_INLINE int32_t vmcu_pool_column(const struct vmcu_call *call, const struct vmcu_window *window,
				     int32_t x)
{
	return ((int32_t)call->x + x) * window->stride_w - window->pad_left;
}

/* Maxima within bounds of all channels of a patch. */
VMCU_HOT void vmcu_patch_most(const struct vmcu_patch *patch, int8_t *out, int32_t channels,
			      int8_t low, int8_t high)
{
	const struct vmcu_patch own = *patch;

	for (int32_t c = 0; c < channels; c += 16) {
		const mve_pred16_t some = vctp8q((uint32_t)(channels - c));
		const int8_t *row = own.x + c;
		int8x16_t top = vdupq_n_s8(low);

		for (int32_t r = own.rows; r > 0; r--, row += own.below) {
			const int8_t *x = row;

			for (int32_t n = own.taps; n > 0; n--, x += own.pitch) {
				top = vmaxq_s8(top, vldrbq_z_s8(x, some));
			}
		}
		vstrbq_p_s8(out + c, vminq_s8(top, vdupq_n_s8(high)), some);
	}
}

/* The same of sixteen channels of any window. */
VMCU_CALLED void vmcu_split_most(const struct vmcu_pooled *pool, const struct vmcu_taps *wide,
				 int32_t channel, int8_t *out, int8_t low, int8_t high)
{
	const struct vmcu_tensor *t = pool->in.tensor;
	const mve_pred16_t some = vctp8q((uint32_t)(t->channels - channel));
	int8x16_t top = vdupq_n_s8(low);

	for (int32_t tap = pool->tall.begin; tap < pool->tall.end; tap++) {
		struct vmcu_taps left = *wide;

		while (left.begin < left.end) {
			const int8_t *x;
			const int32_t row = vmcu_tap(&pool->tall, tap);
			int32_t n = vmcu_next_taps(&pool->in, &left, row, &x);

			for (x += channel; n > 0; n--, x += left.dilation * t->channels) {
				top = vmaxq_s8(top, vldrbq_z_s8(x, some));
			}
		}
	}
	vstrbq_p_s8(out + channel, vminq_s8(top, vdupq_n_s8(high)), some);
}

/* Sums of eight channels: those with even numbers, and those with odd ones. */
struct vmcu_sums {
	int32x4_t even;
	int32x4_t odd;
};

VMCU_INLINE struct vmcu_sums vmcu_widened(int16x8_t x)
{
	return (struct vmcu_sums){vmovlbq_s16(x), vmovltq_s16(x)};
}

/* The sums of eight channels of a patch; `whole`: not only of those left. */
VMCU_INLINE struct vmcu_sums vmcu_patch_sums(const struct vmcu_patch *patch, int32_t channel,
					     bool whole, int32_t left)
{
	const mve_pred16_t some = vctp16q((uint32_t)left);
	const int8_t *row = patch->x + channel;
	int16x8_t sum = vdupq_n_s16(0);

	for (int32_t r = patch->rows; r > 0; r--, row += patch->below) {
		const int8_t *x = row;

		for (int32_t n = patch->taps; n > 0; n--, x += patch->pitch) {
			sum = vaddq_s16(sum, whole ? vldrbq_s16(x) : vldrbq_z_s16(x, some));
		}
	}
	return vmcu_widened(sum);
}

/* The same of any window. */
VMCU_CALLED struct vmcu_sums vmcu_split_sums(const struct vmcu_pooled *pool,
					     const struct vmcu_taps *wide, int32_t channel)
{
	const struct vmcu_tensor *t = pool->in.tensor;
	const int32_t left_over = t->channels - channel;
	struct vmcu_sums sums = {vdupq_n_s32(0), vdupq_n_s32(0)};

	for (int32_t tap = pool->tall.begin; tap < pool->tall.end; tap++) {
		struct vmcu_taps left = *wide;

		while (left.begin < left.end) {
			const int8_t *x;
			const int32_t row = vmcu_tap(&pool->tall, tap);
			int32_t n = vmcu_next_taps(&pool->in, &left, row, &x);

			for (x += channel; n > 0; n--, x += left.dilation * t->channels) {
				const struct vmcu_sums more =
					vmcu_widened(vmcu_eight(x, 0, left_over));

				sums.even = vaddq_s32(sums.even, more.even);
				sums.odd = vaddq_s32(sums.odd, more.odd);
			}
		}
	}
	return sums;
}

/*
 * Rounded quotients of sums and of how many taps these are of, 2 to MEAN_TAPS: the product with the
 * reciprocal, rounded up, is exact.
 */
#define VMCU_MEAN_TAPS 4096
VMCU_INLINE int32x4_t vmcu_pool_quotients(int32x4_t sum, int32_t count)
{
	const uint32_t inverse = UINT32_MAX / (uint32_t)count + 1U;
	const uint32x4_t size = vaddq_n_u32((uint32x4_t)vabsq_s32(sum), (uint32_t)count >> 1);
	const int32x4_t found = (int32x4_t)vmulhq_u32(size, vdupq_n_u32(inverse));

	return vnegq_m_s32(found, found, vcmpltq_n_s32(sum, 0));
}

/* Stores the means of eight channels, or of those left, of `count` taps. */
VMCU_INLINE void vmcu_put_means(const struct vmcu_average_pool_params *p, struct vmcu_sums sums,
				int32_t count, int8_t *out, int32_t left)
{
	const uint32x4_t at = vidupq_n_u32(0, 2);
	int16x8_t means;
	int32_t each[8];

	if (p->rescale != VMCU_MEAN_KEPT || count < 2 || count > VMCU_MEAN_TAPS) {
		vstrwq_scatter_shifted_offset_s32(each, at, sums.even);
		vstrwq_scatter_shifted_offset_s32(each + 1, at, sums.odd);
		for (left = vmcu_min(left, 8); left > 0; left--) {
			out[left - 1] = vmcu_mean(p, each[left - 1], count);
		}
		return;
	}
	sums.even = vmcu_pool_quotients(sums.even, count);
	sums.odd = vmcu_pool_quotients(sums.odd, count);
	means = vqmovntq_s32(vqmovnbq_s32((int16x8_t)sums.even, sums.even), sums.odd);
	means = vmaxq_s16(means, vdupq_n_s16(p->act_min));
	means = vminq_s16(means, vdupq_n_s16(p->act_max));
	vstrbq_p_s16(out, means, vctp16q((uint32_t)left));
}

/* Means of all channels of a pixel; `patch` is NULL where there is none. */
VMCU_HOT void vmcu_pool_means(const struct vmcu_average_pool_params *p,
				const struct vmcu_pooled *pool, const struct vmcu_taps *wide,
				const struct vmcu_patch *patch, int8_t *out)
{
	const int32_t channels = pool->in.tensor->channels;
	const int32_t inside = (pool->tall.end - pool->tall.begin) * (wide->end - wide->begin);
	const int32_t all = p->window.kernel_h * p->window.kernel_w;
	const int32_t count = (p->count_padding || inside == 0) ? all : inside;
	const int32_t offset = p->input_zero * (p->rescale ? -inside : count - inside);

	for (int32_t c = 0; c < channels; c += 8) {
		const int32_t left = channels - c;
		struct vmcu_sums sums;

		if (patch == NULL) {
			sums = vmcu_split_sums(pool, wide, c);
		} else if (left >= 8) {
			sums = vmcu_patch_sums(patch, c, true, left);
		} else {
			sums = vmcu_patch_sums(patch, c, false, left);
		}
		sums.even = vaddq_n_s32(sums.even, offset);
		sums.odd = vaddq_n_s32(sums.odd, offset);
		vmcu_put_means(p, sums, count, out + c, left);
	}
}
"""
}
# The pixels that a call asks for.
PIXELS = """
const struct vmcu_pooled pool = vmcu_pooled_of(call, &p->window);
const int32_t channels = pool.in.tensor->channels;
const int32_t columns = call->columns;
int8_t *const out = vmcu_output_start(call);

for (int32_t done = 0; done < columns; done++) {
	const int32_t x = (call->layer->descending != 0) ? columns - 1 - done : done;
	const struct vmcu_taps wide =
		vmcu_taps(vmcu_pool_column(call, &p->window, x), p->window.kernel_w,
			  p->window.dilation_w, pool.in.tensor->width);
	int8_t *to = out + x * channels;
	struct vmcu_patch patch;
"""
OWN = {
    max_vectors: f"""
const struct vmcu_max_pool_params *p = vmcu_params(call);
{PIXELS}
	if (vmcu_patch_of(&patch, &pool, &wide)) {{
		vmcu_patch_most(&patch, to, channels, p->act_min, p->act_max);
		continue;
	}}
	for (int32_t c = 0; c < channels; c += 16) {{
		vmcu_split_most(&pool, &wide, c, to, p->act_min, p->act_max);
	}}
}}
""",
    average_vectors: f"""
const struct vmcu_average_pool_params *p = vmcu_params(call);
{PIXELS}
	const bool whole = vmcu_patch_of(&patch, &pool, &wide);

	vmcu_pool_means(p, &pool, &wide, whole ? &patch : NULL, to);
}}
""",
}
