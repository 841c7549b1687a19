/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>

#include <vmcu/worker.h>

/* Where a stack object may begin: an MPU guard at its low end has the size of its alignment. */
#define OBJECT_ALIGN Z_KERNEL_STACK_OBJ_ALIGN

/* Places are closer than that, since only the stack pointer's start has to differ. */
#define PLACE_ALIGN 8U

/* The most bytes by which a stack object of a place may begin later than the place. */
#define SLACK (OBJECT_ALIGN - PLACE_ALIGN)

/* The supervisor's calls into the kernel begin at so many places of its own stack, in turn: where
 * all began at one, the words below it would be written more often a job than a small pool's.
 */
#define SUPERVISOR_PLACES 16U

BUILD_ASSERT(OBJECT_ALIGN % PLACE_ALIGN == 0U);
BUILD_ASSERT(!IS_ENABLED(CONFIG_ARCH_POSIX) && !IS_ENABLED(CONFIG_STACK_GROWS_UP),
	     "stacks do not move here");

static size_t object_bytes(const struct vmcu_worker *worker)
{
	return K_KERNEL_STACK_LEN(worker->bytes + SLACK);
}

int vmcu_stack_heap_init(struct vmcu_stack_heap *heap)
{
	struct vmcu_stack_block *blocks = NULL;
	uint16_t room = 0U;

	if (heap == NULL) {
		return -EINVAL;
	}
	heap->setting.align = PLACE_ALIGN;
	heap->setting.threshold = k_ms_to_cyc_ceil32(CONFIG_VMCU_STACK_THRESHOLD_MS);
	heap->setting.depth = CONFIG_VMCU_STACK_DEPTH;
	heap->setting.policy = VMCU_STACK_WALK;
#if defined(CONFIG_VMCU_STACK_CIRCULAR)
	heap->setting.policy = VMCU_STACK_CIRCULAR;
	heap->setting.stride_size = CONFIG_VMCU_STACK_STRIDE_SIZE;
	heap->setting.stride_depth = CONFIG_VMCU_STACK_STRIDE_DEPTH;
	heap->setting.largest = true;
	heap->setting.merge = true;
	heap->setting.redraw = true;
	blocks = heap->blocks;
	room = ARRAY_SIZE(heap->blocks);
#endif
	k_mutex_init(&heap->lock);
	return vmcu_stacks_init(&heap->stacks, &heap->setting, blocks, room, k_cycle_get_32() | 1U);
}

int vmcu_worker_init(struct vmcu_worker *worker, struct vmcu_stack_heap *heap, size_t bytes,
		     int priority, uint32_t options)
{
	int err;

	if (worker == NULL || heap == NULL || (options & K_USER) != 0U) {
		return -EINVAL;
	}
	*worker = (struct vmcu_worker){
		.heap = heap,
		.bytes = bytes,
		.priority = priority,
		.options = options,
	};
	(void)k_mutex_lock(&heap->lock, K_FOREVER);
	err = vmcu_stacks_add(&heap->stacks, &worker->stack,
			      (uint32_t)(object_bytes(worker) + SLACK));
	k_mutex_unlock(&heap->lock);
	return err;
}

void vmcu_worker_resume(struct vmcu_worker *worker, uint32_t moves)
{
	vmcu_stacks_resume(&worker->heap->stacks, &worker->stack, moves);
	worker->due = true;
}

void vmcu_worker_release(struct vmcu_worker *worker)
{
	(void)k_mutex_lock(&worker->heap->lock, K_FOREVER);
	vmcu_stacks_remove(&worker->heap->stacks, &worker->stack);
	k_mutex_unlock(&worker->heap->lock);
}

/** Lowers the stack pointer of the function that has this by @a bytes, and a little. */
#define LOWER_STACK(bytes)                                                                         \
	__asm__ volatile("" : : "r"(__builtin_alloca((bytes) + PLACE_ALIGN)) : "memory")

/** Runs the job with the stack pointer as many bytes below the object's end as its place asks. */
static void run_job(void *first, void *second, void *third)
{
	struct vmcu_worker *worker = first;

	ARG_UNUSED(second);
	ARG_UNUSED(third);
	LOWER_STACK(worker->lower);
	worker->result = worker->job(worker->data);
	worker->ended = true;
}

/** The stack object of a worker's place; the stack may move before. */
static k_thread_stack_t *stack_of_place(struct vmcu_worker *worker)
{
	uint32_t start;

	if (worker->due) {
		(void)vmcu_stacks_move(&worker->heap->stacks, &worker->stack);
		worker->due = false;
	}
	start = ROUND_UP(worker->stack.start, OBJECT_ALIGN);
	worker->lower = start - worker->stack.start;
	return (k_thread_stack_t *)(void *)(worker->heap->memory + start);
}

/** Makes the thread. It starts once the lock is free, which a job's end must not wait for. */
static void start_thread(struct vmcu_worker *worker)
{
	(void)k_mutex_lock(&worker->heap->lock, K_FOREVER);
	worker->ended = false;
	worker->cancelled = false;
	(void)k_thread_create(&worker->thread, stack_of_place(worker),
			      object_bytes(worker) - K_KERNEL_STACK_RESERVED, run_job, worker, NULL,
			      NULL, worker->priority, worker->options, K_FOREVER);
	worker->running = true;
	k_mutex_unlock(&worker->heap->lock);
	k_thread_start(&worker->thread);
}

/** Starts the job and waits for its end; 0, or why it was aborted. */
__attribute__((noinline)) static int supervise(struct vmcu_worker *worker, k_timeout_t timeout)
{
	const uint32_t began = k_cycle_get_32();
	int err;

	start_thread(worker);
	err = k_thread_join(&worker->thread, timeout);
	if (err != 0) {
		k_thread_abort(&worker->thread);
	}
	worker->running = false;
	worker->due =
		vmcu_stacks_ran(&worker->heap->stacks, &worker->stack, k_cycle_get_32() - began);
	return err;
}

int vmcu_worker_run(struct vmcu_worker *worker, vmcu_job_t job, void *data, k_timeout_t timeout)
{
	int err;

	if (worker == NULL || worker->heap == NULL || job == NULL) {
		return -EINVAL;
	}
	worker->job = job;
	worker->data = data;
	LOWER_STACK(worker->stack.start / PLACE_ALIGN % SUPERVISOR_PLACES * PLACE_ALIGN);
	err = supervise(worker, timeout);
	if (worker->ended) {
		return worker->result;
	}
	if (worker->cancelled) {
		return -ECANCELED;
	}
	return (err != 0) ? -ETIMEDOUT : -EFAULT;
}

void vmcu_worker_cancel(struct vmcu_worker *worker)
{
	(void)k_mutex_lock(&worker->heap->lock, K_FOREVER);
	if (worker->running) {
		worker->cancelled = true;
		k_thread_abort(&worker->thread);
	}
	k_mutex_unlock(&worker->heap->lock);
}
