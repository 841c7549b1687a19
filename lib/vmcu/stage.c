/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Computes a stage of several layers depth first, on demand.
 *
 * python/vmcu_tools/schedule.py yields the same calls in the same order; the plan relies on it.
 */

#include "stage.h"

/** A stage being computed. */
struct work {
	const struct vmcu_context *ctx;
	const struct vmcu_stage *stage;
	const struct vmcu_layer *layers;
	struct vmcu_progress *progress;
};

static struct work work_of(const struct vmcu_context *ctx, const struct vmcu_stage *stage)
{
	return (struct work){
		.ctx = ctx,
		.stage = stage,
		.layers = &ctx->model->layers[stage->first],
		.progress = (struct vmcu_progress *)(void *)(ctx->pool.start + stage->progress),
	};
}

void vmcu_stage_start(const struct vmcu_context *ctx, const struct vmcu_stage *stage)
{
	const struct work w = work_of(ctx, stage);

	for (uint16_t i = 0; i < stage->count; i++) {
		w.progress[i] = (struct vmcu_progress){0};
	}
}

/** True if an input does not reach as far as columns up to @a last of row @a y need it. */
static bool lacks(const struct work *w, const struct vmcu_feed *feed, const struct vmcu_tensor *t,
		  int32_t y, int32_t last)
{
	int32_t row = y * feed->stride_h + feed->after_h;
	int32_t column = last * feed->stride_w + feed->after_w;
	int32_t made_rows = w->ctx->rows;
	int32_t made_columns = 0;

	if (feed->producer != VMCU_STREAMED) {
		made_rows = w->progress[feed->producer].y;
		made_columns = w->progress[feed->producer].x;
	}
	row = (row < t->height) ? row : t->height - 1;
	column = (column < t->width) ? column : t->width - 1;
	return row >= 0 && (made_rows < row || (made_rows == row && made_columns <= column));
}

/** Who has to be called before a layer's next call; VMCU_READY if nobody. */
static uint16_t missing(const struct work *w, uint16_t number)
{
	const struct vmcu_layer *layer = &w->layers[number];
	const struct vmcu_feed *feed = &w->stage->feeds[layer->inputs - w->layers->inputs];
	const int32_t last = w->progress[number].x + layer->columns - 1;

	for (uint16_t i = 0; i < layer->input_count; i++, feed++) {
		const struct vmcu_tensor *t = &w->ctx->model->tensors[layer->inputs[i]];

		if (feed->producer != VMCU_READY &&
		    lacks(w, feed, t, w->progress[number].y, last)) {
			return feed->producer;
		}
	}
	return VMCU_READY;
}

static void call(const struct work *w, uint16_t number)
{
	const struct vmcu_layer *layer = &w->layers[number];
	struct vmcu_progress *at = &w->progress[number];
	uint32_t scratch[VMCU_STACK_SCRATCH / sizeof(uint32_t)];
	struct vmcu_call c = vmcu_call_of(w->ctx, layer, scratch);

	c.y = at->y;
	c.x = at->x;
	layer->kernel(&c);
	at->x = (uint16_t)(at->x + layer->columns);
	if (at->x == layer->width) {
		at->x = 0U;
		at->y++;
	}
}

/** Computes all of a layer's output; false if a row of the input is missing. */
static bool pull(const struct work *w, uint16_t goal)
{
	uint16_t number = goal;

	while (w->progress[goal].y < w->layers[goal].rows) {
		const uint16_t producer = missing(w, number);

		if (producer == VMCU_STREAMED) {
			return false;
		}
		if (producer != VMCU_READY) {
			w->progress[producer].wanted_by = number;
			number = producer;
			continue;
		}
		call(w, number);
		if (number != goal) {
			number = w->progress[number].wanted_by;
		}
	}
	return true;
}

bool vmcu_stage_run(const struct vmcu_context *ctx, const struct vmcu_stage *stage)
{
	const struct work w = work_of(ctx, stage);

	for (uint16_t i = stage->count; i > 0U; i--) {
		if (w.layers[i - 1U].kept && !pull(&w, (uint16_t)(i - 1U))) {
			return false;
		}
	}
	return true;
}
