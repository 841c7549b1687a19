/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Checks of the kernels of models that keep rows from one answer to the next.
 */

#include "check.h"

#include "../compiled.h"

#if defined(VMCU_STREAMS)

/** True if the bytes that a layer copies share no byte with its output. */
static bool is_apart(const struct vmcu_check *c)
{
	const struct vmcu_tensor *out = vmcu_check_output(c);
	const struct vmcu_layer copied = {.scratch = out->base};
	const struct vmcu_check copying = {.model = c->model, .layer = &copied};

	return vmcu_check_apart(&copying, out->ring, vmcu_check_input(c, 0));
}

/** True if input 1 is the number of a hop. */
static bool is_numbered(const struct vmcu_check *c)
{
	const struct vmcu_tensor *number = vmcu_check_input(c, 1);

	return number->width == 1U && number->channels == sizeof(uint16_t) && vmcu_check_rows(c, 1);
}

VMCU_SMALL bool vmcu_check_look_back(const struct vmcu_check *c)
{
	const struct vmcu_tensor *out = vmcu_check_output(c);
	const struct vmcu_tensor *in;

	if (!vmcu_check_inputs(c, 2U) || !vmcu_check_calls(c)) {
		return false;
	}
	in = vmcu_check_input(c, 0);
	return in->width == out->width && in->channels == out->channels && is_numbered(c) &&
	       is_apart(c);
}

VMCU_SMALL bool vmcu_check_recall(const struct vmcu_check *c)
{
	return vmcu_check_inputs(c, 2U) && vmcu_check_calls(c) && vmcu_check_columns(c, 0) &&
	       vmcu_check_input(c, 0)->channels == vmcu_check_output(c)->channels &&
	       is_numbered(c) && is_apart(c);
}

VMCU_SMALL bool vmcu_check_remember(const struct vmcu_check *c)
{
	return vmcu_check_alike(c, 1U) && is_apart(c);
}

#endif /* VMCU_STREAMS */
