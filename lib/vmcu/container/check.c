/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "check.h"
#include "load.h"

#include "../compiled.h"
#include "../kernels/support.h"

/** Bytes of the container or of the chunk, whichever has an offset; @a at: where in it. */
static uint32_t room_of(const struct vmcu_check *c, const void *offset, uintptr_t *at)
{
	*at = (uintptr_t)offset;
#if defined(VMCU_EXTERNAL_WEIGHTS)
	const uintptr_t into = (uintptr_t)vmcu_check_at(c, offset) - (uintptr_t)c->chunk;

	if (into < c->chunk_bytes) {
		*at = into;
		return c->chunk_bytes;
	}
#endif
	return c->size;
}

VMCU_SMALL bool vmcu_check_array(const struct vmcu_check *c, const void *offset, uint32_t count,
				 uint32_t each)
{
	uint32_t align = 4U;
	uintptr_t at;
	const uint32_t room = room_of(c, offset, &at);

	if (each % 4U != 0U) {
		align = (each % 2U == 0U) ? 2U : 1U;
	}
	return offset != NULL && at % align == 0U && at <= room &&
	       (uint64_t)count * each <= room - at;
}

uint32_t vmcu_check_left(const struct vmcu_check *c, const void *offset)
{
	uintptr_t at;
	const uint32_t room = room_of(c, offset, &at);

	return room - (uint32_t)at;
}

const struct vmcu_tensor *vmcu_check_input(const struct vmcu_check *c, uint16_t i)
{
	const uint16_t *inputs = (const uint16_t *)vmcu_at(c->model->base, c->layer->inputs);

	return &c->model->tensors[inputs[i]];
}

const struct vmcu_tensor *vmcu_check_output(const struct vmcu_check *c)
{
	return &c->model->tensors[c->layer->output];
}

VMCU_SMALL const void *vmcu_check_params(const struct vmcu_check *c,
					 const struct vmcu_kernel *kernel)
{
	if (kernel->pointers != 0U && (UINTPTR_MAX > UINT32_MAX || vmcu_is_external(c->model))) {
		/* They are in the arena. */
		return vmcu_at(c->model->base, c->layer->params);
	}
	if ((uintptr_t)c->layer->params % 8U != 0U ||
	    !vmcu_check_array(c, c->layer->params, 1U, kernel->bytes)) {
		return NULL;
	}
	return vmcu_check_at(c, c->layer->params);
}

VMCU_SMALL bool vmcu_check_inputs(const struct vmcu_check *c, uint32_t count)
{
	return c->layer->input_count == count;
}

static uint32_t smaller_of(uint32_t a, uint32_t b)
{
	return (a < b) ? a : b;
}

/** True if @a columns pixels from (@a y, @a x) on are one run, in the ring and in the pool. */
static bool in_one_piece(const struct vmcu_tensor *t, uint32_t y, uint32_t x, uint32_t columns)
{
	return y < t->height && x < t->width && columns <= t->width - x &&
	       (uint32_t)vmcu_unsplit(t, y, x, (int32_t)columns) == columns;
}

/** Of a call's columns, those in front of the first split of the rings that may split them. */
static uint32_t count_unsplit(const struct vmcu_check *c, uint32_t y, uint32_t x, uint32_t columns)
{
	for (uint32_t i = 0; i < 8U; i++) {
		const struct vmcu_tensor *t = vmcu_check_output(c);

		if ((c->layer->splits >> i & 1U) == 0U) {
			continue;
		}
		if (i > 0U) {
			if (i > c->layer->input_count) {
				return 0U;
			}
			t = vmcu_check_input(c, (uint16_t)(i - 1U));
		}
		if (y >= t->height || x >= t->width) {
			return 0U;
		}
		columns = smaller_of(columns, (uint32_t)vmcu_unsplit(t, y, x, (int32_t)columns));
	}
	return columns;
}

/** True if all that a layer is called for lies side by side in @a t. */
VMCU_SMALL static bool calls_fit(const struct vmcu_check *c, const struct vmcu_tensor *t)
{
	const struct vmcu_layer *layer = c->layer;

	for (uint32_t y = 0; y < layer->rows; y++) {
		for (uint32_t first = 0; first < layer->width; first += layer->columns) {
			const uint32_t end = smaller_of(first + layer->columns, layer->width);

			for (uint32_t x = first, n; x < end; x += n) {
				n = count_unsplit(c, y, x, end - x);
				if (n == 0U || !in_one_piece(t, y, x, n)) {
					return false;
				}
			}
		}
	}
	return true;
}

VMCU_SMALL bool vmcu_check_calls(const struct vmcu_check *c)
{
	const struct vmcu_tensor *out = vmcu_check_output(c);

	return c->layer->rows == out->height && c->layer->width == out->width && calls_fit(c, out);
}

VMCU_SMALL bool vmcu_check_columns(const struct vmcu_check *c, uint16_t i)
{
	return calls_fit(c, vmcu_check_input(c, i));
}

VMCU_SMALL bool vmcu_check_rows(const struct vmcu_check *c, uint16_t i)
{
	const struct vmcu_tensor *t = vmcu_check_input(c, i);

	for (uint32_t y = 0; y < t->height; y++) {
		if (!in_one_piece(t, y, 0U, t->width)) {
			return false;
		}
	}
	return true;
}

