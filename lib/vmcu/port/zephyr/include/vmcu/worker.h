/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Threads whose stacks move between jobs: CONFIG_VMCU_STACK_MIGRATION.
 */

#ifndef VMCU_WORKER_H_
#define VMCU_WORKER_H_

#include <zephyr/kernel.h>

#include <vmcu/endurance.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup vmcu_worker Threads whose stacks move
 * @{
 */

/** Memory for the stacks of workers, and nothing else: VMCU_STACK_HEAP_DEFINE(). */
struct vmcu_stack_heap {
	/** @cond INTERNAL_HIDDEN */
	uint8_t *memory;
	struct vmcu_stack_setting setting;
	struct vmcu_stacks stacks;
	struct k_mutex lock;
#if defined(CONFIG_VMCU_STACK_CIRCULAR)
	struct vmcu_stack_block blocks[CONFIG_VMCU_STACK_BLOCKS];
#endif
	/** @endcond */
};

/**
 * @brief Defines a heap of stacks.
 *
 * @param name  Of the struct vmcu_stack_heap.
 * @param size  Its bytes, rounded up. Ten times a worker's stack spreads its writes over ten times
 *              as much memory.
 */
#define VMCU_STACK_HEAP_DEFINE(name, size)                                                         \
	static K_KERNEL_STACK_DEFINE(name##_memory, size);                                         \
	static struct vmcu_stack_heap name = {                                                     \
		.memory = (uint8_t *)name##_memory,                                                \
		.setting.bytes = sizeof(name##_memory),                                            \
	}

/** What a worker does between two of its moves; what it returns is the job's result. */
typedef int (*vmcu_job_t)(void *data);

/** A thread that runs one job at a time. The caller owns it. */
struct vmcu_worker {
	/** @cond INTERNAL_HIDDEN */
	struct k_thread thread;
	struct vmcu_stack_heap *heap;
	struct vmcu_stack stack;
	size_t bytes;
	uint32_t lower;
	int priority;
	uint32_t options;
	vmcu_job_t job;
	void *data;
	int result;
	bool due;
	bool running;
	bool ended;
	bool cancelled;
	/** @endcond */
};

/**
 * @brief Empties a heap; once, before its first worker.
 *
 * @retval 0       Ready.
 * @retval -EINVAL @a heap is NULL.
 */
int vmcu_stack_heap_init(struct vmcu_stack_heap *heap);

/**
 * @brief Gives a worker a stack in a heap. Its thread starts with its first job.
 *
 * @param worker   Is set up.
 * @param heap     What vmcu_stack_heap_init() has emptied.
 * @param bytes    Of stack that a job may use, as for K_KERNEL_STACK_DEFINE().
 * @param priority Of the thread.
 * @param options  Of k_thread_create(), such as K_FP_REGS; not K_USER.
 *
 * @retval 0       Ready.
 * @retval -EINVAL A pointer is NULL or the options have K_USER.
 * @retval -ENOMEM The heap has no room.
 */
int vmcu_worker_init(struct vmcu_worker *worker, struct vmcu_stack_heap *heap, size_t bytes,
		     int priority, uint32_t options);

/**
 * @brief Lets a worker's stack go on as if it had moved @a moves times; before its first job.
 *
 * Without it each start of a system begins with the same places. With VMCU_STACK_CIRCULAR there is
 * no need: its random numbers begin with the cycle counter.
 */
void vmcu_worker_resume(struct vmcu_worker *worker, uint32_t moves);

/**
 * @brief Runs a job and waits for its end. Before it, the stack moves if that is due.
 *
 * The thread begins anew for each job, on a stack that holds nothing: addresses of what a job had
 * on its stack do not survive it. One call at a time for each worker. The caller's own stack, which
 * does not move, is used from another place each time, up to 128 bytes lower.
 *
 * @param worker  What vmcu_worker_init() has set up.
 * @param job     Runs in the worker's thread.
 * @param data    Handed to @a job.
 * @param timeout How long it may take; it is aborted then.
 *
 * @return What @a job returns, or
 * @retval -EINVAL     A pointer is NULL.
 * @retval -EFAULT     The thread ended in the midst of the job: a fault, or k_thread_abort().
 * @retval -ECANCELED  vmcu_worker_cancel() has ended it.
 * @retval -ETIMEDOUT  The timeout has.
 */
int vmcu_worker_run(struct vmcu_worker *worker, vmcu_job_t job, void *data, k_timeout_t timeout);

/**
 * @brief Ends the job that runs, if any, wherever it is. From any thread but the worker's own.
 *
 * What the job has locked stays locked; an inference is better ended by vmcu_cancel().
 */
void vmcu_worker_cancel(struct vmcu_worker *worker);

/** @brief Gives a worker's stack back. No job runs. */
void vmcu_worker_release(struct vmcu_worker *worker);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_WORKER_H_ */
