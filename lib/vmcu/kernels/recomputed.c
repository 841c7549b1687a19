/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "support.h"
#include "window.h"

/** The three tensors of a call, by their numbers in the layers within. */
enum {
	INPUT,
	BETWEEN,
	OUTPUT,
	TENSORS
};

static const uint16_t numbers[] = {INPUT, BETWEEN};

/** One of the layers within, as if in the model's tables, whose pointers count from @a base. */
static struct vmcu_layer layer_of(uintptr_t base, const struct vmcu_mac_params *p, uint16_t input)
{
	(void)base;
	return (struct vmcu_layer){
		.params = vmcu_from(base, p),
		.inputs = vmcu_from(base, &numbers[input]),
		.input_count = 1U,
		.output = input + 1U,
	};
}

/** The layer in front, for some columns of a row, in parts that no ring splits. */
static void compute_inner(struct vmcu_call *call, const struct vmcu_recomputed_params *p,
			  int32_t columns)
{
	while (columns > 0) {
		int32_t part = vmcu_unsplit(&call->tensors[BETWEEN], call->y, call->x, columns);

		if (p->by_pixel) {
			part = vmcu_unsplit(&call->tensors[INPUT], call->y, call->x, part);
		}
		call->columns = (uint16_t)part;
		p->inner_kernel(call);
		call->x = (uint16_t)(call->x + part);
		columns -= part;
	}
}

void vmcu_recomputed(const struct vmcu_call *call)
{
	const struct vmcu_recomputed_params *p = vmcu_params(call);
	const struct vmcu_window *w = &p->outer.window;
	const struct vmcu_tensor tensors[TENSORS] = {
		[INPUT] = *vmcu_call_input(call, 0),
		[BETWEEN] = {.base = call->layer->scratch,
			     .ring = p->ring,
			     .height = p->height,
			     .width = p->width,
			     .channels = p->channels},
		[OUTPUT] = *vmcu_call_output(call),
	};
	const struct vmcu_layer inner = layer_of(vmcu_base(call), &p->inner, INPUT);
	const struct vmcu_layer outer = layer_of(vmcu_base(call), &p->outer, BETWEEN);
	const struct vmcu_taps rows = vmcu_taps(call->y * w->stride_h - w->pad_top, w->kernel_h,
						w->dilation_h, p->height);
	uint32_t on_stack[VMCU_STACK_SCRATCH / sizeof(uint32_t)];
	struct vmcu_call within = *call;
	const int32_t end = call->x + call->columns;

	within.tensors = tensors;
	within.scratch =
		(p->scratch == 0U) ? on_stack : (void *)((int8_t *)call->scratch + p->scratch);
	for (int32_t x = call->x; x < end; x += p->columns) {
		const int32_t count = (end - x < p->columns) ? end - x : p->columns;
		const int32_t left = x * w->stride_w - w->pad_left;
		const int32_t right =
			left + (count - 1) * w->stride_w + (w->kernel_w - 1) * w->dilation_w + 1;
		const int32_t first = (left < 0) ? 0 : left;
		const int32_t last = (right > p->width) ? p->width : right;

		within.layer = &inner;
		for (int32_t k = rows.begin; k < rows.end; k++) {
			within.y = (uint16_t)vmcu_tap(&rows, k);
			within.x = (uint16_t)first;
			compute_inner(&within, p, last - first);
		}
		within.layer = &outer;
		within.y = call->y;
		within.x = (uint16_t)x;
		within.columns = (uint16_t)count;
		p->outer_kernel(&within);
	}
}
