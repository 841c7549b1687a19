/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Checks that the counts of a stage's calls share no byte with the outputs of its layers.
 */

#include "check.h"
#include "load.h"

#include "../compiled.h"

/** The bytes of the pool that a layer has for its scratch, which is checked, as a tensor's. */
static struct vmcu_tensor scratch_of(const struct vmcu_check *of, const struct vmcu_loading *l,
				     const struct vmcu_layer *layer)
{
	struct vmcu_tensor found = {.base = layer->scratch};
	struct vmcu_check c = {
		.data = of->data,
		.size = of->size,
		.model = of->model,
		.layer = layer,
		.scratch = &found.ring,
	};

	if (layer->scratch != VMCU_SCRATCH_ON_STACK) {
		const struct vmcu_kernel *kernel =
			vmcu_linked(l, (uint32_t)(uintptr_t)layer->kernel);

		c.params = (kernel->bytes == 0U) ? NULL : vmcu_check_params(&c, kernel);
		(void)kernel->check(&c);
	}
	return found;
}

VMCU_SMALL bool vmcu_check_counts(const struct vmcu_check *of, const struct vmcu_loading *l,
				  const struct vmcu_stage *stage, uint32_t first, uint32_t count)
{
	const uint32_t bytes = (uint32_t)sizeof(uint16_t) * stage->count;
	const struct vmcu_layer counts = {.scratch = stage->progress};
	const struct vmcu_check c = {.model = of->model, .layer = &counts};

	for (uint32_t i = first; i < first + count; i++) {
		const struct vmcu_layer *layer = &c.model->layers[i];
		const struct vmcu_tensor scratch = scratch_of(of, l, layer);

		if (!vmcu_check_apart(&c, bytes, &c.model->tensors[layer->output]) ||
		    (scratch.ring != 0U && !vmcu_check_apart(&c, bytes, &scratch))) {
			return false;
		}
	}
	return true;
}
