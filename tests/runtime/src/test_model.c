/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* A compiled model gives ONNX Runtime's bytes, whatever the pool held and whoever else runs. */

#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/ztest.h>

#include <vmcu/pool.h>
#include <vmcu/vmcu.h>

#include "golden.h"
#include "tiny.h"

#define POOL_BYTES  VMCU_MODEL_POOL_BYTES(tiny)
#define GUARD_BYTES 32
#define GUARD       0xa5
#define ROUNDS      64
#define STACK_BYTES (CONFIG_VMCU_THREAD_STACK_SIZE + 1024)

static VMCU_POOL_DEFINE(pool_a, POOL_BYTES + GUARD_BYTES);
static VMCU_POOL_DEFINE(pool_b, POOL_BYTES);

static struct vmcu_context ctx_a;
static struct vmcu_context ctx_b;

static void load(struct vmcu_context *ctx, unsigned int i)
{
	memcpy(vmcu_input(ctx, 0), golden_inputs[i], GOLDEN_INPUT_BYTES);
}

static bool right(struct vmcu_context *ctx, unsigned int i)
{
	return memcmp(vmcu_output(ctx, 0), golden_outputs[i], GOLDEN_OUTPUT_BYTES) == 0;
}

static void before(void *fixture)
{
	ARG_UNUSED(fixture);
	memset(pool_a, GUARD, sizeof(pool_a));
	memset(pool_b, GUARD, sizeof(pool_b));
	zassert_ok(vmcu_init(&ctx_a, &tiny_model, pool_a, sizeof(pool_a)));
	zassert_ok(vmcu_init(&ctx_b, &tiny_model, pool_b, sizeof(pool_b)));
}

ZTEST(vmcu_model, test_golden)
{
	for (unsigned int i = 0; i < GOLDEN_COUNT; i++) {
		load(&ctx_a, i);
		zassert_ok(vmcu_invoke(&ctx_a));
		zassert_mem_equal(vmcu_output(&ctx_a, 0), golden_outputs[i], GOLDEN_OUTPUT_BYTES,
				  "case %u", i);
	}
}

ZTEST(vmcu_model, test_pool_content_does_not_matter)
{
	static const uint8_t fills[] = {0x00, 0x7f, 0x80, 0xff};

	for (unsigned int i = 0; i < ARRAY_SIZE(fills); i++) {
		memset(pool_b, fills[i], sizeof(pool_b));
		load(&ctx_b, 0);
		zassert_ok(vmcu_invoke(&ctx_b));
		zassert_true(right(&ctx_b, 0), "pool filled with 0x%02x", fills[i]);
	}
}

ZTEST(vmcu_model, test_bytes_beyond_the_pool_are_left_alone)
{
	load(&ctx_a, 0);
	zassert_ok(vmcu_invoke(&ctx_a));
	for (unsigned int i = 0; i < GUARD_BYTES; i++) {
		zassert_equal(pool_a[POOL_BYTES + i], GUARD, "byte %u", i);
	}
}

ZTEST(vmcu_model, test_two_contexts)
{
	load(&ctx_a, 0);
	load(&ctx_b, 1);
	zassert_ok(vmcu_invoke(&ctx_a));
	zassert_ok(vmcu_invoke(&ctx_b));
	zassert_true(right(&ctx_a, 0));
	zassert_true(right(&ctx_b, 1));
}

K_THREAD_STACK_DEFINE(stack_a, STACK_BYTES);
K_THREAD_STACK_DEFINE(stack_b, STACK_BYTES);

static void run_rounds(void *ctx, void *wrong, void *offset)
{
	for (unsigned int round = 0; round < ROUNDS; round++) {
		unsigned int i = (round + POINTER_TO_UINT(offset)) % GOLDEN_COUNT;

		load(ctx, i);
		if (vmcu_invoke(ctx) != 0 || !right(ctx, i)) {
			*(unsigned int *)wrong += 1;
		}
		/* Where time does not pass while code runs, such as on native_sim. */
		k_yield();
	}
}

ZTEST(vmcu_model, test_two_threads)
{
	static struct k_thread thread_a;
	static struct k_thread thread_b;
	static unsigned int wrong_a;
	static unsigned int wrong_b;

	k_thread_create(&thread_a, stack_a, K_THREAD_STACK_SIZEOF(stack_a), run_rounds, &ctx_a,
			&wrong_a, UINT_TO_POINTER(0), K_PRIO_PREEMPT(5), 0, K_NO_WAIT);
	k_thread_create(&thread_b, stack_b, K_THREAD_STACK_SIZEOF(stack_b), run_rounds, &ctx_b,
			&wrong_b, UINT_TO_POINTER(1), K_PRIO_PREEMPT(5), 0, K_NO_WAIT);
	zassert_ok(k_thread_join(&thread_a, K_FOREVER));
	zassert_ok(k_thread_join(&thread_b, K_FOREVER));
	zassert_equal(wrong_a, 0);
	zassert_equal(wrong_b, 0);
}

ZTEST_SUITE(vmcu_model, NULL, NULL, before, NULL, NULL);
