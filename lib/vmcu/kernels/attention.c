/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <stddef.h>

#include "gen/isa.h"

/** Channels of values that are added up side by side: twice as many, see ops/attention.py. */
#define LANES 4
/** Keys that a query meets at a time. */
#define KEYS  4

/** Keys or values of a head as one query sees them. */
struct seen {
	const struct vmcu_pool *pool;
	const struct vmcu_tensor *rows;
	int32_t first;   /**< row of the tensor where the window begins */
	int32_t count;   /**< rows of the window */
	int32_t channel; /**< where the head's begin in a row */
};

/** A head of a row. */
struct job {
	const struct vmcu_attention_params *p;
	struct seen keys;
	struct seen values;
	int32_t depth; /**< of a query and a key */
	int32_t width; /**< of a value */
	int8_t *line;  /**< a score, then a weight, for each row of the window */
};

/**
 * Rows of the window from row @a at of it on that are inside the tensor and side by side, at
 * least one; @a x is the first.
 */
static int32_t side_by_side(const struct seen *s, int32_t at, int32_t stop, const int8_t **x)
{
	const uint32_t y = (uint32_t)(s->first + at);
	const int8_t *found = vmcu_pixel(s->pool, s->rows, y, 0U);
	const int32_t rows = vmcu_unsplit(s->rows, y, 0U, stop - at);
	const uint32_t bytes = (uint32_t)rows * s->rows->channels;

	*x = found + s->channel;
	return vmcu_straight(s->pool, s->rows, vmcu_place(s->rows, y, 0U), found, bytes) ? rows : 1;
}

/** Rows of the window in front of the tensor's first. */
static int32_t count_rows_above(const struct seen *s)
{
	return (s->first < 0) ? vmcu_min(-s->first, s->count) : 0;
}

/** Where the rows of the window that are there end; not before they begin. */
static int32_t end_of_rows(const struct seen *s)
{
	const int32_t end = vmcu_min(s->count, s->rows->height - s->first);
	const int32_t above = count_rows_above(s);

	return (end > above) ? end : above;
}

#if defined(VMCU_VECTORS)
/** Keys whose sums are requantised together. */
#define SUMS 64

/** Adds products of up to eight taps of a query and of rows of keys to their sums. */
VMCU_INLINE void add_taps(int32_t *sums, int16x8_t taps, const int8_t *key, int32_t pitch,
			  int32_t rows, int32_t left)
{
	const mve_pred16_t some = vctp16q((uint32_t)left);

	for (; left >= 8 && rows > 0; rows--, key += pitch, sums++) {
		*sums = vmladavaq_s16(*sums, taps, vldrbq_s16(key));
	}
	for (; rows > 0; rows--, key += pitch, sums++) {
		*sums = vmladavaq_s16(*sums, taps, vldrbq_z_s16(key, some));
	}
}

