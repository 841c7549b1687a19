/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <stddef.h>

#include "gen/isa.h"

/** Sums that values are added up in at a time. */
#define LANES 4

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
static int32_t outside(const struct seen *s)
{
	return (s->first < 0) ? vmcu_min(-s->first, s->count) : 0;
}

/** Where the rows of the window that are there end. */
static int32_t inside(const struct seen *s)
{
	return vmcu_min(s->count, s->rows->height - s->first);
}

/** The scores of a query, before they are bytes of softmax. */
static void score(const struct job *job, const int8_t *query)
{
	const struct vmcu_product *q = &job->p->scores;
	const int32_t start = vmcu_product_start(query, job->depth, q->x_zero, q->y_zero);
	const int32_t stop = inside(&job->keys);
	const int32_t nothing = 0;
	int32_t at = outside(&job->keys);
	const int8_t *key;

	vmcu_product_store(q, &nothing, job->line, 1);
	for (int32_t i = job->keys.count - 1; i > 0; i--) {
		if (i < at || i >= stop) {
			job->line[i] = job->line[0];
		}
	}
	while (at < stop) {
		const int32_t end = at + side_by_side(&job->keys, at, stop, &key);

		for (; at < end; at++, key += job->keys.rows->channels) {
			const int32_t acc =
				vmcu_product_row(start, query, key, job->depth, q->x_zero);

			vmcu_product_store(q, &acc, &job->line[at], 1);
		}
	}
}

/** What softmax is of: scores by the table, with the bias of their row and head. */
static void adjust(const struct vmcu_call *call, const struct job *job, int32_t head)
{
	const struct vmcu_attention_params *p = job->p;
	const int8_t *table = vmcu_constants(call, p->table);
	const int8_t *bias = vmcu_constants(call, p->score_bias);
	const struct vmcu_float_sum *sum = vmcu_constants(call, p->sum);

	for (int32_t i = 0; p->table != NULL && i < job->keys.count; i++) {
		job->line[i] = table[job->line[i] - INT8_MIN];
	}
	if (p->score_bias == NULL || !vmcu_requant_is_float(true)) {
		return;
	}
	bias += head * p->bias_head + call->y * p->bias_row;
	for (int32_t i = 0; i < job->keys.count; i++) {
		job->line[i] = vmcu_saturate8(vmcu_float_sum_of(sum, job->line[i], bias[i]));
	}
}

/** Values times weights. */
static void add_up(const struct job *job, int8_t *out)
{
	const struct vmcu_product *q = &job->p->output;
	const int32_t begin = outside(&job->values);
	const int32_t stop = inside(&job->values);
	const int32_t start = vmcu_product_start(job->line + begin, stop - begin, q->x_zero,
						 q->y_zero);
	const int8_t *value;

	for (int32_t c = 0; c < job->width; c += LANES) {
		const int32_t lanes = vmcu_min(job->width - c, LANES);
		int32_t acc[LANES] = {start, start, start, start};
		int32_t at = begin;

		while (at < stop) {
			const int32_t rows = side_by_side(&job->values, at, stop, &value);

			vmcu_product_columns(acc, job->line + at, value + c, rows,
					     job->values.rows->channels, lanes, q->x_zero);
			at += rows;
		}
		vmcu_product_store(q, acc, out + c, lanes);
	}
}

static struct seen seen(const struct vmcu_call *call, uint16_t input)
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

VMCU_SMALL void vmcu_attention(const struct vmcu_call *call)
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
		.keys = seen(call, 1),
		.values = seen(call, 2),
		.depth = vmcu_call_input(call, 0)->channels / p->heads,
		.width = vmcu_call_output(call)->channels / p->heads,
		.line = call->scratch,
	};

	for (int32_t head = 0; head < p->heads; head++) {
		job.keys.channel = head / p->sharing * job.depth;
		job.values.channel = head / p->sharing * job.width;
		score(&job, query);
		adjust(call, &job, head);
		if (p->gain != 0U) {
			vmcu_softmax_onnx_pixel(&softmax, job.line, job.line, job.keys.count);
		} else {
			vmcu_softmax_tflite_pixel(&softmax, job.line, job.line, job.keys.count);
		}
		add_up(&job, out);
		query += job.depth;
		out += job.width;
	}
}
