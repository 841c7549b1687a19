/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* A user thread infers with one partition, and a stray write stops that thread and nothing else. */

#include <errno.h>
#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/ztest.h>
#include <zephyr/ztest_error_hook.h>

#include <vmcu/pool.h>
#include <vmcu/user.h>
#include <vmcu/vmcu.h>

#include "golden.h"
#include "rows.h"
#include "tiny.h"

#define ROW_BYTES   VMCU_MODEL_ROW_BYTES(rows)
#define ROWS        (GOLDEN_INPUT_BYTES / ROW_BYTES)
#define STACK_BYTES (CONFIG_VMCU_THREAD_STACK_SIZE + 1024)
#define PATTERN     0x5ec4e7U

K_APPMEM_PARTITION_DEFINE(inference);
VMCU_USER_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(tiny), inference);
K_APP_BMEM(inference) static struct vmcu_context ctx;
K_APP_BMEM(inference) static int result;
K_APP_BMEM(inference) static bool finished;
K_APP_BMEM(inference) static int8_t outputs[GOLDEN_COUNT][GOLDEN_OUTPUT_BYTES];

/* Of another domain. */
K_APPMEM_PARTITION_DEFINE(foreign);
VMCU_USER_POOL_DEFINE(foreign_pool, VMCU_MODEL_POOL_BYTES(tiny), foreign);
K_APP_BMEM(foreign) static struct vmcu_context foreign_ctx;

static struct k_mem_domain domain;
static struct k_thread thread;
static K_THREAD_STACK_DEFINE(stack, STACK_BYTES);
static volatile uint32_t kernels_own;

static void *setup(void)
{
	struct k_mem_partition *partitions[] = {
		&inference,
#if Z_LIBC_PARTITION_EXISTS
		&z_libc_partition,
#endif
		&ztest_mem_partition,
	};

	zassert_ok(k_mem_domain_init(&domain, ARRAY_SIZE(partitions), partitions));
	return NULL;
}

static void before(void *fixture)
{
	ARG_UNUSED(fixture);
	kernels_own = PATTERN;
	finished = false;
	result = 1;
	memset(outputs, 0, sizeof(outputs));
}

/** Runs @a entry without privileges until it ends. */
static void run(k_thread_entry_t entry, void *where)
{
	k_thread_create(&thread, stack, K_THREAD_STACK_SIZEOF(stack), entry, where, NULL, NULL,
			K_PRIO_PREEMPT(5), K_USER, K_FOREVER);
	zassert_ok(k_mem_domain_add_thread(&domain, &thread));
	k_thread_start(&thread);
	zassert_ok(k_thread_join(&thread, K_SECONDS(5)));
}

static void infer(void *a, void *b, void *c)
{
	ARG_UNUSED(a);
	ARG_UNUSED(b);
	ARG_UNUSED(c);
	result = k_is_user_context() ? 0 : -1;
	result |= vmcu_init(&ctx, &tiny_model, pool, sizeof(pool));
	for (unsigned int i = 0; i < GOLDEN_COUNT; i++) {
		memcpy(vmcu_input(&ctx, 0), golden_inputs[i], GOLDEN_INPUT_BYTES);
		result |= vmcu_invoke(&ctx);
		memcpy(outputs[i], vmcu_output(&ctx, 0), GOLDEN_OUTPUT_BYTES);
	}
	finished = true;
}

static void infer_by_rows(void *a, void *b, void *c)
{
	ARG_UNUSED(a);
	ARG_UNUSED(b);
	ARG_UNUSED(c);
	result = vmcu_init(&ctx, &rows_model, pool, sizeof(pool));
	for (unsigned int i = 0; i < GOLDEN_COUNT && result == 0; i++) {
		for (unsigned int y = 0; y < ROWS; y++) {
			result = vmcu_push_row(&ctx, &golden_inputs[i][y * ROW_BYTES]);
		}
		memcpy(outputs[i], vmcu_output(&ctx, 0), GOLDEN_OUTPUT_BYTES);
	}
	finished = true;
}

static void check_inference(k_thread_entry_t entry)
{
	run(entry, NULL);
	zassert_true(finished);
	zassert_ok(result);
	zassert_mem_equal(outputs, golden_outputs, sizeof(outputs));
}

ZTEST(vmcu_user, test_infer)
{
	check_inference(infer);
}

ZTEST(vmcu_user, test_infer_by_rows)
{
	check_inference(infer_by_rows);
}

static void write_to(void *where, void *b, void *c)
{
	ARG_UNUSED(b);
	ARG_UNUSED(c);
	ztest_set_fault_valid(true);
	*(volatile uint32_t *)where = 0U;
	finished = true;
}

/** Writing there stops the thread before it has written; the next one infers as if nothing were. */
static void check_fault(const volatile void *where)
{
	uint32_t was = *(const volatile uint32_t *)where;

	run(write_to, (void *)where);
	zassert_false(finished, "nobody stopped the write to %p", where);
	zassert_equal(*(const volatile uint32_t *)where, was);
	check_inference(infer);
}

/** What the test below would see if nothing were protected. */
ZTEST(vmcu_user, test_own_partition_is_writable)
{
	run(write_to, pool);
	zassert_true(finished);
}

ZTEST(vmcu_user, test_kernel_data)
{
	check_fault(&kernels_own);
	zassert_equal(kernels_own, PATTERN);
}

ZTEST(vmcu_user, test_thread_object)
{
	check_fault(&thread);
}

ZTEST(vmcu_user, test_model)
{
	check_fault(&tiny_model);
}

ZTEST(vmcu_user, test_foreign_pool)
{
	zassert_ok(vmcu_init(&foreign_ctx, &tiny_model, foreign_pool, sizeof(foreign_pool)));
	memcpy(vmcu_input(&foreign_ctx, 0), golden_inputs[0], GOLDEN_INPUT_BYTES);
	check_fault(foreign_pool);
	zassert_ok(vmcu_invoke(&foreign_ctx));
	zassert_mem_equal(vmcu_output(&foreign_ctx, 0), golden_outputs[0], GOLDEN_OUTPUT_BYTES);
}

static void infer_in_foreign_pool(void *a, void *b, void *c)
{
	ARG_UNUSED(a);
	ARG_UNUSED(b);
	ARG_UNUSED(c);
	ztest_set_fault_valid(true);
	(void)vmcu_init(&ctx, &tiny_model, foreign_pool, sizeof(foreign_pool));
	(void)vmcu_invoke(&ctx);
	finished = true;
}

ZTEST(vmcu_user, test_kernels_are_held_to_the_partition)
{
	run(infer_in_foreign_pool, NULL);
	zassert_false(finished);
	check_inference(infer);
}

/** Whoever has privileges cancels what a user thread computes. */
static void cancel(struct k_timer *timer)
{
	ARG_UNUSED(timer);
	(void)vmcu_cancel(&ctx);
}

static K_TIMER_DEFINE(timer, cancel, NULL);

static void infer_until_cancelled(void *a, void *b, void *c)
{
	ARG_UNUSED(a);
	ARG_UNUSED(b);
	ARG_UNUSED(c);
	result = vmcu_init(&ctx, &tiny_model, pool, sizeof(pool));
	while (result == 0) {
		result = vmcu_invoke(&ctx);
	}
	finished = true;
}

ZTEST(vmcu_user, test_cancel)
{
	k_timer_start(&timer, K_MSEC(20), K_NO_WAIT);
	run(infer_until_cancelled, NULL);
	zassert_true(finished);
	zassert_equal(result, -ECANCELED);
}

ZTEST_SUITE(vmcu_user, NULL, setup, before, NULL, NULL);
