/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Checks of models that keep rows from one answer to the next.
 *
 * Their first stage never ends: how often its layers have been called outlives an inference, so
 * that no layer at all may write there, and counts start over before one of them leaves its tensor.
 */

#include <errno.h>

#include "check.h"
#include "load.h"

#include "../compiled.h"

#if defined(VMCU_STREAMS)

/** How many entries of a part are the number @a entry. */
static uint32_t found_in(const uint8_t *schedule, uint32_t length, uint8_t entry)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < length; i++) {
		found += (schedule[i] == entry) ? 1U : 0U;
	}
	return found;
}

/** Calls of a layer for all of its columns. */
static uint64_t calls_of(const struct vmcu_layer *layer)
{
	return (uint64_t)((layer->width + layer->columns - 1U) / layer->columns) * layer->rows;
}

/** True if a part calls layers for no more than all of their columns, and takes some of the input.
 */
static bool is_part(const struct vmcu_check *c, const struct vmcu_stage *stage,
		    const struct vmcu_part *part)
{
	const struct vmcu_tensor *in = &c->model->tensors[c->model->inputs[0].tensor];
	const uint64_t start = (uintptr_t)stage->schedule + (uint64_t)part->start;
	const uint8_t *const schedule = &c->data[start];
	uint32_t entries;

	if (start + part->length > c->size) {
		return false;
	}
	/* A row is pushed into one part after the other until it is taken. */
	entries = found_in(schedule, part->length, VMCU_TAKE);
	if (entries == 0U || entries > (uint32_t)in->width * in->height) {
		return false;
	}
	for (uint32_t i = 0; i < stage->count; i++) {
		const uint32_t found = found_in(schedule, part->length, (uint8_t)i);

		if (found > calls_of(&c->model->layers[stage->first + i])) {
			return false;
		}
		entries += found;
	}
	return entries == part->length;
}

VMCU_SMALL bool vmcu_check_hops(const struct vmcu_check *c, const struct vmcu_stage *stage)
{
	const struct vmcu_part *parts = vmcu_at(c->model->base, stage->parts);

	return stage->count < VMCU_TAKE && stage->taken != 0U && stage->part_count == 2U &&
	       (uintptr_t)stage->schedule <= c->size &&
	       vmcu_check_array(c, stage->parts, stage->part_count, sizeof(*parts)) &&
	       parts[0].times == 1U && is_part(c, stage, &parts[0]) && is_part(c, stage, &parts[1]);
}

/** True if counts of calls, and of rows, start over within the tables, somewhere behind 0. */
static bool start_over(const struct vmcu_check *c)
{
	const struct vmcu_model *model = c->model;
	const struct vmcu_stream *stream = model->stream;
	const struct vmcu_stage *stage = &model->stages[0];
	const uint16_t *calls = vmcu_at(model->base, stream->calls);
	const uint16_t *again = vmcu_at(model->base, stream->again);

	if (!vmcu_check_array(c, stream->calls, stage->count, sizeof(*calls)) ||
	    !vmcu_check_array(c, stream->again, stage->count, sizeof(*again))) {
		return false;
	}
	for (uint32_t i = 0; i < stage->count; i++) {
		if (calls[i] > calls_of(&model->layers[i]) || again[i] >= calls[i]) {
			return false;
		}
	}
	return stream->rows != 0U && stream->rows < model->tensors[model->inputs[0].tensor].height;
}

/** True if nothing is written where the stage that never ends counts its calls. */
static bool counts_stay(const struct vmcu_check *c, const struct vmcu_loading *l)
{
	const struct vmcu_stage *stage = &c->model->stages[0];
	const uint32_t bytes = (uint32_t)sizeof(uint16_t) * stage->count;
	const struct vmcu_layer counts = {.scratch = stage->progress};
	const struct vmcu_check counting = {.model = c->model, .layer = &counts};

	for (uint32_t i = 1; i < c->model->stage_count; i++) {
		const struct vmcu_tensor others = {
			.base = c->model->stages[i].progress,
			.ring = (uint32_t)sizeof(uint16_t) * c->model->stages[i].count,
		};

		if (c->model->stages[i].schedule != NULL &&
		    !vmcu_check_apart(&counting, bytes, &others)) {
			return false;
		}
	}
	return vmcu_check_counts(c, l, stage, 0U, c->model->layer_count);
}

/** True if the saved bytes are in the pool, counts of calls among them. */
static bool is_saved(const struct vmcu_model *model)
{
	const struct vmcu_stream *stream = model->stream;
	const uint64_t end = (uint64_t)stream->state + stream->state_bytes;
	const uint32_t counts = model->stages[0].progress;

	return end <= model->pool_bytes && counts >= stream->state &&
	       counts + (uint64_t)sizeof(uint16_t) * model->stages[0].count <= end;
}

/** True if stages that keep states are layers on their own, behind the one that never ends. */
static bool are_states(const struct vmcu_model *model)
{
	if (model->stream->states >= model->stage_count) {
		return false;
	}
	for (uint32_t i = model->stage_count - (uint32_t)model->stream->states;
	     i < model->stage_count; i++) {
		if (model->stages[i].schedule != NULL) {
			return false;
		}
	}
	return true;
}

VMCU_SMALL int vmcu_check_stream(const struct vmcu_model *model, struct vmcu_loading *l)
{
	const struct vmcu_check c = {.data = l->data, .size = l->size, .model = model};

	if (model->stream == NULL) {
		return 0;
	}
	if (!is_saved(model)) {
		return vmcu_refuse(l, -EBADMSG, "state", model->stream->state);
	}
	if (!are_states(model) || !start_over(&c) || !counts_stay(&c, l)) {
		return vmcu_refuse(l, -EBADMSG, "stream", model->stream->rows);
	}
	return 0;
}

#endif /* VMCU_STREAMS */
