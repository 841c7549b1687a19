/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Checks of a model's tables: whatever they say, nothing outside pool and container is used.
 */

#include <errno.h>

#include "check.h"
#include "load.h"

#include "../compiled.h"
#include "../streams.h"

/** In addresses of several pools, the pool's number is above these. */
#define MOST_BYTES (UINT32_C(1) << 28)

/** True if no row is split by the pool's end, but only where the ring starts over. */
static bool rows_are_runs(const struct vmcu_model *model, const struct vmcu_tensor *t)
{
	for (uint32_t y = 0; y < t->height; y++) {
		for (uint32_t x = 0; x < t->width;) {
			const uint32_t pixels =
				(uint32_t)vmcu_unsplit(t, y, x, (int32_t)(t->width - x));
			const uint32_t at = t->base + vmcu_place(t, y, x);

			if (pixels == 0U || !vmcu_check_run(model, at, pixels * t->channels)) {
				return false;
			}
			x += pixels;
		}
	}
	return true;
}

static bool is_tensor(const struct vmcu_model *model, const struct vmcu_tensor *t)
{
	const uint32_t circle = vmcu_check_circle(model);
	const uint64_t bytes = (uint64_t)t->height * t->width * t->channels;

	return bytes != 0U && bytes < INT32_MAX / 2 && t->phase < INT32_MAX / 2 && t->ring != 0U &&
	       t->ring <= circle && t->base < circle && rows_are_runs(model, t);
}

VMCU_SMALL int vmcu_check_tensors(const struct vmcu_model *model, struct vmcu_loading *l)
{
	if (model->pool_bytes == 0U || model->pool_bytes >= MOST_BYTES) {
		return vmcu_refuse(l, -EBADMSG, "pool", model->pool_bytes);
	}
#if defined(VMCU_POOL_ROTATE)
	if (model->circle > model->pool_bytes ||
	    (model->step != 0U && model->step >= model->circle) || model->circle % 4U != 0U ||
	    model->step % 4U != 0U || (model->circle != 0U && l->stream != NULL)) {
		return vmcu_refuse(l, -EBADMSG, "circle", model->circle);
	}
#else
	if (l->tables->circle != 0U) {
		return vmcu_refuse(l, -ENOTSUP, "rotation", l->tables->circle);
	}
#endif
	for (uint32_t i = 0; i < model->tensor_count; i++) {
		if (!is_tensor(model, &model->tensors[i])) {
			return vmcu_refuse(l, -EBADMSG, "tensor", i);
		}
	}
	return 0;
}

/** True if the tensors, parameters and columns that a layer names exist. */
static bool is_layer(const struct vmcu_check *c, const struct vmcu_kernel *kernel)
{
	const struct vmcu_layer *layer = c->layer;
	const uint16_t *inputs = vmcu_at(c->model->base, layer->inputs);

	if (layer->output >= c->model->tensor_count || layer->input_count == 0U ||
	    layer->rows == 0U || layer->columns == 0U || layer->columns > layer->width ||
	    layer->descending > 1U ||
	    !vmcu_check_array(c, layer->inputs, layer->input_count, sizeof(*inputs))) {
		return false;
	}
	for (uint32_t i = 0; i < layer->input_count; i++) {
		if (inputs[i] >= c->model->tensor_count) {
			return false;
		}
	}
	return (kernel->bytes == 0U) == (layer->params == NULL);
}

static int check_layer(struct vmcu_check *c, struct vmcu_loading *l, uint32_t number)
{
	const struct vmcu_kernel *kernel;
	bool holds;

	c->layer = &c->model->layers[number];
	if ((uintptr_t)c->layer->kernel >= l->tables->kernel_count) {
		return vmcu_refuse(l, -EBADMSG, "kernel of layer", number);
	}
	kernel = vmcu_linked(l, (uint32_t)(uintptr_t)c->layer->kernel);
	if (!is_layer(c, kernel)) {
		return vmcu_refuse(l, -EBADMSG, "layer", number);
	}
	c->params = (kernel->bytes == 0U) ? NULL : vmcu_check_params(c, kernel);
	vmcu_show_chunk(c, l);
	holds = (kernel->bytes == 0U || c->params != NULL) && kernel->check(c);
	vmcu_show_chunk(c, NULL);
	return holds ? 0 : vmcu_refuse(l, -EBADMSG, "parameters of layer", number);
}

