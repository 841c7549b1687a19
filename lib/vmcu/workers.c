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
#include "relax.h"
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

/** Does entries of a worker until one has to wait; true at their end. */
static bool follow(const struct vmcu_team_context *own, unsigned int worker)
{
	struct vmcu_team_progress *progress = own->progress;
	const uint32_t count = own->team->counts[worker];
	uint32_t made = progress->done[worker];
	uint32_t at = progress->at[worker];

	for (; at < count; at++) {
		const uint16_t *entry = &own->team->entries[worker][at * VMCU_ENTRY_WORDS];

		if (entry[0] == VMCU_ENTRY_WAIT) {
			const uint32_t *other = &progress->done[1U - worker];

			if (__atomic_load_n(other, __ATOMIC_ACQUIRE) < entry[1]) {
				break;
			}
			continue;
		}
		if (!own->ctx->cancelled) {
			run_task(own, entry);
		}
		made++;
		__atomic_store_n(&progress->done[worker], made, __ATOMIC_RELEASE);
	}
	progress->at[worker] = at;
	return at == count;
}

/** A step of worker 1, which joins an inference of worker 0: 1 if it waits. */
static int step_second(const struct vmcu_team_context *own)
{
	struct vmcu_team_progress *progress = own->progress;

	if (!progress->busy[1]) {
		if (__atomic_load_n(&progress->begun, __ATOMIC_ACQUIRE) == progress->joined) {
			return 1;
		}
		progress->joined++;
		progress->at[1] = 0U;
		progress->busy[1] = 1U;
	}
	if (!follow(own, 1U)) {
		return 1;
	}
	progress->busy[1] = 0U;
	return 0;
}

/** Begins an inference. */
static int begin_first(const struct vmcu_team_context *own)
{
	struct vmcu_team_progress *progress = own->progress;
	int err;

	if (own->ctx->model->elsewhere && own->ctx->input == NULL) {
		return -EINVAL;
	}
	vmcu_hook_begin(own->ctx);
	err = vmcu_guard_begin(own->ctx);
	if (err != 0) {
		vmcu_hook_end(own->ctx, err);
		return err;
	}
	progress->done[0] = 0U;
	if (own->team->counts[1] != 0U) {
		/* A worker without tasks may still be about to join the inference before. */
		progress->done[1] = 0U;
	}
	progress->at[0] = 0U;
	progress->busy[0] = 1U;
	__atomic_store_n(&progress->begun, progress->begun + 1U, __ATOMIC_RELEASE);
	return 0;
}

/** A step of worker 0, which ends when both workers have done their tasks: 1 if it waits. */
static int step_first(const struct vmcu_team_context *own)
{
	struct vmcu_context *ctx = own->ctx;
	int err = own->progress->busy[0] ? 0 : begin_first(own);

	if (err != 0) {
		return err;
	}
	if (!follow(own, 0U)) {
		return 1;
	}
	own->progress->busy[0] = 0U;
	if (ctx->model->stage_count > 0U) {
		err = vmcu_guard_stage(ctx, (uint16_t)(ctx->model->stage_count - 1U));
	}
	if (ctx->cancelled) {
		ctx->cancelled = false;
		err = (err == 0) ? -ECANCELED : err;
	}
	vmcu_hook_end(ctx, err);
	return err;
}

int vmcu_team_step(struct vmcu_team_context *own, unsigned int worker)
{
	if (own == NULL || own->ctx == NULL || worker >= VMCU_WORKERS) {
		return -EINVAL;
	}
	return (worker == 0U) ? step_first(own) : step_second(own);
}

int vmcu_team_run(struct vmcu_team_context *own, unsigned int worker)
{
	int err = vmcu_team_step(own, worker);

	while (err > 0) {
		VMCU_RELAX();
		err = vmcu_team_step(own, worker);
	}
	return err;
}