/** Scores of a query and @a rows keys that are side by side; @a start: where sums do. */
VMCU_APART void score_rows(const struct job *job, const int8_t *query, const int8_t *key,
			   int8_t *line, int32_t rows, int32_t start)
{
	const int32_t pitch = job->keys.rows->channels;
	int32_t sums[SUMS];

	for (; rows > 0; rows -= SUMS, line += SUMS, key += SUMS * pitch) {
		const int32_t keys = vmcu_min(rows, SUMS);

		for (int32_t i = 0; i < keys; i += 4) {
			vstrwq_s32(&sums[i], vdupq_n_s32(start));
		}
		for (int32_t d = 0; d < job->depth; d += 8) {
			const int32_t left = job->depth - d;
			const int16x8_t taps = vmcu_eight(query + d, job->p->scores.x_zero, left);

			add_taps(sums, taps, key + d, pitch, keys, left);
		}
		vmcu_product_store(&job->p->scores, sums, line, keys);
	}
}
#else
/** Scores of a query and @a rows keys that are side by side; @a start: where sums do. */
VMCU_APART void score_rows(const struct job *job, const int8_t *query, const int8_t *key,
			   int8_t *line, int32_t rows, int32_t start)
{
	const struct vmcu_product *q = &job->p->scores;
	const bool on_line =
		vmcu_requant_is_float(q->is_float != 0U) && (q->shift & VMCU_LINE_SHIFT) != 0;
	const struct vmcu_line constants =
		vmcu_line(q->multiplier, on_line ? q->shift : 1, q->output_zero);
	const int32_t pitch = job->keys.rows->channels;
	const int32_t left = job->depth & 3;
	const int32_t zero = q->x_zero;
	const int8_t *const end = query + job->depth - left;

	while (rows > 0) {
		/* Where there are fewer, one of them again and again. */
		const int32_t some = (rows >= KEYS) ? KEYS : 1;
		const int32_t next = (rows >= KEYS) ? pitch : 0;
		const int8_t *x = query;
		const int8_t *y = key;
		int32_t sums[KEYS];
		int32_t acc[KEYS] = {start, start, start, start};

		for (; x != end; x += 4, y += 4) {
			vmcu_dot_row_4(&acc[0], x, y, zero);
			vmcu_dot_row_4(&acc[1], x, y + next, zero);
			vmcu_dot_row_4(&acc[2], x, y + 2 * next, zero);
			vmcu_dot_row_4(&acc[3], x, y + 3 * next, zero);
		}
		if (left == 0 && on_line && some == KEYS) {
			line[0] = vmcu_saturate8(vmcu_on_line(constants, acc[0]));
			line[1] = vmcu_saturate8(vmcu_on_line(constants, acc[1]));
			line[2] = vmcu_saturate8(vmcu_on_line(constants, acc[2]));
			line[3] = vmcu_saturate8(vmcu_on_line(constants, acc[3]));
		} else {
			__builtin_memcpy(sums, acc, sizeof(sums));
			for (int32_t i = 0; left != 0 && i < KEYS; i++, y += next) {
				sums[i] = vmcu_product_row(sums[i], x, y, left, zero);
			}
			vmcu_product_store(q, sums, line, some);
		}
		line += some;
		key += some * pitch;
		rows -= some;
	}
}
#endif

/** The scores of a query, before they are bytes of softmax. */
static void score_query(const struct job *job, const int8_t *query)
{
	const struct vmcu_product *q = &job->p->scores;
	const int32_t start = vmcu_product_start(query, job->depth, q->x_zero, q->y_zero);
	const int32_t stop = end_of_rows(&job->keys);
	const int32_t nothing = 0;
	int32_t at = count_rows_above(&job->keys);
	const int8_t *key;

	if (stop - at < job->keys.count) {
		vmcu_product_store(q, &nothing, job->line, 1);
		__builtin_memset(job->line, job->line[0], (size_t)at);
		__builtin_memset(job->line + stop, job->line[0], (size_t)(job->keys.count - stop));
	}
	while (at < stop) {
		const int32_t rows = side_by_side(&job->keys, at, stop, &key);

		score_rows(job, query, key, job->line + at, rows, start);
		at += rows;
	}
}

