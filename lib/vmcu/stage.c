/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Computes a stage of several layers in the order of its schedule.
 */

#include "stage.h"

#include "compiled.h"
#include "hooks.h"
#include "streams.h"

/** How many calls of each layer have been made. */
static uint16_t *progress_of(const struct vmcu_context *ctx, const struct vmcu_stage *stage)
{
	return (uint16_t *)(void *)vmcu_pool_run(&ctx->pool, stage->progress);
}

VMCU_SMALL void vmcu_stage_start(struct vmcu_context *ctx, const struct vmcu_stage *stage)
{
	uint16_t *progress = progress_of(ctx, stage);

	for (uint16_t i = 0; i < stage->count; i++) {
		progress[i] = 0U;
	}
}

/** A row that the caller delivers: the rest of row @a y, from column @a x on; NULL: none. */
struct pending_row {
	const int8_t *row;
	uint16_t y;
	uint16_t x;
};

static uint16_t smaller_of(uint16_t a, uint16_t b)
{
	return (a < b) ? a : b;
}

/** Calls vmcu_unsplit(), whose code is in this file once. */
VMCU_CALLED uint16_t count_unsplit(const struct vmcu_tensor *t, uint16_t y, uint16_t x,
				   uint16_t columns)
{
	return (uint16_t)vmcu_unsplit(t, y, x, columns);
}

/** Of a call's columns, those that no ring splits. */
VMCU_CALLED uint16_t in_one_piece(const struct vmcu_call *call, uint16_t columns)
{
	uint8_t splits = call->layer->splits >> 1;

	if ((call->layer->splits & 1U) != 0U) {
		columns = count_unsplit(vmcu_call_output(call), call->y, call->x, columns);
	}
	for (uint16_t i = 0; splits != 0U; i++, splits >>= 1) {
		if ((splits & 1U) != 0U) {
			columns =
				count_unsplit(vmcu_call_input(call, i), call->y, call->x, columns);
		}
	}
	return columns;
}

/** The next call of a layer. */
static void call_next(const struct vmcu_context *ctx, struct vmcu_call *call, uint16_t *made)
{
	const struct vmcu_layer *layer = call->layer;
	const uint32_t across = (layer->width + layer->columns - 1U) / layer->columns;
	const uint32_t number = (*made)++;
	uint16_t left;

	call->y = (uint16_t)(number / across);
	call->x = (uint16_t)((number - call->y * across) * layer->columns);
	left = smaller_of(layer->columns, (uint16_t)(layer->width - call->x));
	if (layer->splits == 0U) {
		call->columns = left;
		vmcu_hook_call(ctx, call);
		return;
	}
	while (left != 0U) {
		call->columns = in_one_piece(call, left);
		vmcu_hook_call(ctx, call);
		call->x = (uint16_t)(call->x + call->columns);
		left = (uint16_t)(left - call->columns);
	}
}

/** Takes the next columns of the input from the caller's row. */
VMCU_CALLED void take_columns(const struct vmcu_context *ctx, struct pending_row *pending,
			      uint16_t most)
{
	const struct vmcu_tensor *in = &ctx->model->tensors[ctx->model->inputs[0].tensor];
	uint16_t columns = smaller_of(most, (uint16_t)(in->width - pending->x));

	while (columns != 0U) {
		const uint16_t part = count_unsplit(in, pending->y, pending->x, columns);

		__builtin_memcpy(vmcu_pixel(&ctx->pool, in, pending->y, pending->x),
				 &pending->row[(uint32_t)pending->x * in->channels],
				 (size_t)part * in->channels);
		pending->x = (uint16_t)(pending->x + part);
		columns = (uint16_t)(columns - part);
	}
	if (pending->x == in->width) {
		pending->row = NULL;
		pending->y = vmcu_row_behind(ctx->model, pending->y);
	}
}

/** True in front of a call that needs a row that is not there, or of one that was cancelled. */
static inline bool must_stop(const struct vmcu_context *ctx, const struct pending_row *pending,
			     uint8_t number)
{
#if defined(VMCU_STREAMS)
	/* Of a stream every row counts, those of a cancelled hop too. */
	return pending->row == NULL && (ctx->cancelled || number == VMCU_TAKE);
#else
	return ctx->cancelled || (number == VMCU_TAKE && pending->row == NULL);
#endif
}

