/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The container's tables that need RAM: kernels, and what has pointers on cores of 64 bits
 * or where constants are in a file of their own.
 */

#include <errno.h>

#include "load.h"

#include "../compiled.h"

static bool is_same(const char *a, const char *b)
{
	while (*a != '\0' && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

static const struct vmcu_container_kernel *kernel_entry(const struct vmcu_loading *l,
							uint32_t number)
{
	const uint8_t *entries = &l->data[l->tables->kernels];

	return (const struct vmcu_container_kernel *)(const void *)entries + number;
}

VMCU_SMALL const struct vmcu_kernel *vmcu_linked(const struct vmcu_loading *l, uint32_t number)
{
	const char *name = vmcu_text(l, kernel_entry(l, number)->name);

	for (uint32_t i = 0; name != NULL && vmcu_kernels[i] != NULL; i++) {
		if (is_same(vmcu_kernels[i]->name, name)) {
			return vmcu_kernels[i];
		}
	}
	return NULL;
}

/** Names a kernel that is not linked. */
static int refuse_kernel(struct vmcu_loading *l, uint32_t number)
{
	const char *name = vmcu_text(l, kernel_entry(l, number)->name);

	if (name == NULL) {
		return vmcu_refuse(l, -EBADMSG, "kernel", number);
	}
	for (uint32_t i = 0; i + 1U < sizeof(l->refusal.name) && name[i] != '\0'; i++) {
		l->refusal.name[i] = name[i];
	}
	return vmcu_refuse(l, -ENOTSUP, "kernel", number);
}

VMCU_SMALL int vmcu_link_kernels(struct vmcu_model *model, struct vmcu_loading *l)
{
	const uint32_t count = l->tables->kernel_count;
	vmcu_kernel_t *kernels = vmcu_take_tail(l, count * sizeof(*kernels));

	for (uint32_t i = 0; i < count; i++) {
		const struct vmcu_kernel *linked = vmcu_linked(l, i);

		if (linked == NULL) {
			return refuse_kernel(l, i);
		}
		if (kernels != NULL) {
			kernels[i] = linked->run;
		}
	}
	model->kernels = kernels;
	return 0;
}

#if UINTPTR_MAX > UINT32_MAX || defined(VMCU_EXTERNAL_WEIGHTS)

#if defined(VMCU_STREAMS)
/** The state of a model, with pointers of this core; NULL if there is no room, or no state. */
static struct vmcu_stream *widen_stream(struct vmcu_loading *l)
{
	struct vmcu_stream *stream;

	if (l->stream == NULL) {
		return NULL;
	}
	stream = vmcu_take_tail(l, sizeof(*stream));
	if (stream != NULL) {
		stream->calls = (const uint16_t *)(uintptr_t)l->stream->calls;
		stream->again = (const uint16_t *)(uintptr_t)l->stream->again;
		stream->model = l->stream->model;
		stream->state = l->stream->state;
		stream->state_bytes = l->stream->state_bytes;
		stream->rows = l->stream->rows;
		stream->states = l->stream->states;
	}
	return stream;
}
#endif

/** Offsets as pointers of this core, and the bytes behind them. */
static void widen_pointers(void *to, const uint8_t *from, uint32_t pointers, uint32_t behind,
			   uint32_t native, uint32_t rest)
{
	const uint32_t *offsets = (const uint32_t *)(const void *)from;
	uintptr_t *wide = to;

	for (uint32_t i = 0; i < pointers; i++) {
		wide[i] = offsets[i];
	}
	__builtin_memcpy((uint8_t *)to + native, from + behind, rest);
}

/** Pointers to constants that are in the weights buffer become offsets like all others. */
static void find_constants(const struct vmcu_loading *l, uintptr_t *pointers, uint32_t count)
{
#if defined(VMCU_EXTERNAL_WEIGHTS)
	for (uint32_t i = 0; l->buffer != NULL && i < count; i++) {
		if ((pointers[i] & VMCU_CONTAINER_EXTERNAL) != 0U) {
			pointers[i] = (uintptr_t)l->buffer - (uintptr_t)l->data +
				      (pointers[i] & ~(uintptr_t)VMCU_CONTAINER_EXTERNAL);
		}
	}
#else
	(void)l;
	(void)pointers;
	(void)count;
#endif
}

/** A layer's parameters, and in place of a pointer to them the offset of the copy. */
static int widen_params(struct vmcu_loading *l, struct vmcu_layer *layer, uint32_t number)
{
	const uintptr_t at = (uintptr_t)layer->params;
	const struct vmcu_kernel *kernel;
	void *params;

	if ((uintptr_t)layer->kernel >= l->tables->kernel_count) {
		return vmcu_refuse(l, -EBADMSG, "kernel of layer", number);
	}
	kernel = vmcu_linked(l, (uint32_t)(uintptr_t)layer->kernel);
	if (kernel->pointers == 0U || at == 0U) {
		return 0;
	}
	if (at % 8U != 0U || at > l->size || kernel->bytes > l->size - at) {
		return vmcu_refuse(l, -EBADMSG, "parameters of layer", number);
	}
	params = vmcu_take_tail(l, kernel->size);
	if (params == NULL) {
		return 0;
	}
	widen_pointers(params, &l->data[at], kernel->pointers, kernel->behind, kernel->native,
		       (uint32_t)kernel->bytes - kernel->behind);
	find_constants(l, params, kernel->pointers);
	layer->params = (const void *)((uintptr_t)params - (uintptr_t)l->data);
	return 0;
}

/** Copies tables into the arena. */
static int copy_tables(struct vmcu_model *model, struct vmcu_loading *l)
{
	const struct vmcu_container_model *m = l->tables;
	struct vmcu_layer *layers = vmcu_take_tail(l, m->layer_count * sizeof(*layers));
	struct vmcu_stage *stages = vmcu_take_tail(l, m->stage_count * sizeof(*stages));
	struct vmcu_io *ios =
		vmcu_take_tail(l, (size_t)(m->input_count + m->output_count) * sizeof(*ios));

#if defined(VMCU_STREAMS)
	model->stream = widen_stream(l);
#endif
	for (uint32_t i = 0; ios != NULL && i < m->stage_count; i++) {
		widen_pointers(&stages[i], &l->data[m->stages + VMCU_STAGE_BYTES * i], 2U, 8U,
			       offsetof(struct vmcu_stage, progress), VMCU_STAGE_BYTES - 8U);
	}
	for (uint32_t i = 0; ios != NULL && i < (uint32_t)m->input_count + m->output_count; i++) {
		const uint32_t at = (i < m->input_count)
					    ? m->inputs + VMCU_IO_BYTES * i
					    : m->outputs + VMCU_IO_BYTES * (i - m->input_count);

		widen_pointers(&ios[i], &l->data[at], 1U, 4U, offsetof(struct vmcu_io, scale),
			       VMCU_IO_BYTES - 4U);
	}
	for (uint32_t i = 0; i < m->layer_count; i++) {
		struct vmcu_layer layer;
		int err;

		widen_pointers(&layer, &l->data[m->layers + VMCU_LAYER_BYTES * i], 3U, 12U,
			       offsetof(struct vmcu_layer, input_count), VMCU_LAYER_BYTES - 12U);
		err = widen_params(l, &layer, i);
		if (err != 0) {
			return err;
		}
		if (l->tail <= l->arena_size) {
			layers[i] = layer;
		}
	}
	if (l->tail > l->arena_size) {
		return vmcu_refuse(l, -ENOMEM, "arena", model->pool_bytes + (uint32_t)l->tail);
	}
	model->layers = layers;
	model->stages = stages;
	model->inputs = ios;
	model->outputs = ios + m->input_count;
	return 0;
}

#endif

#if UINTPTR_MAX > UINT32_MAX

VMCU_SMALL int vmcu_widen_tables(struct vmcu_model *model, struct vmcu_loading *l)
{
	return copy_tables(model, l);
}

#else

VMCU_SMALL int vmcu_widen_tables(struct vmcu_model *model, struct vmcu_loading *l)
{
	const struct vmcu_container_model *m = l->tables;

	_Static_assert(sizeof(struct vmcu_layer) == VMCU_LAYER_BYTES, "");
	_Static_assert(sizeof(struct vmcu_stage) == VMCU_STAGE_BYTES, "");
	_Static_assert(sizeof(struct vmcu_io) == VMCU_IO_BYTES, "");
#if defined(VMCU_STREAMS)
	_Static_assert(sizeof(struct vmcu_stream) == sizeof(*l->stream), "");
	model->stream = (const struct vmcu_stream *)(const void *)l->stream;
#endif
#if defined(VMCU_EXTERNAL_WEIGHTS)
	if (vmcu_is_external(model)) {
		return copy_tables(model, l);
	}
#endif
	if (l->tail > l->arena_size) {
		return vmcu_refuse(l, -ENOMEM, "arena", model->pool_bytes + (uint32_t)l->tail);
	}
	model->layers = (const struct vmcu_layer *)(const void *)&l->data[m->layers];
	model->stages = (const struct vmcu_stage *)(const void *)&l->data[m->stages];
	model->inputs = (const struct vmcu_io *)(const void *)&l->data[m->inputs];
	model->outputs = (const struct vmcu_io *)(const void *)&l->data[m->outputs];
	return 0;
}

#endif