#if defined(VMCU_VECTORS)
/** Adds the bias of its row and head to a line of scores. */
VMCU_APART void add_bias(const struct job *job, const int8_t *bias,
			 const struct vmcu_float_sum *sum)
{
	/* Copied, because the line's bytes may alias them. */
	const int32_t a_scale = sum->a_scale;
	const int32_t b_scale = sum->b_scale;
	const int32_t rest = sum->bias;
	const int32x4_t fraction = vdupq_n_s32(sum->fraction);
	const int32_t shift = -sum->shift;
	int8_t *x = job->line;

	for (int32_t left = job->keys.count; left > 0; left -= 4, x += 4, bias += 4) {
		int32x4_t total = vmulq_n_s32(vmcu_four(x, left), a_scale);

		total = vmlaq_n_s32(total, vmcu_four(bias, left), b_scale);
		total = vaddq_n_s32(total, rest);
		if (vcmpeqq_n_s32(vandq_s32(total, fraction), 0) == 0) {
			total = vshlq_r_s32(total, shift);
			vmcu_put_four(x, total, 0, INT8_MIN, INT8_MAX, left);
			continue;
		}
		for (int32_t i = 0; i < vmcu_min(left, 4); i++) {
			x[i] = vmcu_saturate8(vmcu_float_sum_of(sum, x[i], bias[i]));
		}
	}
}
#else
/** Adds the bias of its row and head to a line of scores. */
VMCU_APART void add_bias(const struct job *job, const int8_t *bias,
			 const struct vmcu_float_sum *sum)
{
	/* Copied, because the line's bytes may alias them. */
	const int32_t a_scale = sum->a_scale;
	const int32_t b_scale = sum->b_scale;
	const int32_t rest = sum->bias;
	const int32_t fraction = sum->fraction;
	const int32_t shift = sum->shift;
	int8_t *x = job->line;
	int8_t *const end = x + job->keys.count;

	while (x != end) {
		const int32_t total = *x * a_scale + *bias * b_scale + rest;

		*x = vmcu_saturate8(vmcu_near_half(total, fraction)
					    ? vmcu_float_sum_exact(sum, *x, *bias)
					    : total >> shift);
		x++;
		bias++;
	}
}
#endif

/** The inputs of softmax: scores by the table, with the bias. */
static void adjust_scores(const struct job *job, const int8_t *table, const int8_t *bias,
			  const struct vmcu_float_sum *sum)
{
	const struct vmcu_attention_params *p = job->p;
	int8_t *x = job->line;
	int8_t *const end = x + ((p->table != NULL) ? job->keys.count : 0);

#if defined(VMCU_VECTORS)
	for (; x < end; x += 16) {
		const mve_pred16_t some = vctp8q((uint32_t)(end - x));
		const uint8x16_t at = veorq_u8((uint8x16_t)vldrbq_z_s8(x, some), vdupq_n_u8(128));

		vstrbq_p_s8(x, vldrbq_gather_offset_z_s8(table, at, some), some);
	}
#endif
	while (x < end) {
		const int8_t score = table[*x - INT8_MIN];

		*x++ = score;
	}
	if (p->sum != NULL && vmcu_requant_is_float(true)) {
		add_bias(job, bias, sum);
	}
}

/** Adds rows times weights to two fours of sums, and where there are fewer channels to one. */
VMCU_APART void add_rows(int32_t *sums, const struct job *job, int32_t channel, int32_t lanes)
{
	const int32_t zero = job->p->output.x_zero;
	const int32_t pitch = job->values.rows->channels;
	const int32_t stop = end_of_rows(&job->values);
	int32_t at = count_rows_above(&job->values);
	const int8_t *value;

	while (at < stop) {
		const int32_t rows = side_by_side(&job->values, at, stop, &value);
		const int8_t *x = job->line + at;

		at += rows;
		value += channel;
#if defined(VMCU_VECTORS)
		for (int32_t i = 0; i < lanes; i += LANES) {
			vmcu_product_columns(&sums[i], x, value + i, rows, pitch, lanes - i, zero);
		}
#else
		if (lanes < 2 * LANES) {
			vmcu_product_columns(sums, x, value, rows, pitch, lanes, zero);
			continue;
		}
		const int8_t *const end = x + rows;
		int32_t acc[2 * LANES];

		__builtin_memcpy(acc, sums, sizeof(acc));
		for (; x != end; x++) {
			vmcu_dot_column_4(&acc[0], x, value, zero);
			vmcu_dot_column_4(&acc[LANES], x, value + LANES, zero);
			value += pitch;
		}
		__builtin_memcpy(sums, acc, sizeof(acc));
#endif
	}
}