/** How often a schedule has an entry; UINT64_MAX if the schedule is not in the container. */
static uint64_t times_of(const struct vmcu_check *c, const struct vmcu_stage *stage, uint8_t entry)
{
	const struct vmcu_part *parts = vmcu_at(c->model->base, stage->parts);
	uint64_t total = 0;

	if (!vmcu_check_array(c, stage->parts, stage->part_count, sizeof(*parts))) {
		return UINT64_MAX;
	}
	for (uint32_t i = 0; i < stage->part_count; i++) {
		const uint64_t start = (uintptr_t)stage->schedule + (uint64_t)parts[i].start;
		uint32_t found = 0;

		if (start + parts[i].length > c->size) {
			return UINT64_MAX;
		}
		for (uint32_t k = 0; k < parts[i].length; k++) {
			found += (c->data[start + k] == entry) ? 1U : 0U;
		}
		total += (uint64_t)found * parts[i].times;
	}
	return total;
}

/** Entries of a schedule, each as often as it is run. */
static uint64_t entries_of(const struct vmcu_model *model, const struct vmcu_stage *stage)
{
	const struct vmcu_part *parts = vmcu_at(model->base, stage->parts);
	uint64_t total = 0;

	for (uint32_t i = 0; i < stage->part_count; i++) {
		total += (uint64_t)parts[i].length * parts[i].times;
	}
	return total;
}

/** True if a schedule calls no layer for more than its columns, and takes no more than the input.
 */
static bool is_schedule(struct vmcu_check *c, const struct vmcu_stage *stage, bool takes)
{
	uint64_t entries = 0;

	if (stage->count >= VMCU_TAKE || (uintptr_t)stage->schedule > c->size) {
		return false;
	}
	for (uint32_t i = 0; i < stage->count; i++) {
		const struct vmcu_layer *layer = &c->model->layers[stage->first + i];
		const uint32_t across = (layer->width + layer->columns - 1U) / layer->columns;
		const uint64_t times = times_of(c, stage, (uint8_t)i);

		if (times > (uint64_t)across * layer->rows || times > UINT16_MAX) {
			return false;
		}
		entries += times;
	}
	if (takes) {
		const struct vmcu_tensor *in = &c->model->tensors[c->model->inputs[0].tensor];
		uint64_t times;

		if (stage->taken == 0U) {
			return false;
		}
		times = times_of(c, stage, VMCU_TAKE);
		if (times >
		    (uint64_t)((in->width + stage->taken - 1U) / stage->taken) * in->height) {
			return false;
		}
		entries += times;
	}
	return entries_of(c->model, stage) == entries;
}

/** True if a stage's counts of calls are in the pool, where none of its layers writes. */
static bool is_progress(const struct vmcu_check *of, const struct vmcu_loading *l,
			const struct vmcu_stage *stage, bool takes)
{
	const uint32_t bytes = (uint32_t)sizeof(uint16_t) * stage->count;
	const struct vmcu_layer counts = {.scratch = stage->progress};
	const struct vmcu_check c = {.model = of->model, .layer = &counts};

	if (stage->progress % 4U != 0U || stage->progress >= vmcu_check_circle(c.model) ||
	    !vmcu_check_run(c.model, stage->progress, bytes)) {
		return false;
	}
	if (takes && !vmcu_check_apart(&c, bytes, &c.model->tensors[c.model->inputs[0].tensor])) {
		return false;
	}
	return vmcu_check_counts(of, l, stage, stage->first, stage->count);
}

/** True if a layer that is called row by row can be. */
static bool is_alone(const struct vmcu_layer *layer)
{
	return layer->columns == layer->width && layer->splits == 0U;
}

