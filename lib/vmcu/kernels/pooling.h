/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Pooling, four channels of a pixel at a time, whatever the instruction set makes of them.
 *
 * Included by generated kernels after their instruction set, which defines vmcu_sum_list(),
 * vmcu_most_list() and similar.
 */

#ifndef VMCU_KERNELS_POOLING_H_
#define VMCU_KERNELS_POOLING_H_

#include "window.h"

static inline struct vmcu_source vmcu_window_source(const struct vmcu_call *call,
						    const struct vmcu_window *window)
{
	return (struct vmcu_source){
		.pool = call->pool,
		.tensor = vmcu_call_input(call, 0),
		.window = window,
	};
}

/** Takes the next taps in front of the row's split: how many, and in `x` the first. */
static inline int32_t vmcu_next_taps(const struct vmcu_source *in, struct vmcu_taps *taps,
				     int32_t row, const int8_t **x)
{
	const uint32_t first = (uint32_t)vmcu_tap(taps, taps->begin);
	const uint32_t place = vmcu_place(in->tensor, (uint32_t)row, first);
	const int32_t pitch = taps->dilation * in->tensor->channels;
	const int32_t left = (int32_t)(in->tensor->ring - place);
	int32_t count = taps->end - taps->begin;

	if ((count - 1) * pitch >= left) {
		count = (left + pitch - 1) / pitch;
	}
	taps->begin += count;
	*x = vmcu_pixel(in->pool, in->tensor, (uint32_t)row, first);
	return count;
}

/** Taps of a window that are looked up together, and rows that these can be in. */
#define VMCU_POOL_TAPS 64
#define VMCU_POOL_ROWS 8

/** Of a window, in registers: the same for all channels. */
struct vmcu_pool_window {
	const int8_t *x; /**< first tap */
	const int32_t *offsets;
	const int32_t *end;
	int32_t low; /**< bounds of maxima */
	int32_t high;
	const struct vmcu_average_pool_params *mean; /**< NULL for maxima */
	int32_t divisor;
	int32_t addend;
};

/** The windows of an output row. */
struct vmcu_pooling {
	struct vmcu_source in;
	struct vmcu_taps tall; /**< rows */
	struct vmcu_taps wide; /**< columns */
	struct vmcu_taps left; /**< those of @a row that are not looked up */
	int32_t row;
	bool is_whole;  /**< no row is split: their addresses are in @a rows */
	bool is_listed; /**< all taps are looked up, otherwise some at a time */
	const int8_t *rows[VMCU_POOL_ROWS];
	struct vmcu_pool_window window;
	int32_t offsets[VMCU_POOL_TAPS + 1]; /**< from the first one; the last one twice */
};

/** Starts with a row of windows. */
VMCU_APART void vmcu_pool_of(struct vmcu_pooling *pool, const struct vmcu_call *call,
			     const struct vmcu_window *window)
{
	const struct vmcu_tensor *t = vmcu_call_input(call, 0);
	const uint32_t bytes = (uint32_t)t->width * t->channels;
	int32_t row = call->y * window->stride_h - window->pad_top;
	bool is_whole = true;
	int32_t rows;

	pool->in.pool = call->pool;
	pool->in.tensor = t;
	pool->in.window = window;
	pool->window.offsets = pool->offsets;
	pool->tall = vmcu_taps(row, window->kernel_h, window->dilation_h, t->height);
	row = vmcu_tap(&pool->tall, pool->tall.begin);
	rows = pool->tall.end - pool->tall.begin;
	for (int32_t r = 0; r < rows && is_whole; r++, row += window->dilation_h) {
		const uint32_t place = vmcu_place(t, (uint32_t)row, 0);
		const int8_t *x = vmcu_row(call->pool, t, (uint32_t)row);

		is_whole = r < VMCU_POOL_ROWS && vmcu_straight(call->pool, t, place, x, bytes);
		if (is_whole) {
			pool->rows[r] = x;
		}
	}
	pool->is_whole = is_whole;
}

