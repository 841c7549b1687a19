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

/* Some taps of a row of the window at a column, see vmcu_next_taps(). */
VMCU_INLINE int32_t vmcu_pool_taps(const struct vmcu_pooled *pool, int32_t tap,
				   struct vmcu_taps *wide, const int8_t **x)
{
	const struct vmcu_tensor *t = pool->in.tensor;
	const int32_t row = vmcu_tap(&pool->tall, tap);
	int32_t count;

	if (pool->rows == NULL) {
		return vmcu_next_taps(&pool->in, wide, row, x);
	}
	*x = pool->rows + ((row - vmcu_tap(&pool->tall, pool->tall.begin)) * t->width +
			   vmcu_tap(wide, wide->begin)) *
				  t->channels;
	count = wide->end - wide->begin;
	wide->begin = wide->end;
	return count;
}

/* The first pixel of a window, of those that a call asks for. */
VMCU_INLINE int32_t vmcu_pool_column(const struct vmcu_call *call, const struct vmcu_window *window,
				     int32_t x)
{
	return ((int32_t)call->x + x) * window->stride_w - window->pad_left;
}

/* The maxima of up to sixteen channels. */
VMCU_INLINE int8x16_t vmcu_pool_most(const struct vmcu_pooled *pool, struct vmcu_taps wide,
				     int32_t channel, mve_pred16_t some)
{
	const int32_t pitch = wide.dilation * pool->in.tensor->channels;
	int8x16_t top = vdupq_n_s8(INT8_MIN);

	for (int32_t tap = pool->tall.begin; tap < pool->tall.end; tap++) {
		struct vmcu_taps left = wide;

		while (left.begin < left.end) {
			const int8_t *x;
			int32_t n = vmcu_pool_taps(pool, tap, &left, &x);

			for (x += channel; n > 0; n--, x += pitch) {
				top = vmaxq_s8(top, vldrbq_z_s8(x, some));
			}
		}
	}
	return top;
}

/* The sums of up to sixteen channels, those of each row of at most 255 taps in 16 bits first. */
VMCU_INLINE void vmcu_pool_sums(const struct vmcu_pooled *pool, struct vmcu_taps wide,
				int32_t channel, int32_t lanes, int32_t *sums)
{
	const int32_t pitch = wide.dilation * pool->in.tensor->channels;
	const mve_pred16_t first = vctp16q((uint32_t)lanes);
	const mve_pred16_t second = (lanes > 8) ? vctp16q((uint32_t)(lanes - 8)) : 0;
	const uint32x4_t at = vidupq_n_u32(0, 2);

	for (int32_t i = 0; i < 16; i += 4) {
		vstrwq_s32(sums + i, vdupq_n_s32(0));
	}
	for (int32_t tap = pool->tall.begin; tap < pool->tall.end; tap++) {
		struct vmcu_taps left = wide;
		int32_t n = 0;
		const int8_t *x = NULL;

		while (n > 0 || left.begin < left.end) {
			int16x8_t low = vdupq_n_s16(0);
			int16x8_t high = vdupq_n_s16(0);
			int32_t few;

			if (n == 0) {
				n = vmcu_pool_taps(pool, tap, &left, &x);
				x += channel;
			}
			few = vmcu_min(n, 255);
			n -= few;
			for (; few > 0; few--, x += pitch) {
				low = vaddq_s16(low, vldrbq_z_s16(x, first));
				high = vaddq_s16(high, vldrbq_z_s16(x + 8, second));
			}
			for (int32_t i = 0; i < 2; i++, low = high) {
				int32_t *to = sums + 8 * i;

				vstrwq_scatter_shifted_offset_s32(
					to, at,
					vaddq_s32(vmovlbq_s16(low),
						  vldrwq_gather_shifted_offset_s32(to, at)));
				vstrwq_scatter_shifted_offset_s32(
					to + 1, at,
					vaddq_s32(vmovltq_s16(low),
						  vldrwq_gather_shifted_offset_s32(to + 1, at)));
			}
		}
	}
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
"""
}
OWN = {
    max_vectors: """
const struct vmcu_max_pool_params *p = vmcu_params(call);
const struct vmcu_pooled pool = vmcu_pooled_of(call, &p->window);
const int32_t channels = pool.in.tensor->channels;
const int32_t columns = call->columns;
int8_t *const out = vmcu_output_start(call);

for (int32_t done = 0; done < columns; done++) {
	const int32_t x = (call->layer->descending != 0) ? columns - 1 - done : done;
	const struct vmcu_taps wide =
		vmcu_taps(vmcu_pool_column(call, &p->window, x), p->window.kernel_w,
			  p->window.dilation_w, pool.in.tensor->width);

	for (int32_t c = 0; c < channels; c += 16) {
		const mve_pred16_t some = vctp8q((uint32_t)(channels - c));
		int8x16_t top = vmcu_pool_most(&pool, wide, c, some);

		top = vmaxq_s8(top, vdupq_n_s8(p->act_min));
		top = vminq_s8(top, vdupq_n_s8(p->act_max));
		vstrbq_p_s8(out + x * channels + c, top, some);
	}
}
""",
    average_vectors: """
const struct vmcu_average_pool_params *p = vmcu_params(call);
const struct vmcu_pooled pool = vmcu_pooled_of(call, &p->window);
const int32_t channels = pool.in.tensor->channels;
const int32_t columns = call->columns;
int8_t *const out = vmcu_output_start(call);

for (int32_t done = 0; done < columns; done++) {
	const int32_t x = (call->layer->descending != 0) ? columns - 1 - done : done;
	const struct vmcu_taps wide =
		vmcu_taps(vmcu_pool_column(call, &p->window, x), p->window.kernel_w,
			  p->window.dilation_w, pool.in.tensor->width);
	const int32_t inside = (pool.tall.end - pool.tall.begin) * (wide.end - wide.begin);
	const int32_t all = p->window.kernel_h * p->window.kernel_w;
	const int32_t count = (p->count_padding || inside == 0) ? all : inside;
	const int32_t offset = p->input_zero * (p->rescale ? -inside : count - inside);

	for (int32_t c = 0; c < channels; c += 16) {
		const int32_t lanes = vmcu_min(16, channels - c);
		int8_t *to = out + x * channels + c;
		int32_t sums[16];

		vmcu_pool_sums(&pool, wide, c, lanes, sums);
		if (p->rescale != VMCU_MEAN_KEPT || count < 2 || count > VMCU_MEAN_TAPS) {
			for (int32_t i = 0; i < lanes; i++) {
				to[i] = vmcu_mean(p, sums[i] + offset, count);
			}
			continue;
		}
		for (int32_t i = 0; i < lanes; i += 4) {
			int32x4_t mean = vaddq_n_s32(vldrwq_s32(sums + i), offset);

			mean = vmcu_pool_quotients(mean, count);
			mean = vmaxq_s32(mean, vdupq_n_s32(p->act_min));
			mean = vminq_s32(mean, vdupq_n_s32(p->act_max));
			vstrbq_p_s32(to + i, mean, vctp32q((uint32_t)(lanes - i)));
		}
	}
}
""",
}
