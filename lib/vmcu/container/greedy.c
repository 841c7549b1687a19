/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief TensorFlow Lite Micro's GreedyMemoryPlanner: the largest buffer first, each in the first
 * gap between those that are alive with it.
 */

#include "online.h"

#include "../compiled.h"

#if defined(VMCU_ONLINE_PLANNER)

/** To which that planner rounds sizes. */
#define ALIGN 16

/** As tests of lifetimes need them. */
static bool lives_overlap(const struct vmcu_buffer *a, const struct vmcu_buffer *b)
{
	return a->first <= b->last && b->first <= a->last;
}

/** Tensors by size, the largest first; of equals the one with the larger number. */
static void sort_tensors(struct vmcu_online *o)
{
	for (uint32_t i = 0; i < o->count; i++) {
		const int32_t size = vmcu_online_up(o->buffers[i].size, ALIGN);
		uint32_t at = i;

		for (; at > 0U; at--) {
			const struct vmcu_buffer *before = &o->buffers[o->work[at - 1U]];

			if (vmcu_online_up(before->size, ALIGN) > size) {
				break;
			}
			o->work[at] = o->work[at - 1U];
		}
		o->work[at] = (uint16_t)i;
	}
}

/** Places the next tensor; in front of it are those that have a place, the lowest first. */
static void place_tensor(struct vmcu_online *o, uint32_t placed)
{
	const uint16_t number = o->work[placed];
	struct vmcu_buffer *own = &o->buffers[number];
	const int32_t size = vmcu_online_up(own->size, ALIGN);
	uint32_t at = placed;

	own->base = 0;
	for (uint32_t i = 0; i < placed; i++) {
		const struct vmcu_buffer *other = &o->buffers[o->work[i]];

		if (!lives_overlap(own, other)) {
			continue;
		}
		if (other->base - own->base >= size) {
			break;
		}
		own->base = vmcu_online_larger(own->base,
					       other->base + vmcu_online_up(other->size, ALIGN));
	}
	for (; at > 0U && o->buffers[o->work[at - 1U]].base > own->base; at--) {
		o->work[at] = o->work[at - 1U];
	}
	o->work[at] = number;
	o->pool = vmcu_online_larger(o->pool, own->base + size);
}

VMCU_SMALL void vmcu_online_greedy(struct vmcu_online *o)
{
	int32_t arena;

	o->pool = 0;
	sort_tensors(o);
	for (uint32_t i = 0; i < o->count; i++) {
		place_tensor(o, i);
	}
	arena = o->pool;
	for (uint32_t i = 0; i < o->model->layer_count; i++) {
		const int32_t scratch = (int32_t)o->steps[i].scratch;
		int32_t gap;

		o->layers[i].descending = 0U;
		if (scratch == 0) {
			continue;
		}
		gap = vmcu_online_gap(o, i, arena);
		/* The arena is a multiple of words. */
		gap = (gap < 0) ? arena : gap;
		o->layers[i].scratch = (uint32_t)gap;
		o->pool = vmcu_online_larger(o->pool, gap + scratch);
	}
}

#endif /* VMCU_ONLINE_PLANNER */
