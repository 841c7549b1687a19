/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The input of planners on the device, and the tables that their plans become.
 */

#include <errno.h>

#include "check.h"
#include "online.h"

#include "../compiled.h"

#if defined(VMCU_ONLINE_PLANNER)

/** The most bytes of all tensors, and the largest distance: their sums stay within 32 bits. */
#define MOST_BYTES (INT32_MAX / 4)

/** Stands for a step that is not known. */
#define NEVER UINT16_MAX

/** True if every layer is on its own and called row by row. */
static bool is_one_by_one(const struct vmcu_model *model)
{
	if (model->streamed || model->layer_count >= NEVER - 1U ||
	    model->stage_count != model->layer_count ||
	    (uint32_t)model->input_count + model->layer_count != model->tensor_count) {
		return false;
	}
	for (uint32_t i = 0; i < model->stage_count; i++) {
		if (model->stages[i].schedule != NULL || model->stages[i].first != i ||
		    model->stages[i].count != 1U) {
			return false;
		}
	}
	return true;
}

/** Takes the next tensor into the order, at a step; false for none, and for one that is there. */
static bool add_to_order(struct vmcu_online *o, uint32_t at, uint32_t tensor, uint32_t step)
{
	if (tensor >= o->count || o->buffers[tensor].first != NEVER) {
		return false;
	}
	o->order[at] = (uint16_t)tensor;
	o->buffers[tensor].first = (uint16_t)step;
	o->buffers[tensor].last = (uint16_t)step;
	return true;
}

static bool is_distance(const struct vmcu_container_distance *d)
{
	for (uint32_t way = 0; way < 2U; way++) {
		if (d->below[way] > MOST_BYTES || d->below[way] < -MOST_BYTES ||
		    d->above[way] > MOST_BYTES || d->above[way] < -MOST_BYTES) {
			return false;
		}
	}
	return true;
}

/** Notes when a layer's tensors live; false if it names others, or distances that are not there. */
static bool take_layer(struct vmcu_online *o, const struct vmcu_loading *l, uint32_t number)
{
	const struct vmcu_container_step *step = &o->steps[number];
	const struct vmcu_layer *layer = &o->layers[number];
	const struct vmcu_check c = {.data = l->data, .size = l->size, .model = o->model};
	const uint16_t *inputs = vmcu_at(o->model->base, layer->inputs);

	if (step->descends > 1U || step->scratch > MOST_BYTES ||
	    (uint32_t)step->distance + layer->input_count > l->online->distance_count ||
	    !vmcu_check_array(&c, layer->inputs, layer->input_count, sizeof(*inputs))) {
		return false;
	}
	for (uint32_t i = 0; i < layer->input_count; i++) {
		if (inputs[i] >= o->count || o->buffers[inputs[i]].first == NEVER ||
		    !is_distance(&o->distances[step->distance + i])) {
			return false;
		}
		o->buffers[inputs[i]].last = (uint16_t)(number + 1U);
	}
	return add_to_order(o, o->model->input_count + number, layer->output, number + 1U);
}

/** Notes the sizes of all tensors; false if one has none, or all have too many bytes. */
static bool take_sizes(struct vmcu_online *o)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < o->model->layer_count; i++) {
		total += o->steps[i].scratch;
	}
	for (uint32_t i = 0; i < o->count; i++) {
		const struct vmcu_tensor *t = &o->tensors[i];
		const uint64_t bytes = (uint64_t)t->height * t->width * t->channels;

		total += bytes + 16U;
		if (bytes == 0U || bytes > MOST_BYTES || total > MOST_BYTES) {
			return false;
		}
		o->buffers[i] = (struct vmcu_buffer){.size = (int32_t)bytes, .first = NEVER};
	}
	return true;
}

