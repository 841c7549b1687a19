/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>

#include <zephyr/init.h>
#include <zephyr/kernel.h>
#include <zephyr/sys/util.h>
#include <zephyr/timing/timing.h>

#include <vmcu/profile.h>

#include "../../hooks.h"

static int start_timing(void)
{
	timing_init();
	timing_start();
	return 0;
}

SYS_INIT(start_timing, APPLICATION, CONFIG_APPLICATION_INIT_PRIORITY);

int vmcu_profile_start(struct vmcu_context *ctx, struct vmcu_profile *profile, uint16_t first)
{
	if (ctx == NULL || ctx->model == NULL || profile == NULL) {
		return -EINVAL;
	}
	if (first >= ctx->model->layer_count) {
		return -ERANGE;
	}
	*profile = (struct vmcu_profile){
		.first = first,
		.count = (uint16_t)MIN(ctx->model->layer_count - first, CONFIG_VMCU_PROFILE_LAYERS),
	};
	ctx->profile = profile;
	return 0;
}

void vmcu_profile_stop(struct vmcu_context *ctx)
{
	if (ctx != NULL) {
		ctx->profile = NULL;
	}
}

/** The entry of a layer, NULL if it is not counted. */
static struct vmcu_layer_profile *entry_of(const struct vmcu_context *ctx,
					   const struct vmcu_layer *layer)
{
	struct vmcu_profile *profile = ctx->profile;
	const ptrdiff_t number = layer - ctx->model->layers;

	if (profile == NULL || number < profile->first ||
	    number >= profile->first + profile->count) {
		return NULL;
	}
	return &profile->layers[number - profile->first];
}

void vmcu_hook_call(const struct vmcu_context *ctx, const struct vmcu_call *call)
{
	struct vmcu_layer_profile *entry = entry_of(ctx, call->layer);
	timing_t start;
	timing_t end;
	uint64_t cycles;

	if (entry == NULL) {
		vmcu_kernel_of(ctx->model, call->layer)(call);
		return;
	}
	start = timing_counter_get();
	vmcu_kernel_of(ctx->model, call->layer)(call);
	end = timing_counter_get();
	cycles = entry->cycles + timing_cycles_get(&start, &end);
	entry->cycles = (uint32_t)MIN(cycles, UINT32_MAX);
	entry->calls++;
}
