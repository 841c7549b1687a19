/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Goes through a model's calls without data, and follows whose byte is whose.
 *
 * The pool is not in use yet, so each of its bytes notes which row of which tensor has it. A call
 * must find the rows that it reads; then it writes its own. Where a kernel may read and write in
 * turn within a call, that is not looked into.
 */

#include <errno.h>

#include "check.h"
#include "load.h"
#include "replay.h"

#include "../compiled.h"
#include "../streams.h"

#if defined(VMCU_CONTAINER_REPLAY)

static bool visit_all(const struct replay *r, uint32_t tensor, bool write)
{
	const struct vmcu_tensor *t = &r->model->tensors[tensor];

	for (uint32_t y = 0; y < t->height; y++) {
		const struct run row = {.tensor = tensor, .y = y, .columns = t->width};

		if (!vmcu_replay_visit(r, &row, write)) {
			return false;
		}
	}
	return true;
}

/** True if the bytes that a call reads of input @a i are there. */
static bool finds_input(const struct replay *r, const struct run *out, uint16_t i, bool first)
{
	const uint16_t *inputs = vmcu_at(r->model->base, r->c.layer->inputs);

	const struct vmcu_attention_params *attended = r->c.params;

	if (r->kernel->reads == VMCU_READS_WINDOW ||
	    (r->kernel->reads == VMCU_READS_ATTENDED && i > 0U &&
	     (i < 3U || attended->mask_rows != 0U))) {
		return vmcu_replay_sees(r, out, inputs[i]);
	}
	if (r->kernel->reads == VMCU_READS_PIXEL || r->kernel->reads == VMCU_READS_ATTENDED) {
		return vmcu_replay_follows(r, out, inputs[i]);
	}
	if (r->kernel->reads == VMCU_READS_CARRIED || r->kernel->reads == VMCU_READS_ROW) {
		return vmcu_replay_carries(r, out, inputs[i]);
	}
	if (r->kernel->reads == VMCU_READS_NONE) {
		return true;
	}
	if (r->kernel->reads == VMCU_READS_RECALLED && i == 0U) {
		return r->hop == 0U || vmcu_replay_follows(r, out, inputs[i]);
	}
	if (r->kernel->reads == VMCU_READS_BACK || r->kernel->reads == VMCU_READS_RECALLED) {
		return vmcu_replay_looks_back(r, out, i);
	}
	if (r->kernel->reads != VMCU_READS_ALL) {
		return vmcu_replay_contains(r, out, inputs[i], i);
	}
	/* In an order of its own: all is there at the start, if nobody else computes meanwhile. */
	return !first || r->stage->schedule != NULL || visit_all(r, inputs[i], false);
}

/** A call: true if it finds its inputs. @a number: of those of its layer. */
static bool replay_call(struct replay *r, const struct run *out, uint32_t number)
{
	const struct vmcu_layer *layer = r->c.layer;
	const struct vmcu_tensor *t = &r->model->tensors[layer->output];

	for (uint16_t i = 0; i < layer->input_count; i++) {
		if (!finds_input(r, out, i, number == 0U)) {
			return false;
		}
	}
	if (r->scratch != 0U) {
		vmcu_replay_mark(r, layer->scratch, r->scratch, 0U);
	}
	if (layer->rows == t->height && layer->width == t->width) {
		return vmcu_replay_visit(r, out, true);
	}
	if (out->y + 1U == layer->rows && out->x + out->columns == layer->width) {
		return visit_all(r, layer->output, true);
	}
	return true;
}

/** Makes a layer the one whose turn it is. */
static void bind_layer(struct replay *r, uint32_t number)
{
	r->c.layer = &r->model->layers[number];
	for (uint32_t i = 0; vmcu_kernels[i] != NULL; i++) {
		if (vmcu_kernels[i]->run == vmcu_kernel_of(r->model, r->c.layer)) {
			r->kernel = vmcu_kernels[i];
		}
	}
	r->c.params = (r->kernel->bytes == 0U) ? NULL : vmcu_check_params(&r->c, r->kernel);
}

