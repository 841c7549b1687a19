/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Stages of several layers.
 */

#ifndef VMCU_STAGE_H_
#define VMCU_STAGE_H_

#include <stdbool.h>
#include <stdint.h>

#include <vmcu/vmcu.h>

/** A call of whole columns; @a scratch: VMCU_STACK_SCRATCH bytes for layers that need no more. */
static inline struct vmcu_call vmcu_call_of(const struct vmcu_context *ctx,
					    const struct vmcu_layer *layer, uint32_t *scratch)
{
	return (struct vmcu_call){
		.pool = &ctx->pool,
		.tensors = ctx->model->tensors,
		.layer = layer,
		.scratch = (layer->scratch == VMCU_SCRATCH_ON_STACK)
				   ? (void *)scratch
				   : (void *)(ctx->pool.start + layer->scratch),
		.columns = layer->columns,
	};
}

/** Forgets how far the stage's layers have come. */
void vmcu_stage_start(const struct vmcu_context *ctx, const struct vmcu_stage *stage);

/**
 * @brief Computes a stage as far as the delivered rows of the input allow.
 *
 * @return False if another row is missing.
 */
bool vmcu_stage_run(const struct vmcu_context *ctx, const struct vmcu_stage *stage);

#endif /* VMCU_STAGE_H_ */
