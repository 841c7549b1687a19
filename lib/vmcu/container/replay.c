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

#include "../compiled.h"

#if defined(VMCU_CONTAINER_REPLAY)

/** Of the bytes of a pixel that is read, one in so many is looked at. */
#define STRIDE 8U

/** A model that is being replayed, and the layer whose turn it is. */
struct replay {
	const struct vmcu_model *model;
	uint8_t *marks; /**< by byte of the pool whose it is, 0: nobody's */
	uint32_t circle;
	struct vmcu_check c;
	const struct vmcu_kernel *kernel;
	const struct vmcu_stage *stage;
	uint32_t scratch; /**< bytes that a layer on its own has in the pool */
};

/** Columns of a row of a tensor. */
struct run {
	uint32_t tensor;
	uint32_t y;
	uint32_t x;
	uint32_t columns;
};

/** What bytes of a row are marked with; rows of a tensor that share a place differ. */
static uint8_t mark_of(uint32_t tensor, uint32_t y)
{
	return (uint8_t)(1U + (tensor * 61U + y * 7U) % 255U);
}

/** Marks bytes of the circle. */
static void mark(const struct replay *r, uint32_t at, uint32_t bytes, uint8_t with)
{
	uint8_t *one = &r->marks[at % r->circle];
	const uint8_t *const end = &r->marks[r->circle];

	for (uint32_t i = 0; i < bytes; i++) {
		*one = with;
		one++;
		if (one == end) {
			one = r->marks;
		}
	}
}

/** True if bytes are marked so: the first and the last, and each STRIDE-th between. */
static bool is_marked(const struct replay *r, uint32_t at, uint32_t bytes, uint8_t with)
{
	uint32_t one = (at < r->circle) ? at : at % r->circle;
	const uint32_t last = (one + bytes - 1U) % r->circle;

	for (uint32_t i = 0; i < bytes; i += STRIDE) {
		if (r->marks[one] != with) {
			return false;
		}
		one += STRIDE;
		one = (one < r->circle) ? one : one % r->circle;
	}
	return r->marks[last] == with;
}

static bool visit(const struct replay *r, const struct run *run, bool write)
{
	const struct vmcu_tensor *t = &r->model->tensors[run->tensor];

	for (uint32_t i = 0; i < run->columns; i++) {
		const uint32_t at = t->base + vmcu_place(t, run->y, run->x + i);

		if (write) {
			mark(r, at, t->channels, mark_of(run->tensor, run->y));
			continue;
		}
		if (!is_marked(r, at, t->channels, mark_of(run->tensor, run->y))) {
			return false;
		}
	}
	return true;
}

static bool visit_all(const struct replay *r, uint32_t tensor, bool write)
{
	const struct vmcu_tensor *t = &r->model->tensors[tensor];

	for (uint32_t y = 0; y < t->height; y++) {
		const struct run row = {.tensor = tensor, .y = y, .columns = t->width};

		if (!visit(r, &row, write)) {
			return false;
		}
	}
	return true;
}

/** A row under a window: from each place that it has taps at. */
static bool sees_row(const struct replay *r, const struct vmcu_window *w, const struct run *out,
		     uint32_t tensor, uint32_t y)
{
	const int32_t width = r->model->tensors[tensor].width;

	for (uint32_t x = out->x; x < out->x + out->columns; x++) {
		for (int32_t tap = 0; tap < w->kernel_w; tap++) {
			const int32_t at =
				(int32_t)x * w->stride_w - w->pad_left + tap * w->dilation_w;
			const struct run one = {tensor, y, (uint32_t)at, 1U};

			/* All but the last window leave to the next what that one has, too. */
			if (w->dilation_w == 1U && tap >= w->stride_w &&
			    x + 1U != out->x + out->columns) {
				break;
			}
			if (at >= 0 && at < width && !visit(r, &one, false)) {
				return false;
			}
		}
	}
	return true;
}