/** Finds all that planners start from. */
static int take_model(struct vmcu_online *o, struct vmcu_loading *l)
{
	const struct vmcu_model *model = o->model;

	if (!take_sizes(o)) {
		return vmcu_refuse(l, -EBADMSG, "sizes", 0U);
	}
	for (uint32_t i = 0; i < model->input_count; i++) {
		if (!add_to_order(o, i, model->inputs[i].tensor, 0U)) {
			return vmcu_refuse(l, -EBADMSG, "input", i);
		}
	}
	for (uint32_t i = 0; i < model->layer_count; i++) {
		if (!take_layer(o, l, i)) {
			return vmcu_refuse(l, -EBADMSG, "distances of layer", i);
		}
	}
	for (uint32_t i = 0; i < model->output_count; i++) {
		if (model->outputs[i].tensor >= o->count) {
			return vmcu_refuse(l, -EBADMSG, "output", i);
		}
		o->buffers[model->outputs[i].tensor].last = (uint16_t)(model->layer_count + 1U);
	}
	return 0;
}

/** Allocates RAM for tables that stay, and, in the arena's head, for the planners' data. */
static int take_room(struct vmcu_online *o, struct vmcu_loading *l)
{
	const size_t each = sizeof(*o->buffers) + sizeof(*o->order) + sizeof(*o->work);
	const size_t tensors = o->count * sizeof(*o->tensors);
	const size_t layers = o->model->layer_count * sizeof(*o->layers);

	o->tensors = vmcu_take_tail(l, tensors);
#if UINTPTR_MAX > UINT32_MAX
	o->layers = (struct vmcu_layer *)(uintptr_t)o->model->layers;
#else
	o->layers = vmcu_take_tail(l, layers);
#endif
	if (l->tail + o->count * each > l->arena_size) {
		return vmcu_refuse(l, -ENOMEM, "arena", (uint32_t)(l->tail + o->count * each));
	}
	__builtin_memcpy(o->tensors, o->model->tensors, tensors);
	if (o->layers != o->model->layers) {
		__builtin_memcpy(o->layers, o->model->layers, layers);
	}
	o->buffers = (struct vmcu_buffer *)(void *)l->arena;
	o->order = (uint16_t *)(void *)(o->buffers + o->count);
	o->work = o->order + o->count;
	return 0;
}

static int take_tables(struct vmcu_online *o, struct vmcu_loading *l)
{
	const struct vmcu_container_online *t = l->online;

	if (t == NULL || t->steps == 0U) {
		return vmcu_refuse(l, -ENOTSUP, "planner", 0U);
	}
	if (!vmcu_is_table(l, t->steps, o->model->layer_count, sizeof(*o->steps)) ||
	    !vmcu_is_table(l, t->distances, t->distance_count, sizeof(*o->distances))) {
		return vmcu_refuse(l, -EBADMSG, "distances", t->distances);
	}
	if (l->tables->circle != 0U || !is_one_by_one(o->model)) {
		return vmcu_refuse(l, -EBADMSG, "stages", o->model->stage_count);
	}
	o->steps = (const void *)&l->data[t->steps];
	o->distances = (const void *)&l->data[t->distances];
	return 0;
}

VMCU_SMALL int vmcu_online_plan(struct vmcu_model *model, struct vmcu_loading *l,
				enum vmcu_planner how)
{
	struct vmcu_online o = {.model = model, .count = model->tensor_count};
	bool overlapped = false;
	int err = take_tables(&o, l);

	if (err == 0) {
		err = take_room(&o, l);
	}
	if (err == 0) {
		err = take_model(&o, l);
	}
	if (err != 0) {
		return err;
	}
	if (how == VMCU_PLAN_SEGMENTS) {
		overlapped = vmcu_online_segments(&o);
	}
	if (!overlapped) {
		vmcu_online_greedy(&o);
	}
	for (uint32_t i = 0; i < o.count; i++) {
		o.tensors[i].base = (uint32_t)o.buffers[i].base;
		o.tensors[i].ring = (uint32_t)o.buffers[i].size;
		o.tensors[i].phase = 0U;
	}
	model->tensors = o.tensors;
	model->layers = o.layers;
	model->pool_bytes = (uint32_t)o.pool;
	return (how == VMCU_PLAN_SEGMENTS && !overlapped) ? 1 : 0;
}

#endif /* VMCU_ONLINE_PLANNER */
