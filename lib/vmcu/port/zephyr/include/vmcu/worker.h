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

/** Memory for the stacks of workers only: see VMCU_STACK_HEAP_DEFINE(). */
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
 * @param name  Name of the struct vmcu_stack_heap.
 * @param size  Bytes of the heap. The macro rounds them up. A heap of ten times a worker's stack
 *              spreads the writes over ten times as much memory.
 */
#define VMCU_STACK_HEAP_DEFINE(name, size)                                                         \
	static K_KERNEL_STACK_DEFINE(name##_memory, size);                                         \
	static struct vmcu_stack_heap name = {                                                     \
		.memory = (uint8_t *)name##_memory,                                                \
		.setting.bytes = sizeof(name##_memory),                                            \
	}

/** A job of a worker. Runs in the worker's thread. Returns the job's result. */
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
 * @brief Sets up an empty heap. Call it once, before the first vmcu_worker_init() for the heap.
 *
 * @retval 0       Ready.
 * @retval -EINVAL @a heap is NULL.
 */
int vmcu_stack_heap_init(struct vmcu_stack_heap *heap);

/**
 * @brief Sets up a worker and allocates its stack in a heap. Its thread starts with its first job.
 *
 * @param worker   Worker to set up.
 * @param heap     Heap that vmcu_stack_heap_init() has set up.
 * @param bytes    Stack bytes that a job can use, as for K_KERNEL_STACK_DEFINE().
 * @param priority Priority of the thread.
 * @param options  Options of k_thread_create(), such as K_FP_REGS; not K_USER.
 *
 * @retval 0       Ready.
 * @retval -EINVAL A pointer is NULL or the options have K_USER.
 * @retval -ENOMEM The heap has no free piece that is large enough.
 */
int vmcu_worker_init(struct vmcu_worker *worker, struct vmcu_stack_heap *heap, size_t bytes,
		     int priority, uint32_t options);

/**
 * @brief Sets the position of a worker's stack to the one after @a moves moves.
 *
 * Call it before the worker's first job. Without it, each start of a system begins at the same
 * addresses. VMCU_STACK_CIRCULAR does not need it: the cycle counter is its random seed.
 */
void vmcu_worker_resume(struct vmcu_worker *worker, uint32_t moves);

/**
 * @brief Moves the worker's stack if it is due, runs a job, and waits for its end.
 *
 * Each job starts a new thread on an empty stack: pointers to a job's stack are invalid after the
 * job. Calls for one worker must not overlap. The caller's stack does not move, but each call uses
 * it up to 128 bytes lower, at a varying address.
 *
 * @param worker  Worker that vmcu_worker_init() has set up.
 * @param job     Job to run in the worker's thread.
 * @param data    Argument of @a job.
 * @param timeout Longest running time. vmcu aborts the job after it.
 *
 * @return The result of @a job, or
 * @retval -EINVAL     A pointer is NULL.
 * @retval -EFAULT     The thread ended before the job: a fault, or k_thread_abort().
 * @retval -ECANCELED  vmcu_worker_cancel() stopped the job.
 * @retval -ETIMEDOUT  The job exceeded the timeout.
 */
int vmcu_worker_run(struct vmcu_worker *worker, vmcu_job_t job, void *data, k_timeout_t timeout);

/**
 * @brief Aborts the running job, if there is one. Call it from any thread but the worker's own.
 *
 * Mutexes that the job has locked stay locked. To stop an inference, use vmcu_cancel().
 */
void vmcu_worker_cancel(struct vmcu_worker *worker);

/** @brief Frees a worker's stack. Do not call it while a job runs. */
void vmcu_worker_release(struct vmcu_worker *worker);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_WORKER_H_ */