static bool replay_alone(struct replay *r)
{
	const struct vmcu_layer *layer;

	bind_layer(r, r->stage->first);
	layer = r->c.layer;
	if (layer->scratch != VMCU_SCRATCH_ON_STACK) {
		r->c.scratch = &r->scratch;
		(void)r->kernel->check(&r->c);
		r->c.scratch = NULL;
	}
	for (uint32_t i = 0; i < layer->rows; i++) {
		const struct run out = {
			.tensor = layer->output,
			.y = (layer->descending != 0U) ? layer->rows - 1U - i : i,
			.columns = layer->width,
		};

		if (!replay_call(r, &out, i)) {
			return false;
		}
	}
	r->scratch = 0U;
	return true;
}

/** The next columns of a layer with so many calls in all: which they are. */
static struct run next_of(const struct vmcu_layer *layer, uint32_t number)
{
	const uint32_t across = (layer->width + layer->columns - 1U) / layer->columns;
	const uint32_t x = number % across * layer->columns;
	const uint32_t left = layer->width - x;

	return (struct run){
		.tensor = layer->output,
		.y = number / across,
		.x = x,
		.columns = (left < layer->columns) ? left : layer->columns,
	};
}

/** Takes the next columns of a streamed input; false if there are no more. */
static bool take_columns(const struct replay *r, struct run *at)
{
	const uint32_t left = r->model->tensors[at->tensor].width - at->x;

	if (at->y >= r->model->tensors[at->tensor].height) {
		return false;
	}
	at->columns = (left < r->stage->taken) ? left : r->stage->taken;
	(void)vmcu_replay_visit(r, at, true);
	at->x += at->columns;
	if (at->columns == left) {
		at->x = 0U;
		at->y++;
	}
	return true;
}

/** An entry of a schedule. Counts of calls are where the executor has them, as numbers. */
static bool replay_entry(struct replay *r, uint8_t number, struct run *input)
{
	uint8_t *count = &r->marks[r->stage->progress + sizeof(uint16_t) * number];
	struct run out;
	uint32_t made;

	if (number == VMCU_TAKE) {
		return take_columns(r, input);
	}
	bind_layer(r, (uint32_t)r->stage->first + number);
	made = count[0] + 256U * count[1];
	out = next_of(r->c.layer, made);
	if (out.y >= r->c.layer->rows || !replay_call(r, &out, made)) {
		return false;
	}
	/* Bytes written over a count lead to other calls. */
	made = made + 1U;
	count[0] = (uint8_t)(made & 255U);
	count[1] = (uint8_t)(made >> 8);
	return true;
}

/** A part of a schedule, once. */
static bool replay_part(struct replay *r, const struct vmcu_part *part, struct run *input)
{
	const uint8_t *schedule = vmcu_at(r->model->base, r->stage->schedule);

	for (uint32_t k = 0; k < part->length; k++) {
		if (!replay_entry(r, schedule[part->start + k], input)) {
			return false;
		}
	}
	return true;
}

/** Begins to count the calls of a stage. */
static void clear_counts(const struct replay *r)
{
	vmcu_replay_mark(r, r->stage->progress, (uint32_t)sizeof(uint16_t) * r->stage->count, 0U);
}

static bool replay_together(struct replay *r)
{
	const struct vmcu_part *parts = vmcu_at(r->model->base, r->stage->parts);
	struct run input = {.tensor = r->model->inputs[0].tensor};

	clear_counts(r);
	for (uint32_t i = 0; i < r->stage->part_count; i++) {
		for (uint32_t time = 0; time < parts[i].times; time++) {
			if (!replay_part(r, &parts[i], &input)) {
				return false;
			}
		}
	}
	return true;
}

/** Refuses the layer whose turn it is. */
static int refuse_layer(const struct replay *r, struct vmcu_loading *l)
{
	return vmcu_refuse(l, -EBADMSG, "replay of layer",
			   (uint32_t)(r->c.layer - r->model->layers));
}

