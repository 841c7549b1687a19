/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Two workers that compute one inference, see vmcu/workers.h.
 *
 * Each counter has one writer. A worker publishes a task by storing its count (release); the other
 * waits until it loads that count (acquire). No core needs an instruction that locks memory.
 */

#include <vmcu/workers.h>

#include <errno.h>

#include <vmcu/access.h>

#include "hooks.h"
#include "port/relax.h"
#include "stage.h"

int vmcu_team_init(struct vmcu_team_context *own, struct vmcu_context *ctx,
		   const struct vmcu_team *team, struct vmcu_team_progress *progress, void *scratch,
		   size_t size)
{
	if (own == NULL) {
		return -EINVAL;
	}
	own->ctx = NULL;
	if (ctx == NULL || team == NULL || progress == NULL || ctx->model == NULL ||
	    ctx->model != team->model || (uintptr_t)scratch % VMCU_POOL_ALIGN != 0U) {
		return -EINVAL;
	}
	if (team->scratch_bytes != 0U && scratch == NULL) {
		return -EINVAL;
	}
	if (size < team->scratch_bytes) {
		return -ENOMEM;
	}
	*own = (struct vmcu_team_context){
		.ctx = ctx,
		.team = team,
		.progress = progress,
		.scratch = scratch,
	};
	return 0;
}

/** Waits until the other worker has counted up to @a least. */
static void wait_for(const uint32_t *count, uint32_t least)
{
	while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < least) {
		VMCU_RELAX();
	}
}

/** Computes the columns of an entry. */
static void run_task(const struct vmcu_team_context *own, const uint16_t *entry)
{
	const struct vmcu_model *model = own->ctx->model;
	const uint16_t number = entry[0] & (uint16_t)~VMCU_ENTRY_OWN_SCRATCH;
	const struct vmcu_layer *layer = &model->layers[number];
	uint32_t on_stack[VMCU_STACK_SCRATCH / sizeof(uint32_t)];
	const struct vmcu_call call = {
		.pool = &own->ctx->pool,
		.tensors = model->tensors,
		.layer = layer,
		.scratch = (entry[0] != number) ? own->scratch
						: vmcu_scratch(own->ctx, layer, on_stack),
		.input = own->ctx->input,
		.y = entry[1],
		.x = entry[2],
		.columns = entry[3],
#if defined(VMCU_CONTAINERS)
		.base = model->base,
#endif
	};

	VMCU_ASSERT(number < model->layer_count);
	vmcu_kernel_of(model, layer)(&call);
}

/** Does all entries of a worker. */
static void run_entries(const struct vmcu_team_context *own, unsigned int worker)
{
	const uint16_t *entry = own->team->entries[worker];
	uint32_t *done = own->progress->done;
	uint32_t made = 0U;

	for (uint32_t i = 0; i < own->team->counts[worker]; i++, entry += VMCU_ENTRY_WORDS) {
		if (entry[0] == VMCU_ENTRY_WAIT) {
			wait_for(&done[1U - worker], entry[1]);
			continue;
		}
		if (!own->ctx->cancelled) {
			run_task(own, entry);
		}
		made++;
		__atomic_store_n(&done[worker], made, __ATOMIC_RELEASE);
	}
}

/** Joins the next inference of worker 0. */
static void run_second(const struct vmcu_team_context *own)
{
	struct vmcu_team_progress *progress = own->progress;

	while (__atomic_load_n(&progress->begun, __ATOMIC_ACQUIRE) == progress->joined) {
		VMCU_RELAX();
	}
	progress->joined++;
	run_entries(own, 1U);
}

/** Begins an inference, and ends it when both workers have done their tasks. */
static int run_first(const struct vmcu_team_context *own)
{
	struct vmcu_context *ctx = own->ctx;
	struct vmcu_team_progress *progress = own->progress;
	int err;

	if (ctx->model->elsewhere && ctx->input == NULL) {
		return -EINVAL;
	}
	vmcu_hook_begin(ctx);
	err = vmcu_guard_begin(ctx);
	if (err == 0) {
		progress->done[0] = 0U;
		progress->done[1] = 0U;
		__atomic_store_n(&progress->begun, progress->begun + 1U, __ATOMIC_RELEASE);
		run_entries(own, 0U);
		err = vmcu_guard_stage(ctx, (uint16_t)(ctx->model->stage_count - 1U));
	}
	if (ctx->cancelled) {
		ctx->cancelled = false;
		err = (err == 0) ? -ECANCELED : err;
	}
	vmcu_hook_end(ctx, err);
	return err;
}

int vmcu_worker_run(struct vmcu_team_context *own, unsigned int worker)
{
	if (own == NULL || own->ctx == NULL || worker >= VMCU_WORKERS) {
		return -EINVAL;
	}
	if (worker == 0U) {
		return run_first(own);
	}
	run_second(own);
	return 0;
}