/** Values times weights. */
static void add_up(const struct job *job, int8_t *out)
{
	const struct vmcu_product *q = &job->p->output;
	const int32_t begin = count_rows_above(&job->values);
	const int32_t start = vmcu_product_start(
		job->line + begin, end_of_rows(&job->values) - begin, q->x_zero, q->y_zero);
	int32_t lanes;

	for (int32_t c = 0; c < job->width; c += lanes) {
		int32_t sums[2 * LANES];

		lanes = job->width - c;
		lanes = (lanes >= 2 * LANES) ? 2 * LANES : vmcu_min(lanes, LANES);
		for (int32_t i = 0; i < 2 * LANES; i++) {
			sums[i] = start;
		}
		add_rows(sums, job, c, lanes);
		vmcu_product_store(q, sums, out + c, lanes);
	}
}

static struct seen view_window(const struct vmcu_call *call, uint16_t input)
{
	const struct vmcu_attention_params *p = vmcu_params(call);
	const struct vmcu_window *w = &p->window;

	return (struct seen){
		.pool = call->pool,
		.rows = vmcu_call_input(call, input),
		.first = call->y * w->stride_h - w->pad_top,
		.count = w->kernel_h,
	};
}

/** The bias of the first head's scores. */
static const int8_t *find_bias(const struct vmcu_call *call, int8_t *line)
{
	const struct vmcu_attention_params *p = vmcu_params(call);
	const int8_t *x = vmcu_constants(call, p->score_bias);
	struct seen rows;
	int32_t stop;
	int32_t at;

	if (p->sum == NULL || p->score_bias != NULL) {
		return x + call->y * p->bias_row;
	}
	if (p->mask_rows == 0U) {
		return vmcu_input_row(call, 3, (p->bias_row != 0U) ? call->y : 0U);
	}
	rows = view_window(call, 3);
	stop = end_of_rows(&rows);
	__builtin_memset(line, p->mask_pad, (size_t)rows.count);
	at = count_rows_above(&rows);
	while (at < stop) {
		const int32_t some = side_by_side(&rows, at, stop, &x);

		__builtin_memcpy(line + at, x, (size_t)some);
		at += some;
	}
	return line;
}

void vmcu_attention(const struct vmcu_call *call)
{
	const struct vmcu_attention_params *p = vmcu_params(call);
	const struct vmcu_softmax_params softmax = {
		.exp = vmcu_constants(call, p->exp),
		.gain = p->gain,
		.output_zero = p->weight_zero,
		.act_min = INT8_MIN,
		.act_max = INT8_MAX,
	};
	const int8_t *query = vmcu_input_row(call, 0, call->y);
	int8_t *out = vmcu_pixel(call->pool, vmcu_call_output(call), call->y, 0U);
	struct job job = {
		.p = p,
		.keys = view_window(call, 1),
		.values = view_window(call, 2),
		.depth = vmcu_call_input(call, 0)->channels / p->heads,
		.width = vmcu_call_output(call)->channels / p->heads,
		.line = call->scratch,
	};
	const struct vmcu_float_sum *sum = vmcu_constants(call, p->sum);
	const int8_t *table = vmcu_constants(call, p->table);
	const int8_t *bias = find_bias(call, job.line + job.keys.count);

	for (int32_t head = 0; head < p->heads; head++) {
		job.keys.channel = head / p->sharing * job.depth;
		job.values.channel = head / p->sharing * job.width;
		score_query(&job, query);
		adjust_scores(&job, table, bias, sum);
		if (p->gain != 0U) {
			vmcu_softmax_onnx_pixel(&softmax, job.line, job.line, job.keys.count);
		} else {
			vmcu_softmax_tflite_pixel(&softmax, job.line, job.line, job.keys.count);
		}
		add_up(&job, out);
		bias += p->bias_head;
		query += job.depth;
		out += job.width;
	}
}
