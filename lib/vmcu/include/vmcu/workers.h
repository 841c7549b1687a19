/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Two cores compute one inference in one pool.
 *
 * `vmcu build --workers 2` writes a list of tasks for each worker into the model's C file. Waits in
 * the lists order every two accesses to the same byte, see doc/workers.md. A worker is one of
 * these: a thread, a FreeRTOS task, the main loop of a second core, another image that sees the
 * same RAM.
 */

#ifndef VMCU_WORKERS_H_
#define VMCU_WORKERS_H_

#include <stddef.h>
#include <stdint.h>

#include <vmcu/vmcu.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup vmcu_workers Two workers
 * @{
 */

/** Workers of a team. */
#define VMCU_WORKERS 2

/** Words of an entry: layer, row, first column, columns. */
#define VMCU_ENTRY_WORDS 4

/** Bit of an entry's first word: the kernel works in the second worker's scratch. */
#define VMCU_ENTRY_OWN_SCRATCH 0x8000U

/** First word of a wait: the second word counts the tasks of the other worker that must be done. */
#define VMCU_ENTRY_WAIT UINT16_MAX

/** Scratch bytes of the second worker of the model called @a name, an integer constant. */
#define VMCU_MODEL_SCRATCH_BYTES(name) vmcu_scratch_bytes_of_##name

/** The tasks of a model's workers, which `vmcu build --workers 2` writes. */
struct vmcu_team {
	const struct vmcu_model *model;
	const uint16_t *entries[VMCU_WORKERS]; /**< VMCU_ENTRY_WORDS words each */
	uint32_t counts[VMCU_WORKERS];         /**< entries of each worker */
	uint32_t scratch_bytes;                /**< scratch of the second worker */
};

/**
 * Progress of the workers, which each reads of the other. Both must see it at once: two images
 * place it in memory that no core caches. All bytes are 0 before the first inference.
 */
struct vmcu_team_progress {
	uint32_t begun;              /**< inferences that worker 0 has begun */
	uint32_t joined;             /**< those that worker 1 has joined */
	uint32_t done[VMCU_WORKERS]; /**< tasks of the inference that each worker has done */
	uint32_t at[VMCU_WORKERS];   /**< next entry of each worker, which it alone uses */
	uint32_t busy[VMCU_WORKERS]; /**< 1 during an inference, of the worker alone */
};

/** A model, its pool and its team. The caller owns it. Two images have one each. */
struct vmcu_team_context {
	struct vmcu_context *ctx;
	const struct vmcu_team *team;
	struct vmcu_team_progress *progress;
	void *scratch; /**< of the second worker */
};

/**
 * @brief Binds a context to its team.
 *
 * @param own      Team context to set up.
 * @param ctx      Context that vmcu_init() has bound to the team's model.
 * @param team     Tables of the model: kws_team for the model called kws.
 * @param progress Shared by both workers, all 0.
 * @param scratch  Scratch of the second worker, aligned to VMCU_POOL_ALIGN; NULL if it needs none.
 * @param size     Bytes at @a scratch, VMCU_MODEL_SCRATCH_BYTES(kws) for the model called kws.
 *
 * @retval 0       Ready.
 * @retval -EINVAL A pointer is NULL or misaligned, or the team is another model's.
 * @retval -ENOMEM The scratch is too small.
 */
int vmcu_team_init(struct vmcu_team_context *own, struct vmcu_context *ctx,
		   const struct vmcu_team *team, struct vmcu_team_progress *progress, void *scratch,
		   size_t size);

/**
 * @brief Does one worker's part of an inference.
 *
 * Worker 0 begins the inference and returns when all of it is done: write the input before, read
 * the output after. Worker 1 waits until worker 0 begins, and returns when its own tasks are done.
 * Call it in a loop on the second core. Each core calls it for its own worker alone; a call that
 * waits runs VMCU_RELAX() (lib/vmcu/relax.h). After vmcu_cancel(), the rest of the tasks are
 * counted and not computed.
 *
 * @param own    Team context that vmcu_team_init() has set up.
 * @param worker 0 or 1.
 *
 * @retval 0          Done.
 * @retval -EINVAL    @a own is NULL or not set up, there is no such worker, or an external input is
 *                    missing.
 * @retval -ECANCELED vmcu_cancel() has stopped it (worker 0 only).
 * @retval -EFAULT    VMCU_POOL_GUARD: bytes outside of the pool have changed (worker 0 only).
 */
int vmcu_team_run(struct vmcu_team_context *own, unsigned int worker);

/**
 * @brief Does a worker's tasks up to the next one that has to wait, and returns.
 *
 * For a core that has other work meanwhile, or for both workers in turn on one core.
 *
 * @retval 1 It waits for the other worker; call it again.
 * @return Otherwise as vmcu_team_run().
 */
int vmcu_team_step(struct vmcu_team_context *own, unsigned int worker);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_WORKERS_H_ */
