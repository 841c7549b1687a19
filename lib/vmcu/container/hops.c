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

VMCU_SMALL static bool hop_count(const struct vmcu_check *c)
{
	const struct vmcu_tensor *out = vmcu_check_output(c);

	return vmcu_check_calls(c) && out->width == 1U && out->channels == sizeof(uint16_t);
}

/** True if what a layer copies lies where nothing of its output does. */
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

VMCU_SMALL static bool look_back(const struct vmcu_check *c)
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

VMCU_SMALL static bool recall(const struct vmcu_check *c)
{
	return vmcu_check_inputs(c, 2U) && vmcu_check_calls(c) && vmcu_check_columns(c, 0) &&
	       vmcu_check_input(c, 0)->channels == vmcu_check_output(c)->channels &&
	       is_numbered(c) && is_apart(c);
}

VMCU_SMALL static bool remember(const struct vmcu_check *c)
{
	return vmcu_check_alike(c, 1U) && is_apart(c);
}

extern const struct vmcu_kernel vmcu_hop_count_kernel;
extern const struct vmcu_kernel vmcu_remember_kernel;

const struct vmcu_kernel vmcu_hop_count_kernel = {
	.name = "vmcu_hop_count",
	.run = vmcu_hop_count,
	.check = hop_count,
	.reads = VMCU_READS_NONE,
};

const struct vmcu_kernel vmcu_remember_kernel = {
	.name = "vmcu_remember",
	.run = vmcu_remember,
	.check = remember,
	.reads = VMCU_READS_PIXEL,
};

VMCU_KERNEL_PLAIN(vmcu_recall, vmcu_recall_params, recall, VMCU_READS_RECALLED);
VMCU_KERNEL_PLAIN(vmcu_look_back, vmcu_look_back_params, look_back, VMCU_READS_BACK);

#endif /* VMCU_STREAMS */
