/*
 * SPDX-License-Identifier: Apache-2.0
 */

/*
 * Inferences on stacks that move, in a pool that rotates, give the bytes of inferences where
 * nothing moves, and those are ONNX Runtime's, but for a mean that rounds differently.
 */

#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/ztest.h>

#include <vmcu/pool.h>
#include <vmcu/vmcu.h>
#include <vmcu/worker.h>

#include "rotating.h"
#include "scores.h"
#include "staying.h"
#include "test_images.h"

#define STACK_BYTES 1536U
#define HEAP_BYTES  12288U

/* The walk comes to each place once; strides of random size may come back to some. */
#define FEWEST_PLACES (IS_ENABLED(CONFIG_VMCU_STACK_WALK) ? TEST_IMAGE_COUNT : TEST_IMAGE_COUNT / 8)

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(rotating));
VMCU_STACK_HEAP_DEFINE(heap, HEAP_BYTES);

static struct vmcu_worker worker;
static struct vmcu_context ctx;

/* Stack pointers that jobs have begun with, from the heap's start in words. */
static uint8_t began[HEAP_BYTES / 8U];

static int8_t expected[TEST_IMAGE_COUNT][SCORES_BYTES];

static int infer(void *data)
{
	const unsigned int image = *(const unsigned int *)data;

	memcpy(vmcu_input(&ctx, 0), test_images[image], TEST_IMAGE_BYTES);
	return vmcu_invoke(&ctx);
}

static int infer_on_a_moved_stack(void *data)
{
	uint64_t here;

	began[((uintptr_t)&here - (uintptr_t)heap.memory) / sizeof(here)] = 1U;
	return infer(data);
}

/** Runs all images on the caller's stack. */
static void expect(void)
{
	zassert_ok(vmcu_init(&ctx, &staying_model, pool, sizeof(pool)));
	for (unsigned int image = 0; image < TEST_IMAGE_COUNT; image++) {
		zassert_ok(infer(&image));
		memcpy(expected[image], vmcu_output(&ctx, 0), SCORES_BYTES);
		for (unsigned int i = 0; i < SCORES_BYTES; i++) {
			zassert_within(expected[image][i], scores[image][i], 2);
		}
	}
}

ZTEST(jobs, test_outputs_are_the_same_wherever_stacks_are)
{
	unsigned int places = 0;

	zassert_ok(vmcu_stack_heap_init(&heap));
	zassert_ok(vmcu_worker_init(&worker, &heap, STACK_BYTES, K_PRIO_PREEMPT(1), 0));
	expect();
	zassert_ok(vmcu_init(&ctx, &rotating_model, pool, sizeof(pool)));
	for (unsigned int image = 0; image < TEST_IMAGE_COUNT; image++) {
		if (image == TEST_IMAGE_COUNT / 2U) {
			const int8_t *origin = ctx.pool.origin;

			zassert_ok(vmcu_init(&ctx, &rotating_model, pool, sizeof(pool)));
			zassert_ok(vmcu_rotate_to(&ctx, image));
			zassert_equal_ptr(ctx.pool.origin, origin);
		}
		zassert_ok(vmcu_worker_run(&worker, infer_on_a_moved_stack, &image, K_FOREVER));
		zassert_mem_equal(vmcu_output(&ctx, 0), expected[image], SCORES_BYTES, "image %u",
				  image);
	}
	for (size_t i = 0; i < sizeof(began); i++) {
		places += began[i];
	}
	TC_PRINT("%u jobs began at %u places\n", TEST_IMAGE_COUNT, places);
	zassert_true(places >= FEWEST_PLACES);
	vmcu_worker_release(&worker);
}

ZTEST_SUITE(jobs, NULL, NULL, NULL, NULL, NULL);
