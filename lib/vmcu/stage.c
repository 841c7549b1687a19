/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Computes a stage of several layers in the order of its schedule.
 */

#include "stage.h"

#include "hooks.h"

/** How many calls of each layer have been made. */
static uint16_t *progress_of(const struct vmcu_context *ctx, const struct vmcu_stage *stage)
{
	return (uint16_t *)(void *)(ctx->pool.start + stage->progress);
}

void vmcu_stage_start(struct vmcu_context *ctx, const struct vmcu_stage *stage)
{
	uint16_t *progress = progress_of(ctx, stage);

	for (uint16_t i = 0; i < stage->count; i++) {
		progress[i] = 0U;
	}
	ctx->at.part = 0U;
	ctx->at.time = 0U;
	ctx->at.entry = 0U;
}

/** The next call of a layer. */
static void call_next(const struct vmcu_context *ctx, struct vmcu_call *call, uint16_t *made)
{
	const struct vmcu_layer *layer = call->layer;
	const uint32_t pixel = (uint32_t)*made * layer->columns;

	call->y = (uint16_t)(pixel / layer->width);
	call->x = (uint16_t)(pixel % layer->width);
	call->columns = layer->columns;
	vmcu_hook_call(ctx, call);
	(*made)++;
}

/** Goes through a part from an entry on; the entry behind a wait, or 0 at the part's end. */
static uint16_t follow(const struct vmcu_context *ctx, const struct vmcu_stage *stage,
		       const struct vmcu_part *part, uint16_t entry)
{
	const struct vmcu_layer *layers = &ctx->model->layers[stage->first];
	const uint8_t *schedule = &stage->schedule[part->start];
	uint16_t *progress = progress_of(ctx, stage);
	uint32_t scratch[VMCU_STACK_SCRATCH / sizeof(uint32_t)];
	struct vmcu_call call = {.pool = &ctx->pool, .tensors = ctx->model->tensors};

	while (entry < part->length) {
		const uint8_t number = schedule[entry++];

		if (number == VMCU_WAIT || ctx->cancelled) {
			return entry;
		}
		call.layer = &layers[number];
		call.scratch = vmcu_scratch(ctx, call.layer, scratch);
		call_next(ctx, &call, &progress[number]);
	}
	return 0U;
}

bool vmcu_stage_run(struct vmcu_context *ctx, const struct vmcu_stage *stage)
{
	for (; ctx->at.part < stage->part_count; ctx->at.part++, ctx->at.time = 0U) {
		const struct vmcu_part *part = &stage->parts[ctx->at.part];

		for (; ctx->at.time < part->times; ctx->at.time++) {
			ctx->at.entry = follow(ctx, stage, part, ctx->at.entry);
			if (ctx->at.entry != 0U) {
				return false;
			}
		}
	}
	return true;
}
