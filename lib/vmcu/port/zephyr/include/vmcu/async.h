/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Inference on a work queue: CONFIG_VMCU_ASYNC.
 */

#ifndef VMCU_ASYNC_H_
#define VMCU_ASYNC_H_

#include <stdbool.h>

#include <zephyr/kernel.h>

#include <vmcu/vmcu.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup vmcu_async Inference on a work queue
 * @{
 */

/** An inference on a work queue. The caller owns it. Use one job at a time per context. */
struct vmcu_async {
	/** @cond INTERNAL_HIDDEN */
	struct k_work work;
	struct k_spinlock lock;
	struct vmcu_context *ctx;
	struct k_poll_signal *done;
	bool busy;
	/** @endcond */
};

/**
 * @brief Sets up a job. Call it once, before the first vmcu_invoke_async().
 *
 * @param job Job to set up. It must not be in use.
 * @param ctx Context of the job. Call vmcu_init() for it before vmcu_invoke_async().
 *
 * @retval 0       Ready.
 * @retval -EINVAL A pointer is NULL.
 */
int vmcu_async_init(struct vmcu_async *job, struct vmcu_context *ctx);

/**
 * @brief Starts an inference and returns at once.
 *
 * Write the inputs before the call, see vmcu_input(). Do not use the context or its pool until
 * @a done is raised. You can call this function from an interrupt. If you submit the job again
 * right after the signal, Zephyr submits it to the same queue. The signal then has the result of
 * the new job. If the queue was started with no_yield, a waiting thread of higher priority starts
 * at the queue thread's next call of the kernel.
 *
 * @param job   Job that vmcu_async_init() has set up.
 * @param queue Queue whose thread computes the job, with a stack of at least
 *              CONFIG_VMCU_THREAD_STACK_SIZE bytes; NULL: the system work queue.
 * @param done  Signal. vmcu resets it, and raises it at the end with the result of vmcu_invoke().
 *
 * @retval 0        Submitted.
 * @retval -EINVAL  A pointer is NULL or the context was not set up.
 * @retval -ENOTSUP The model was built with --stream-input.
 * @retval -EBUSY   The job still runs, or the queue accepts no work.
 * @retval -ENODEV  The queue was not started.
 */
int vmcu_invoke_async(struct vmcu_async *job, struct k_work_q *queue, struct k_poll_signal *done);

/**
 * @brief Stops an inference at its next row and raises its signal with -ECANCELED.
 *
 * You can call it from any thread or interrupt. A job that waits in its queue ends when the queue
 * starts it. A job that has computed its last row raises its signal with its own result.
 *
 * @retval 0         The request is stored.
 * @retval -EINVAL   @a job is NULL.
 * @retval -EALREADY The job does not run.
 */
int vmcu_async_cancel(struct vmcu_async *job);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_ASYNC_H_ */