static bool sees(const struct replay *r, const struct run *out, uint32_t tensor)
{
	const struct vmcu_window *w =
		(const void *)((const uint8_t *)r->c.params + r->kernel->native);

	for (int32_t tap = 0; tap < w->kernel_h; tap++) {
		const int32_t y = (int32_t)out->y * w->stride_h - w->pad_top + tap * w->dilation_h;

		if (y >= 0 && y < r->model->tensors[tensor].height &&
		    !sees_row(r, w, out, tensor, (uint32_t)y)) {
			return false;
		}
	}
	return true;
}

/** What a call reads pixel for pixel; an input of one row or column is repeated. */
static bool follows(const struct replay *r, const struct run *out, uint32_t tensor)
{
	const struct vmcu_tensor *t = &r->model->tensors[tensor];
	struct run in = {.tensor = tensor};

	if (t->height != 1U) {
		in.y = out->y;
	}
	if (t->width != 1U) {
		in.x = out->x;
	}
	in.columns = (t->width != 1U) ? out->columns : 1U;
	return in.y >= t->height || in.x + in.columns > t->width || visit(r, &in, false);
}

/** Where in a layer's output its input @a i begins; false if only parts of pixels are read. */
static bool begins(const struct replay *r, uint16_t i, int32_t *y, int32_t *x)
{
	const struct vmcu_concat_params *joined = r->c.params;
	const struct vmcu_pad_params *padded = r->c.params;

	*y = 0;
	*x = 0;
	if (r->kernel->reads == VMCU_READS_PADDED) {
		*y = padded->top;
		*x = padded->left;
		return padded->before >= 0 &&
		       padded->before + vmcu_check_input(&r->c, i)->channels <=
			       vmcu_check_output(&r->c)->channels;
	}
	for (uint16_t k = 0; k < i; k++) {
		*y += (joined->axis == VMCU_AXIS_HEIGHT) ? vmcu_check_input(&r->c, k)->height : 0;
		*x += (joined->axis == VMCU_AXIS_WIDTH) ? vmcu_check_input(&r->c, k)->width : 0;
	}
	return true;
}

/** What a call reads of an input that lies in its output. */
static bool contains(const struct replay *r, const struct run *out, uint32_t tensor, uint16_t i)
{
	const struct vmcu_tensor *t = &r->model->tensors[tensor];
	int32_t y;
	int32_t x;

	if (!begins(r, i, &y, &x)) {
		return true;
	}
	y = (int32_t)out->y - y;
	for (int32_t k = 0; k < (int32_t)out->columns; k++) {
		const int32_t at = (int32_t)out->x + k - x;
		const struct run one = {tensor, (uint32_t)y, (uint32_t)at, 1U};

		if (y >= 0 && y < t->height && at >= 0 && at < t->width && !visit(r, &one, false)) {
			return false;
		}
	}
	return true;
}

/** True if a call finds what it reads of input @a i. */
static bool finds(const struct replay *r, const struct run *out, uint16_t i, bool first)
{
	const uint16_t *inputs = vmcu_at(r->model->base, r->c.layer->inputs);

	if (r->kernel->reads == VMCU_READS_WINDOW) {
		return sees(r, out, inputs[i]);
	}
	if (r->kernel->reads == VMCU_READS_PIXEL) {
		return follows(r, out, inputs[i]);
	}
	if (r->kernel->reads != VMCU_READS_ALL) {
		return contains(r, out, inputs[i], i);
	}
	/* In an order of its own: all is there at the start, if nobody else computes meanwhile. */
	return !first || r->stage->schedule != NULL || visit_all(r, inputs[i], false);
}