static int check_stage(struct vmcu_check *c, struct vmcu_loading *l, uint32_t number, uint32_t next)
{
	const struct vmcu_stage *stage = &c->model->stages[number];
	const bool takes = c->model->streamed && number == 0U;
	bool is_order;
	int err;

	if (stage->first != next || stage->count == 0U ||
	    stage->count > c->model->layer_count - next) {
		return vmcu_refuse(l, -EBADMSG, "stage", number);
	}
	err = vmcu_take_chunk(c->model, l, number);
	for (uint32_t i = next; err == 0 && i < next + stage->count; i++) {
		err = check_layer(c, l, i);
	}
	if (err != 0) {
		return err;
	}
	if (stage->schedule == NULL) {
		if (takes || stage->count != 1U || !is_alone(&c->model->layers[next])) {
			return vmcu_refuse(l, -EBADMSG, "stage", number);
		}
		return 0;
	}
#if defined(VMCU_STREAMS)
	is_order = (takes && l->stream != NULL) ? vmcu_check_hops(c, stage)
						: is_schedule(c, stage, takes);
#else
	is_order = is_schedule(c, stage, takes);
#endif
	if (!is_order || !is_progress(c, l, stage, takes)) {
		return vmcu_refuse(l, -EBADMSG, "schedule of stage", number);
	}
	return 0;
}

VMCU_SMALL int vmcu_check_stages(const struct vmcu_model *model, struct vmcu_loading *l)
{
	struct vmcu_check c = {.data = l->data, .size = l->size, .model = model};
	uint32_t next = 0;

	/* The streamed input must be known before the stage that reads it. */
	for (uint32_t i = 0; i < model->input_count; i++) {
		if (model->inputs[i].tensor >= model->tensor_count) {
			return vmcu_refuse(l, -EBADMSG, "input", i);
		}
	}
	if (l->stream != NULL && !model->streamed) {
		return vmcu_refuse(l, -EBADMSG, "stream", 0U);
	}
	if (model->streamed && (model->input_count != 1U || model->stage_count == 0U)) {
		return vmcu_refuse(l, -EBADMSG, "streamed input", model->input_count);
	}
	for (uint32_t i = 0; i < model->stage_count; i++) {
		const int err = check_stage(&c, l, i, next);

		if (err != 0) {
			return err;
		}
		next += model->stages[i].count;
	}
	return (next == model->layer_count) ? 0 : vmcu_refuse(l, -EBADMSG, "layers", next);
}

/** True if an input or output is one run, as its user takes it, or one by row where it rotates. */
static bool is_whole(const struct vmcu_model *model, const struct vmcu_tensor *t)
{
	const uint32_t row = (uint32_t)t->width * t->channels;
	const uint32_t rows = vmcu_rows_of_output(model, t);
	const uint32_t place = vmcu_place(t, 0U, 0U);

#if defined(VMCU_POOL_ROTATE)
	if (model->circle != 0U && t->ring > model->pool_bytes - model->circle + 1U) {
		for (uint32_t y = 0; y < t->height; y++) {
			if (vmcu_unsplit(t, y, 0U, t->width) != t->width) {
				return false;
			}
		}
		return true;
	}
#endif
	return place + row * rows <= t->ring && vmcu_check_run(model, t->base + place, row * rows);
}

static bool is_io(const struct vmcu_model *model, const struct vmcu_loading *l,
		  const struct vmcu_io *io, bool whole)
{
	const union {
		float value;
		uint32_t bits;
	} scale = {.value = io->scale};

	/* Above zero, and no infinity. */
	return io->tensor < model->tensor_count && vmcu_text(l, (uint32_t)(uintptr_t)io->name) &&
	       scale.bits - 1U < 0x7f7fffffU && (io->flags & ~15U) == 0U &&
	       (!whole || is_whole(model, &model->tensors[io->tensor]));
}

VMCU_SMALL int vmcu_check_io(const struct vmcu_model *model, struct vmcu_loading *l)
{
	for (uint32_t i = 0; i < model->input_count; i++) {
		if (!is_io(model, l, &model->inputs[i], !model->streamed)) {
			return vmcu_refuse(l, -EBADMSG, "input", i);
		}
	}
	for (uint32_t i = 0; i < model->output_count; i++) {
		if (!is_io(model, l, &model->outputs[i], true)) {
			return vmcu_refuse(l, -EBADMSG, "output", i);
		}
	}
	return 0;
}