/** True if an output is a row of those that go on. */
static bool is_row(const struct vmcu_model *model)
{
	return vmcu_is_stream(model) && model->stage_count == 1U;
}

/** The stages from @a first on, and the outputs, of which rows that go on have one. */
static int replay_stages(struct replay *r, struct vmcu_loading *l, uint32_t first)
{
	const struct vmcu_model *model = r->model;
	bool found = true;

	for (uint32_t i = first; i < model->stage_count; i++) {
		const int err = vmcu_take_chunk(model, l, i);

		if (err != 0) {
			return err;
		}
		vmcu_show_chunk(&r->c, l);
		r->stage = &model->stages[i];
		if (!((r->stage->schedule == NULL) ? replay_alone(r) : replay_together(r))) {
			return refuse_layer(r, l);
		}
	}
	for (uint32_t i = 0; found && i < model->output_count; i++) {
		const uint32_t tensor = model->outputs[i].tensor;
		const struct run row = {
			.tensor = tensor,
			.y = r->hop,
			.columns = model->tensors[tensor].width,
		};

		found = is_row(model) ? vmcu_replay_visit(r, &row, false)
				      : visit_all(r, tensor, false);
		if (!found) {
			return vmcu_refuse(l, -EBADMSG, "replay of output", i);
		}
	}
	return 0;
}

#if defined(VMCU_STREAMS)
/** So many hops as its tables have, which are those that it takes until all that turns has turned.
 */
static int replay_stream(struct replay *r, struct vmcu_loading *l)
{
	const struct vmcu_stage *unbounded = r->model->stages;
	const struct vmcu_part *parts = vmcu_at(r->model->base, unbounded->parts);
	struct run input = {.tensor = r->model->inputs[0].tensor};
	int err = 0;

	r->stage = unbounded;
	clear_counts(r);
	for (r->hop = 0; err == 0 && r->hop <= parts[1].times; r->hop++) {
		r->stage = unbounded;
		err = vmcu_take_chunk(r->model, l, 0U);
		if (err != 0) {
			return err;
		}
		vmcu_show_chunk(&r->c, l);
		if (!replay_part(r, (r->hop == 0U) ? &parts[0] : &parts[1], &input)) {
			return refuse_layer(r, l);
		}
		err = replay_stages(r, l, 1U);
	}
	r->stage = unbounded;
	for (uint32_t i = 0; err == 0 && i < unbounded->count; i++) {
		bind_layer(r, i);
		err = vmcu_replay_turns(r, i) ? 0 : refuse_layer(r, l);
	}
	return err;
}
#endif

/** All calls, from a pool in which no byte has an owner. */
static int replay_calls(struct replay *r, struct vmcu_loading *l)
{
	const struct vmcu_model *model = r->model;

	__builtin_memset(r->marks, 0, model->pool_bytes);
#if defined(VMCU_STREAMS)
	if (model->stream != NULL) {
		return replay_stream(r, l);
	}
#endif
	for (uint32_t i = 0; !model->streamed && i < model->input_count; i++) {
		(void)visit_all(r, model->inputs[i].tensor, true);
	}
	return replay_stages(r, l, 0U);
}

/** The largest number of a row, as vmcu_replay_visit() numbers them. */
static uint32_t last_row_of(const struct vmcu_model *model)
{
	uint32_t height = 0U;

	for (uint32_t i = 0; i < model->tensor_count; i++) {
		const uint32_t rows = model->tensors[i].height;

		height = (height < rows) ? rows : height;
	}
	return height * model->tensor_count;
}

VMCU_SMALL int vmcu_replay(const struct vmcu_model *model, struct vmcu_loading *l)
{
	struct replay r = {
		.model = model,
		.marks = (uint8_t *)l->arena,
		.circle = vmcu_check_circle(model),
		.c = {.data = l->data, .size = l->size, .model = model},
	};
	int err = 0;

	for (uint32_t left = last_row_of(model); err == 0 && left != 0U; left >>= 8) {
		err = replay_calls(&r, l);
		r.shift += 8U;
	}
	return err;
}

#endif /* VMCU_CONTAINER_REPLAY */
