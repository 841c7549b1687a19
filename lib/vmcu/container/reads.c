/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The reads of a call, by kind of kernel, for a replay.
 */

#include "replay.h"

#include "../compiled.h"

#if defined(VMCU_CONTAINER_REPLAY)

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

			/* All but the last window leave its bytes to the next one, too. */
			if (w->dilation_w == 1U && tap >= w->stride_w &&
			    x + 1U != out->x + out->columns) {
				break;
			}
			if (at >= 0 && at < width && !vmcu_replay_visit(r, &one, false)) {
				return false;
			}
		}
	}
	return true;
}

VMCU_SMALL bool vmcu_replay_sees(const struct replay *r, const struct run *out, uint32_t tensor)
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

/** The pixels that a call reads one by one; an input of one row or column is repeated. */
VMCU_SMALL bool vmcu_replay_follows(const struct replay *r, const struct run *out, uint32_t tensor)
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
	return in.y >= t->height || in.x + in.columns > t->width ||
	       vmcu_replay_visit(r, &in, false);
}

/** Where in a layer's output its input @a i begins; false if only parts of pixels are read. */
static bool find_begin(const struct replay *r, uint16_t i, int32_t *y, int32_t *x)
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

/** The bytes that a call reads of an input that lies in its output. */
VMCU_SMALL bool vmcu_replay_contains(const struct replay *r, const struct run *out, uint32_t tensor,
				     uint16_t i)
{
	const struct vmcu_tensor *t = &r->model->tensors[tensor];
	int32_t y;
	int32_t x;

	if (!find_begin(r, i, &y, &x)) {
		return true;
	}
	y = (int32_t)out->y - y;
	for (int32_t k = 0; k < (int32_t)out->columns; k++) {
		const int32_t at = (int32_t)out->x + k - x;
		const struct run one = {tensor, (uint32_t)y, (uint32_t)at, 1U};

		if (y >= 0 && y < t->height && at >= 0 && at < t->width &&
		    !vmcu_replay_visit(r, &one, false)) {
			return false;
		}
	}
	return true;
}

VMCU_SMALL bool vmcu_replay_carries(const struct replay *r, const struct run *out, uint32_t tensor)
{
	const uint32_t back = (tensor == out->tensor) ? 1U : 0U;
	const struct run row = {
		.tensor = tensor,
		.y = out->y - back,
		.columns = r->model->tensors[tensor].width,
	};

	return out->y < back || vmcu_replay_visit(r, &row, false);
}

VMCU_SMALL bool vmcu_replay_looks_back(const struct replay *r, const struct run *out, uint16_t i)
{
	const uint16_t *inputs = vmcu_at(r->model->base, r->c.layer->inputs);
	const struct vmcu_look_back_params *p = r->c.params;
	struct run in = {.tensor = inputs[i], .y = r->hop, .columns = 1U};

	if (i == 0U) {
		in.y = r->hop * p->step + out->y;
		in.x = out->x;
		in.columns = out->columns;
	}
	return in.y < r->model->tensors[in.tensor].height && vmcu_replay_visit(r, &in, false);
}

#if defined(VMCU_STREAMS)
/** True if a tensor's ring is after so many rows where it was. */
static bool is_around(const struct vmcu_tensor *t, uint64_t rows)
{
	return rows * t->width * t->channels % t->ring == 0U;
}

/** Rows of an input for a row of the output; 0: not known. */
static uint32_t step_of(const struct replay *r)
{
	const struct vmcu_window *w =
		(const void *)((const uint8_t *)r->c.params + r->kernel->native);

	switch (r->kernel->reads) {
	case VMCU_READS_WINDOW:
	case VMCU_READS_ATTENDED:
		return w->stride_h;
	case VMCU_READS_PIXEL:
	case VMCU_READS_PADDED:
	case VMCU_READS_JOINED:
	case VMCU_READS_CARRIED:
	case VMCU_READS_ROW:
		return 1U;
	default:
		return 0U;
	}
}

VMCU_SMALL bool vmcu_replay_turns(const struct replay *r, uint32_t number)
{
	const struct vmcu_stream *stream = r->model->stream;
	const struct vmcu_layer *layer = r->c.layer;
	const uint8_t *count = &r->marks[r->stage->progress + sizeof(uint16_t) * number];
	const uint16_t *calls = vmcu_at(r->model->base, stream->calls);
	const uint16_t *again = vmcu_at(r->model->base, stream->again);
	const uint32_t across = (layer->width + layer->columns - 1U) / layer->columns;
	const uint32_t turn = (uint32_t)calls[number] - again[number];
	const uint32_t step = step_of(r);

	if (count[0] + 256U * count[1] < calls[number] || turn % across != 0U ||
	    !is_around(&r->model->tensors[r->model->inputs[0].tensor], stream->rows) ||
	    !is_around(vmcu_check_output(&r->c), turn / across)) {
		return false;
	}
	for (uint16_t i = 0; step != 0U && i < layer->input_count; i++) {
		if (!is_around(vmcu_check_input(&r->c, i), (uint64_t)(turn / across) * step)) {
			return false;
		}
	}
	return true;
}
#endif

#endif /* VMCU_CONTAINER_REPLAY */