/**
 * Looks up the next taps of a window, all in one row: writes their offsets to @a at. Returns false
 * behind the last ones, and starts again.
 */
VMCU_CALLED bool vmcu_pool_next(struct vmcu_pooling *pool, int32_t *at)
{
	const int32_t channels = pool->in.tensor->channels;
	struct vmcu_taps some = pool->left;
	int32_t n = vmcu_min(some.end - some.begin, VMCU_POOL_TAPS);
	const int8_t *x;
	int32_t offset;

	if (n == 0) {
		pool->row = pool->tall.begin;
		pool->left = pool->wide;
		return false;
	}
	if (pool->is_whole) {
		x = pool->rows[pool->row - pool->tall.begin] +
		    vmcu_tap(&some, some.begin) * channels;
	} else {
		some.end = some.begin + n;
		n = vmcu_next_taps(&pool->in, &some, vmcu_tap(&pool->tall, pool->row), &x);
	}
	pool->left.begin += n;
	if (pool->left.begin == pool->left.end && ++pool->row < pool->tall.end) {
		pool->left = pool->wide;
	}
	if (at == pool->offsets) {
		pool->window.x = x;
	}
	for (offset = (int32_t)(x - pool->window.x); n > 0; n--) {
		*at++ = offset;
		offset += some.dilation * channels;
	}
	*at = at[-1];
	pool->window.end = at;
	return true;
}

/** Sets the divisor of the sum of a window, and the addend before it. */
VMCU_INLINE void vmcu_pool_mean(struct vmcu_pool_window *w, int32_t inside)
{
	const struct vmcu_average_pool_params *p = w->mean;

	w->divisor = inside;
	if (p->count_padding || inside == 0) {
		w->divisor = p->window.kernel_h * p->window.kernel_w;
	}
	w->addend = p->input_zero * ((p->rescale ? 0 : w->divisor) - inside);
}

/** Moves to a window, @a left of a call; returns how many have the same offsets, from there on. */
VMCU_APART int32_t vmcu_pool_find(struct vmcu_pooling *pool, const struct vmcu_call *call,
				  int32_t left)
{
	const bool is_descending = call->layer->descending != 0;
	const int32_t x = call->x + (is_descending ? left : call->columns - left + 1) - 1;
	const struct vmcu_window *w = pool->in.window;
	const int32_t width = pool->in.tensor->width;
	const int32_t pixel = x * w->stride_w - w->pad_left;
	const int32_t behind = width - 1 - (w->kernel_w - 1) * w->dilation_w - pixel;
	int32_t *at = pool->offsets;
	int32_t inside;

	pool->wide = vmcu_taps(pixel, w->kernel_w, w->dilation_w, width);
	inside = (pool->tall.end - pool->tall.begin) * (pool->wide.end - pool->wide.begin);
	if (inside == 0) {
		pool->wide.end = pool->wide.begin;
	}
	if (pool->window.mean != NULL) {
		vmcu_pool_mean(&pool->window, inside);
	}
	pool->row = pool->tall.begin;
	pool->left = pool->wide;
	pool->is_listed = inside > 0 && inside <= VMCU_POOL_TAPS;
	while (pool->is_listed && vmcu_pool_next(pool, at)) {
		at = &pool->offsets[pool->window.end - pool->offsets];
	}
	if (!pool->is_whole || !pool->is_listed || pixel < 0 || behind < 0) {
		return 1;
	}
	return vmcu_min(left, (is_descending ? pixel : behind) / w->stride_w + 1);
}

/** Four channels from @a c on, of a window whose taps are listed. */
typedef void vmcu_pool_four(const struct vmcu_pool_window *w, int32_t c, int8_t *out);

VMCU_POOL_PART void vmcu_most_four(const struct vmcu_pool_window *w, int32_t c, int8_t *out)
{
	int32_t acc[4];

	vmcu_most_start(acc, w->low);
	vmcu_most_list(acc, w->x + c, w->offsets, w->end, 4);
	vmcu_most_store(acc, out, w->high, 4);
}

