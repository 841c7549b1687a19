/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Where scratch fits beside the tensors of a plan that is made on the device.
 */

#include "online.h"

#include "../compiled.h"

#if defined(VMCU_ONLINE_PLANNER)

VMCU_SMALL int32_t vmcu_online_gap(const struct vmcu_online *o, uint32_t layer, int32_t pool)
{
	const int32_t size = (int32_t)o->steps[layer].scratch;
	const uint32_t step = layer + 1U;
	int32_t at = 0;
	bool moved = true;

	while (moved && pool - at >= size) {
		moved = false;
		for (uint32_t i = 0; i < o->count; i++) {
			const struct vmcu_buffer *b = &o->buffers[i];

			if (b->first <= step && step <= b->last && b->base < at + size &&
			    at < b->base + b->size) {
				at = vmcu_online_up(b->base + b->size, 4);
				moved = true;
			}
		}
	}
	return (pool - at >= size) ? at : -1;
}

#endif /* VMCU_ONLINE_PLANNER */
