/*
 * SPDX-License-Identifier: Apache-2.0
 */

/*
 * Spreads the writes of inferences over memory that wears out: a worker's stack moves after each
 * job, and the pool's origin advances after each inference.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <zephyr/kernel.h>

#include <vmcu/vmcu.h>
#include <vmcu/worker.h>

#include "digits.h"
#include "test_images.h"

#define HEAP_BYTES  8192U
/* Stacks and origins are multiples of this many bytes. */
#define STEP        4U
#define POOL_BYTES  VMCU_MODEL_POOL_BYTES(digits)
#define LEAST_SPOTS (TEST_IMAGE_COUNT / 10U)

static VMCU_POOL_DEFINE(pool, POOL_BYTES);
VMCU_STACK_HEAP_DEFINE(heap, HEAP_BYTES);

static struct vmcu_worker worker;
static struct vmcu_context ctx;

/* Where jobs have begun: words of the heap, and words of the pool. */
static bool stack_seen[HEAP_BYTES / STEP];
static bool origin_seen[POOL_BYTES / STEP + 1U];

static unsigned int best(const int8_t *scores)
{
	unsigned int winner = 0;

	for (unsigned int i = 1; i < VMCU_MODEL_DIGITS_OUTPUT0_BYTES; i++) {
		if (scores[i] > scores[winner]) {
			winner = i;
		}
	}
	return winner;
}

/* Runs in the worker's thread, each time on another stack. */
static int infer(void *data)
{
	const uint8_t *image = data;
	uint32_t here;

	stack_seen[((uintptr_t)&here - (uintptr_t)heap.memory) / STEP] = true;
	/* Ask for the addresses each time: the pool rotates. */
	memcpy(vmcu_input(&ctx, 0), image, TEST_IMAGE_BYTES);
	origin_seen[(size_t)(ctx.pool.origin - (int8_t *)pool) / STEP] = true;

	int err = vmcu_invoke(&ctx);

	return (err == 0) ? (int)best(vmcu_output(&ctx, 0)) : err;
}

static unsigned int count(const bool *seen, size_t size)
{
	unsigned int found = 0;

	for (size_t i = 0; i < size; i++) {
		found += seen[i] ? 1U : 0U;
	}
	return found;
}

static int run_all(void)
{
	unsigned int correct = 0;

	for (unsigned int i = 0; i < TEST_IMAGE_COUNT; i++) {
		int digit = vmcu_worker_run(&worker, infer, (void *)test_images[i], K_SECONDS(10));

		if (digit < 0) {
			return digit;
		}
		correct += (digit == test_labels[i]) ? 1U : 0U;
	}
	printf("%u inferences: %u correct\n", TEST_IMAGE_COUNT, correct);
	return 0;
}

int main(void)
{
	int err = vmcu_init(&ctx, &digits_model, pool, sizeof(pool));

	if (err == 0) {
		err = vmcu_stack_heap_init(&heap);
	}
	if (err == 0) {
		err = vmcu_worker_init(&worker, &heap, CONFIG_VMCU_THREAD_STACK_SIZE,
				       K_PRIO_PREEMPT(1), 0);
	}
	if (err == 0) {
		err = run_all();
	}
	if (err != 0) {
		printf("endurance: error %d\n", err);
		return err;
	}

	const unsigned int stacks = count(stack_seen, ARRAY_SIZE(stack_seen));
	const unsigned int origins = count(origin_seen, ARRAY_SIZE(origin_seen));

	printf("stack: %u jobs began at %u addresses\n", TEST_IMAGE_COUNT, stacks);
	printf("pool: %u inferences began at %u origins\n", TEST_IMAGE_COUNT, origins);
	printf("endurance: %s\n",
	       (stacks > LEAST_SPOTS && origins > LEAST_SPOTS) ? "PASS" : "FAIL");
	return 0;
}