VMCU_POOL_PART void vmcu_mean_four(const struct vmcu_pool_window *w, int32_t c, int8_t *out)
{
	int32_t acc[] = {w->addend, w->addend, w->addend, w->addend};

	vmcu_sum_list(acc, w->x + c, w->offsets, w->end, 4);
	for (int32_t i = 0; i < 4; i++) {
		out[i] = vmcu_mean(w->mean, acc[i], w->divisor);
	}
}

/** Up to four channels from @a c on, of any window. */
VMCU_CALLED void vmcu_pool_any(struct vmcu_pooling *pool, int32_t c, int8_t *out, int32_t lanes)
{
	const struct vmcu_pool_window *w = &pool->window;
	int32_t acc[] = {w->addend, w->addend, w->addend, w->addend};

	if (w->mean == NULL) {
		vmcu_most_start(acc, w->low);
	}
	for (bool more = pool->is_listed || vmcu_pool_next(pool, pool->offsets); more;
	     more = !pool->is_listed && vmcu_pool_next(pool, pool->offsets)) {
		if (w->mean == NULL) {
			vmcu_most_list(acc, w->x + c, w->offsets, w->end, lanes);
		} else {
			vmcu_sum_list(acc, w->x + c, w->offsets, w->end, lanes);
		}
	}
	if (w->mean == NULL) {
		vmcu_most_store(acc, out, w->high, lanes);
		return;
	}
	for (int32_t i = 0; i < lanes; i++) {
		out[i] = vmcu_mean(w->mean, acc[i], w->divisor);
	}
}

/** A call's columns. The compiler may put `four` into the loop. */
VMCU_POOL_ROW void vmcu_pool_row(const struct vmcu_call *call, struct vmcu_pooling *pool,
				 vmcu_pool_four *four)
{
	const int32_t channels = vmcu_call_output(call)->channels;
	const int32_t sign = (call->layer->descending != 0) ? -1 : 1;
	const int32_t step = sign * pool->in.window->stride_w * channels;
	int8_t *to = vmcu_output_start(call);
	int32_t left = call->columns;

	if (sign < 0) {
		to += (left - 1) * channels;
	}
	while (left > 0) {
		int32_t same = vmcu_pool_find(pool, call, left);
		const int32_t fours = pool->is_listed ? channels & ~3 : 0;
		struct vmcu_pool_window w = pool->window;

		left -= same;
		for (; same > 0; same--, to += sign * channels) {
			int32_t c = 0;

			for (; c < fours; c += 4) {
				four(&w, c, to + c);
			}
			if (c < channels) {
				pool->window.x = w.x;
				for (; c < channels; c += 4) {
					vmcu_pool_any(pool, c, to + c, vmcu_min(channels - c, 4));
				}
			}
			/* Where no taps are listed there is no address, and nobody reads it. */
			w.x = (const int8_t *)((uintptr_t)w.x + (uintptr_t)step);
		}
	}
}

VMCU_APART void vmcu_max_row(const struct vmcu_call *call)
{
	const struct vmcu_max_pool_params *p = vmcu_params(call);
	struct vmcu_pooling pool;

	pool.window.mean = NULL;
	pool.window.addend = 0;
	pool.window.low = p->act_min;
	pool.window.high = p->act_max;
	vmcu_pool_of(&pool, call, &p->window);
	vmcu_pool_row(call, &pool, vmcu_most_four);
}

VMCU_APART void vmcu_mean_row(const struct vmcu_call *call)
{
	const struct vmcu_average_pool_params *p = vmcu_params(call);
	struct vmcu_pooling pool;

	pool.window.mean = p;
	vmcu_pool_of(&pool, call, &p->window);
	vmcu_pool_row(call, &pool, vmcu_mean_four);
}

#endif /* VMCU_KERNELS_POOLING_H_ */
