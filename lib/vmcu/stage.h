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

#include <vmcu/access.h>
#include <vmcu/vmcu.h>

/**
 * In place of a position's time, of a stream: its hop was cancelled, or other hops came in between,
 * and goes on at the next row.
 */
#define VMCU_INTERRUPTED UINT16_MAX

/** A layer's scratch; @a on_stack: VMCU_STACK_SCRATCH bytes for layers that need no more. */
static inline void *vmcu_scratch(const struct vmcu_context *ctx, const struct vmcu_layer *layer,
				 uint32_t *on_stack)
{
	return (layer->scratch == VMCU_SCRATCH_ON_STACK)
		       ? (void *)on_stack
		       : (void *)vmcu_pool_run(&ctx->pool, layer->scratch);
}

#if defined(VMCU_STREAMS)
/** True if a stream whose layers compute states has come to the end of no hop but its first. */
bool vmcu_stage_first_hop(const struct vmcu_context *ctx);
#endif

/** Goes to the start of a stage. */
void vmcu_stage_start(struct vmcu_context *ctx, const struct vmcu_stage *stage);

/**
 * @brief Computes a stage up to where it wants more of the input than there is, or to its end; of a
 * stream to the end of a hop.
 *
 * Stops early where the inference is cancelled, though not in front of a row that is still to be
 * read: the rest of a cancelled hop is computed when the next row arrives. Data that changes with
 * each call of a kernel is on the stack or in the pool, which move where memory wears out; @a at is
 * written once.
 *
 * @param at  Where to begin, and where the stage waits if it stops short.
 * @param row The input's next, or NULL.
 *
 * @return True at its end.
 */
bool vmcu_stage_run(const struct vmcu_context *ctx, const struct vmcu_stage *stage,
		    struct vmcu_position *at, const int8_t *row);

#endif /* VMCU_STAGE_H_ */
