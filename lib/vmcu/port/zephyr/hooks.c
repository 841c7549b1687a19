/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Passes the executor's events to Zephyr's log and tracing.
 */

#include <errno.h>

#include <zephyr/logging/log.h>
#include <zephyr/sys/util.h>

#include <vmcu/counters.h>
#include <vmcu/trace.h>

#include "../../hooks.h"
#include "../../pools.h"
#include "version.h"

LOG_MODULE_REGISTER(vmcu, CONFIG_VMCU_LOG_LEVEL);

static void trace_event(const char *name, const struct vmcu_context *ctx, uint32_t value)
{
	if (IS_ENABLED(CONFIG_VMCU_TRACING)) {
		vmcu_trace_event(name, (uint32_t)(uintptr_t)ctx->model, value);
	}
}

void vmcu_hook_init(const struct vmcu_model *model, size_t size, int err)
{
	switch (err) {
	case 0:
		LOG_INF("%s: pool of %u bytes, %u layers", model->name, model->pool_bytes,
			model->layer_count);
		break;
	case -ENOMEM:
		LOG_ERR("%s: pool of %u bytes is too small, %u are needed", model->name,
			(uint32_t)size, model->pool_bytes + VMCU_POOL_GUARD_BYTES);
		break;
	default:
		LOG_ERR("no context, no model, or a pool that is not aligned to %u bytes",
			VMCU_POOL_ALIGN);
	}
	ARG_UNUSED(model);
	ARG_UNUSED(size);
}

void vmcu_hook_begin(struct vmcu_context *ctx)
{
	if (IS_ENABLED(CONFIG_VMCU_TRACING)) {
		trace_event(ctx->model->name, ctx, vmcu_model_version(ctx->model));
	}
	trace_event(VMCU_TRACE_BEGIN, ctx, ctx->model->stage_count);
#if defined(VMCU_COUNTERS)
	vmcu_counters_begin(ctx);
#endif
}

void vmcu_hook_end(const struct vmcu_context *ctx, int err)
{
	if (err != 0) {
		LOG_WRN("%s: inference ended with %d", ctx->model->name, err);
	}
#if defined(VMCU_COUNTERS)
	vmcu_counters_end(ctx, err);
#endif
	trace_event(VMCU_TRACE_END, ctx, (uint32_t)err);
}

void vmcu_hook_stage_begin(const struct vmcu_context *ctx, uint16_t number)
{
	const struct vmcu_stage *stage = &ctx->model->stages[number];

	LOG_DBG("%s: stage %u, layers %u to %u", ctx->model->name, number, stage->first,
		stage->first + stage->count - 1);
	trace_event(VMCU_TRACE_STAGE_BEGIN, ctx, stage->first);
}

void vmcu_hook_stage_end(const struct vmcu_context *ctx, uint16_t number)
{
	trace_event(VMCU_TRACE_STAGE_END, ctx, ctx->model->stages[number].first);
}

void vmcu_hook_overrun(const struct vmcu_context *ctx, unsigned int pool, int32_t offset,
		       uint16_t number)
{
	const struct vmcu_model *model = ctx->model;
	const uint32_t bytes = vmcu_bytes_of_pool(model, pool);

	if (number == VMCU_HOOK_NO_STAGE) {
		LOG_ERR("%s: byte %d of pool %u, %u bytes, was written between inferences",
			model->name, offset, pool, bytes);
	} else {
		LOG_ERR("%s: byte %d of pool %u, %u bytes, was written during stage %u, layers %u "
			"to %u",
			model->name, offset, pool, bytes, number, model->stages[number].first,
			model->stages[number].first + model->stages[number].count - 1);
	}
	ARG_UNUSED(bytes);
	ARG_UNUSED(offset);
	ARG_UNUSED(model);
}