/** Goes through a part from an entry on; the one that it stops short of, or the part's length. */
VMCU_CALLED uint16_t follow_part(const struct vmcu_context *ctx, const struct vmcu_stage *stage,
				 const struct vmcu_part *part, uint16_t entry,
				 struct pending_row *pending)
{
	const struct vmcu_layer *layers = &ctx->model->layers[stage->first];
	const uint8_t *schedule =
		(const uint8_t *)vmcu_at(vmcu_base(ctx->model), stage->schedule) + part->start;
	uint16_t *progress = progress_of(ctx, stage);
	uint32_t scratch[VMCU_STACK_SCRATCH / sizeof(uint32_t)];
	struct vmcu_call call = {
		.pool = &ctx->pool,
		.tensors = ctx->model->tensors,
		.input = ctx->input,
#if defined(VMCU_CONTAINERS)
		.base = ctx->model->base,
#endif
	};

	for (; entry < part->length; entry++) {
		const uint8_t number = schedule[entry];

		if (must_stop(ctx, pending, number)) {
			break;
		}
		if (number == VMCU_TAKE) {
			take_columns(ctx, pending, stage->taken);
			continue;
		}
		VMCU_ASSERT(number < stage->count);
		call.layer = &layers[number];
		call.scratch = vmcu_scratch(ctx, call.layer, scratch);
		call_next(ctx, &call, &progress[number]);
		vmcu_come_round(ctx->model, stage, number, &progress[number]);
	}
	return entry;
}

#if defined(VMCU_STREAMS)
VMCU_SMALL bool vmcu_stage_first_hop(const struct vmcu_context *ctx)
{
	const struct vmcu_stage *unbounded = ctx->model->stages;
	const uint16_t counted = progress_of(ctx, unbounded)[unbounded->count - 1U];

	/* Its last layer counts hops at their end, and never starts over so far down. */
	return counted == 0U || (counted == 1U && ctx->positions[0].entry == 0U);
}

/** vmcu_stage_run() of a stream. */
static bool run_hop(const struct vmcu_context *ctx, const struct vmcu_stage *stage,
		    struct vmcu_position *at, const int8_t *row)
{
	const struct vmcu_part *parts = vmcu_at(vmcu_base(ctx->model), stage->parts);
	struct pending_row pending = {.row = row, .y = at->rows};
	bool done;

	do {
		const struct vmcu_part *part = &parts[at->part];

		at->entry = follow_part(ctx, stage, part, at->entry, &pending);
		done = at->entry == part->length;
		if (done) {
			at->part = 1U;
			at->entry = 0U;
		}
		/* A row that is left: the hop was a cancelled one, too late for an answer. */
	} while (done && pending.row != NULL);
	at->rows = pending.y;
	return done;
}
#endif

VMCU_SMALL bool vmcu_stage_run(const struct vmcu_context *ctx, const struct vmcu_stage *stage,
			       struct vmcu_position *at, const int8_t *row)
{
#if defined(VMCU_STREAMS)
	if (vmcu_is_unbounded(ctx->model, stage)) {
		return run_hop(ctx, stage, at, row);
	}
#endif
	const struct vmcu_part *parts = vmcu_at(vmcu_base(ctx->model), stage->parts);
	struct pending_row pending = {.row = row, .y = at->rows};
	uint16_t entry = at->entry;
	uint16_t time = at->time;

	for (uint16_t number = at->part; number < stage->part_count; number++) {
		const struct vmcu_part *part = &parts[number];

		for (; time < part->times; time++) {
			entry = follow_part(ctx, stage, part, entry, &pending);
			if (entry < part->length) {
				*at = (struct vmcu_position){
					.rows = pending.y,
					.part = number,
					.time = time,
					.entry = entry,
				};
				return false;
			}
			entry = 0U;
		}
		time = 0U;
	}
	return true;
}