/** A call: true if it finds its inputs. @a number: of those of its layer. */
static bool call(struct replay *r, const struct run *out, uint32_t number)
{
	const struct vmcu_layer *layer = r->c.layer;
	const struct vmcu_tensor *t = &r->model->tensors[layer->output];

	for (uint16_t i = 0; i < layer->input_count; i++) {
		if (!finds(r, out, i, number == 0U)) {
			return false;
		}
	}
	if (r->scratch != 0U) {
		mark(r, layer->scratch, r->scratch, 0U);
	}
	if (layer->rows == t->height && layer->width == t->width) {
		return visit(r, out, true);
	}
	if (out->y + 1U == layer->rows && out->x + out->columns == layer->width) {
		return visit_all(r, layer->output, true);
	}
	return true;
}

/** Makes a layer the one whose turn it is. */
static void bind(struct replay *r, uint32_t number)
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

	bind(r, r->stage->first);
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

		if (!call(r, &out, i)) {
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

/** Takes the next columns of a streamed input. */
static bool take(const struct replay *r, struct run *at)
{
	const uint32_t left = r->model->tensors[at->tensor].width - at->x;

	at->columns = (left < r->stage->taken) ? left : r->stage->taken;
	(void)visit(r, at, true);
	at->x += at->columns;
	if (at->columns == left) {
		at->x = 0U;
		at->y++;
	}
	return true;
}

/** An entry of a schedule. Counts of calls are where the executor has them, as numbers. */
static bool entry(struct replay *r, uint8_t number, struct run *input)
{
	uint8_t *count = &r->marks[r->stage->progress + sizeof(uint16_t) * number];
	struct run out;
	uint32_t made;

	if (number == VMCU_TAKE) {
		return take(r, input);
	}
	bind(r, (uint32_t)r->stage->first + number);
	made = count[0] + 256U * count[1];
	out = next_of(r->c.layer, made);
	if (out.y >= r->c.layer->rows || !call(r, &out, made)) {
		return false;
	}
	/* What has been written over a count shows in calls that then are others. */
	made = made + 1U;
	count[0] = (uint8_t)(made & 255U);
	count[1] = (uint8_t)(made >> 8);
	return true;
}

static bool replay_together(struct replay *r)
{
	const struct vmcu_part *parts = vmcu_at(r->model->base, r->stage->parts);
	const uint8_t *schedule = vmcu_at(r->model->base, r->stage->schedule);
	struct run input = {.tensor = r->model->inputs[0].tensor};

	mark(r, r->stage->progress, (uint32_t)sizeof(uint16_t) * r->stage->count, 0U);
	for (uint32_t i = 0; i < r->stage->part_count; i++) {
		for (uint32_t time = 0; time < parts[i].times; time++) {
			for (uint32_t k = 0; k < parts[i].length; k++) {
				if (!entry(r, schedule[parts[i].start + k], &input)) {
					return false;
				}
			}
		}
	}
	return true;
}

VMCU_SMALL int vmcu_replay(const struct vmcu_model *model, struct vmcu_loading *l)
{
	struct replay r = {
		.model = model,
		.marks = (uint8_t *)l->arena,
		.circle = vmcu_check_circle(model),
		.c = {.data = l->data, .size = l->size, .model = model},
	};

	__builtin_memset(r.marks, 0, model->pool_bytes);
	for (uint32_t i = 0; !model->streamed && i < model->input_count; i++) {
		(void)visit_all(&r, model->inputs[i].tensor, true);
	}
	for (uint32_t i = 0; i < model->stage_count; i++) {
		r.stage = &model->stages[i];
		if (!((r.stage->schedule == NULL) ? replay_alone(&r) : replay_together(&r))) {
			return vmcu_refuse(l, -EBADMSG, "replay of layer",
					   (uint32_t)(r.c.layer - model->layers));
		}
	}
	for (uint32_t i = 0; i < model->output_count; i++) {
		if (!visit_all(&r, model->outputs[i].tensor, false)) {
			return vmcu_refuse(l, -EBADMSG, "replay of output", i);
		}
	}
	return 0;
}

#endif /* VMCU_CONTAINER_REPLAY */