VMCU_SMALL bool vmcu_check_alike(const struct vmcu_check *c, uint32_t inputs)
{
	const struct vmcu_tensor *out = vmcu_check_output(c);

	if (!vmcu_check_inputs(c, inputs) || !vmcu_check_calls(c)) {
		return false;
	}
	for (uint16_t i = 0; i < inputs; i++) {
		if (vmcu_check_input(c, i)->channels != out->channels ||
		    !vmcu_check_columns(c, i)) {
			return false;
		}
	}
	return true;
}

VMCU_SMALL uint32_t vmcu_check_circle(const struct vmcu_model *model)
{
#if defined(VMCU_POOL_ROTATE)
	if (model->circle != 0U) {
		return model->circle;
	}
#endif
	return model->pool_bytes;
}

VMCU_SMALL bool vmcu_check_run(const struct vmcu_model *model, uint32_t at, uint32_t bytes)
{
#if defined(VMCU_POOL_ROTATE)
	if (model->circle != 0U) {
		/* The origin is a multiple of four, and the circle's end the last that a run may
		 * begin in front of.
		 */
		return bytes <= model->pool_bytes - model->circle + 4U - at % 4U;
	}
#endif
	at -= (at >= model->pool_bytes) ? model->pool_bytes : 0U;
	return bytes <= model->pool_bytes - at;
}

VMCU_SMALL bool vmcu_check_scratch(const struct vmcu_check *c, uint32_t bytes)
{
	const uint32_t at = c->layer->scratch;

	if (c->scratch != NULL) {
		*c->scratch = bytes;
	}
	if (at == VMCU_SCRATCH_ON_STACK) {
		return bytes <= VMCU_STACK_SCRATCH;
	}
	return at % 4U == 0U && at < vmcu_check_circle(c->model) &&
	       vmcu_check_run(c->model, at, bytes);
}

/** True if @a bytes bytes from @a at on, of a circle of @a size, share none with the @a others. */
static bool are_apart(uint32_t size, uint32_t at, uint32_t bytes, uint32_t from, uint32_t others)
{
	/* How far behind each of the two the other begins. */
	const uint32_t behind = (from >= at) ? from - at : from + size - at;
	const uint32_t front = (at >= from) ? at - from : at + size - from;

	return bytes <= behind && others <= front;
}

VMCU_SMALL bool vmcu_check_apart(const struct vmcu_check *c, uint32_t bytes,
				 const struct vmcu_tensor *t)
{
	const uint32_t size = vmcu_check_circle(c->model);

	if (c->layer->scratch == VMCU_SCRATCH_ON_STACK) {
		return true;
	}
	return are_apart(size, c->layer->scratch, bytes, t->base, t->ring);
}

VMCU_SMALL bool vmcu_check_window(const struct vmcu_check *c, const struct vmcu_window *w)
{
	const struct vmcu_tensor *in = vmcu_check_input(c, 0);
	const struct vmcu_tensor *out = vmcu_check_output(c);
	const uint64_t down = (uint64_t)w->kernel_h * w->dilation_h;
	const uint64_t across = (uint64_t)w->kernel_w * w->dilation_w;
	const uint64_t limit = UINT32_C(1) << 20;

	/* Kernels count rows, columns and bytes in int32. One row may be further down. */
	return w->kernel_h != 0U && w->kernel_w != 0U && w->stride_h != 0U && w->stride_w != 0U &&
	       w->dilation_h != 0U && w->dilation_w != 0U &&
	       (w->pad_top >= 0 || w->kernel_h == 1U) && w->pad_left >= 0 && down < limit &&
	       across < limit && (uint64_t)out->height * w->stride_h < limit &&
	       (uint64_t)out->width * w->stride_w < limit &&
	       down * in->width * in->channels < INT32_MAX && across * in->channels < INT32_MAX;
}

VMCU_SMALL bool vmcu_check_shift(int32_t shift)
{
	return shift >= -31 && shift <= 30;
}

VMCU_SMALL bool vmcu_check_shifts(const struct vmcu_check *c, const int32_t *offset, uint32_t count)
{
	const int32_t *shifts = vmcu_check_at(c, offset);

	if (!vmcu_check_array(c, offset, count, sizeof(*shifts))) {
		return false;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (!vmcu_check_shift(shifts[i])) {
			return false;
		}
	}
	return true;
}

/** See SHIFTS of kernels/integer_scale.py. */
#define LINE_SHIFT_MAX 22

VMCU_SMALL bool vmcu_check_line(int32_t word)
{
	const int32_t shift = word & VMCU_LINE_SHIFT;

	return (shift == 0) ? (word & VMCU_LINE_WHOLE) == 0 : shift <= LINE_SHIFT_MAX;
}

static int64_t magnitude_of(int64_t x)
{
	return (x < 0) ? -x : x;
}

VMCU_SMALL bool vmcu_check_float_sum(const struct vmcu_float_sum *s)
{
	/* The exact way has 64 bits, of which a byte takes eight. */
	const int64_t room = INT64_C(1) << 53;

	return s->shift <= 31U &&
	       (magnitude_of(s->a_scale) + magnitude_of(s->b_scale)) * 128 +
			       magnitude_of(s->bias) <=
		       INT32_MAX &&
	       s->a > -room && s->a < room && s->b > -room && s->b < room &&
	       s->constant > -(room << 8) && s->constant < room << 8;
}
